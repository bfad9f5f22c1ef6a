"""Skills that clash by name, or compete by description."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from server.capabilities.visibility.clashes import NameClashKind, name_clashes, plain_name, similar_descriptions
from server.clients.known import KNOWN_CLIENTS
from skills_core import Environment, Library, explicit_sources
from skills_core.catalog.catalog import Catalog
from skills_core.skills.skill import State
from tests.skill_values import skill_of

SAMPLES = Path(__file__).parents[3] / "sample_skills"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pdf-tools", "PDF-Tools"),
        ("pdf-tools", "pdf_tool"),
        ("pdf-tools", "pdftools"),
        ("release-notes", "Release Note"),
        ("été", "ÉTÉ"),
    ],
)
def test_names_that_people_confuse_are_alike(one: str, other: str) -> None:
    assert plain_name(one) == plain_name(other)


@pytest.mark.parametrize(("one", "other"), [("pdf", "pdf-tools"), ("class", "clas"), ("go", "gos"), ("a-1", "a-2")])
def test_other_names_are_not_alike(one: str, other: str) -> None:
    assert plain_name(one) != plain_name(other)


def test_each_kind_of_name_clash_is_reported() -> None:
    shared = [replace(skill_of("refunds"), key=f"{folder}/refunds", path=f"{folder}/refunds") for folder in "ab"]
    hidden = replace(skill_of("csv"), state=State.SHADOWED)
    catalog = Catalog((*shared, skill_of("csv"), hidden, skill_of("note"), skill_of("Notes"), skill_of("review")))
    found = [
        (clash.kind, [skill.key for skill in clash.skills], [client.key for client in clash.clients])
        for clash in name_clashes(catalog, KNOWN_CLIENTS)
    ]
    assert found == [
        (NameClashKind.SHARED, ["a/refunds", "b/refunds"], []),
        (NameClashKind.SHADOWED, ["csv", "csv"], []),
        (NameClashKind.ALIKE, ["note", "Notes"], []),
        (NameClashKind.COMMAND, ["review"], ["claude-code", "codex"]),
    ]


def test_commands_are_those_of_the_given_clients() -> None:
    assert name_clashes(Catalog((skill_of("review"),)), ()) == ()


NEAR = [
    skill_of("pdf-tools", "Extract text and tables from PDF files. Use when the user has a PDF."),
    skill_of("pdf-reader", "Read PDF files and extract their text and tables. Use when working with PDFs."),
    skill_of("commit-helper", "Write a commit message from the staged changes of a git repository."),
    skill_of("commit-writer", "Writes git commit messages for staged changes."),
    skill_of("invoice-check", "Check an invoice against its purchase order and flag differences."),
    skill_of("translate-manual", "Translate a technical manual into another language and keep its layout."),
    skill_of("roast-chicken", "Plan a dinner around a roast chicken with side dishes and timing."),
]


def test_near_duplicates_compete_and_others_do_not() -> None:
    found = similar_descriptions(NEAR)
    assert {frozenset((pair.skill.key, pair.rival.key)) for pair in found.pairs} == {
        frozenset(("pdf-tools", "pdf-reader")),
        frozenset(("commit-helper", "commit-writer")),
    }
    for pair in found.pairs:
        assert pair.share >= pair.back
        assert pair.words
    assert (found.compared, found.left_out) == (len(NEAR), 0)


def test_each_pair_is_reported_once_even_if_both_directions_are_equal() -> None:
    twins = [skill_of(name, "Extract text and tables from PDF files.", "Same.") for name in ("one", "two")]
    (pair,) = similar_descriptions([*twins, *NEAR[2:]]).pairs[:1]
    assert (pair.skill.key, pair.rival.key) == ("one", "two")
    assert pair.share == pytest.approx(1.0, abs=0.05)


def test_the_sample_skills_do_not_compete() -> None:
    library = Library(explicit_sources([SAMPLES]), lambda: Environment(os="linux", has_bin=lambda _name: True))
    assert similar_descriptions(library.catalog.offered).pairs == ()


def test_the_number_of_comparisons_is_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.capabilities.visibility.clashes._MAX_COMPARISONS", 2 * len(NEAR))
    found = similar_descriptions(NEAR)
    assert (found.compared, found.left_out) == (2, len(NEAR) - 2)
    assert {pair.skill.key for pair in found.pairs} <= {skill.key for skill in NEAR[:2]}


def test_no_skills_do_not_compete() -> None:
    assert similar_descriptions([]).pairs == ()
