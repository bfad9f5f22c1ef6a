"""The parsers read what the real agents print: each recording is the output of one run against a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.evals.agents.all_agents import AGENTS, ANY_AGENT
from skills_core.evals.agents.reads import skill_of_path, skill_of_uri, skills_read_by
from skills_core.evals.agents.transcript import Transcript, skill_name

TEN_LINES = "line\n" * 10


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/project/.claude/skills/pdf/SKILL.md", "pdf"),
        ("pdf/SKILL.md", "pdf"),
        (r"C:\project\.agents\skills\pdf\SKILL.md", "pdf"),
        ("/project/pdf-forms/SKILL.md", "pdf-forms"),
        ("/project/pdf/SKILL.md.bak", ""),
        ("/project/pdf/references/forms.md", ""),
        ("/project/pdf/skill.md", ""),
        ("SKILL.md", ""),
        ("/SKILL.md", ""),
        ("../SKILL.md", ""),
        ("", ""),
        (None, ""),
        (["pdf", "SKILL.md"], ""),
    ],
)
def test_a_path_names_a_skill_by_its_whole_segment(path: object, name: str) -> None:
    assert skill_of_path(path) == name


def test_a_uri_of_a_server_names_a_skill() -> None:
    assert skill_of_uri("skill://team/pdf/SKILL.md") == "pdf"
    assert skill_of_uri("skill://pdf/references/forms.md") == ""
    assert skill_of_uri("https://example.org/pdf/SKILL.md") == ""


@pytest.mark.parametrize(
    "command",
    [
        "cat .agents/skills/pdf/SKILL.md",
        "/bin/bash -lc 'cat .agents/skills/pdf/SKILL.md'",
        """/bin/bash -lc "sed -n '1,200p' .agents/skills/pdf/SKILL.md" """,
        "cd .agents/skills/pdf && cat SKILL.md",
        "ls; cat ./pdf/SKILL.md | head -50",
        "nl -ba pdf/SKILL.md",
        "head -n 20 pdf/SKILL.md",
        r"""powershell -Command "Get-Content -Raw .agents\skills\pdf\SKILL.md" """,
        ["bash", "-lc", "'cat pdf/SKILL.md'"],
        "cat 'pdf/SKILL.md' && echo done",
    ],
)
def test_commands_that_print_a_skill(command: object) -> None:
    assert skills_read_by(command, TEN_LINES) == ("pdf",)


@pytest.mark.parametrize(
    "command",
    [
        "ls -l pdf/SKILL.md",
        "grep -n pdf pdf/SKILL.md",
        "wc -l pdf/SKILL.md",
        "echo pdf/SKILL.md",
        "cat pdf/SKILL.md | grep name",
        "cat pdf/SKILL.md | wc -l",
        "cat pdf/SKILL.md > /dev/null",
        "cat pdf/references/forms.md",
        "head -n 5 pdf/SKILL.md",
        "head -c 100 pdf/SKILL.md",
        "sed -n '1,10p' pdf/SKILL.md",
        "sed -n '20,40p' pdf/SKILL.md",
        "cat pdf/SKILL.md | head -3",
        "git log -- pdf/SKILL.md",
        "cat 'pdf/SKILL.md",
        "find . -name SKILL.md",
        "",
        None,
        42,
    ],
)
def test_commands_that_print_no_skill_in_full(command: object) -> None:
    assert skills_read_by(command, TEN_LINES) == ()


def test_names_of_other_skills_are_not_mistaken() -> None:
    assert skills_read_by("cat pdf-forms/SKILL.md my-pdf/SKILL.md", "") == ("pdf-forms", "my-pdf")


@pytest.mark.parametrize(
    ("written", "name"), [("pdf", "pdf"), ("office:pdf", "pdf"), ("/pdf", "pdf"), (None, ""), (["pdf"], "")]
)
def test_a_name_may_have_the_name_of_a_plugin(written: object, name: str) -> None:
    assert skill_name(written) == name


def test_a_skill_of_a_plugin_is_loaded_by_its_name() -> None:
    lines = [
        (
            '{"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": "t", "name": "Skill", '
            '"input": {"skill": "office:pdf"}}]}}'
        ),
        '{"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}}',
    ]
    assert AGENTS["claude"].parse(lines[:1]).loaded == ()
    assert AGENTS["claude"].parse(lines).loaded == ("pdf",)


def test_an_answer_that_names_the_skill_loads_nothing() -> None:
    text = '{"type": "assistant", "message": {"content": [{"type": "text", "text": "Skill pdf pdf/SKILL.md"}]}}'
    assert ANY_AGENT.parse([text, "pdf/SKILL.md", "Launching skill: pdf"]).loaded == ()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_KEYS = st.sampled_from(
    [
        "item",
        "part",
        "message",
        "error",
        "usage",
        "tool_use_result",
        "parameters",
        "stats",
        "status",
        "tool_name",
        "error_status",
        "tool_id",
        "is_error",
        "skills",
        "subtype",
        "result",
        "role",
        "content",
        "tool_result_meta",
    ]
)
_INNER = st.dictionaries(
    st.sampled_from(
        [
            "type",
            "id",
            "content",
            "state",
            "tool",
            "command",
            "arguments",
            "input",
            "name",
            "text",
            "output",
            "usage",
            "status",
            "error",
            "metadata",
            "callID",
            "result",
            "message",
            "tokens",
            "exit_code",
        ]
    ),
    _JSON | st.sampled_from(["tool_use", "tool_result", "command_execution", "mcp_tool_call", "Skill", "skill"]),
    max_size=5,
)
_TYPES = st.sampled_from(
    [
        "system",
        "assistant",
        "user",
        "result",
        "item.started",
        "item.completed",
        "turn.completed",
        "turn.failed",
        "tool_use",
        "tool_result",
        "text",
        "step_finish",
        "error",
        "message",
    ]
)


@given(_TYPES, st.dictionaries(_KEYS, _JSON | _INNER | st.lists(_INNER, max_size=2), max_size=6))
def test_events_of_any_shape_are_read_without_an_error(kind: str, fields: dict[str, object]) -> None:
    transcript = ANY_AGENT.parse([json.dumps({"type": kind, **fields})])
    assert isinstance(transcript.loaded, tuple)


@pytest.mark.parametrize(
    "line", ["", "{", "[1]", "null", '{"type": 1}', "{" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000]
)
def test_lines_that_are_no_events_are_ignored(line: str) -> None:
    assert not ANY_AGENT.parse([line]).recognized


RECORDINGS = Path(__file__).parent / "recordings"
SKILL = "tide-tables"
ANSWER = "It falls dry at noon."

LOADED = (
    *("claude-load", "claude-read", "claude-bash", "claude-server"),
    *("codex-cat", "codex-sed", "codex-server"),
    *("gemini-load", "gemini-read", "gemini-shell", "gemini-server"),
    *("opencode-load", "opencode-read", "opencode-bash", "opencode-server"),
)
DENIED = ("claude-denied", "gemini-denied", "opencode-denied")
UNKNOWN = ("claude-unknown", "gemini-unknown", "opencode-unknown")
ERRORS = ("claude-unauthorized", "codex-unauthorized", "gemini-unauthorized", "opencode-unauthorized")
PARTS = ("claude-part", "codex-head", "gemini-part", "opencode-part")
NOTHING = ("claude-none", "codex-none", "codex-ls", "codex-missing")


def transcript_of(name: str) -> Transcript:
    lines = (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    transcript = AGENTS[name.partition("-")[0]].parse(lines)
    assert ANY_AGENT.parse(lines) == transcript, "a reader of another agent takes an event of this one"
    return transcript


@pytest.mark.parametrize("name", LOADED)
def test_a_successful_result_loads_the_skill(name: str) -> None:
    transcript = transcript_of(name)
    assert (transcript.loaded, transcript.denied, dict(transcript.failed)) == ((SKILL,), (), {})
    assert (transcript.tool_calls, transcript.text, transcript.is_error) == (1, ANSWER, False)


@pytest.mark.parametrize("name", DENIED)
def test_a_call_that_a_permission_stopped_loads_nothing(name: str) -> None:
    transcript = transcript_of(name)
    assert (transcript.loaded, transcript.denied, dict(transcript.failed)) == ((), (SKILL,), {})
    assert not transcript.is_error


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_call_for_a_skill_that_is_not_there_fails(name: str) -> None:
    transcript = transcript_of(name)
    assert (transcript.loaded, transcript.denied, tuple(transcript.failed)) == ((), (), ("no-such-skill",))
    assert transcript.failed["no-such-skill"]
    assert transcript.text == ANSWER


@pytest.mark.parametrize("name", ERRORS)
def test_a_run_that_failed_is_an_error_and_not_a_skill_that_was_not_loaded(name: str) -> None:
    transcript = transcript_of(name)
    assert transcript.is_error
    assert "401" in transcript.error or "invalid x-api-key" in transcript.error
    assert transcript.loaded == ()


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_skill_is_not_the_skill(name: str) -> None:
    transcript = transcript_of(name)
    assert (transcript.loaded, transcript.tool_calls, transcript.text) == ((), 1, ANSWER)


@pytest.mark.parametrize("name", NOTHING)
def test_a_run_without_the_skill_ends_with_nothing_loaded(name: str) -> None:
    transcript = transcript_of(name)
    assert (transcript.loaded, transcript.denied, dict(transcript.failed)) == ((), (), {})
    assert (transcript.finished, transcript.recognized, transcript.text) == (True, True, ANSWER)


@pytest.mark.parametrize(
    ("name", "tokens"), [("claude-load", 220), ("codex-cat", 220), ("gemini-load", 220), ("opencode-load", 220)]
)
def test_tokens_are_those_of_all_requests(name: str, tokens: int) -> None:
    assert transcript_of(name).total_tokens == tokens


def test_money_is_known_where_the_agent_says_it() -> None:
    found = {name: transcript_of(f"{name}-load").cost_usd for name in ("claude", "gemini", "opencode")}
    assert found == {"claude": pytest.approx(0.0012), "gemini": None, "opencode": None}


def test_tokens_of_a_run_that_was_stopped_are_those_reported_so_far() -> None:
    lines = (RECORDINGS / "claude-load.jsonl").read_text(encoding="utf-8").splitlines()
    transcript = AGENTS["claude"].parse(lines[:3])
    assert (transcript.loaded, transcript.total_tokens, transcript.finished) == ((SKILL,), 110, False)


def test_claude_code_says_which_skills_it_has() -> None:
    available = transcript_of("claude-load").available
    assert available is not None
    assert SKILL in available
    assert SKILL not in (transcript_of("claude-server").available or ())


def test_recordings_name_no_machine() -> None:
    for path in RECORDINGS.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not any(name in text for name in ("/tmp/", "/root/", "/home/", "clientlab")), path.name  # noqa: S108
