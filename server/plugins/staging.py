"""Bring a plugin's skills into a staging folder, and check them as a server will load them.

Those of a server are fetched and verified; those of a folder, an archive or a repository are copied.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from server.hosting.status import display_path
from server.plugins.local_skills import install_local, tree_of
from server.plugins.record import SkillRecord
from server.remote.fetch import Fetched
from server.remote.operations import fetch_from
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.gates import Environment
from skills_core.library import Library
from skills_core.locations import DEFAULT_BOUNDS
from skills_core.remote.entries import path_below, shown
from skills_core.remote.installation import ORIGIN_FILE
from skills_core.skill import State
from skills_core.sources import Scope, Source, Strictness, real_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from server.plugins.origins import Origin
    from server.remote.address import Address
    from skills_core.remote.entries import Entry

__all__ = ["MAX_PLUGIN_SIZE", "SKILLS_FOLDER", "StagedPlugin", "stage_plugin"]

SKILLS_FOLDER = "skills"

MAX_PLUGIN_SIZE = 1024 * 1024 * 1024
"""Maximum bytes of all skills of a plugin; the number of a server's skills is limited, but not their total size."""


_ANY_MACHINE = Environment(os="", has_bin=lambda _: True)
# Gates do not make a skill invalid.


@dataclass(frozen=True, slots=True)
class StagedPlugin:
    """A plugin in its staging folder `place`, or why it is not complete.

    `faults` concern the server or a skill that cannot be fetched; then the plugin must not be installed. `findings` are
    what `validate` says of the skills. `invalid` names the skills that no server would serve. `commit` is that of a
    repository.
    """

    place: Path
    skills: tuple[SkillRecord, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    faults: tuple[Diagnostic, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    invalid: tuple[str, ...] = ()
    commit: str | None = None


async def stage_plugin(
    origin: Origin, chosen: Sequence[str], place: Path, final: Path, *, keep_missing: bool = False
) -> StagedPlugin:
    """Bring the chosen skills of an origin, or all, into the folder `place`, which need not exist.

    Diagnostics show `final`, where the plugin will be. With `keep_missing`, chosen skills that the origin has no longer
    are left out, as long as there are others.

    Raises:
        PluginError: a folder, archive or repository cannot be used.
        OSError: a file cannot be written.
    """
    if origin.address is not None:
        return await _from_server(origin.address, chosen, place, final, keep_missing=keep_missing)
    scratch = place.with_name(f"{place.name}.origin")
    await anyio.to_thread.run_sync(scratch.mkdir)
    tree = await tree_of(origin, scratch, MAX_PLUGIN_SIZE)
    copy = partial(install_local, tree, origin, chosen, place / SKILLS_FOLDER, MAX_PLUGIN_SIZE)
    found = await anyio.to_thread.run_sync(partial(copy, keep_missing=keep_missing))
    if found.faults:
        return StagedPlugin(place, faults=found.faults)
    findings, invalid = _findings(place, {record.folder: record.name for record in found.records})
    shown_findings = (_at_final_place(each, place, final) for each in findings)
    return StagedPlugin(
        place,
        found.records,
        dict(found.files),
        findings=(*found.notes, *shown_findings),
        invalid=invalid,
        commit=tree.commit,
    )


async def _from_server(
    address: Address, chosen: Sequence[str], place: Path, final: Path, *, keep_missing: bool
) -> StagedPlugin:
    root = place / SKILLS_FOLDER
    outcome = await fetch_from(address, chosen, root, lambda _: None, max_size=MAX_PLUGIN_SIZE)
    fetched = [result for result in outcome.results if isinstance(result, Fetched)]
    faults = [each for each in outcome.diagnostics if not (keep_missing and fetched and _is_missing(each))]
    for result in fetched:
        faults += [each for each in (*result.skill.diagnostics, *result.faults) if each.severity is Severity.ERROR]
    if faults:
        return StagedPlugin(place, faults=tuple(_at_final_place(each, place, final) for each in faults))
    skills = _records(fetched, root)
    warnings = [each for result in fetched for each in result.skill.diagnostics]
    findings, invalid = _findings(place, {record.folder: record.name for record, _ in skills})
    return StagedPlugin(
        place,
        tuple(record for record, _ in skills),
        _digests(place, skills),
        findings=tuple(_at_final_place(each, place, final) for each in (*warnings, *findings)),
        invalid=invalid,
    )


def _is_missing(diagnostic: Diagnostic) -> bool:
    return diagnostic.code is Reason.UNKNOWN_SKILL


def _records(fetched: Sequence[Fetched], root: Path) -> list[tuple[SkillRecord, Entry]]:
    """Return the record of each skill with its entry; enclosing skills come before those nested in them."""
    found: list[tuple[SkillRecord, Entry]] = []
    for result in fetched:
        entry = result.skill.entry
        assert entry is not None  # noqa: S101 - it was verified
        if result.folder is not None:
            folder = Path(result.folder).relative_to(root).as_posix()
        else:
            paths = ((record.folder, path_below(outer.root, entry.root)) for record, outer in found)
            folder = next(f"{above}/{path}" for above, path in paths if path is not None)
        files = sorted((file.path, file.digest) for file in entry.files)
        digest = "sha256:" + hashlib.sha256(json.dumps(files).encode()).hexdigest()
        found.append((SkillRecord(entry.uri, entry.name, folder, _version(entry), digest), entry))
    return found


def _version(entry: Entry) -> str | None:
    """Return the version as text; `version: 1.0` is a number."""
    value = entry.frontmatter.get("version")
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return shown(str(value))
    except ValueError:  # Python refuses to print integers of thousands of digits
        return None


def _digests(place: Path, skills: Sequence[tuple[SkillRecord, Entry]]) -> dict[str, str]:
    """Return the digest of each file by its path in the plugin."""
    digests: dict[str, str] = {}
    for record, entry in skills:
        above = f"{SKILLS_FOLDER}/{record.folder}"
        digests |= {f"{above}/{file.path}": file.digest for file in entry.files}
        origin = f"{above}/{ORIGIN_FILE}"
        if (place / origin).exists():  # not in the folder of a nested skill
            digests[origin] = "sha256:" + hashlib.sha256((place / origin).read_bytes()).hexdigest()
    return digests


def _findings(place: Path, listed: Mapping[str, str]) -> tuple[list[Diagnostic], tuple[str, ...]]:
    """Return what a server will say of the staged skills, and the names of those that it will not serve.

    `listed` maps the folder of each skill to its name. A folder that lies too deep is not found.
    """
    source = Source(place.parent, Scope.PLUGIN, Strictness.JDAI, DEFAULT_BOUNDS, below=(place.name, SKILLS_FOLDER))
    catalog = Library([source], lambda: _ANY_MACHINE).catalog
    findings, found = list(catalog.problems), set()
    invalid = [skill.name for skill in catalog.skills if skill.state is State.INVALID]
    for skill in catalog.skills:
        findings += skill.diagnostics
        folder = skill.content.place.removeprefix(f"{place.name}/{SKILLS_FOLDER}/")
        found.add(folder)
        if folder not in listed:
            message = "the server does not list this skill; it comes with the files of another one"
            findings.append(Diagnostic(Severity.WARNING, Reason.INCOMPLETE_ENTRY, message, display_path(skill)))
    return findings, (*invalid, *(name for folder, name in listed.items() if folder not in found))


def _at_final_place(diagnostic: Diagnostic, place: Path, final: Path) -> Diagnostic:
    for before in {str(place), str(real_path(place))}:
        if diagnostic.path.startswith(before):
            return replace(diagnostic, path=printable(str(final)) + diagnostic.path.removeprefix(before))
    return diagnostic
