"""`skillserve lint`: competing skills, collisions on queries, duplicates and unused skills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from server.capabilities.evals.lint import DuplicateKind, duplicates, lint_catalog
from server.config.settings.model import Settings
from server.hosting.usage import UsageCounts, usage_file
from tests.capabilities.evals.triggers.test_ranked_triggers import as_bytes
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run
from tests.skill_values import skill_of

LINT = {
    "type": "object",
    "required": ["skills", "competing", "duplicates", "queries", "unused"],
    "properties": {
        "competing": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["skill", "rival", "share", "back", "overlap", "words", "evidence", "reasons", "queries"],
                "properties": {"queries": {"items": {"required": ["query", "skill", "should_trigger", "rank"]}}},
            },
        },
        "duplicates": {"type": "array", "items": {"required": ["kind", "share", "skills"]}},
        "unused": {"type": ["array", "null"]},
    },
}

PDF = "Extract text and tables from PDF files. Use when the user has a PDF."
NEAR_PDF = "Read PDF files and extract their text and tables. Use when working with PDFs."


def lint(*arguments: object, code: int = 0, **environment: str) -> dict[str, Any]:
    done = run("lint", *arguments, "--json", **environment)
    assert done.returncode == code, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    Draft202012Validator(LINT).validate(answer)
    return answer


def query(text: str, should: bool, expected: str | None = None) -> dict[str, object]:  # noqa: FBT001
    return {"query": text, "should_trigger": should, "expected_skill": expected}


@pytest.fixture
def catalog(skills: Path, make_skill: MakeSkill) -> Path:
    asked = [query("read tables of a pdf", should=True), query("a poem on spring", should=False)]
    make_skill("pdf-tools", description=PDF, files={"evals/eval_queries.json": as_bytes(asked)}, body="Extract.")
    make_skill("pdf-reader", description=NEAR_PDF, body="Read.")
    make_skill("poems", description="Write a poem.", body="Rhyme.")
    return skills


def test_skills_with_competing_descriptions_are_named_with_their_queries(catalog: Path) -> None:
    answer = lint(catalog)
    (pair,) = answer["competing"]
    assert {pair["skill"], pair["rival"]} == {"pdf-tools", "pdf-reader"}
    assert pair["share"] >= pair["overlap"] >= pair["back"] > 0.3
    assert pair["reasons"] == ["descriptions"]
    assert "pdf" in pair["words"]
    assert pair["queries"] == [
        {"query": "read tables of a pdf", "skill": "pdf-tools", "should_trigger": True, "rank": 2, "weak": False}
    ]
    assert (pair["evidence"], pair["asked"]) == ("strong", 2)
    assert answer["queries"] == {"asked": 2, "files": 1, "errors": []}


def test_skills_that_only_collide_on_a_query_compete_too(make_skill: MakeSkill) -> None:
    taken = [query("a shanty about the sea", should=False, expected="songs")]
    make_skill("poems", description="A shanty or poem.", body="a", files={"evals/eval_queries.json": as_bytes(taken)})
    make_skill("songs", description="Sing.", body="The sea.")
    catalog = make_skill("cooking", description="Roast a chicken.", body="b").parent
    (pair,) = lint(catalog)["competing"]
    assert (pair["skill"], pair["rival"], pair["share"]) == ("poems", "songs", None)
    assert pair["queries"][0]["rank"] == 1
    # One query may be an accident, or badly drafted.
    assert (pair["evidence"], pair["reasons"]) == ("weak", ["few_queries"])
    assert lint(catalog, "--strict")["competing"] == [pair]
    text = run("lint", catalog).stdout
    assert "Skills that may compete:" in text
    assert "poems / songs: weak evidence (1 of 1 query collides; descriptions do not compete)" in text
    taken.append(query("a shanty on the sea, please", should=False, expected="songs"))
    (catalog / "poems/evals/eval_queries.json").write_bytes(as_bytes(taken))
    assert lint(catalog, "--strict", code=1)["competing"][0]["evidence"] == "strong"


def test_a_weak_match_is_weak_evidence(make_skill: MakeSkill) -> None:
    """Queries that find another skill by a word or two of many."""
    asked = [
        query("please draft some release notes about our garage doors for tomorrow evening", should=True),
        query("somebody must look at why winter tyres roll out of our garage every single night", should=True),
    ]
    make_skill("hinges", description="Repair them.", body="a", files={"evals/eval_queries.json": as_bytes(asked)})
    make_skill("parking", description="Park cars in a garage.", body="b")
    make_skill("chess", description="Play openings.", body="d")
    catalog = make_skill("cooking", description="Roast a chicken.", body="c").parent
    competing = lint(catalog, "--strict")["competing"]
    assert competing
    assert all(each["evidence"] == "weak" for each in competing)
    assert all(each["weak"] for pair in competing for each in pair["queries"])
    assert "(a weak match)" in run("lint", catalog).stdout


def test_a_query_that_finds_a_skill_by_words_of_form_is_weak_evidence(make_skill: MakeSkill) -> None:
    """Two queries collide, but nothing of their subject is in the skill that takes them."""
    asked = [query(f"create a complete guide for my {pet}", should=True) for pet in ("parrot", "tortoise")]
    make_skill("pets", description="Animals.", body="a", files={"evals/eval_queries.json": as_bytes(asked)})
    make_skill("sheds", description="A complete guide to create sheds.", body="b")
    catalog = make_skill("cooking", description="Roast a chicken.", body="c").parent
    (pair,) = lint(catalog, "--strict")["competing"]
    assert (pair["evidence"], pair["reasons"], len(pair["queries"])) == ("weak", ["few_queries"], 2)


def test_queries_that_keep_skills_apart_make_the_evidence_weak(catalog: Path, make_skill: MakeSkill) -> None:
    """Descriptions compete, but no query of the skill finds the other one; fewer queries tell nothing."""
    for number in range(6):
        make_skill(f"lamp-{number}", description=f"Lanterns and glow of the shade {number}.", body=f"Lamp {number}.")
    texts = [f"lanterns glow in shade {number}, a lamp" for number in range(8)]
    for count, reasons in ((7, ["descriptions"]), (8, ["queries_apart"])):
        asked = [query(text, should=True) for text in texts[:count]]
        make_skill("pdf-tools", description=PDF, files={"evals/eval_queries.json": as_bytes(asked)}, body="Extract.")
        pairs = [
            each for each in lint(catalog)["competing"] if {each["skill"], each["rival"]} == {"pdf-tools", "pdf-reader"}
        ]
        assert [each["reasons"] for each in pairs] == [reasons]
    assert "but no query of either finds the other" in run("lint", catalog).stdout


def test_triggers_count_as_the_description() -> None:
    others = [skill_of(f"other-{number}", f"Sort pile {number} of {number} letters.", "x") for number in range(9)]
    one = skill_of("alpha", "Alpha.", "a", triggers=("deploy the gateway", "restart gateway nodes"))
    two = skill_of("beta", "Beta.", "b", triggers=("deploy the gateway", "gateway nodes restart"))
    found = lint_catalog([one, two, *others], Settings(), {}).competing
    assert {"alpha", "beta"} in [{skill.key for skill in each.skills} for each in found]


def test_strict_fails_if_skills_compete_or_are_the_same(catalog: Path, make_skill: MakeSkill) -> None:
    lint(catalog, "--strict", code=1)
    (catalog / "pdf-reader/SKILL.md").unlink()
    assert lint(catalog, "--strict")["competing"] == []
    make_skill("verses", description="Compose lines for a birthday.", body="Rhyme.")
    assert lint(catalog, "--strict", code=1)["duplicates"][0]["kind"] == "body"


def test_a_file_of_queries_that_cannot_be_used_is_reported(catalog: Path, make_skill: MakeSkill) -> None:
    make_skill("poems", description="Write a poem.", files={"evals/eval_queries.json": b"[{}]"})
    (error,) = lint(catalog, "--strict", code=1)["queries"]["errors"]
    assert "poems" in error
    assert "[0]: query is missing" in error


def test_skills_without_a_recorded_use_are_named(tmp_path: Path, catalog: Path) -> None:
    state = str(tmp_path / "state")
    assert lint(catalog, XDG_STATE_HOME=state)["unused"] is None
    usage = UsageCounts(usage_file(tmp_path / "state/skillserve"))
    usage.add("poems")
    usage.write()
    assert lint(catalog, XDG_STATE_HOME=state)["unused"] == ["pdf-reader", "pdf-tools"]
    assert lint(catalog, XDG_STATE_HOME=state, SKILLSERVE_USAGE="false")["unused"] is None


def test_the_text_says_what_competes_and_why(tmp_path: Path, catalog: Path) -> None:
    done = run("lint", catalog, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0
    assert "skills for models: 3; skills with trigger queries: 1" in done.stdout
    assert "pdf-tools has rank 2 for 'read tables of a pdf'" in done.stdout
    assert "No use of skills is recorded" in done.stdout


def test_an_empty_catalog_has_no_findings(skills: Path) -> None:
    assert lint(skills, "--strict")["competing"] == []


def test_groups_of_duplicates_are_found() -> None:
    text = "Check an invoice against its purchase order and flag differences for accounting"
    skills = [
        skill_of("a", text, "The same  body.\n"),
        skill_of("b", text.upper(), "The same body."),
        skill_of("c", f"{text} staff", "Another body."),
        skill_of("d", "Plan a dinner around a roast chicken with side dishes.", ""),
        skill_of("e", "Translate a technical manual and keep its layout.", ""),
    ]
    found = [(each.kind, "".join(skill.key for skill in each.skills)) for each in duplicates(skills)]
    assert found == [
        (DuplicateKind.BODY, "ab"),
        (DuplicateKind.DESCRIPTION, "ab"),
        (DuplicateKind.SIMILAR_DESCRIPTION, "ac"),
    ]


def test_forks_are_alike_and_equal_bodies_are_told_once() -> None:
    body = " ".join(f"Step {number}: compare line {number * 3} with the order." for number in range(40))
    skills = [
        skill_of("a", "Check an invoice against its purchase order.", body),
        skill_of("b", "Check an invoice against its order for accounting.", f"{body} Then ask."),
        skill_of("c", "Plan a dinner around a roast chicken.", "Roast it."),
    ]
    (group,) = duplicates(skills)
    assert (group.kind, [skill.key for skill in group.skills]) == (DuplicateKind.ALIKE, ["a", "b"])
    assert 0.6 <= group.share < 1
    same = [skills[0], skill_of("d", "Find differences in bills for accounting.", body)]
    assert [each.kind for each in duplicates(same)] == [DuplicateKind.BODY]
    apart = skill_of("e", "Find differences in bills for accounting.", f"{body} Then ask.")
    assert duplicates([skills[0], apart]) == ()


def test_many_nearly_equal_skills_are_one_group() -> None:
    text = "Check an invoice against its purchase order and flag differences for accounting"
    skills = [skill_of(f"skill-{number}", f"{text} {number}", str(number)) for number in range(200)]
    (group,) = duplicates(skills)
    assert len(group.skills) == 200
    assert group.share >= 0.8


def test_short_descriptions_are_not_similar_by_chance() -> None:
    assert duplicates([skill_of("a", "Reads PDF.", "a"), skill_of("b", "Read a PDF.", "b")]) == ()


def test_each_query_is_asked_among_all_skills_once() -> None:
    found = lint_catalog([skill_of("a"), skill_of("b")], Settings(), {})
    assert found.queries.asked == 0
