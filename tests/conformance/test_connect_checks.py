"""What `make connect-clients` calls a fault."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.clients.connect import CONNECTED, faults_of_connection
from conformance.clients.login_script import BODY
from server.capabilities.connect.clients import known_clients

RIGHT: dict[str, Any] = {
    "connected": {"code": 0, "said": ""},
    "removed": {"code": 0, "said": ""},
    "before": {"home/a.json": "{}"},
    "at_once": {"home/a.json": "{}"},
    "listed": "skills: connected",
    "session": "done",
    "left": [],
    "lost": [],
}


def faults(requests: str = BODY, **changes: Any) -> list[str]:
    return [*faults_of_connection({**RIGHT, **changes}, requests, lists=True)]


def test_a_client_that_used_the_server_and_lost_nothing_is_right() -> None:
    assert faults() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"connected": {"code": 1, "said": "no"}}, "not connected: no"),
        ({"removed": {"code": 1, "said": "no"}}, "not removed: no"),
        ({"listed": "no servers"}, "its list has no server"),
        ({"requests": ""}, "the skill did not reach the model"),
        ({"at_once": {}}, "a removal at once left other files"),
        ({"left": ["a.json.before-skillserve"]}, "is left of the server"),
        ({"lost": ["theme"]}, "what the client itself wrote is lost"),
    ],
)
def test_each_fault_is_told(changes: dict[str, Any], told: str) -> None:
    (fault,) = faults(**changes)
    assert told in fault


def test_each_client_that_is_run_is_one_that_connect_knows() -> None:
    assert {each.key for each in CONNECTED.values()} <= {*known_clients()}
