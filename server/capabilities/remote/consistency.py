"""Check whether a server's methods agree about its skills: `skills/list`, `skills/get` and directory reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.capabilities.remote.client import RemoteError
from server.capabilities.remote.skills import current_entry, error_about, list_skills, same_entry
from skills_core.diagnostics import Diagnostic, Reason, Severity
from skills_core.loading.loader import MAX_PUBLISHED_FILES
from skills_core.remote.entries import path_below, shown

if TYPE_CHECKING:
    from server.capabilities.remote.client import RemoteServer
    from server.capabilities.remote.skills import RemoteSkill
    from skills_core.remote.entries import Entry

__all__ = ["ConsistencyCheck"]

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
