"""The run of a firing, which performs a scheduler skill with the rights of its creator, and the delivery of its result.

A result is delivered to a command's standard input, or to a webhook. Both addresses come from the user's settings
alone. Delivery is repeated if the process that delivers is killed, so receivers should use the ID of the run to drop
duplicates.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from msgspec import structs

from server.capabilities.guard.guards import guard_of
from server.capabilities.guard.settings import GuardSettings
from server.capabilities.history.histories import record_scheduler_skills
from server.capabilities.runs.after_run import no_follow_up
from server.capabilities.runs.offered import runs_unavailable_reason, trace_store
from server.capabilities.runs.recorded_runs import (
    PinnedSkillChangedError,
    companions_to_json,
    recorded_outcome,
    recorded_selection,
)
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.skill_runner import RunnerConfig, RunParticipants, SkillRunner
from server.capabilities.schedules.allowances import ScheduleError, limited_settings, no_programs_reason, visible_to
from server.capabilities.schedules.store import BINDING_FILE, CREATOR, body_of, check_written, manual_prompt
from server.capabilities.scripts.factory import script_setup, variables_of
from server.capability import FinishedRun
from server.config.files import ConfigurationError
from server.config.machine import current_environment
from skills_core.diagnostics import Reason
from skills_core.disk.sources import explicit_sources
from skills_core.errors import InvalidSourceError, SkillsError, UnknownSkillError
from skills_core.live.library import Library
from skills_core.runs.executor import RunRequest
from skills_core.runs.journal import to_json
from skills_core.runs.models import CLIENT, open_model, parse_model
from skills_core.runs.run_skills import select_skills
from skills_core.scripts.environment import SCHEDULED_RUN
from skills_core.scripts.process import OWN_SESSION, kill_all
from skills_core.scripts.runner import ScriptRunner
from skills_core.skills.skill import SkillFiles

if TYPE_CHECKING:
    from anyio.abc import Process

    from server.capabilities.schedules.binding import Binding, ScheduledRun
    from server.capabilities.schedules.settings import ScheduleSettings
    from server.capabilities.schedules.store import ScheduleStore
    from server.capability import FollowUp
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.runs.journal import Journal
    from skills_core.runs.outcome import RunOutcome
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

KIND: Final = "schedule"
"""The kind of recorded runs that fire by a schedule."""


_ALLOWED: Final = {"tokens": "tokens", "requests": "turns", "seconds": "seconds"}
"""What a day's budget leaves to a run, with the setting of runs that it limits."""


def job_inputs(name: str, trigger: str) -> JsonObject:
    """Return the recorded input of a run: the schedule, and who or what began the run."""
    return {"schedule": name, "trigger": trigger}


