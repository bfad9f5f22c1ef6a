"""The actions of the administration, shared by tools, the status resource, signals, the socket and HTTP."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.hosting.status import StatusFilter, change_object, change_summary, status_object

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Change

__all__ = ["log_reload", "read_status", "reload_everything", "to_json"]

logger = logging.getLogger(__name__)


async def read_status(catalog: Catalog, settings: Settings, choice: StatusFilter | None = None) -> dict[str, Any]:
    """Return what `status --json` prints for a catalog."""
    # The status covers every skill, so it is built in a thread and does not block other requests.
    return await anyio.to_thread.run_sync(status_object, catalog, settings, choice or StatusFilter())


async def reload_everything(host: Host) -> dict[str, Any]:
    """Reload all skills from disk, notify clients of changes, and return what `reload --json` prints."""
    return change_object(log_reload(await host.reload()))


def log_reload(change: Change) -> Change:
    """Log what a requested reload changed, and return it."""
    logger.info("reloaded on request: %s", change_summary(change))
    return change


def to_json(value: object) -> str:
    """Return a value as JSON text."""
    return json.dumps(value, ensure_ascii=False)
