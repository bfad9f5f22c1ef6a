"""The skills of another server: what it lists, and which of them are selected."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from server.capabilities.remote.client import RemoteError
from skills_core.diagnostics import Diagnostic, Reason, Severity
from skills_core.errors import EntryRefusedError
from skills_core.remote.entries import parse_entry, shown
from skills_core.remote.installation import disk_faults
from skills_core.remote.verification import entry_warnings, equal_as_json, incomplete_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from server.capabilities.remote.client import RemoteServer
    from skills_core.remote.entries import Entry

__all__ = [
    "RemoteSkill",
    "current_entry",
    "disk_warnings",
    "error_about",
    "list_skills",
    "same_entry",
    "select_skills",
]


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
    """Return warnings about file names that some disks cannot hold, which is no fault of the server's skill."""
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
    """Tell whether two entries say the same of a skill, in any order of files; two missing entries do."""
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