class ScheduleJob:
    """Performs the firings of the schedules in `store`, with the skills of `library` and what `settings` allow."""

    def __init__(
        self,
        library: Library,
        settings: Settings,
        store: ScheduleStore,
        follow_up: FollowUp = no_follow_up,
        *,
        reloads: bool = False,
    ) -> None:
        """Open nothing yet; `follow_up` is called with each run of a skill that has ended.

        `reloads` reads the skills again at each firing, for processes that do not watch them.
        """
        self._follow_up = follow_up
        self._library = library
        self._reloads = reloads
        self._settings = settings
        self._store = store
        self._scripts: ScriptRunner | None = None

    async def __call__(self, journal: Journal, inputs: JsonObject) -> JsonObject:
        """Perform one firing. Its skills and rights are settled when it begins, and recorded."""
        name, trigger = str(inputs["schedule"]), str(inputs["trigger"])

        async def settle() -> JsonValue:
            return await anyio.to_thread.run_sync(partial(self._settled, name, is_manual=trigger.startswith("manual:")))

        settled = await journal.step("settle", settle)
        assert isinstance(settled, dict)  # noqa: S101 - as `_settled` makes it
        work = partial(self._perform, name, trigger, settled, journal)
        outcome = await recorded_outcome(journal.run_id, name, work, (ScheduleError, InvalidSourceError))
        return to_json(replace(outcome, trigger_reason=trigger))

    def _settled(self, name: str, *, is_manual: bool) -> JsonObject:
        if self._reloads:
            self._library.reload()
        try:
            binding = self._store.read(name)
            # Each version that was performed can be seen afterwards.
            record_scheduler_skills([name], state=self._store.state, settings=self._settings)
            skill, catalog = self._performed(name, binding)
            check_written(self._store.folder(name))
            message = body_of(self._store.folder(name)) if binding.skill else None
            if is_manual:
                message = manual_prompt(name, message or "")
        except (ScheduleError, UnknownSkillError, InvalidSourceError) as error:
            return {"error": str(error)}
        return {
            "skill": skill.key,
            "digest": skill.digest,
            "companions": companions_to_json(select_skills(skill, catalog).companions),
            "message": message,
            **{what: getattr(binding.running, what, None) for what in _ALLOWED},
        }

    def _performed(self, name: str, binding: Binding) -> tuple[Skill, Catalog]:
        """Return the skill to perform, and the served skills that the creator of the schedule saw.

        The skill that makes schedules is not among them.
        """
        seen = visible_to(binding.rights, self._library.catalog).restricted(lambda each: each.name != CREATOR)
        if binding.skill is not None:
            return seen.skill(binding.skill), seen
        source = explicit_sources([self._store.folder(name)], conventions=False)
        own = Library(source, current_environment).catalog
        skill = own.get(name)
        if skill is None:
            found = "; ".join(str(each) for one in own.skills for each in one.diagnostics) or "it has no skill"
            raise ScheduleError(f"The scheduler skill {name} cannot be performed: {found[:500]}")
        # The binding is not part of the skill, and changes while it runs.
        files = SkillFiles.of(file for file in skill.content.files.values() if file.path != BINDING_FILE)
        return replace(skill, content=replace(skill.content, files=files)), seen

    async def _perform(self, name: str, trigger: str, settled: JsonObject, journal: Journal) -> RunOutcome:
        if "error" in settled:
            raise ScheduleError(str(settled["error"]))
        binding = await anyio.to_thread.run_sync(self._store.read, name)
        scripts = await self._runner()
        settings = self._limited(name, binding, scripts)
        # What is left of the day's budget.
        left = {_ALLOWED[what]: most for what, most in settled.items() if what in _ALLOWED and isinstance(most, int)}
        runs = settings.section(RunSettings)
        limits = {name: min(getattr(runs, name), most) for name, most in left.items()}
        settings = settings.with_sections(structs.replace(runs, **limits))
        runs = settings.section(RunSettings)
        if (reason := runs_unavailable_reason(runs)) is not None or runs.model == CLIENT:
            raise ConfigurationError(reason or "no client performs a schedule's run; name another model with --model")
        skill, catalog = await anyio.to_thread.run_sync(self._performed, name, binding)
        if skill.digest != settled["digest"]:
            raise PinnedSkillChangedError(skill.key, settled["digest"], skill.digest)
        selection = recorded_selection(skill, catalog, settled["companions"])
        config = RunnerConfig(
            settings,
            lambda: guard_of(self._guarded(skill), settings.section(GuardSettings)),
            trace_store(),
            scripts,
            variables_of,
            {**os.environ, SCHEDULED_RUN: journal.run_id},
        )
        runner = SkillRunner(config)
        await runner.prepare([skill, *selection.skills])
        message = settled["message"]
        request = RunRequest(skill, {}, None if message is None else str(message))
        outcome = await runner.run(request, selection, journal, RunParticipants(reason=trigger))
        self._follow_up(FinishedRun(outcome, request, catalog, settings))
        return outcome

    async def _runner(self) -> ScriptRunner:
        if self._scripts is None:
            self._scripts = await anyio.to_thread.run_sync(_marked_runner, self._settings)
        return self._scripts

    def _limited(self, name: str, binding: Binding, scripts: ScriptRunner) -> Settings:
        """Return the settings of a run, and log if it has no programs because nothing confines them."""
        isolation, rights = scripts.setup.isolation, binding.rights
        settings = limited_settings(self._settings, rights, binding.model, is_confined=isolation.sandbox is not None)
        full = limited_settings(self._settings, rights, binding.model)
        if (settings.section(RunSettings).tools, settings.tools) != (full.section(RunSettings).tools, full.tools):
            logger.warning("schedule %s: its run starts no programs: %s", name, no_programs_reason(isolation.fault))
        return settings

    def _guarded(self, skill: Skill) -> tuple[Skill, ...]:
        active = self._library.catalog.active
        return active if skill in active else (*active, skill)


