"""The command `visibility`, with output for people and for programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from server.capabilities.visibility.clashes import NameClashKind
from server.capabilities.visibility.served_listing import EntryState, Obstacle, Sight
from server.clients.known import KNOWN_CLIENTS
from server.hosting.usage import UsageCounts, usage_file
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run

DOCUMENT = (Path(__file__).parents[3] / "docs" / "guides" / "check-visibility.md").read_text(encoding="utf-8")

KEYS = {"type": "array", "items": {"type": "string"}}
COUNT = {"type": "integer", "minimum": 0}
ENTRIES = {
    "type": "object",
    "additionalProperties": False,
    "required": [entry.value for entry in EntryState],
    "properties": {entry.value: KEYS for entry in EntryState},
}
TEXT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["characters", "seen", "tokens", "entries", "at_once", "entries_at_once"],
    "properties": dict.fromkeys(("characters", "seen", "tokens", "entries", "at_once", "entries_at_once"), COUNT),
}
TOOL_SEARCH = {
    "type": "object",
    "additionalProperties": False,
    "required": ["deferred", "leaves", "answer", "limit"],
    "properties": {
        "deferred": {"type": "boolean"},
        "leaves": {"type": ["integer", "null"]},
        "answer": COUNT,
        "limit": {"type": ["integer", "null"]},
    },
}
SERVED = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        *("budget", "description", "find_skills", "instructions", "tool_search", "schema_bytes"),
        *("entries", "sight", "reasons", "in_enum", "prompts"),
    ],
    "properties": {
        "budget": COUNT,
        "description": TEXT,
        "find_skills": TEXT,
        "instructions": TEXT,
        "tool_search": TOOL_SEARCH,
        "sight": {
            "type": "object",
            "additionalProperties": False,
            "required": [sight.value for sight in Sight],
            "properties": {sight.value: KEYS for sight in Sight},
        },
        "schema_bytes": COUNT,
        "entries": ENTRIES,
        "reasons": {
            "type": "object",
            "additionalProperties": False,
            "properties": {obstacle.value: KEYS for obstacle in Obstacle},
        },
        "in_enum": COUNT,
        "prompts": {"type": ["integer", "null"]},
    },
}
SHORTENED: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["skills", "characters"],
    "properties": {"skills": COUNT, "characters": COUNT},
}
NATIVE = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "required": ["budget", "characters", "tokens", "entries"],
    "properties": {"budget": {"type": ["integer", "null"]}, "characters": COUNT, "tokens": COUNT, "entries": ENTRIES},
}
NAME = {
    "type": "object",
    "required": ["kind", "skills", "clients"],
    "properties": {
        "kind": {"enum": [kind.value for kind in NameClashKind]},
        "skills": {"type": "array", "items": {"type": "object", "required": ["name", "key", "state", "path"]}},
        "clients": KEYS,
    },
}
PAIR = {"type": "object", "required": ["skill", "rival", "share", "back", "words"]}
VISIBILITY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["skills", "context_window", "clients", "clashes"],
    "properties": {
        "skills": {"type": "object", "required": ["active", "for_models", "for_users"]},
        "context_window": COUNT,
        "clients": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["client", "version", "title", "known", "served", "native", "shortened", "advice"],
                "properties": {
                    "client": {"type": "string"},
                    "version": {"type": ["string", "null"]},
                    "title": {"type": "string"},
                    "known": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "required": ["value", "source", "date"]},
                    },
                    "served": SERVED,
                    "native": NATIVE,
                    "shortened": SHORTENED,
                    "advice": KEYS,
                },
            },
        },
        "clashes": {
            "type": "object",
            "required": ["names", "meaning"],
            "properties": {
                "names": {"type": "array", "items": NAME},
                "meaning": {
                    "type": "object",
                    "required": ["compared", "left_out", "pairs"],
                    "properties": {"pairs": {"type": "array", "items": PAIR}},
                },
            },
        },
    },
}


def visibility(*arguments: object, code: int = 0, **environment: str) -> dict[str, Any]:
    done = run("visibility", *arguments, "--json", **environment)
    assert done.returncode == code, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    Draft202012Validator(VISIBILITY).validate(answer)
    return answer


SUBJECTS = ("invoices", "manuals", "recipes", "contracts", "photographs", "timetables", "letters", "surveys", "logs")
SKILLS = 40


@pytest.fixture
def many(make_skill: MakeSkill) -> Path:
    """Skills for models, of which about half fit into Claude Code's two texts, and one for users."""
    for number in range(SKILLS):
        subject = SUBJECTS[number % len(SUBJECTS)]
        make_skill(f"s{number:02}-{subject}", description=f"Look after {subject}. " + f"Case {number}. " * 30)
    return make_skill("for-users", fields="disable-model-invocation: true").parent


