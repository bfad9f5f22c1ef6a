"""The skills of another server: what it lists, whether the files agree, and whether its methods do.

Files are read a few at a time. An entry may merely be out of date: if a file does not match, the entry is requested
again, and if it has changed, the skill is verified once more. The second result is final.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio

from server.capabilities.remote.client import RemoteError
from skills_core.diagnostics import Diagnostic, Reason, Severity
from skills_core.errors import EntryRefusedError
from skills_core.loading.loader import MAX_PUBLISHED_FILES
from skills_core.remote.installation import disk_faults
from skills_core.remote.verification import (
    entry_warnings,
    equal_as_json,
    incomplete_entries,
    parse_entry,
    path_below,
    shown,
    verify_file,
    verify_frontmatter,
)

if TYPE_CHECKING:
    from server.capabilities.remote.client import RemoteServer
    from skills_core.remote.verification import Entry, EntryFile


@dataclass(frozen=True, slots=True)
class RemoteSkill:
    """A skill of another server and what is known of it; `entry` is None if it breaks a rule.

    `uri` and `name` are the server's claims. `contents` maps the path of each file that matches the entry to its bytes.
    """

    uri: str
    name: str
    entry: Entry | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def valid(self) -> bool:
        """Whether all checks so far found no error."""
        return self.entry is not None and all(d.severity is not Severity.ERROR for d in self.diagnostics)

    def with_diagnostics(self, *diagnostics: Diagnostic) -> RemoteSkill:
        """Return the skill with further diagnostics."""
        return replace(self, diagnostics=(*self.diagnostics, *diagnostics))


async def list_skills(server: RemoteServer) -> tuple[RemoteSkill, ...]:
    """Return the skills that a server lists, with their entries checked as far as possible without the files.

    Raises:
        RemoteError: the skills cannot be listed.
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
        elif not same_entry(before.entry, skill.entry):
            message = "skills/list lists this skill twice, with different entries"
            skills[skill.uri] = before.with_diagnostics(error_about(Reason.ENTRY_MISMATCH, message, skill.uri))
    incomplete = incomplete_entries(skill.entry for skill in skills.values() if skill.entry)
    listed = (skill.with_diagnostics(incomplete[uri]) if uri in incomplete else skill for uri, skill in skills.items())
    return (*listed, *nameless)


def _parsed(value: object) -> RemoteSkill:
    try:
        entry = parse_entry(value)
    except EntryRefusedError as error:
        return RemoteSkill(error.uri, error.name, None, error.diagnostics)
    return RemoteSkill(entry.uri, entry.name, entry, entry_warnings(entry))


def disk_warnings(skill: RemoteSkill) -> tuple[Diagnostic, ...]:
    """Return warnings about file names that some disks cannot hold, which is not a fault of the server's skill."""
    faults = disk_faults((file.path for file in skill.entry.files), windows=True) if skill.entry else ()
    return tuple(replace(fault, severity=Severity.WARNING, path=shown(skill.uri)) for fault in faults)


