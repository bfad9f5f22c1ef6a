"""A service that improves skills, and the model's part in it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread

from server.capabilities.improve.records import improvement_records
from server.capabilities.runs.additions import open_service
from server.capabilities.runs.factory import recording
from server.capabilities.runs.service import RunService
from server.capabilities.runs.skill_runner import RunParticipants
from server.capabilities.schedules.background import ScheduledRuns
from server.config.machine import current_environment
from server.config.settings.model import Settings
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.runs.durable.engine import Engine
from skills_core.runs.executor import RunRequest
from skills_core.runs.outcome import RunOutcome
from skills_core.testing import Call
from tests.model_endpoint import Answer, ModelEndpoint
from tests.server.settings import make_settings

WRONG = "ListDirectory"
RIGHT = "list_directory"
SKILL = f"""---
name: tidy
description: Tidies a folder. Use when a folder is untidy.
---
Call the tool {WRONG} to see the files.
Then say which of them should go.
"""
FIXES: list[Answer] = [
    Call("read_file", {"path": "SKILL.md"}),
    Call("write_file", {"path": "SKILL.md", "replace": WRONG, "content": RIGHT}),
    "I named the tool that lists files.",
]


@dataclass
class Model:
    """Performs `tidy` as its text says, and improves skills by the script `fixes`."""

    fixes: list[Answer] = field(default_factory=lambda: list(FIXES))
    tasks: list[str] = field(default_factory=list)
    on_improve: Callable[[], object] = lambda: None
    replayed: Answer | None = None

    def __call__(self, asked: dict[str, Any]) -> Answer:
        messages = asked["messages"]
        system = "\n".join(str(each["content"]) for each in messages if each["role"] == "system")
        answered = sum(each["role"] == "assistant" for each in messages)
        if 'name="improve-skill"' in system or "# Improving a skill" in system:
            if not answered:
                self.tasks.append(str(messages[-1]["content"]))
                self.on_improve()
            fix: Answer = self.fixes[min(answered, len(self.fixes) - 1)]
            return fix
        if answered:
            return "All of them stay."
        if RIGHT in system.replace(f"- {RIGHT}", ""):
            return self.replayed or Call(RIGHT, {})
        return Call(WRONG, {})


@dataclass
class Loop:
    """A running service, and the skill's file."""

    service: RunService
    library: Library
    main: Path
    settings: Settings
    engine: Engine | None = None

    async def run(self, run_id: str | None = None, message: str = "the folder here") -> RunOutcome:
        await anyio.to_thread.run_sync(self.library.reload)
        request = RunRequest(self.library.catalog.skill("tidy"), {}, message)
        return await self.service.run_skill(request, RunParticipants(), run_id)

    @property
    def records(self) -> list[dict[str, Any]]:
        return improvement_records().all()


@contextlib.asynccontextmanager
async def open_loop(
    endpoint: ModelEndpoint, skills: Path, tmp_path: Path, *, recorded: bool = False, **options: Any
) -> AsyncGenerator[Loop]:
    """Open a service with the skill `tidy`, whose runs can list the folder `work`; `recorded` runs can be continued."""
    main = skills / "tidy" / "SKILL.md"
    if not main.exists():
        main.parent.mkdir(parents=True, exist_ok=True)
        main.write_text(SKILL, encoding="utf-8")
    (tmp_path / "work").mkdir(exist_ok=True)
    given: dict[str, Any] = {
        "model": endpoint.model,
        "improve": ["explicit"],
        "run_tools": ["list_directory"],
        "workspace": str(tmp_path / "work"),
        **options,
    }
    settings = make_settings(**given)
    library = Library(explicit_sources([skills]), current_environment)
    service = await anyio.to_thread.run_sync(open_service, library, settings)
    async with contextlib.AsyncExitStack() as stack:
        jobs = ScheduledRuns(library, settings).jobs(service.follow_up) if recorded else {}
        engine = (
            await stack.enter_async_context(recording(service, library, settings, more_jobs=jobs)) if recorded else None
        )
        yield Loop(service, library, main, settings, engine)
