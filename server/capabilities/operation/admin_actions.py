"""The actions of the administration, shared by tools, the status resource, signals, the socket and HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.hosting.catalog_log import log_reload
from server.hosting.status import StatusFilter, change_object, skill_object, status_object

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Change


async def read_status(catalog: Catalog, settings: Settings, choice: StatusFilter | None = None) -> dict[str, Any]:
    """Return what `status --json` prints for a catalog."""
    # The status covers every skill, so it is built in a thread and does not block other requests.
    return await anyio.to_thread.run_sync(status_object, catalog, settings, choice or StatusFilter())


def status_differs(change: Change) -> bool:
    """Tell whether a change of the library changes the status, which also has the problems and sources."""
    before, after = change.before, change.after
    others_differ = (before.problems, before.sources) != (after.problems, after.sources)
    if others_differ or change.added or change.removed:
        return True
    return any(skill_object(old) != skill_object(new) for old, new in change.updated)


async def reload_everything(host: Host) -> dict[str, Any]:
    """Reload all skills from disk, notify clients of changes, and return what `reload --json` prints."""
    return change_object(log_reload(await host.reload()))


def to_json(value: object) -> str:
    """Return a value as JSON text."""
    return json.dumps(value, ensure_ascii=False)