def test_every_known_client_is_reported(many: Path) -> None:
    answer = visibility(many)
    assert [client["client"] for client in answer["clients"]] == [client.key for client in KNOWN_CLIENTS]
    assert answer["skills"] == {
        "active": SKILLS + 1,
        "for_models": SKILLS,
        "for_users": SKILLS + 1,
    }
    for client in answer["clients"]:
        served = client["served"]
        assert sum(map(len, served["entries"].values())) == SKILLS + 1
        assert sum(map(len, served["sight"].values())) == SKILLS
        assert served["reasons"]["not_for_models"] == ["for-users"]


def test_a_client_that_cuts_shows_less_and_gets_advice(many: Path) -> None:
    (cutting,) = visibility(many, "--client", "claude-code")["clients"]
    served = cutting["served"]
    assert served["budget"] == 3 * 4096
    for text in ("description", "instructions", "find_skills"):
        assert served[text]["seen"] <= 4096
        assert served[text]["entries"] > 5
    assert len(served["entries"]["whole"]) + len(served["entries"]["shortened"]) == SKILLS
    assert len(served["sight"]["described"]) == SKILLS
    assert cutting["known"]["description"]["value"] == 4096
    shortened = cutting["shortened"]
    assert shortened["skills"] == len(served["entries"]["shortened"])
    assert cutting["advice"][0] == f"{SKILLS} texts are shortened to {shortened['characters']} characters or less."
    (other,) = visibility(many, "--client", "zed")["clients"]
    assert len(other["served"]["entries"]["whole"]) == SKILLS
    assert other["advice"] == []


def test_an_earlier_version_of_a_client_is_reported_beside_the_latest(many: Path) -> None:
    asked = ("--client", "claude-code", "--client", "claude-code@2.1.200")
    now, then = visibility(many, *asked)["clients"]
    assert (now["client"], now["version"]) == ("claude-code", None)
    assert (then["client"], then["version"]) == ("claude-code", "2.1.200")
    assert (now["served"]["budget"], then["served"]["budget"]) == (3 * 4096, 3 * 2048)
    assert then["known"]["description"]["value"] == 2048
    assert then["shortened"]["characters"] < now["shortened"]["characters"]
    done = run("visibility", many, *asked, "--table")
    assert [line.split()[0] for line in done.stdout.splitlines() if line.count(" tokens ") and line[0] != " "] == [
        asked[1],
        asked[3],
    ]
    assert "\nClaude Code 2.1.200: shows " in run("visibility", many, *asked).stdout


@pytest.mark.parametrize("asked", ["claude-code@latest", "claude-code@", "nobody@1.0"])
def test_a_version_that_is_none_and_a_client_that_is_unknown_are_wrong_use(skills: Path, asked: str) -> None:
    done = run("visibility", skills, "--client", asked)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--client" in done.stderr


