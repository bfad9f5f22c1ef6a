"""Hold another server's skills against the rules: the files of each, and how the server speaks of them.

The files of a skill are read a few at a time, and compared with the entry that announced them. An entry that is out
of date is no lie: where a file does not fit, the server is asked for the entry once more, and if that has changed the
skill is checked again. If the server stands by its entry, or the new one does not fit either, that is the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio

from server.remote.client import RemoteError
from skills_core.diagnostics import Diagnostic, Reason, Severity
from skills_core.errors import EntryRefusedError
from skills_core.loading.publication import MAX_PUBLISHED_FILES
from skills_core.remote.disk_names import disk_faults
from skills_core.remote.entries import parse_entry, path_below, shown
from skills_core.remote.verification import (
    entry_notes,
    equal_as_json,
    incomplete_entries,
    verify_file,
    verify_frontmatter,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from server.remote.client import RemoteServer
    from skills_core.remote.entries import Entry, EntryFile

__all__ = ["Conduct", "RemoteSkill", "check_files", "disk_notes", "list_skills", "select"]

_AT_A_TIME = 8
_MAX_FOLDERS = 2048
# Folders of one skill that are looked into; 512 files need far fewer, but a folder may be empty.


@dataclass(frozen=True, slots=True)
class RemoteSkill:
    """A skill of another server and what is known of it: `entry` is None where that breaks a rule.

    `uri` and `name` are what the server claims. `contents` are the bytes of each file, by path, that fit the entry.
    """

    uri: str
    name: str
    entry: Entry | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def sound(self) -> bool:
        """Whether nothing that was checked so far speaks against it."""
        return self.entry is not None and all(d.severity is not Severity.ERROR for d in self.diagnostics)

    def told(self, *diagnostics: Diagnostic) -> RemoteSkill:
        """Return the skill with more to tell about it."""
        return replace(self, diagnostics=(*self.diagnostics, *diagnostics))


async def list_skills(server: RemoteServer) -> tuple[RemoteSkill, ...]:
    """Return the skills that a server lists, their entries checked as far as that goes without the files.

    Raises:
        RemoteError: they cannot be listed.
    """
    skills: dict[str, RemoteSkill] = {}
    nameless: list[RemoteSkill] = []
    for value in await server.entries():
        skill = _parsed(value)
        before = skills.get(skill.uri)
        if not skill.uri:
            nameless.append(skill)
        elif before is None:
            skills[skill.uri] = skill
        elif not _same(before.entry, skill.entry):
            message = "skills/list lists this skill twice, each time differently"
            skills[skill.uri] = before.told(_error(Reason.ENTRY_MISMATCH, message, skill.uri))
    incomplete = incomplete_entries(skill.entry for skill in skills.values() if skill.entry)
    listed = (skill.told(incomplete[uri]) if uri in incomplete else skill for uri, skill in skills.items())
    return (*listed, *nameless)


def _parsed(value: object) -> RemoteSkill:
    try:
        entry = parse_entry(value)
    except EntryRefusedError as error:
        return RemoteSkill(error.uri, error.name, None, error.diagnostics)
    return RemoteSkill(entry.uri, entry.name, entry, entry_notes(entry))


def disk_notes(skill: RemoteSkill) -> tuple[Diagnostic, ...]:
    """Say what keeps a skill from being written to some disks, which is no fault of what is served."""
    faults = disk_faults((file.path for file in skill.entry.files), windows=True) if skill.entry else ()
    return tuple(replace(fault, severity=Severity.WARNING, path=shown(skill.uri)) for fault in faults)


async def select(
    server: RemoteServer, listed: tuple[RemoteSkill, ...], names: Iterable[str]
) -> tuple[tuple[RemoteSkill, ...], tuple[Diagnostic, ...]]:
    """Return the skills that `names` mean, by name or by URI, and a fault for each that means none.

    A server need not list all that it serves, so a URI that is not listed is asked for.
    """
    chosen: dict[str, RemoteSkill] = {}
    faults: list[Diagnostic] = []
    for name in names:
        found = [skill for skill in listed if name in {skill.name, skill.uri}]
        if not found and name.endswith("/SKILL.md"):
            found = await _unlisted(server, name)
        if not found:
            message = f"the server has no skill '{shown(name)}'"
            faults.append(Diagnostic(Severity.ERROR, Reason.UNKNOWN_SKILL, message, server.address.shown))
        chosen |= {skill.uri: skill for skill in found}
    return tuple(chosen.values()), tuple(faults)


async def _unlisted(server: RemoteServer, uri: str) -> list[RemoteSkill]:
    """Return the one skill of this URI, if the server has it."""
    try:
        skill = _parsed(await server.entry(uri))
    except RemoteError as error:
        if error.is_final:
            raise
        return []
    if skill.entry is not None and skill.uri != uri:
        fault = _error(Reason.ENTRY_MISMATCH, f"skills/get answers with another skill, {shown(skill.uri)}", uri)
        return [RemoteSkill(uri, skill.name, None, (fault,))]
    return [replace(skill, uri=uri)]


async def check_files(server: RemoteServer, skill: RemoteSkill) -> RemoteSkill:
    """Read every file of a skill and verify it; the result holds the contents and all faults.

    Raises:
        RemoteError: the connection is lost for good.
    """
    if skill.entry is None:
        return skill
    entry, (contents, faults) = skill.entry, await _read_all(server, skill.entry)
    if faults:
        current = await _current_entry(server, entry.uri)
        if current is not None and current.manifest != entry.manifest:
            entry, (contents, faults) = current, await _read_all(server, current)
    if entry.main.path in contents:
        faults += verify_frontmatter(entry, contents[entry.main.path])
    return replace(skill, entry=entry, contents=contents).told(*faults)


async def _read_all(server: RemoteServer, entry: Entry) -> tuple[dict[str, bytes], list[Diagnostic]]:
    """Return the bytes of each file that fits, by path, and a fault for each other, both in the order of the entry."""
    contents: dict[str, bytes] = {}
    faults: dict[str, Diagnostic] = {}
    lost: list[RemoteError] = []
    limiter = anyio.CapacityLimiter(_AT_A_TIME)

    async def read(file: EntryFile) -> None:
        async with limiter:
            try:
                raw = await server.read(file.uri, file.size)
            except RemoteError as error:
                if error.is_final:
                    lost.append(error)
                    tasks.cancel_scope.cancel()
                faults[file.path] = _error(error.reason, error.message, file.uri)
                return
        fault = verify_file(file, raw)
        if fault is None:
            contents[file.path] = raw
        else:
            faults[file.path] = fault

    async with anyio.create_task_group() as tasks:
        for file in entry.files:
            tasks.start_soon(read, file)
    if lost:
        raise lost[0]
    paths = [file.path for file in entry.files]
    return {p: contents[p] for p in paths if p in contents}, [faults[p] for p in paths if p in faults]


async def _current_entry(server: RemoteServer, uri: str) -> Entry | None:
    """Return what the server says of a skill now, None where that is nothing that can be used."""
    try:
        entry = parse_entry(await server.entry(uri))
    except EntryRefusedError:
        return None
    except RemoteError as error:
        if error.is_final:
            raise
        return None
    return entry if entry.uri == uri else None


class Conduct:
    """How a server speaks of its skills: whether its methods agree. One for each run, to list again only once."""

    def __init__(self, server: RemoteServer) -> None:
        """Nothing is asked yet."""
        self._server = server
        self._again: dict[str, RemoteSkill] | None = None

    async def check(self, skill: RemoteSkill, *, listed: Entry | None) -> RemoteSkill:
        """Compare `skills/get` with what was listed, and directories with the entry, for a skill that is checked.

        Raises:
            RemoteError: the connection is lost for good.
        """
        faults = [await self._check_get(listed)] if listed else []
        if skill.entry and self._server.directory_read:
            faults.append(await self._check_directories(skill.entry))
        return skill.told(*(fault for fault in faults if fault))

    async def _check_get(self, listed: Entry) -> Diagnostic | None:
        got = await _current_entry(self._server, listed.uri)
        if got is None:
            message = "skills/get gives no entry for a skill that skills/list lists"
            return _error(Reason.ENTRY_MISMATCH, message, listed.uri)
        if _same(got, listed):
            return None
        now = (await self._listed_again()).get(listed.uri)
        if now is None or _same(now.entry, await _current_entry(self._server, listed.uri)):
            return None
        message = "skills/list and skills/get say different things of this skill, and go on doing so"
        return Diagnostic(Severity.WARNING, Reason.ENTRY_MISMATCH, message, shown(listed.uri))

    async def _listed_again(self) -> dict[str, RemoteSkill]:
        if self._again is None:
            self._again = {}
            try:
                self._again = {skill.uri: skill for skill in await list_skills(self._server)}
            except RemoteError as error:
                if error.is_final:
                    raise
        return self._again

    async def _check_directories(self, entry: Entry) -> Diagnostic | None:
        fault = await self._compare_directories(entry)
        if fault is not None:
            # What is there now may be ahead of the entry.
            current = await _current_entry(self._server, entry.uri)
            if current is not None and current.manifest != entry.manifest:
                return await self._compare_directories(current)
        return fault

    async def _compare_directories(self, entry: Entry) -> Diagnostic | None:
        """Walk the skill's directories, and say where that differs from its entry."""
        files: set[str] = set()
        folders, waiting = {""}, [("", entry.root)]
        while waiting:
            folder, folder_uri = waiting.pop()
            try:
                children = await self._server.children(folder_uri)
            except RemoteError as error:
                if error.is_final:
                    raise
                return _error(Reason.DIRECTORY_MISMATCH, f"a directory cannot be read: {error.message}", folder_uri)
            for uri, is_folder in children:
                path = path_below(entry.root, uri)
                if path is None:
                    return _error(Reason.OUTSIDE_SKILL, "a directory of the skill holds what lies outside of it", uri)
                if path.rpartition("/")[0] != folder:
                    return _error(Reason.DIRECTORY_MISMATCH, "a directory read gives more than direct children", uri)
                if not is_folder:
                    files.add(path)
                elif path not in folders:
                    folders.add(path)
                    waiting.append((path, uri))
            if len(folders) > _MAX_FOLDERS or len(files) > MAX_PUBLISHED_FILES:
                message = f"directories hold more than {MAX_PUBLISHED_FILES} files or {_MAX_FOLDERS} folders"
                return _error(Reason.DIRECTORY_MISMATCH, message, entry.uri)
        return _difference(files, {file.path for file in entry.files}, entry)


def _difference(files: set[str], listed: set[str], entry: Entry) -> Diagnostic | None:
    for uri in sorted(files - listed)[:1]:
        message = f"directories hold {len(files - listed)} files that the entry does not list, such as {shown(uri)}"
        return _error(Reason.INCOMPLETE_ENTRY, message, entry.uri)
    for uri in sorted(listed - files)[:1]:
        message = f"directories lack {len(listed - files)} files that the entry lists, such as {shown(uri)}"
        return _error(Reason.DIRECTORY_MISMATCH, message, entry.uri)
    return None


def _same(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None:
        return one is other
    return (
        one.uri == other.uri
        and set(one.files) == set(other.files)
        and equal_as_json(one.frontmatter, other.frontmatter)
    )


def _error(code: Reason, message: str, uri: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, message, shown(uri))
