"""The prompts `sched-NAME` in `prompts/list`, the news that any process changed them, and what fires next.

The first answers over stdio come before the SDK is loaded, so it is imported where the news is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.capabilities.schedules.settings import PREFIX, ScheduleSettings, can_schedule
from server.capability import Coming, PromptSource
from server.hosting.views import COMMON_VIEW
from skills_core.diagnostics import one_line
from skills_core.live.watch_options import WatchMode

if TYPE_CHECKING:
    from server.hosting.host import Host

logger = logging.getLogger(__name__)


class SchedulePrompts(PromptSource):
    """The prompts of the user's schedules, as one server lists and announces them."""

    def __init__(self, host: Host) -> None:
        """List the schedules of this user for the clients of `host`."""
        self._host = host
        # Schedules are the user's, so callers who see skills by their roles do not see them.
        self._offered = host.settings.section(ScheduleSettings).enabled and not host.views_differ and can_schedule()
        self._last: list[dict[str, Any]] = []
        # What a client may have been given before the folder of schedules was watched.
        self._first: list[dict[str, Any]] | None = None

    @property
    def offers_prompts(self) -> bool:
        """Whether there may be any prompts."""
        return self._offered

    def may_have(self, name: str) -> bool:
        """Tell whether the prompt of a schedule may have this name."""
        return name.startswith(PREFIX)

    def get(self, name: str) -> tuple[str, str] | None:
        """Return the description and the text of the prompt of a schedule, None if there is none of this name."""
        from server.capabilities.schedules.store import prompt_text

        return prompt_text(name)

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries of all schedules; those that were read last if they cannot be read now."""
        from server.capabilities.schedules.allowances import ScheduleError
        from server.capabilities.schedules.store import prompt_entries

        try:
            self._last = prompt_entries()
        except ScheduleError as error:
            logger.warning("%s", one_line(str(error)))
        if self._first is None:
            self._first = self._last
        return self._last

    def coming(self) -> Sequence[Coming]:
        """Return the next firing of each schedule, if this server keeps time."""
        if not (self._host.settings.section(ScheduleSettings).enabled and can_schedule()):
            return ()
        from server.capabilities.schedules.store import ScheduleStore, coming_firings, utc_now

        return [Coming(time, name) for name, time in coming_firings(ScheduleStore(), utc_now())]

    async def announce(self) -> None:
        """Watch the scheduler skills, and announce each change of their prompts, until cancelled.

        They are watched even if skills are not: skills may be fixed, but schedules come and go by tools and commands.
        """
        if not self._offered:
            return
        from mcp.server.subscriptions import PromptsListChanged

        from server.capabilities.history.histories import record_scheduler_skills
        from server.capabilities.schedules.store import BINDING_FILE, ScheduleStore
        from skills_core.live.watcher import watch

        await anyio.to_thread.run_sync(self.entries)
        announced, options = self._first, self._host.settings.watch.options
        if options.mode is WatchMode.OFF:
            options = replace(options, mode=WatchMode.AUTO)
        async with aclosing(watch((ScheduleStore().root,), options)) as changes:
            async for changed in changes:
                # The binding, which changes at each firing, is not part of a prompt.
                if changed is not None and all(path.name == BINDING_FILE for path in changed):
                    continue
                await anyio.to_thread.run_sync(partial(record_scheduler_skills, settings=self._host.settings))
                found = await anyio.to_thread.run_sync(self.entries)
                if found != announced:
                    announced = found
                    await self._host.feed(COMMON_VIEW).publish(PromptsListChanged())
