"""Verify skills and write them to folders.

A skill is written to a folder of its name, or of its skill path if several skills share the name. A skill nested in
another one is written together with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from server.capabilities.remote.verification import verify_files
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.errors import InstallRefusedError
from skills_core.remote.entries import shown
from skills_core.remote.installation import disk_faults, fold_path, install

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from pathlib import Path

    from server.capabilities.remote.client import RemoteServer
    from server.capabilities.remote.skills import RemoteSkill

__all__ = ["INCLUDED", "REFUSED", "Fetched", "FolderNames", "fetch_skills", "shared_names"]

INCLUDED = "included"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result for a skill: `state` is a value of `Installed`, `included` in the enclosing skill, or `refused`.

    `faults` say why it was not written, besides the diagnostics of its verification.
    """

    skill: RemoteSkill
    state: str
    folder: str | None = None
    faults: tuple[Diagnostic, ...] = ()


def shared_names(skills: Iterable[RemoteSkill], names: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return a fault for each of `names` that several skills share; it lists their URIs."""
    known, faults = tuple(skills), []
    for name in dict.fromkeys(names):
        uris = [shown(skill.uri) for skill in known if skill.name == name]
        if len(uris) > 1:
            message = f"{len(uris)} skills have this name; fetch one by its URI: {', '.join(uris)}"
            faults.append(Diagnostic(Severity.ERROR, Reason.AMBIGUOUS_NAME, message, shown(name)))
    return tuple(faults)


async def fetch_skills(
    server: RemoteServer,
    chosen: Iterable[RemoteSkill],
    listed: Iterable[RemoteSkill],
    root: Path,
    *,
    force: bool = False,
) -> AsyncGenerator[Fetched]:
    """Verify the chosen skills one by one and write the valid ones below `root`, enclosing skills first.

    `listed` are all skills of the server: shared names among them decide the folders, whichever of them are fetched.

    Raises:
        RemoteError: the connection is lost.
    """
    folders = FolderNames(skill.name for skill in listed)
    written: set[tuple[str, str]] = set()
    unwritten: set[tuple[str, str]] = set()
    for each in sorted(chosen, key=lambda skill: f"{skill.uri.rpartition('/')[0]}/"):
        skill = await verify_files(server, each)
        manifest = skill.entry.manifest if skill.entry and skill.valid else None
        if manifest is None:
            yield Fetched(skill, REFUSED)
        elif manifest <= written:
            yield Fetched(skill, INCLUDED)
        elif manifest <= unwritten:
            message = "it is part of the enclosing skill, which was not written; fetch it by itself"
            yield _refused(skill, Reason.FOLDER_TAKEN, message)
        else:
            fetched = await _write(server, skill, folders, root, force=force)
            (unwritten if fetched.state == REFUSED else written).update(manifest)
            yield fetched


async def _write(server: RemoteServer, skill: RemoteSkill, folders: FolderNames, root: Path, *, force: bool) -> Fetched:
    assert skill.entry is not None  # noqa: S101 - it is valid
    faults = disk_faults(skill.contents)
    if faults:
        return Fetched(skill, REFUSED, faults=tuple(replace(fault, path=shown(skill.uri)) for fault in faults))
    folder = folders.claim(skill.entry.name, skill.entry.path)
    if folder is None:
        message = "its folder would be inside that of another skill; fetch it by itself with another --to"
        return _refused(skill, Reason.NAME_COLLISION, message)
    origin = {"server": server.address.shown, "uri": skill.uri}
    write = partial(install, root, folder, skill.contents, **origin, force=force)
    try:
        installed = await anyio.to_thread.run_sync(write)
    except InstallRefusedError as error:
        return _refused(skill, error.reason, error.message, str(error.path))
    return Fetched(skill, installed.value, str(root / folder))


def _refused(skill: RemoteSkill, code: Reason, message: str, path: str | None = None) -> Fetched:
    fault = Diagnostic(Severity.ERROR, code, message, printable(path) if path else shown(skill.uri))
    return Fetched(skill, REFUSED, faults=(fault,))


class FolderNames:
    """Assigns the folders of one operation, none of them twice and none inside another."""

    def __init__(self, names: Iterable[str]) -> None:
        """Take the names of all skills: shared ones decide the folders, whichever skills are written."""
        self._names = Counter(map(fold_path, names))
        self._taken: set[str] = set()
        self._above: set[str] = set()

    def claim(self, name: str, path: str) -> str | None:
        """Return the folder for a skill with this name and skill path; None if all its possible folders are taken."""
        choices = [path] if self._names[fold_path(name)] > 1 else [name, path]
        for folder in choices:
            whole = fold_path(folder)
            above = {whole[:at] for at, char in enumerate(whole) if char == "/"}
            if whole not in self._taken and whole not in self._above and self._taken.isdisjoint(above):
                self._taken.add(whole)
                self._above |= above
                return folder
        return None
