"""What the measurement of slash commands reads off a recording."""

from __future__ import annotations

import pytest

from conformance.clients.dialects.messages import Request, Tool
from conformance.clients.recording import Exchange, Recording
from conformance.clients.slash import arrival_in, ways_of
from conformance.clients.slash_ways import BODY, NATIVE, SLASHES, WORDS, Way

ALL = " ".join(WORDS)
FILLED = BODY.replace("$ARGUMENTS", ALL)


def recorded(*texts: str) -> Recording:
    return Recording(tuple(Exchange(Request((Tool("x"),), text, ()), None) for text in texts))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FILLED} {ALL}", "the served skill; every word, filled into the text"),
        (f"{BODY} {ALL}", "the served skill; every word"),
        (f"{BODY} {WORDS[0]}", f"the served skill; only {WORDS[0]}"),
        (BODY, "the served skill; none of the words"),
        (NATIVE.replace("$ARGUMENTS", ALL), "its own skill; every word, filled into the text"),
        (f"/deploy-app {ALL}", "no skill; every word"),
        ("Hello", "None"),
    ],
)
def test_what_arrived_is_read_off_the_request(text: str, said: str) -> None:
    assert str(arrival_in(recorded(text))) == said


def test_the_request_with_the_skill_counts() -> None:
    assert str(arrival_in(recorded(f"a title: {ALL}", BODY))) == "the served skill; none of the words"
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
