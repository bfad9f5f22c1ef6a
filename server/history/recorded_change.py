"""Record what skillserve changes in a source that has a history, and the scheduler skills in the state directory."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from server.config.bootstrap import user_settings
from server.config.machine import Machine, current_places, state_home
from server.config.sources import sources_of
from server.history.histories import Histories
from skills_core.errors import SkillsError
from skills_core.history.commits import Cause
from skills_core.history.store import is_available, open_history
from skills_core.sources import real_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from server.config.settings import Settings

__all__ = ["SCHEDULE_STATE", "record_scheduler_skills", "recorded_change", "scheduler_root"]

logger = logging.getLogger(__name__)

SCHEDULE_STATE: Final = frozenset({"schedule.json"})
"""The file beside a scheduler skill that changes at each firing; it is no part of the skill."""

_MANY = 20
# With more skills than this, the whole source is compared; for each skill by itself it would take longer.


def scheduler_root(state: Path | None = None) -> Path:
    """Return the folder of the scheduler skills in a state directory, by default that of this user."""
    return real_path(state or state_home()) / "skills" / "scheduler"


def record_scheduler_skills(
    names: Sequence[str] = ("",),
    message: str | None = None,
    *,
    state: Path | None = None,
    settings: Settings | None = None,
) -> None:
    """Commit how scheduler skills are now, as a change of skillserve with this message, or else as edits by hand.

    Nothing is done without the extra, or if the settings record nothing but named sources. A failure is logged, because
    no schedule depends on its history.
    """
    if not is_available():
        return
    state = state or state_home()
    try:
        settings = settings if settings is not None else user_settings(Machine(current_places()), {})
        if not settings.history.automatic:
            return
        with open_history(scheduler_root(state), state, work_trees=True, left_out=SCHEDULE_STATE) as history:
            if message is None:
                history.record_manual_edits(names)
            else:
                history.record(names, Cause.SCHEDULE, message)
    except SkillsError as error:
        logger.warning("history: %s", error)


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
