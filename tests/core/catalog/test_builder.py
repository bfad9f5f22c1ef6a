"""An update of the catalog decides as a full build does, and costs less where it can."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core import Environment, Library, Reason, SkillEntry, Source, State
from skills_core.catalog import builder as catalog_builder
from tests.temporary import TEMPORARY
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog

PLACES = ["high/a", "high/b", "high/a/b", "low/a"]
NAMES = [None, None, None, "a", "c"]

FIELDS = [
    "",
    "requires: [a]",
    "requires: [b]",
    "requires: [absent]",
    "when: {requires: {bins: [git]}}",
    "when: {requires: {env: [TOKEN]}}",
    "when: {os: windows}",
    "metadata: {jdai: {primaryEnv: TOKEN, skillKey: key}}",
    "metadata: {jdai: {always: true}}",
    "disable-model-invocation: true",
    "tags: [draft]",
    "danger_patterns: ['(']",
]

ENVIRONMENT = Environment(os="linux", has_bin=lambda _: True)

CHANGES: dict[str, list[Any]] = {
    "os": ["linux", "windows"],
    "has_bin": [lambda _: True, lambda _: False],
    "variables": [{}, {"TOKEN": "x"}],
    "enabled": [(), ("a", "source:explicit")],
    "disabled": [(), ("b",), ("tag:draft",), ("key",)],
    "entries": [{}, {"key": SkillEntry(has_credential=True)}, {"a": SkillEntry(enabled=False)}],
    "trusts": [lambda _: True, lambda _: False],
}

EDITS = st.tuples(st.sampled_from(PLACES), st.sampled_from(NAMES), st.sampled_from(FIELDS), st.sampled_from("xy"))
SETTINGS = st.sampled_from([*CHANGES]).flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(CHANGES[name])))


def decided(catalog: Catalog, seen: Callable[[Catalog], Any]) -> Any:
    """Return what users see of a catalog, and the order of its lists."""
    lists = (catalog.skills, catalog.active, catalog.offered, catalog.conditional)
    return seen(catalog), [[(str(skill.source.root), skill.path) for skill in skills] for skills in lists]


@settings(max_examples=examples(60), deadline=None)
@given(
    start=st.lists(EDITS, min_size=2, max_size=6),
    steps=st.lists(st.one_of(EDITS, EDITS, SETTINGS), min_size=4, max_size=12),
)
def test_an_update_decides_as_a_full_build_does(
    start: list[tuple[str, str | None, str, str]],
    steps: list[tuple[Any, ...]],
    write_skill: Callable[..., Path],
    seen: Callable[[Catalog], Any],
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        root = Path(space).resolve()
        sources = [Source(root / "high", optional=True, project=root), Source(root / "low", optional=True)]
        here = [ENVIRONMENT]

        def write(place: str, name: str | None, fields: str, body: str) -> Path:
            return write_skill(root, place, name=name, fields=fields, body=body)

        for edit in start:
            write(*edit)
        library = Library(sources, lambda: here[0])
        for step in steps:
            if len(step) == len(("name", "value")):
                here[0] = replace(here[0], **{step[0]: step[1]})
                library.reload([])
            else:
                library.reload([write(*step)])
            full = Library(sources, lambda: here[0]).catalog
            assert decided(library.catalog, seen) == decided(full, seen)


@pytest.mark.parametrize(
    ("fields", "state", "reason"),
    [
        ("", State.ACTIVE, None),
        ("when: {requires: {bins: [git]}}", State.ACTIVE, None),
        ("when: {os: windows}", State.EXCLUDED, Reason.OS_MISMATCH),
        ("requires: [other]", State.ACTIVE, None),
        ("requires: [absent]", State.EXCLUDED, Reason.UNMET_REQUIREMENT),
        ("danger_patterns: ['(']", State.INVALID, Reason.INVALID_PATTERN),
    ],
)
def test_an_edit_of_a_text_is_decided_without_a_full_build(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    monkeypatch: pytest.MonkeyPatch,
    fields: str,
    state: State,
    reason: Reason | None,
) -> None:
    write_skill(tmp_path, "other", fields="when: {requires: {bins: [git]}}")
    path = write_skill(tmp_path, "one", fields=fields).resolve() / "SKILL.md"
    library = load(tmp_path)
    monkeypatch.delattr(catalog_builder, "build_catalog")
    write_skill(tmp_path, "one", fields=fields, body="Edited.")
    ((_, skill),) = library.reload([path]).updated
    assert (skill.state, skill.reason) == (state, reason)


def test_a_nested_skill_moves_when_a_file_takes_the_path_that_it_was_given(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], seen: Callable[[Catalog], Any]
) -> None:
    write_skill(tmp_path, "", name="a")
    write_skill(tmp_path, "b", name="a")
    library = load(tmp_path)
    assert {skill.path for skill in library.catalog.active} == {"a", "a/a"}
    (tmp_path / "a").write_text("data", encoding="utf-8")
    library.reload([tmp_path.resolve() / "a"])
    assert decided(library.catalog, seen) == decided(load(tmp_path).catalog, seen)
