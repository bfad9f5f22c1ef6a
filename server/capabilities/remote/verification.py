"""Verify the files of another server's skill against the entry that announced them.

Files are read a few at a time. An entry may merely be out of date: if a file does not match, the entry is requested
again, and if it has changed, the skill is verified once more. The second result is final.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from server.capabilities.remote.client import RemoteError
from server.capabilities.remote.skills import current_entry, error_about
from skills_core.remote.verification import verify_file, verify_frontmatter

if TYPE_CHECKING:
    from server.capabilities.remote.client import RemoteServer
    from server.capabilities.remote.skills import RemoteSkill
    from skills_core.diagnostics import Diagnostic
    from skills_core.remote.entries import Entry, EntryFile

__all__ = ["verify_files"]

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
