"""One run of `verify` or `fetch`: connect, choose, check or write, and keep what is to be told."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from server.remote.client import RemoteError, connect
from server.remote.fetch import REFUSED, Fetched, fetch_skills, shared_names
from server.remote.verification import Conduct, RemoteSkill, check_files, disk_notes, list_skills, select
from skills_core.diagnostics import Diagnostic, Reason, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from server.remote.address import Address
    from server.remote.client import RemoteServer

__all__ = ["RemoteOutcome", "Result", "fetch_from", "verify_server"]

Result: TypeAlias = "RemoteSkill | Fetched"
"""What became of one skill; without the contents of its files."""


@dataclass(slots=True)
class RemoteOutcome:
    """What a run found: a result for each skill, and what is to be told of the server as a whole."""

    server: str
    protocol: str | None = None
    results: list[Result] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether there were skills, and nothing was wrong with any of them."""
        return bool(self.results) and not self.diagnostics and all(map(_is_good, self.results))

    @property
    def misused(self) -> bool:
        """Whether the command could not tell what was wanted."""
        return any(diagnostic.code is Reason.AMBIGUOUS_NAME for diagnostic in self.diagnostics)

    def blame(self, error: RemoteError) -> None:
        """Keep what was wrong with the server as a whole."""
        self.diagnostics.append(Diagnostic(Severity.ERROR, error.reason, error.message, self.server))


def _is_good(result: Result) -> bool:
    return result.state != REFUSED if isinstance(result, Fetched) else result.sound


async def verify_server(address: Address, names: Sequence[str], tell: Callable[[Result], None]) -> RemoteOutcome:
    """Verify the skills of a server, all or those that are named; `tell` hears of each as soon as it is known."""
    outcome = RemoteOutcome(address.shown)
    try:
        async with connect(address) as server:
            listed, chosen = await _choose(server, names, outcome)
            entries = {skill.uri: skill.entry for skill in listed}
            conduct = Conduct(server)
            for skill in chosen:
                checked = await conduct.check(await check_files(server, skill), listed=entries.get(skill.uri))
                result = replace(checked, contents={}).told(*disk_notes(checked))
                outcome.results.append(result)
                tell(result)
    except RemoteError as error:
        outcome.blame(error)
    return outcome


async def fetch_from(
    address: Address, names: Sequence[str], root: Path, tell: Callable[[Result], None], *, force: bool = False
) -> RemoteOutcome:
    """Write the skills of a server, all or those that are named, below `root`; see `verify_server` for `tell`."""
    outcome = RemoteOutcome(address.shown)
    try:
        async with connect(address) as server:
            listed, chosen = await _choose(server, names, outcome)
            shared = shared_names(listed, names)
            if shared:
                outcome.diagnostics += shared
                return outcome
            async with aclosing(fetch_skills(server, chosen, listed, root, force=force)) as fetching:
                async for fetched in fetching:
                    result = replace(fetched, skill=replace(fetched.skill, contents={}))
                    outcome.results.append(result)
                    tell(result)
    except RemoteError as error:
        outcome.blame(error)
    return outcome


async def _choose(
    server: RemoteServer, names: Sequence[str], outcome: RemoteOutcome
) -> tuple[tuple[RemoteSkill, ...], tuple[RemoteSkill, ...]]:
    """Return all skills that are listed, and those that are meant."""
    outcome.protocol = server.protocol
    listed = await list_skills(server)
    if names:
        chosen, faults = await select(server, listed, names)
        outcome.diagnostics += faults
        return listed, chosen
    if not listed:
        outcome.blame(RemoteError(Reason.UNKNOWN_SKILL, "the server lists no skill"))
    return listed, listed