async def select_skills(
    server: RemoteServer, listed: tuple[RemoteSkill, ...], names: Iterable[str]
) -> tuple[tuple[RemoteSkill, ...], tuple[Diagnostic, ...]]:
    """Return the skills with the given names or URIs, and a fault for each name without a skill.

    A URI that is not listed is requested, because servers need not list all their skills.
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
    """Return the skill with this URI as a list, empty if the server has none."""
    try:
        skill = _parsed(await server.entry(uri))
    except RemoteError as error:
        if error.is_final:
            raise
        return []
    if skill.entry is not None and skill.uri != uri:
        fault = error_about(Reason.ENTRY_MISMATCH, f"skills/get returns another skill, {shown(skill.uri)}", uri)
        return [RemoteSkill(uri, skill.name, None, (fault,))]
    return [replace(skill, uri=uri)]


async def current_entry(server: RemoteServer, uri: str) -> Entry | None:
    """Return the entry that the server gives for a skill now; None if it is not usable."""
    try:
        entry = parse_entry(await server.entry(uri))
    except EntryRefusedError:
        return None
    except RemoteError as error:
        if error.is_final:
            raise
        return None
    return entry if entry.uri == uri else None


def same_entry(one: Entry | None, other: Entry | None) -> bool:
    """Tell whether two entries are equal, in any order of files; two missing entries are."""
    if one is None or other is None:
        return one is other
    return (
        one.uri == other.uri
        and set(one.files) == set(other.files)
        and equal_as_json(one.frontmatter, other.frontmatter)
    )


def error_about(code: Reason, message: str, uri: str) -> Diagnostic:
    """Return an error about a URI of another server."""
    return Diagnostic(Severity.ERROR, code, message, shown(uri))


_CONCURRENT_READS = 8


async def verify_files(server: RemoteServer, skill: RemoteSkill) -> RemoteSkill:
    """Read and verify every file of a skill; the result has the contents and all faults.

    Raises:
        RemoteError: the connection is lost.
    """
    if skill.entry is None:
        return skill
    entry, (contents, faults) = skill.entry, await _read_all(server, skill.entry)
    if faults:
        current = await current_entry(server, entry.uri)
        if current is not None and current.manifest != entry.manifest:
            entry, (contents, faults) = current, await _read_all(server, current)
    if entry.main.path in contents:
        faults += verify_frontmatter(entry, contents[entry.main.path])
    return replace(skill, entry=entry, contents=contents).with_diagnostics(*faults)


async def _read_all(server: RemoteServer, entry: Entry) -> tuple[dict[str, bytes], list[Diagnostic]]:
    """Return the bytes of each matching file by path, and a fault for every other, both in the order of the entry."""
    contents: dict[str, bytes] = {}
    faults: dict[str, Diagnostic] = {}
    lost: list[RemoteError] = []
    limiter = anyio.CapacityLimiter(_CONCURRENT_READS)

    async def read(file: EntryFile) -> None:
        async with limiter:
            try:
                raw = await server.read(file.uri, file.size)
            except RemoteError as error:
                if error.is_final:
                    lost.append(error)
                    tasks.cancel_scope.cancel()
                faults[file.path] = error_about(error.reason, error.message, file.uri)
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


_MAX_FOLDERS = 2048
# Maximum folders read in one skill; 512 files need far fewer, but a folder may be empty.


class ConsistencyCheck:
    """Compares the methods of one server; one object per operation lists the skills at most once more."""

    def __init__(self, server: RemoteServer) -> None:
        """Send no request yet."""
        self._server = server
        self._again: dict[str, RemoteSkill] | None = None

    async def check(self, skill: RemoteSkill, *, listed: Entry | None) -> RemoteSkill:
        """Compare `skills/get` with the listed entry, and directories with the verified one.

        Raises:
            RemoteError: the connection is lost.
        """
        faults = [await self._check_get(listed)] if listed else []
        if skill.entry and self._server.directory_read:
            faults.append(await self._check_directories(skill.entry))
        return skill.with_diagnostics(*(fault for fault in faults if fault))

    async def _check_get(self, listed: Entry) -> Diagnostic | None:
        got = await current_entry(self._server, listed.uri)
        if got is None:
            message = "skills/get returns no valid entry for a skill that skills/list lists"
            return error_about(Reason.ENTRY_MISMATCH, message, listed.uri)
        if same_entry(got, listed):
            return None
        now = (await self._listed_again()).get(listed.uri)
        if now is None or same_entry(now.entry, await current_entry(self._server, listed.uri)):
            return None
        message = "skills/list and skills/get return different entries for this skill, also when repeated"
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
            # The directories may be newer than the entry.
            current = await current_entry(self._server, entry.uri)
            if current is not None and current.manifest != entry.manifest:
                return await self._compare_directories(current)
        return fault

    async def _compare_directories(self, entry: Entry) -> Diagnostic | None:
        """Read the skill's directories recursively, and return how they differ from the entry."""
        files: set[str] = set()
        folders, waiting = {""}, [("", entry.root)]
        while waiting:
            folder, folder_uri = waiting.pop()
            try:
                children = await self._server.children(folder_uri)
            except RemoteError as error:
                if error.is_final:
                    raise
                return error_about(
                    Reason.DIRECTORY_MISMATCH, f"a directory cannot be read: {error.message}", folder_uri
                )
            for uri, is_folder in children:
                path = path_below(entry.root, uri)
                if path is None:
                    return error_about(
                        Reason.OUTSIDE_SKILL, "a directory of the skill contains a URI outside of the skill", uri
                    )
                if path.rpartition("/")[0] != folder:
                    return error_about(
                        Reason.DIRECTORY_MISMATCH, "a directory read returns more than direct children", uri
                    )
                if not is_folder:
                    files.add(path)
                elif path not in folders:
                    folders.add(path)
                    waiting.append((path, uri))
            if len(folders) > _MAX_FOLDERS or len(files) > MAX_PUBLISHED_FILES:
                message = f"directories have more than {MAX_PUBLISHED_FILES} files or {_MAX_FOLDERS} folders"
                return error_about(Reason.DIRECTORY_MISMATCH, message, entry.uri)
        return _difference(files, {file.path for file in entry.files}, entry)


def _difference(files: set[str], listed: set[str], entry: Entry) -> Diagnostic | None:
    for uri in sorted(files - listed)[:1]:
        message = f"directories have {len(files - listed)} files that the entry does not list, such as {shown(uri)}"
        return error_about(Reason.INCOMPLETE_ENTRY, message, entry.uri)
    for uri in sorted(listed - files)[:1]:
        message = f"directories lack {len(listed - files)} files that the entry lists, such as {shown(uri)}"
        return error_about(Reason.DIRECTORY_MISMATCH, message, entry.uri)
    return None
