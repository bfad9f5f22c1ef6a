"""The folders of scheduler skills in the state directory, and the texts in them.

Each change is made under one lock for all processes of this user, and replaces `schedule.json` at once: a process that
is killed leaves the old file or the new one.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from server.capabilities.schedules.allowances import (
    SPENDING_FILE,
    DamagedScheduleError,
    ScheduleError,
    Spending,
    UnknownScheduleError,
)
from server.capabilities.schedules.binding import Binding
from server.capabilities.schedules.settings import PREFIX
from server.config.machine import is_scheduled_run, state_home
from skills_core.disk.folders import MAIN_FILE, NOT_A_SOURCE
from skills_core.disk.sources import real_path
from skills_core.disk.writing import JsonFile, exclusive
from skills_core.errors import FileRefusedError, InvalidSkillError, InvalidSourceError, InvalidTimeError
from skills_core.format.frontmatter import DESCRIPTION_LIMIT
from skills_core.loading.single_skill import read_skill
from skills_core.schedules.cron import zone_named
from skills_core.schedules.when import when_from_json


def utc_now() -> datetime:
    """Return this moment."""
    return datetime.now(UTC)


CREATOR: Final = "scheduler-skill-creator"
"""The bundled skill that makes scheduler skills."""

MAX_TASK: Final = 20_000
"""Most characters of a task."""

_OUTPUT: Final = "Return the result as plain text, complete and without questions: no user is present to answer."

PLACEHOLDERS: Final = {
    "the description": "Say in one sentence what this schedule does.",
    "the section `## Task`": "Say what to do, with everything that it needs: no user can be asked when it runs.",
    "the section `## Output format`": "Say what the result looks like.",
}
"""What the script of `scheduler-skill-creator` writes, for its user to replace."""

_PREAMBLE: Final = (
    "[Perform the existing scheduler skill: {name}. This is a manual trigger, not a request for a new schedule.]\n"
    "Follow the instructions of the skill below now, and give the result.\n"
    "Do NOT activate `scheduler-skill-creator`, do NOT run `init_scheduler_skill.py`, and do NOT make, change "
    "or remove any schedule (`schedule_skill`, `skillserve schedule add`)."
)


def _checked_task(task: str) -> str:
    text = task.strip()
    if not text:
        raise ScheduleError("What should be done? The task is empty; describe it with --task TEXT.")
    if len(text) > MAX_TASK:
        raise ScheduleError(f"The task has {len(text)} characters; at most {MAX_TASK} are allowed.")
    return text


def _skill_text(name: str, task: str, output: str | None) -> str:
    """Return the SKILL.md of a scheduler skill; `output` says what the result should look like."""
    description = json.dumps(" ".join(task.split())[: DESCRIPTION_LIMIT - 100], ensure_ascii=False)
    head = f"---\nname: {name}\ndescription: {description}\n---\n"
    return f"{head}\n## Task\n\n{task}\n\n## Output format\n\n{(output or '').strip() or _OUTPUT}\n"


def body_of(folder: Path) -> str:
    """Return the instructions of a scheduler skill.

    Raises:
        ScheduleError: its SKILL.md cannot be read.
    """
    try:
        return read_skill(folder).body.strip()
    except InvalidSkillError as error:
        raise ScheduleError(f"The scheduler skill {folder.name} cannot be read: {error}") from None


def check_written(folder: Path) -> None:
    """Check that a scheduler skill says what to do, and is not as the script of `scheduler-skill-creator` made it.

    Raises:
        ScheduleError: it has no instructions or a text that was to be replaced, or it cannot be read.
    """
    body = body_of(folder)
    if not any(line.strip() and not line.startswith("#") for line in body.splitlines()):
        raise ScheduleError(f"The scheduler skill {folder.name} says nothing to do; write the task into its SKILL.md.")
    text = _plain(f"{description_of(folder)} {body}")
    if left := [where for where, placeholder in PLACEHOLDERS.items() if _plain(placeholder) in text]:
        raise ScheduleError(
            f"The scheduler skill {folder.name} is still as it was made: replace the text of {', '.join(left)} in "
            f"{folder / MAIN_FILE}, then give it its time."
        )


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def description_of(folder: Path) -> str:
    """Return the description of a scheduler skill, or why there is none."""
    try:
        return read_skill(folder).frontmatter.description or folder.name
    except InvalidSkillError as error:
        return str(error)


def manual_prompt(name: str, body: str) -> str:
    """Return the message that performs a scheduler skill by hand, and keeps models from making another schedule."""
    return f"{_PREAMBLE.format(name=name)}\n\n{body}".rstrip()


BINDING_FILE: Final = "schedule.json"
MAX_SCHEDULES: Final = 1000

_SHORT: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*-[0-9a-f]{8}")
_MAX_SHORT: Final = 40
_MAX_BYTES: Final = 2_000_000


def short_fault(short: str) -> str | None:
    """Return why a text cannot be the first part of a name, None if it can."""
    if len(short) > _MAX_SHORT or not _SHORT.fullmatch(short):
        return f"{short[:80]!r}: expected a short name of 1 to {_MAX_SHORT} letters a to z, digits and single hyphens"
    return None


class ScheduleStore:
    """The scheduler skills of this user.

    Methods raise `UnknownScheduleError` if there is no schedule of a name, `DamagedScheduleError` if its file cannot be
    read, and `ScheduleError` if anything else is in the way; its message says what to do.
    """

    def __init__(self, state: Path | None = None) -> None:
        """Use the state directory `state`, by default that of this user; nothing is created before `add`."""
        self.state = real_path(state or state_home())
        self._skills = self.state / "skills"
        self.root = self._skills / "scheduler"
        self.trash = self._skills / "trash"

    def names(self) -> tuple[str, ...]:
        """Return the names of all schedules, sorted; damaged ones too."""
        try:
            with os.scandir(self.root) as entries:
                folders = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ScheduleError(f"{self.root}: schedules cannot be read: {error.strerror or error}.") from None
        return tuple(sorted(filter(_NAME.fullmatch, folders)))

    def folder(self, name: str) -> Path:
        """Return the folder of a schedule."""
        folder = self.root / name
        if not _NAME.fullmatch(name) or not folder.is_dir() or folder.is_symlink():
            raise UnknownScheduleError(name, self.names())
        return folder

    def find(self, name: str) -> str:
        """Return the whole name of the schedule that is called `name`, or whose name begins with it before the hash."""
        names = self.names()
        if name in names:
            return name
        named = [each for each in names if each.rpartition("-")[0] == name]
        if not named:
            raise UnknownScheduleError(name, names)
        if len(named) > 1:
            raise ScheduleError(f"{name!r} names several schedules; give one of {', '.join(named)}.")
        return named[0]

    def read(self, name: str) -> Binding:
        """Return the binding of a schedule."""
        return self._read(self.folder(name), name)

    def _read(self, folder: Path, name: str) -> Binding:
        try:
            if (value := _binding_file(folder).read()) is None:
                raise DamagedScheduleError(name, f"{BINDING_FILE}: there is no such file")
            binding = msgspec.convert(value, Binding)
            when_from_json(binding.when)  # raises for a time that cannot be used
            zone_named(binding.zone)
        except FileRefusedError as error:
            raise DamagedScheduleError(name, f"{BINDING_FILE}: {error.message}") from None
        except (msgspec.ValidationError, InvalidTimeError) as error:
            raise DamagedScheduleError(name, f"{BINDING_FILE}: {error}") from None
        return binding

    def is_bound(self, name: str) -> bool:
        """Tell whether a scheduler skill has a time; one that was made by hand may have none yet."""
        return os.path.lexists(self.root / name / BINDING_FILE)

    def bind(self, name: str, binding: Binding) -> None:
        """Give a time to a scheduler skill that has none."""
        check_written(self.folder(name))
        _refuse_in_run()
        with self._locked():
            folder = self.folder(name)
            if self.is_bound(name):
                raise ScheduleError(f"{name} has a time already; give it another one with `skillserve schedule add`.")
            _write(folder, binding)

    def stamp(self, name: str) -> tuple[int, int, int] | None:
        """Return what changes whenever the binding is written, None if there is no file."""
        try:
            found = (self.root / name / BINDING_FILE).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def add(self, short: str, task: str, binding: Binding, *, output: str | None = None, alone: bool = False) -> str:
        """Create a scheduler skill that performs `task`, and return its name.

        `output` says what the result should look like. With `alone`, no other may have the same short name.
        """
        if fault := short_fault(short):
            raise ScheduleError(f"{fault}.")
        task = _checked_task(task)
        _refuse_in_run()
        with self._locked():
            names = self.names()
            if len(names) >= MAX_SCHEDULES:
                raise ScheduleError(f"There are {len(names)} schedules already, the most allowed; remove some.")
            if alone and (taken := [each for each in names if each.rpartition("-")[0] == short]):
                raise ScheduleError(f"{taken[0]} was made meanwhile; to change its time, repeat the command.")
            name = next(name for name in iter(lambda: f"{short}-{secrets.token_hex(4)}", "") if name not in names)
            # The folder appears when it is complete.
            beside = self._skills / f".new-{name}"
            beside.mkdir(mode=0o700)
            try:
                (beside / MAIN_FILE).write_text(_skill_text(name, task, output), encoding="utf-8", newline="\n")
                _write(beside, binding)
                beside.rename(self.root / name)
            except BaseException:
                shutil.rmtree(beside, ignore_errors=True)
                raise
        self._record(name, f"Schedule {name}")
        return name

    def update(self, name: str, change: Callable[[Binding], Binding]) -> Binding:
        """Replace the binding of a schedule by `change` of it, and return it; one that is the same is not written."""
        with self._locked():
            before = self.read(name)
            after = change(before)
            if after != before:
                _write(self.folder(name), after)
            return after

    def spend(self, name: str, change: Callable[[Binding, Spending], Binding]) -> Binding:
        """Replace the binding of a schedule by `change` of it and of the spending, which is written first."""
        with self._locked():
            before, spending = self.read(name), self.spending()
            after = change(before, spending)
            spending.save()
            if after != before:
                _write(self.folder(name), after)
            return after

    def spending(self) -> Spending:
        """Return what the runs of schedules have used."""
        return Spending(self._skills / SPENDING_FILE)

    def remove(self, name: str, if_still: Callable[[Binding], bool] | None = None) -> Path | None:
        """Move the folder of a schedule to the trash, and return its new path.

        With `if_still`, None is returned and nothing is done if it does not hold.
        """
        with self._locked():
            folder = self.folder(name)
            if if_still is not None and not if_still(self._read(folder, name)):
                return None
            self._record(name)
            at = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
            trashed = folder.rename(self.trash / f"{name}.{at}")
        self._record(name, f"Remove the schedule {name}")
        return trashed

    def _record(self, name: str, message: str | None = None) -> None:
        from server.capabilities.history.histories import record_scheduler_skills

        record_scheduler_skills([name], message, state=self.state)

    def trashed(self) -> tuple[tuple[str, Binding], ...]:
        """Return the names and bindings of schedules in the trash, oldest first; damaged ones are left out."""
        found: list[tuple[str, str, Binding]] = []
        for folder in self.trash.iterdir() if self.trash.is_dir() else ():
            name, _, at = folder.name.partition(".")
            try:
                found.append((at, name, self._read(folder, name)))
            except DamagedScheduleError:
                continue
        return tuple((name, binding) for _, name, binding in sorted(found, key=lambda each: each[:2]))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.trash.mkdir(mode=0o700, exist_ok=True)
            for folder in (self.root, self.trash):
                (folder / NOT_A_SOURCE).touch(mode=0o600)
            with exclusive(self._skills / "schedules"):
                yield
        except TimeoutError:
            raise ScheduleError(f"{self.root}: another process holds the lock of the schedules; try again.") from None
        except (FileRefusedError, InvalidSourceError) as error:
            raise ScheduleError(f"{self.root}: {error}") from None
        except OSError as error:
            raise ScheduleError(f"{self.root}: the schedule cannot be written: {error.strerror or error}.") from None


def _binding_file(folder: Path) -> JsonFile:
    return JsonFile(folder / BINDING_FILE, _MAX_BYTES)


def _write(folder: Path, binding: Binding) -> None:
    _binding_file(folder).write(msgspec.to_builtins(binding))


def _refuse_in_run() -> None:
    if is_scheduled_run():
        raise ScheduleError("The run of a schedule makes no schedules. Perform the task now, and give the result.")


def prompt_entries() -> list[dict[str, Any]]:
    """Return the entries of all schedules for `prompts/list`.

    Raises:
        ScheduleError: the folder of schedules cannot be read.
    """
    store = ScheduleStore()
    return [
        {"name": f"{PREFIX}{name}", "title": f"Run {name} now", "description": description_of(store.root / name)}
        for name in store.names()
    ]


def prompt_text(name: str) -> tuple[str, str] | None:
    """Return the description and the message of a prompt, None if the schedule does not exist.

    Raises:
        ScheduleError: its SKILL.md cannot be read.
    """
    store = ScheduleStore()
    try:
        folder = store.folder(name.removeprefix(PREFIX))
    except UnknownScheduleError:
        return None
    return description_of(folder), manual_prompt(folder.name, body_of(folder))


def coming_firings(store: ScheduleStore, now: datetime) -> list[tuple[str, datetime]]:
    """Return the next firing of each schedule, the earliest first; schedules that cannot be read are left out."""
    found: list[tuple[str, datetime]] = []
    with suppress(ScheduleError):
        for name in store.names():
            with suppress(ScheduleError):
                found += [(name, time) for time in store.read(name).next(now, 1)]
    return sorted(found, key=lambda each: each[1])
