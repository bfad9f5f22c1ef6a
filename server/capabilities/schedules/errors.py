"""Exceptions of schedules, for callers."""

from __future__ import annotations

from skills_core.errors import SkillsError


class ScheduleError(SkillsError):
    """A schedule cannot be made, changed or run as it was asked; the message says what to do."""


class UnknownScheduleError(ScheduleError):
    """There is no schedule of this name."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        others = f" There are: {', '.join(known[:20])}." if known else " There is none."
        super().__init__(f"There is no schedule {name[:100]!r}.{others}")


class DamagedScheduleError(ScheduleError):
    """The file of a schedule cannot be read. It stays as it is, and never fires."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"The schedule {name} is damaged, so it never fires: {why[:500]}. Repair its schedule.json, or "
            f"remove it with `skillserve schedule remove {name}`."
        )
        self.why = why
