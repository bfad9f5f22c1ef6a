"""Whoever asks for a skill that he may not see leaves a record, whatever method or tool he names it in.

The probe names the hidden skill in every method and tool that the server registers: see `test_walk.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.auditlog.records import AuditRecord
from server.requests import Records, RequestRecord
from tests.capabilities.auditlog.helpers import audit_record
from tests.server.hosting.test_walk import HIDDEN, NAMELESS_TOOLS, everything, methods_of, registered, tools_of
from tests.server.hosting.two_views import host_of, serving_http
from tests.server.hosting.walking import Answer, Asker, over_http, probe
from tests.server.sessions import Era

__all__ = ["everything"]

SEARCHES = {
    "find_skills": "its tags narrow a search, and the search is among the skills that the caller sees",
    "skill_context": "a message is a text, of which nothing is recorded",
    "skill": "the completion of the template's variable `skill` is a search among the skills that the caller sees",
}
"""Requests that answer with what the caller sees, whatever he names, with the reason why they are no attempts."""

NOTHING_ASKED = {"resources/unsubscribe"}
"""Methods that name a skill and ask for nothing of it."""


class Recording:
    """What the audit log has of each request of an asker, by what was asked."""

    def __init__(self) -> None:
        self.records = Records()
        self._found: list[RequestRecord] = []
        self.records.add(self._found.append)
        self.of: dict[str, list[AuditRecord]] = {}

    def watch(self, asker: Asker) -> None:
        ask = asker.ask

        async def watched(method: str, /, **params: Any) -> Answer:
            self._found.clear()
            answer = await ask(method, **params)
            label = f"{method} {json.dumps(params, sort_keys=True)}"
            self.of[label] = [record for each in self._found if (record := audit_record(each)) is not None]
            return answer

        asker.ask = watched  # type: ignore[method-assign]


def is_search(label: str) -> bool:
    params = json.loads(label.partition(" ")[2])
    return {params.get("name"), params.get("argument", {}).get("name")} & SEARCHES.keys() != set()


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_each_request_that_names_a_hidden_skill_is_recorded_with_its_name(
    everything: tuple[tuple[Path, Path], dict[str, Any]], era: Era
) -> None:
    sources, settings = everything
    recording = Recording()
    async with (
        serving_http(host_of(sources, records=recording.records, **settings)) as url,
        over_http(url, era, "blue-client") as asker,
    ):
        recording.watch(asker)
        await probe(asker, HIDDEN)
    server = registered(settings, sources)
    assert server.tool_names - tools_of(asker, HIDDEN) == NAMELESS_TOOLS
    named = {label: found for label, found in recording.of.items() if HIDDEN in label and not is_search(label)}
    named = {label: found for label, found in named.items() if methods_of(iter([label])).isdisjoint(NOTHING_ASKED)}
    assert len(named) > 15
    assert [label for label, found in named.items() if len(found) != 1] == []
    assert [label for label, (record,) in named.items() if HIDDEN not in (record.target or "")] == []
    assert {record.decision for (record,) in named.values()} == {"allowed", "invalid"}
    # Only the filter of the status is valid with any name.
    assert [record.tool for (record,) in named.values() if record.decision == "allowed"] == ["skills_status"]
