"""The walk for leaks asks for all that the server registers: a new surface without an entry in the walk fails here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from server.config.settings.tools import OptionalTool
from server.protocol.server import SkillServer
from server.transport import http
from tests.server.hosting.two_views import WORDS, host_of, serving_http, write_skills, write_workflows
from tests.server.hosting.walking import Asker, over_http, probe, walk

HIDDEN = "quokka-main"

ELSEWHERE = {"subscriptions/listen": "test_view_events.py"}
"""Methods that are answered by a stream of events, with the tests that see what is in it."""

NAMELESS = {"ping", "prompts/list", "resources/list", "resources/templates/list", "server/discover", "skills/list"}
"""Methods whose requests name no skill."""

SILENT = {"notifications/initialized", "notifications/roots/list_changed"}
"""Notifications, which have no answer; their handlers return nothing that was asked for."""

NAMELESS_TOOLS = {"check_tool_call", "reload_skills"}
"""Tools whose arguments name no skill; the first one decides by the patterns of all skills, see test_view_runs.py."""


def registered(settings: dict[str, Any], sources: tuple[Path, Path]) -> SkillServer:
    return SkillServer(host_of(sources, **settings), local=False)


def methods_of(labels: Iterator[str]) -> set[str]:
    return {label.partition(" ")[0] for label in labels}


def tools_of(asker: Asker, word: str = "") -> set[str]:
    calls = [label for label in asker.answers if label.startswith("tools/call ") and word in label]
    return {label.rpartition('"name": "')[2].rstrip('"}') for label in calls}


@pytest.fixture
def everything(tmp_path: Path) -> tuple[tuple[Path, Path], dict[str, Any]]:
    """Return skills of both teams, and settings that switch on every tool that callers with views can have."""
    sources = write_skills(tmp_path)
    return sources, write_workflows(tmp_path)


async def walked(sources: tuple[Path, Path], settings: dict[str, Any]) -> list[Asker]:
    askers = []
    async with serving_http(host_of(sources, **settings)) as url:
        for era in ("handshake", "modern"):
            async with over_http(url, era, "blue-client") as asker:
                await walk(asker)
                await probe(asker, HIDDEN)
                askers.append(asker)
    return askers


async def test_the_walk_asks_for_every_method_and_tool_of_the_server(
    everything: tuple[tuple[Path, Path], dict[str, Any]],
) -> None:
    sources, settings = everything
    server = registered(settings, sources)
    asker_of_handshake, asker_of_modern = askers = await walked(sources, settings)
    methods, notifications = {*server._request_handlers}, {*server._notification_handlers}
    asked = methods_of(label for asker in askers for label in asker.answers)
    assert methods - asked == ELSEWHERE.keys()
    assert notifications == SILENT
    assert all("listen" in (Path(__file__).parent / name).read_text() for name in ELSEWHERE.values())
    named = methods_of(label for asker in askers for label in asker.answers if HIDDEN in label)
    assert methods - named - ELSEWHERE.keys() == NAMELESS | {"tools/list"}
    for asker in (asker_of_handshake, asker_of_modern):
        assert server.tool_names - tools_of(asker) == set()
        assert server.tool_names - tools_of(asker, HIDDEN) == NAMELESS_TOOLS


def test_no_tool_is_left_out_of_the_servers_that_the_walk_goes_through(
    everything: tuple[tuple[Path, Path], dict[str, Any]],
) -> None:
    sources, settings = everything
    left_out = {each.value for each in OptionalTool} - registered(settings, sources).tool_names
    assert {each for each in left_out if "schedule" not in each} == set()
    # Callers with views have no tools for schedules.
    all_on = registered({**settings, "tools": tuple(OptionalTool)}, sources)
    assert {each for each in all_on.tool_names if "schedule" in each} == set()


async def test_no_other_route_tells_callers_of_skills(
    everything: tuple[tuple[Path, Path], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, settings = everything
    found: list[Route] = []
    build = http._with_direct_endpoint

    def noting(app: Starlette, path: str) -> Any:
        found.extend(route for route in app.routes if isinstance(route, Route))
        return build(app, path)

    monkeypatch.setattr(http, "_with_direct_endpoint", noting)
    async with serving_http(host_of(sources, **settings)) as url, httpx2.AsyncClient() as client:
        paths = {route.path: route.methods or {"GET"} for route in found if route.path != "/mcp"}
        assert {"/health", "/ready"} <= paths.keys()
        texts = [
            (await client.request(method, url.removesuffix("/mcp") + path)).text
            for path, methods in paths.items()
            for method in methods
        ]
    assert [text for text in texts if any(word in text for word in (*WORDS.values(), "plain"))] == []
