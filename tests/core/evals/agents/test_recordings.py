"""The parsers read what the real agents print: each recording is the output of one run against a scripted model."""

from __future__ import annotations

from pathlib import Path

import pytest

from skills_core.evals.agents import AGENTS, ANY_AGENT
from skills_core.evals.agents.kind import Transcript

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
