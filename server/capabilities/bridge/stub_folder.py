"""Keep the stubs in one folder of a client in step with the skills of a server.

A stub that nobody has edited is replaced and removed; everything else is left alone and reported. Several processes may
do this at once, and each may be killed at any time: a new stub appears as a whole folder, a replaced one as a whole
file, and what a killed process has left behind has names that the next one knows.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import MAIN_FILE
from skills_core.disk.sources import real_path
from skills_core.disk.writing import exclusive_folder, random_name, write_file
from skills_core.errors import SkillsError
from skills_core.format.stubs import MAX_STUB, Stub, read_stub

_UNFINISHED: Final = re.compile(r"\.skillserve-stub-[0-9a-f]{16}")
_PART: Final = re.compile(r"\.[0-9a-f]{16}\.part")
# What `write_file` leaves behind if it is killed.


@dataclass(slots=True)
class StubReport:
    """What was done in a folder: names of stubs, and by name why one was left as it is.

    `fault` says why nothing more could be done.
    """

    folder: Path
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    current: int = 0
    kept: dict[str, str] = field(default_factory=dict)
    fault: str = ""

    @property
    def differs(self) -> bool:
        """Whether anything was changed."""
        return bool(self.written or self.removed)


def sync_stubs(folder: Path, wanted: Mapping[str, str], server: str) -> StubReport:
    """Make the stubs of a server in a folder the ones in `wanted`, which maps their names to their texts.

    Without any, the folder and the one above are removed too if nothing else is in them. This never raises: `fault`
    says what is wrong.
    """
    report = StubReport(folder)
    try:
        if wanted:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            return report
        # People link such folders to where they keep their skills.
        root = real_path(folder)
        with exclusive_folder(root), Reader() as reader:
            _Sync(root, reader, server, report).run(wanted)
        if not wanted and not folder.is_symlink():
            # Neither has anything else in it where a client was never started.
            with suppress(OSError):
                folder.rmdir()
                folder.parent.rmdir()
    except TimeoutError:
        report.fault = "another process changes this folder"
    except OSError as error:
        report.fault = error.strerror or str(error)
    except SkillsError as error:
        report.fault = str(error)
    return report


@dataclass(slots=True)
class _Sync:
    root: Path
    reader: Reader
    server: str
    report: StubReport

    def run(self, wanted: Mapping[str, str]) -> None:
        found = {name: self._stub(name) for name in self._folders()}
        for name, text in wanted.items():
            self._write(name, text, found)
        for name, stub in found.items():
            if name not in wanted and stub is not None and stub.server == self.server:
                self._remove(name, stub)

    def _folders(self) -> Iterator[str]:
        """Yield the names of all entries, and remove what a killed process has left behind."""
        with os.scandir(self.root) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            if not _UNFINISHED.fullmatch(name):
                yield name
            elif (self.root / name).is_dir() and not (self.root / name).is_symlink():
                self._empty(name)

    def _stub(self, name: str) -> Stub | None:
        """Return what the stub in a folder says of itself, None if there is none."""
        raw = self._raw(name)
        try:
            return None if raw is None else read_stub(raw.decode("utf-8"))
        except UnicodeDecodeError:
            return None

    def _raw(self, name: str) -> bytes | None:
        try:
            return self.reader.read(Location(self.root, f"{name}/{MAIN_FILE}"), MAX_STUB)[0]
        except (SkillsError, OSError):
            # A folder without the file, a link, or something else.
            return None

    def _write(self, name: str, text: str, found: Mapping[str, Stub | None]) -> None:
        folded = name.casefold()
        # Some file systems ignore case.
        there = next((each for each in found if each.casefold() == folded), None)
        if there is None:
            self._create(name, text)
            return
        stub = found[there]
        if stub is None:
            self.report.kept[name] = "there is a skill of this name already, which is not a stub"
        elif stub.server != self.server:
            self.report.kept[name] = f"the server {stub.server} has a stub of this name"
        elif not stub.is_intact:
            self.report.kept[name] = "this stub was edited"
        elif self._raw(there) == text.encode():
            self.report.current += 1
        else:
            write_file(Location(self.root, f"{there}/{MAIN_FILE}"), text.encode())
            self._clear(there)
            self.report.written.append(name)

    def _create(self, name: str, text: str) -> None:
        """Create the folder of a stub in one step, so that nobody ever sees it without its file."""
        unfinished = f".skillserve-stub-{random_name()}"
        try:
            write_file(Location(self.root, f"{unfinished}/{MAIN_FILE}"), text.encode())
            (self.root / unfinished).rename(self.root / name)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
                raise
            self.report.kept[name] = "there is a skill of this name already, which is not a stub"
        else:
            self.report.written.append(name)
        finally:
            if (self.root / unfinished).is_dir():
                self._empty(unfinished)

    def _remove(self, name: str, stub: Stub) -> None:
        if not stub.is_intact:
            self.report.kept[name] = "this stub was edited"
            return
        self._clear(name)
        if [each.name for each in (self.root / name).iterdir()] == [MAIN_FILE]:
            unfinished = f".skillserve-stub-{random_name()}"
            (self.root / name).rename(self.root / unfinished)
            self._empty(unfinished)
        else:
            (self.root / name / MAIN_FILE).unlink()
            self.report.kept[name] = "other files are in the folder of this stub; they stay"
        self.report.removed.append(name)

    def _clear(self, name: str) -> None:
        """Remove the parts of files that a killed process has left in the folder of a stub."""
        for each in (self.root / name).iterdir():
            if _PART.fullmatch(each.name):
                each.unlink()

    def _empty(self, name: str) -> None:
        """Remove a folder of our own with a stub in it; one with anything else stays."""
        self._clear(name)
        with suppress(FileNotFoundError):
            (self.root / name / MAIN_FILE).unlink()
        with suppress(OSError):
            (self.root / name).rmdir()
