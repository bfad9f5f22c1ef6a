"""Tell clients that the prompts `sched-NAME` changed, whichever process changed them."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread
from mcp.server.subscriptions import PromptsListChanged

from server.hosting.views import COMMON_VIEW
from server.listing.schedules import can_schedule
from skills_core.watcher import watch

if TYPE_CHECKING:
    from server.hosting.host import Host

__all__ = ["announce_schedules", "offers_schedules"]


def offers_schedules(host: Host) -> bool:
    """Tell whether schedules are prompts; they are the user's, so clients with views of their own do not see them."""
    return host.settings.schedules.enabled and not host.views_differ and can_schedule()


async def announce_schedules(host: Host) -> None:
    """Watch the scheduler skills, and announce each change of their prompts, until cancelled."""
    if not offers_schedules(host):
        return
    from server.history.recorded_change import record_scheduler_skills  # noqa: PLC0415
    from server.schedules.manual_prompts import prompt_entries  # noqa: PLC0415 - it needs the extra
    from server.schedules.store import BINDING_FILE, ScheduleStore  # noqa: PLC0415

    announced = await anyio.to_thread.run_sync(prompt_entries)
    async with aclosing(watch((ScheduleStore().root,), host.settings.watch.options)) as changes:
        async for changed in changes:
            # The binding, which changes at each firing, is not part of a prompt.
            if changed is not None and all(path.name == BINDING_FILE for path in changed):
                continue
            await anyio.to_thread.run_sync(partial(record_scheduler_skills, settings=host.settings))
            found = await anyio.to_thread.run_sync(prompt_entries)
            if found != announced:
                announced = found
                await host.feed(COMMON_VIEW).publish(PromptsListChanged())
