"""The operations behind `verify` and `fetch`: connect, select skills, verify or write them, and collect the results."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from server.capabilities.remote.client import RemoteError, connect
from server.capabilities.remote.consistency import ConsistencyCheck
from server.capabilities.remote.fetch import REFUSED, Fetched, fetch_skills, shared_names
from server.capabilities.remote.skills import RemoteSkill, disk_warnings, list_skills, select_skills
from server.capabilities.remote.verification import verify_files
from skills_core.diagnostics import Diagnostic, Reason, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from server.capabilities.remote.address import Address
    from server.capabilities.remote.client import RemoteServer

__all__ = ["RemoteOutcome", "SkillResult", "fetch_from", "verify_server"]

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
        return bool(self.results) and not self.diagnostics and all(map(_is_valid, self.results))

    @property
    def ambiguous(self) -> bool:
        """Whether a given name means several skills."""
        return any(diagnostic.code is Reason.AMBIGUOUS_NAME for diagnostic in self.diagnostics)

    def add_error(self, error: RemoteError) -> None:
        """Add a fault of the server as a whole."""
        self.diagnostics.append(Diagnostic(Severity.ERROR, error.reason, error.message, self.server))


def _is_valid(result: SkillResult) -> bool:
    return result.state != REFUSED if isinstance(result, Fetched) else result.valid


async def verify_server(address: Address, names: Sequence[str], report: Callable[[SkillResult], None]) -> RemoteOutcome:
    """Verify the named skills of a server, or all; call `report` with each result as soon as it is known."""
    outcome = RemoteOutcome(address.shown)
    try:
        async with connect(address) as server:
            listed, chosen = await _select(server, names, outcome)
            entries = {skill.uri: skill.entry for skill in listed}
            conduct = ConsistencyCheck(server)
            for skill in chosen:
                checked = await conduct.check(await verify_files(server, skill), listed=entries.get(skill.uri))
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
            shared = shared_names(listed, names)
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