def test_a_deferred_tool_is_reported_with_what_is_left_in_sight(many: Path) -> None:
    codex, qwen = visibility(many, "--client", "codex", "--client", "qwen")["clients"]
    served = codex["served"]
    assert served["tool_search"]["deferred"]
    assert served["tool_search"]["leaves"] == 0
    assert (served["description"]["at_once"], served["description"]["entries_at_once"]) == (0, 0)
    assert served["instructions"]["at_once"] == 250
    assert len(served["reasons"]["deferred"]) == SKILLS
    # The lead gives examples.
    assert 0 < len(served["sight"]["named"]) < 10
    assert len(served["sight"]["tool_search"]) == SKILLS - len(served["sight"]["named"])
    assert any("Until the model searches for tools, it sees 250 characters" in text for text in codex["advice"])
    served = qwen["served"]
    assert (served["tool_search"]["leaves"], served["tool_search"]["limit"]) == (160, 28_000)
    assert served["tool_search"]["answer"] <= served["tool_search"]["limit"]
    assert served["description"]["entries"] == 0
    assert served["instructions"]["entries_at_once"] == len(served["sight"]["described"]) == SKILLS
    assert qwen["advice"] == []


def test_the_servers_settings_apply(many: Path) -> None:
    (client,) = visibility(many, "--client", "zed", SKILLSERVE_CATALOG_BUDGET="1000")["clients"]
    assert client["served"]["budget"] == 1000
    assert client["served"]["entries"]["missing"]


def test_the_context_window_determines_budgets_that_are_a_share_of_it(many: Path) -> None:
    def native(*arguments: object) -> dict[str, Any]:
        answer = visibility(many, "--client", "claude-code", *arguments)["clients"][0]["native"]
        return dict(answer)

    assert native()["budget"] == 8000
    assert native("--window", 20_000)["budget"] == 800
    assert len(native("--window", 20_000)["entries"]["name"]) > len(native()["entries"]["name"])


