"""The operations behind `verify` and `fetch`: connect, select skills, verify or write them, and collect the results.

A skill is written to a folder of its name, or of its skill path if several skills share the name. A skill nested in
another one is written together with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread

from server.capabilities.remote.client import RemoteError, connect
from server.capabilities.remote.skills import (
    ConsistencyCheck,
    RemoteSkill,
    disk_warnings,
    list_skills,
    select_skills,
    verify_files,
)
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.errors import InstallRefusedError
from skills_core.remote.installation import disk_faults, fold_path, install
from skills_core.remote.verification import shown

if TYPE_CHECKING:
    from server.capabilities.remote.client import RemoteServer
    from server.capabilities.remote.skills import RemoteSkill
    from server.wire.address import Address

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

    @property
    def valid(self) -> bool:
        """Whether the skill is on disk."""
        return self.state != REFUSED

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics of the verification and the download."""
        return (*self.skill.diagnostics, *self.faults)


def _shared_names(skills: Sequence[RemoteSkill], names: Iterable[str]) -> list[Diagnostic]:
    """Return a fault for each of `names` that several skills share; it lists their URIs."""
    faults = []
    for name in dict.fromkeys(names):
        uris = [shown(skill.uri) for skill in skills if skill.name == name]
        if len(uris) > 1:
            message = f"{len(uris)} skills have this name; fetch one by its URI: {', '.join(uris)}"
            faults.append(Diagnostic(Severity.ERROR, Reason.AMBIGUOUS_NAME, message, shown(name)))
    return faults


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
            (written if fetched.valid else unwritten).update(manifest)
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


SkillResult: TypeAlias = "RemoteSkill | Fetched"
"""The result for one skill, without the contents of its files."""


@dataclass(slots=True)
class RemoteOutcome:
    """The result of an operation: one for each skill, and diagnostics of the server as a whole."""

    server: str
    protocol: str | None = None
    results: list[SkillResult] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        """Whether there were skills and all of them are faultless."""
        return bool(self.results) and not self.diagnostics and all(result.valid for result in self.results)

    @property
    def ambiguous(self) -> bool:
        """Whether a given name means several skills."""
        return any(diagnostic.code is Reason.AMBIGUOUS_NAME for diagnostic in self.diagnostics)

    def add_error(self, error: RemoteError) -> None:
        """Add a fault of the server as a whole."""
        self.diagnostics.append(Diagnostic(Severity.ERROR, error.reason, error.message, self.server))


async def verify_server(address: Address, names: Sequence[str], report: Callable[[SkillResult], None]) -> RemoteOutcome:
    """Verify the named skills of a server, or all; call `report` with each result as soon as it is known."""
    outcome = RemoteOutcome(address.shown)
    try:
        async with connect(address) as server:
            listed, chosen = await _select(server, names, outcome)
            entries = {skill.uri: skill.entry for skill in listed}
            consistency = ConsistencyCheck(server)
            for skill in chosen:
                checked = await consistency.check(await verify_files(server, skill), listed=entries.get(skill.uri))
                result = replace(checked, contents={}).with_diagnostics(*disk_warnings(checked))
                outcome.results.append(result)
                report(result)
    except RemoteError as error:
        outcome.add_error(error)
    return outcome


async def fetch_from(
    address: Address,
    names: Sequence[str],
    root: Path,
    report: Callable[[SkillResult], None],
    *,
    force: bool = False,
    max_size: int | None = None,
) -> RemoteOutcome:
    """Write the named skills of a server, or all, below `root`; call `report` with each result.

    Nothing is written if the skills announce more than `max_size` bytes in total.
    """
    outcome = RemoteOutcome(address.shown)
    try:
        async with connect(address) as server:
            listed, chosen = await _select(server, names, outcome)
            shared = _shared_names(listed, names)
            if shared:
                outcome.diagnostics += shared
                return outcome
            size = sum(skill.entry.size for skill in chosen if skill.entry)
            if max_size is not None and size > max_size:
                message = f"the skills have {size} bytes; the limit is {max_size}; choose fewer skills"
                outcome.add_error(RemoteError(Reason.TOO_LARGE, message))
                return outcome
            async with aclosing(fetch_skills(server, chosen, listed, root, force=force)) as fetching:
                async for fetched in fetching:
                    result = replace(fetched, skill=replace(fetched.skill, contents={}))
                    outcome.results.append(result)
                    report(result)
    except RemoteError as error:
        outcome.add_error(error)
    return outcome


async def _select(
    server: RemoteServer, names: Sequence[str], outcome: RemoteOutcome
) -> tuple[tuple[RemoteSkill, ...], tuple[RemoteSkill, ...]]:
    """Return all listed skills and the selected ones."""
    outcome.protocol = server.protocol
    listed = await list_skills(server)
    if names:
        chosen, faults = await select_skills(server, listed, names)
        outcome.diagnostics += faults
        return listed, chosen
    if not listed:
        outcome.add_error(RemoteError(Reason.UNKNOWN_SKILL, "the server lists no skill"))
    return listed, listed
