"""Record what a command of skillserve changes in a source that has a history."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from server.config.bootstrap import user_settings
from server.config.machine import Machine, current_places
from server.config.sources import sources_of
from server.history.histories import Histories
from skills_core.sources import real_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from server.config.settings import Settings

__all__ = ["recorded_change"]

logger = logging.getLogger(__name__)

_MANY = 20
# With more skills than this, the whole source is compared; for each skill by itself it would take longer.


@contextmanager
def recorded_change(
    folders: Sequence[Path], cause: str, message: str, trace_id: str | None = None, settings: Settings | None = None
) -> Iterator[None]:
    """Record what the block changes in these folders of skills, as one commit for each source that has a history.

    What was edited by hand before is recorded first. `settings` are by default those of this user. A folder in no such
    source is changed without a record.

    Raises:
        HistoryError: the change cannot be recorded; if it is raised before the block, nothing is changed.
    """
    machine = Machine(current_places())
    settings = settings if settings is not None else user_settings(machine, {})
    changed: dict[Path, list[str]] = {}
    histories = Histories.of(settings)
    if settings.history.sources or settings.history.automatic:
        sources = sources_of(None, settings, machine.places)
        for folder in folders:
            root = histories.root_of(folder, sources)
            if root is not None:
                place = real_path(folder).relative_to(root).as_posix()
                changed.setdefault(root, []).append("" if place == "." else place)
    with ExitStack() as stack:
        for root, names in sorted(changed.items()):
            history = stack.enter_context(histories.open(root))
            stack.enter_context(history.changing(names if len(names) <= _MANY else [""], cause, message, trace_id))
        yield
