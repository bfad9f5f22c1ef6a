"""What the measurement of slash commands reads off a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.clients.dialects.messages import Request, Tool
from conformance.clients.document import page
from conformance.clients.recording import Exchange, Recording
from conformance.clients.slash import ways_of
from conformance.clients.slash_results import Typing, arrival_in, keep, kept
from conformance.clients.slash_ways import BODY, NATIVE, SLASHES, WORDS, Way

ALL = " ".join(WORDS)
FILLED = BODY.replace("$ARGUMENTS", ALL)


def recorded(*texts: str) -> Recording:
    return Recording(tuple(Exchange(Request((Tool("x"),), text, ()), None) for text in texts))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FILLED} {ALL}", "served skill, all words, filled"),
        (f"{BODY} {ALL}", "served skill, all words"),
        (f"{BODY} {WORDS[0]}", "served skill, 1 of 2 words"),
        (BODY, "served skill, 0 of 2 words"),
        (NATIVE.replace("$ARGUMENTS", ALL), "own skill, all words, filled"),
        (f"/deploy-app {ALL}", "no skill, all words"),
        ("Hello", "None"),
    ],
)
def test_what_arrived_is_read_off_the_request(text: str, said: str) -> None:
    assert str(arrival_in(recorded(text))) == said


def test_the_request_with_the_skill_counts() -> None:
    assert str(arrival_in(recorded(f"a title: {ALL}", BODY))) == "served skill, 0 of 2 words"
    assert arrival_in(recorded()) is None


@pytest.mark.parametrize("client", list(SLASHES))
def test_every_client_is_typed_into(client: str) -> None:
    slash = SLASHES[client]
    words = ["the-client", *slash.drop, "the prompt", "--further"]
    assert slash.interactive(words) == ["the-client", "--further"]
    assert Way.TERMINAL in ways_of(client)
    assert slash.typed(Way.TERMINAL).endswith(ALL)
    with pytest.raises(ValueError, match="is not in"):
        slash.interactive(["the-client"])


def test_results_are_kept_by_client_and_way_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "slash.json"
    arrived = arrival_in(recorded(FILLED))
    keep("claude", Typing("1.0", "2026-11-27", {Way.TERMINAL: (arrived,)}), path)
    keep("gemini", Typing("2.0", "2026-11-27", {Way.MENTION: (arrived, None)}), path)
    keep("claude", Typing("1.0", "2026-11-28", {Way.MENTION: (None,)}), path)
    found = kept(path)
    assert found["claude"] == Typing("1.0", "2026-11-28", {Way.TERMINAL: (arrived,), Way.MENTION: (None,)})
    shown = page({}, found)
    assert "| Gemini CLI | 2.0 | 2026-11-27 |  |  |  | served skill, all words, filled; or: the model was not" in shown


def test_a_new_version_replaces_what_was_found_for_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "slash.json"
    keep("claude", Typing("1.0", "2026-11-27", {Way.TERMINAL: (None,)}), path)
    keep("claude", Typing("1.1", "2026-11-28", {Way.MENTION: (None,)}), path)
    assert kept(path)["claude"].arrivals == {Way.MENTION: (None,)}