def _marked_runner(settings: Settings) -> ScriptRunner:
    """Return the script runner for this machine, whose scripts make no schedules."""
    setup = script_setup(settings)
    return ScriptRunner(replace(setup, host={**setup.host, SCHEDULED_RUN: KIND}))


def load_libraries(model: str | None) -> None:
    """Import the libraries of a model and of the tools; the run itself reports a model that cannot be used."""
    import jsonschema  # noqa: F401 - imported for the runs to come

    with suppress(SkillsError):
        open_model(parse_model(model or ""))


RETRY_AFTER: Final = timedelta(minutes=5)
"""Another process delivers a result that has waited for this long."""

_ATTEMPTS: Final = 3
PAUSES: Final = (1.0, 4.0)
"""Seconds before the second and the third post to a webhook."""

_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "USERPROFILE")
# A command that delivers gets no other variables: the rest of the environment may hold the keys of models.


async def deliver(
    settings: ScheduleSettings,
    name: str,
    run: ScheduledRun,
    outcome: Mapping[str, JsonValue],
    improvements: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Deliver a result, with the changes of skills that the run led to, by all ways that are set.

    Return what failed, empty if nothing did.
    """
    payload = json.dumps(
        {
            "schedule": name,
            "run_id": run.id,
            "fired_at": run.fired_at.isoformat(),
            "ended_at": run.ended_at.isoformat(),
            "status": run.status,
            "problem": run.problem,
            "message": run.message,
            "notice": run.notice,
            "output": outcome.get("output", ""),
            "improvements": [*improvements],
        },
        ensure_ascii=False,
    ).encode("utf-8", errors="replace")
    faults = []
    if settings.command and (fault := await _by_command(settings, payload)):
        faults.append(f"command {settings.command[0]}: {fault}")
    if settings.webhook is not None and (fault := await _by_webhook(settings, payload)):
        faults.append(f"webhook: {fault}")
    return "; ".join(faults)


async def _by_command(settings: ScheduleSettings, payload: bytes) -> str:
    """Start the command once: it may have done a part of its work when it fails."""
    environment = {key: value for key in _PASSED if (value := os.environ.get(key)) is not None}
    try:
        code = await _exit_code(settings.command, environment, payload, settings.delivery_seconds)
    except TimeoutError:
        return f"it took longer than {settings.delivery_seconds} seconds"
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    return "" if code == 0 else f"it ended with exit code {code}"


async def _exit_code(command: Sequence[str], environment: Mapping[str, str], payload: bytes, seconds: int) -> int:
    """Pass the payload to a command, and return its exit code; a command that is late is killed with its children."""
    quiet: Any = {"stdout": DEVNULL, "stderr": DEVNULL, **OWN_SESSION}
    async with await anyio.open_process([*command], env=environment, **quiet) as process:
        try:
            with anyio.fail_after(seconds):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_feed, process, payload)
                    code = await process.wait()
                    tasks.cancel_scope.cancel()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await kill_all(process.pid)
            raise
        return code


async def _feed(process: Process, payload: bytes) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    # A command may end without reading.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(payload)
        await process.stdin.aclose()


async def _by_webhook(settings: ScheduleSettings, payload: bytes) -> str:
    assert settings.webhook is not None  # noqa: S101 - the caller has checked it
    fault = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            await anyio.sleep(PAUSES[attempt - 1])
        fault, is_final = await _post(settings.webhook.get_secret_value(), settings.delivery_seconds, payload)
        if is_final:
            break
    return fault


async def _post(url: str, seconds: int, payload: bytes) -> tuple[str, bool]:
    """Post once; return what failed, and whether a further attempt is useless. Redirects are not followed."""
    from server.wire.address import Address, AddressError
    from server.wire.http_client import HttpCallError, HttpCalls

    try:
        async with HttpCalls(seconds, max_bytes=0) as calls:
            headers = {"Content-Type": "application/json"}
            status = (await calls.send("POST", Address.parse(url), headers=headers, content=payload)).status
    except HttpCallError as error:
        if error.reason is Reason.TIMED_OUT:
            return f"no answer within {seconds} seconds", False
        # The text of the error may hold the address, which may hold a secret.
        return f"the address cannot be reached ({error.error_type})", False
    except AddressError as error:
        return f"the address cannot be reached ({type(error).__name__})", False
    if 200 <= status < 300:  # noqa: PLR2004 - the range of success
        return "", True
    return f"the answer has status {status}", status < 500 and status not in {408, 429}  # noqa: PLR2004 - worth a retry