def test_pinned_and_most_used_skills_are_shown_first(many: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    usage = UsageCounts(usage_file(state / "skillserve"))
    names = visibility(many, "--client", "zed")["clients"][0]["served"]["entries"]["whole"]
    usage.add(names[-3])
    usage.write()
    settings = {"SKILLSERVE_USAGE": "true", "XDG_STATE_HOME": str(state), "SKILLSERVE_PINNED": names[-2]}
    shown = visibility(many, "--client", "zed", **settings)["clients"][0]["served"]["entries"]["whole"]
    assert shown[:2] == [names[-2], names[-3]]


def test_name_clashes_and_similar_descriptions_are_reported(
    tmp_path: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("review", description="Review a contract.")
    make_skill("pdf-tools", description="Extract text and tables from PDF files. Use when the user has a PDF.")
    make_skill("pdf-reader", description="Read PDF files and extract their text and tables. For work with PDFs.")
    higher = tmp_path / "higher"
    (higher / "review").mkdir(parents=True)
    (higher / "review" / "SKILL.md").write_bytes((skills / "review" / "SKILL.md").read_bytes())
    clashes = visibility(higher, skills, "--client", "codex")["clashes"]
    assert [(clash["kind"], clash["clients"]) for clash in clashes["names"]] == [
        ("shadowed", []),
        ("command", ["codex"]),
    ]
    assert {each["state"] for each in clashes["names"][0]["skills"]} == {"active", "shadowed"}
    (pair,) = clashes["meaning"]["pairs"]
    assert {pair["skill"], pair["rival"]} == {"pdf-tools", "pdf-reader"}
    assert "pdf" in pair["words"]


def test_people_get_a_row_for_each_client_the_reasons_and_advice(many: Path) -> None:
    done = run("visibility", many, "--client", "claude-code", "--client", "zed", "--table")
    assert done.returncode == 0
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if " tokens " in line}
    assert rows["zed"][1:6] == ["40", "0", "0", "0", "0"]
    described, named, tool_search, find_skills = map(int, rows["claude-code"][1:5])
    assert (described, named, tool_search, find_skills) == (40, 0, 0, 0)
    assert "41 active skills, 40 for models, 41 for users" in done.stdout
    assert "Not for models: for-users" in done.stdout
    assert "40 texts are shortened to " in done.stdout


def test_the_table_has_a_legend_for_each_of_its_columns(many: Path) -> None:
    lines = run("visibility", many, "--client", "zed", "--table").stdout.splitlines()
    columns = re.split(r" {2,}", next(line for line in lines if line.startswith("client")).strip())
    explained = [re.split(r" {2,}", line.strip())[0] for line in lines if re.match(r"  \S.* {2,}\S", line)]
    assert explained[: len(columns) - 1] == columns[1:]


def test_people_get_one_sentence_for_each_client(many: Path) -> None:
    done = run("visibility", many, SKILLSERVE_CATALOG_BUDGET="1500", SKILLSERVE_ENUM_LIMIT="5")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    sentences = [line for line in lines if ": shows " in line]
    assert [line.partition(":")[0] for line in sentences] == [client.title for client in KNOWN_CLIENTS]
    assert all(line.endswith(".") for line in sentences)
    assert "--table" in lines[-1]


def test_the_numbers_of_a_sentence_are_those_of_the_answer(many: Path) -> None:
    lines = run("visibility", many, SKILLSERVE_CATALOG_BUDGET="1500", SKILLSERVE_ENUM_LIMIT="5").stdout.splitlines()
    for found in visibility(many, SKILLSERVE_CATALOG_BUDGET="1500", SKILLSERVE_ENUM_LIMIT="5")["clients"]:
        (line,) = (each for each in lines if each.startswith(f"{found['title']}: shows "))
        counts = {sight: len(keys) for sight, keys in found["served"]["sight"].items()}
        if counts["described"] == sum(counts.values()):
            assert line.endswith(f": shows all {counts['described']}.")
            continue
        assert f"shows {counts['described'] or 'none'} of {sum(counts.values())};" in line
        assert ("hidden until" in line) == bool(counts["find_skills"])
        assert f"{counts['named']} by name only" in line or not counts["named"]
        assert ", because " in line
        if counts["find_skills"]:
            assert found["served"]["sight"]["find_skills"][0] in line


def test_a_catalog_that_all_clients_show_whole_needs_no_reason(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    make_skill("two")
    assert "Zed: shows all 2.\n" in run("visibility", skills, "--client", "zed").stdout


def test_fail_on_hidden_exits_with_1_if_a_skill_is_hidden(many: Path) -> None:
    small: dict[str, Any] = {"SKILLSERVE_CATALOG_BUDGET": "1000"}
    assert visibility(many, "--client", "zed", "--fail-on-hidden", code=1, **small)
    assert visibility(many, "--client", "zed", **small)
    assert visibility(many, "--client", "claude-code", "--fail-on-hidden")


def test_an_unknown_client_is_wrong_use_with_a_hint(skills: Path) -> None:
    done = run("visibility", skills, "--client", "claude-cod")
    assert done.returncode == 2
    assert "did you mean 'claude-code'" in done.stderr
    assert run("visibility", skills, "--client", "unknown").returncode == 0


def test_an_empty_catalog_is_reported(skills: Path) -> None:
    answer = visibility(skills)
    assert answer["skills"]["active"] == 0
    assert answer["clashes"]["meaning"]["pairs"] == []
    for output in ((), ("--table",)):
        done = run("visibility", skills, *output)
        assert done.returncode == 0
    assert str(skills) in run("visibility", skills).stdout


@pytest.mark.parametrize("word", [*EntryState, *Sight, *Obstacle, *NameClashKind])
def test_every_word_of_the_answer_is_documented(word: str) -> None:
    assert f"`{word}`" in DOCUMENT


@pytest.mark.parametrize(
    "fields",
    [VISIBILITY, SERVED, TEXT, TOOL_SEARCH, SHORTENED, NATIVE, NAME, PAIR],
    ids=["all", "served", "text", "tool search", "shortened", "native", "name", "pair"],
)
def test_every_field_of_the_answer_is_documented(fields: dict[str, Any]) -> None:
    assert [name for name in fields["required"] if f"`{name}`" not in DOCUMENT] == []
