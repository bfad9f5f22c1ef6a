"""Skills for runs with several of them, a service that runs them, and what the model was told."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from server.capabilities.runs.factory import create_service, recording
from server.capabilities.runs.service import RunService
from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.runs.outcome import RunOutcome
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.settings import make_settings

Open = Callable[..., contextlib.AbstractAsyncContextManager[tuple[RunService, Library]]]

ALL = [("rule", "always_on"), ("base", "required"), ("third", "called")]


@pytest.fixture
def five_skills(make_skill: MakeSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_skill("rule", body="Always be brief.", fields="metadata: {jdai: {always: true}}\ndanger_patterns: [forbidden]")
    make_skill("base", body="The base text.", files={"base.md": b"of base"})
    make_skill("doer", body="Do it, then use third.", fields="requires: [base]")
    make_skill("third", body="Third, for {{who}}.", files={"third.md": b"of third"})
    make_skill("other", body="Never used.")


@pytest.fixture
def opened(skills: Path, endpoint: ModelEndpoint) -> Open:
    @contextlib.asynccontextmanager
    async def open_service(**more: Any) -> AsyncGenerator[tuple[RunService, Library]]:
        settings = make_settings(model=endpoint.model, **more)
        library = Library(explicit_sources([skills]), current_environment)
        service = await anyio.to_thread.run_sync(create_service, library, settings)
        async with recording(service, library, settings):
            yield service, library

    return open_service


def of(outcome: RunOutcome) -> list[tuple[str, str]]:
    return [(each.skill, each.origin.value) for each in outcome.activated_skills]


def system_of(asked: dict[str, Any]) -> str:
    text: str = asked["messages"][0]["content"]
    return text


def replies(asked: dict[str, Any]) -> list[str]:
    return [message["content"] for message in asked["messages"] if message["role"] == "tool"]


def names_in(asked: dict[str, Any]) -> list[str]:
    tools = {each["function"]["name"]: each["function"] for each in asked.get("tools", ())}
    return (
        list(tools["activate_skill"]["parameters"]["properties"]["name"]["enum"]) if "activate_skill" in tools else []
    )
