"""Write a plugin's skills to a staging folder, and check them as a server will load them.

Those of a server are fetched and verified; those of a folder, an archive or a repository are copied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio.to_thread

from server.capabilities.remote.operations import Fetched, FolderNames, fetch_from
from server.capabilities.remote.plugins.installed import OriginKind, PluginError, SkillReceipt
from server.capabilities.remote.plugins.retrieval import export_skills, unpack
from server.hosting.status import display_path
from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line, printable
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import MAIN_FILE
from skills_core.disk.sources import DEFAULT_BOUNDS, Scope, SkillKind, Source, Strictness, explicit_sources, real_path
from skills_core.errors import FileRefusedError, InstallRefusedError, InvalidSourceError
from skills_core.format.frontmatter import name_fault
from skills_core.live.library import Library
from skills_core.remote.installation import digests_below, install
from skills_core.remote.verification import path_below, shown
from skills_core.skills.gates import Environment
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.capabilities.remote.plugins.installed import PluginOrigin
    from server.wire.address import Address
    from skills_core.remote.verification import Entry
    from skills_core.skills.skill import Skill

_PLACES: Final = ("skills", ".agents/skills", ".claude/skills", ".jdai/skills", ".github/skills")
# Where a plugin or a project keeps its skills, in this order; otherwise they are looked for everywhere.

_ANY_MACHINE: Final = Environment(os="", has_bin=lambda _: True)
# Gates do not make a skill invalid.

_INCOMPLETE: Final = frozenset({Reason.TOO_LARGE, Reason.UNREADABLE})
# A skill without a file of its own that cannot be read would look whole.

SKILLS_FOLDER: Final = "skills"

MAX_PLUGIN_SIZE = 1024 * 1024 * 1024
"""Maximum bytes of all skills of a plugin; the number of a server's skills is limited, but not their total size."""

_MAX_NAMED: Final = 5
_MAX_SKILL: Final = 256 * 1024 * 1024
# Bytes of one skill, which is held in memory while it is copied.


@dataclass(frozen=True, slots=True)
class StagedPlugin:
    """A plugin in its staging folder, or why it is not complete.

    `files` maps the path of each file to its digest. `faults` concern the origin or a skill that cannot be fetched;
    then the plugin must not be installed. `findings` are what `validate` says of the skills. `invalid` names the skills
    that no server would serve. `commit` is that of a repository.
    """

    skills: tuple[SkillReceipt, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    faults: tuple[Diagnostic, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    invalid: tuple[str, ...] = ()
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class _OriginFiles:
    """The files of an origin: their folder, the commit of a repository, and a note on what was left out."""

    root: Path
    commit: str | None = None
    notes: tuple[Diagnostic, ...] = ()


async def _files_of(origin: PluginOrigin, scratch: Path) -> _OriginFiles:
    """Return the files of a folder, an archive or a repository; `scratch` is an empty folder for them."""
    if origin.kind is OriginKind.GIT:
        commit, left_out = await export_skills(origin, scratch / "objects", scratch / "files", MAX_PLUGIN_SIZE)
        return _OriginFiles(scratch / "files", commit, _note_on(origin, left_out))
    return await anyio.to_thread.run_sync(_from_disk, origin, scratch / "files")


def _from_disk(origin: PluginOrigin, files: Path) -> _OriginFiles:
    assert origin.path is not None  # noqa: S101 - that of a folder or archive
    is_folder = origin.kind is OriginKind.FOLDER
    if not (origin.path.is_dir() if is_folder else origin.path.is_file()):
        raise PluginError(Reason.UNREACHABLE, f"{origin.shown}: there is no such {origin.kind} any more")
    if is_folder:
        return _OriginFiles(origin.path)
    links = unpack(origin.path, files, MAX_PLUGIN_SIZE)
    return _OriginFiles(_single_folder(files), None, _note_on(origin, links))


def _note_on(origin: PluginOrigin, paths: Sequence[str]) -> tuple[Diagnostic, ...]:
    if not paths:
        return ()
    more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
    named = ", ".join(one_line(path[:100]) for path in paths[:_MAX_NAMED])
    message = f"links and submodules are left out: {named}{more}"
    return (Diagnostic(Severity.WARNING, Reason.SYMLINK, message, origin.shown),)


def _single_folder(root: Path) -> Path:
    """Return the only folder in a folder without files, as most archives have one; else the folder itself."""
    found = list(root.iterdir())
    return found[0] if len(found) == 1 and found[0].is_dir() else root


class _FoundSkill(NamedTuple):
    """A skill of an origin; `path` is its folder below the root, empty for the root itself."""

    path: str
    skill: Skill

    @property
    def uri(self) -> str:
        """What names it in the receipt."""
        return f"{self.path}/{MAIN_FILE}".lstrip("/")


def _copy_skills(
    given: _OriginFiles, origin: PluginOrigin, chosen: Sequence[str], root: Path, *, keep_missing: bool
) -> StagedPlugin:
    """Write the chosen skills of an origin, or all, below the new folder `root`; no file is executable."""
    place, found, problems = _skills_of(given.root)
    unread = tuple(_noted(each, given, origin) for each in problems)
    if not found:
        message = f"{origin.shown}: there is no {MAIN_FILE} in it, so there is no skill to install"
        if unread:
            message += f"; not all of it can be read: {unread[0].path}: {unread[0].message}"
        raise PluginError(Reason.UNREADABLE if unread else Reason.UNKNOWN_SKILL, message)
    selected, faults = _selected(found, chosen, origin)
    if faults and not (keep_missing and selected and all(each.code is Reason.UNKNOWN_SKILL for each in faults)):
        return StagedPlugin(faults=tuple(faults))
    sizes = [sum(file.size for file in each.skill.content.files.values()) for each in selected]
    if sum(sizes) > MAX_PLUGIN_SIZE or max(sizes) > _MAX_SKILL:
        message = (
            f"{origin.shown}: the skills have {sum(sizes)} bytes, the largest of them {max(sizes)}; the limits are "
            f"{MAX_PLUGIN_SIZE} and {_MAX_SKILL}; choose other skills"
        )
        raise PluginError(Reason.TOO_LARGE, message)
    notes = tuple(_noted(note, given, origin) for each in selected for note in each.skill.content.notes)
    if lacking := [replace(note, severity=Severity.ERROR) for note in notes if note.code in _INCOMPLETE]:
        return StagedPlugin(faults=tuple(lacking))
    staged = _written(place, found, selected, origin, root)
    if staged.faults:
        return staged
    return replace(staged, findings=(*given.notes, *unread, *notes), commit=given.commit)


def _skills_of(root: Path) -> tuple[Path, list[_FoundSkill], tuple[Diagnostic, ...]]:
    """Return the folder with the skills, the skills, enclosing ones first, and diagnostics of what cannot be read."""
    problems: tuple[Diagnostic, ...] = ()
    places = [root / path for path in _PLACES if not (root / path).is_symlink() and (root / path).is_dir()]
    for place in (*places, root):
        try:
            sources = explicit_sources([place], conventions=False)
        except InvalidSourceError as error:
            raise PluginError(Reason.UNREADABLE, str(error)) from None
        catalog = Library(sources, lambda: _ANY_MACHINE).catalog
        problems = tuple(catalog.problems)
        listed = [skill for skill in catalog.skills if skill.content.kind is SkillKind.FOLDER and skill.content.main]
        found = [_FoundSkill("" if skill.content.place == "." else skill.content.place, skill) for skill in listed]
        if found:
            return place, sorted(found, key=lambda each: f"{each.path}/" if each.path else ""), problems
    return root, [], problems


def _selected(
    found: Sequence[_FoundSkill], chosen: Sequence[str], origin: PluginOrigin
) -> tuple[list[_FoundSkill], list[Diagnostic]]:
    if not chosen:
        return list(found), []
    faults: list[Diagnostic] = []
    selected: dict[str, _FoundSkill] = {}
    for name in chosen:
        named = [each for each in found if name in {each.skill.content.name, each.uri}]
        if len(named) > 1:
            uris = ", ".join(shown(each.uri) for each in named)
            message = f"{len(named)} skills have this name; choose one by its path: {uris}"
            faults.append(Diagnostic(Severity.ERROR, Reason.AMBIGUOUS_NAME, message, shown(name)))
        elif not named:
            message = f"there is no skill '{shown(name)}' in it"
            faults.append(Diagnostic(Severity.ERROR, Reason.UNKNOWN_SKILL, message, origin.shown))
        selected |= {each.uri: each for each in named}
    return [each for each in found if each.uri in selected], faults


def _written(
    place: Path,
    found: Sequence[_FoundSkill],
    selected: Sequence[_FoundSkill],
    origin: PluginOrigin,
    root: Path,
) -> StagedPlugin:
    names = {each.uri: _folder_name(each) for each in found}
    folders = FolderNames(names.values())
    receipts: list[SkillReceipt] = []
    whole: list[tuple[str, str, frozenset[str]]] = []
    for each in selected:
        contents = _contents(place, each)
        folder = _nested_folder(each, whole)
        if folder is None:
            folder = folders.claim(names[each.uri], each.path or names[each.uri])
            if folder is None:
                message = "its folder would be inside that of another skill; choose other skills"
                fault = Diagnostic(Severity.ERROR, Reason.NAME_COLLISION, message, shown(each.uri))
                return StagedPlugin(faults=(fault,))
            try:
                install(root, folder, contents, server=origin.shown, uri=each.uri)
            except InstallRefusedError as error:
                return StagedPlugin(faults=(Diagnostic(Severity.ERROR, error.reason, error.message, shown(each.uri)),))
            whole.append((each.path, folder, frozenset(contents)))
        digest = _digest_over((path, file.digest) for path, file in each.skill.content.files.items())
        version = each.skill.content.instructions.frontmatter.version
        receipts.append(SkillReceipt(each.uri, each.skill.content.name, folder, version, digest))
    return StagedPlugin(tuple(receipts))


def _folder_name(found: _FoundSkill) -> str:
    """Return the name of a skill's folder: its name, or that of its folder if its name is not a valid one."""
    name = found.skill.content.name
    return name if name_fault(name) is None else found.path.rpartition("/")[2] or "skill"


def _nested_folder(each: _FoundSkill, whole: Sequence[tuple[str, str, frozenset[str]]]) -> str | None:
    """Return where a skill lies that was written with the files of an enclosing one; None if there is none."""
    for path, folder, contents in whole:
        prefix = f"{path}/" if path else ""
        below = each.path.removeprefix(prefix)
        main = each.skill.content.main
        if each.path.startswith(prefix) and below and main is not None and f"{below}/{main.path}" in contents:
            return f"{folder}/{below}"
    return None


def _contents(place: Path, each: _FoundSkill) -> dict[str, bytes]:
    """Return the files of a skill; fail if one of them has changed since it was found."""
    contents: dict[str, bytes] = {}
    with Reader() as reader:
        for path, file in each.skill.content.files.items():
            try:
                raw, _ = reader.read(Location(place, f"{each.path}/{path}".lstrip("/")))
            except FileRefusedError as error:
                raise PluginError(Reason.UNREADABLE, f"{shown(each.uri)}: {error.message}") from None
            if "sha256:" + hashlib.sha256(raw).hexdigest() != file.digest:
                message = f"{shown(each.uri)}: {one_line(path[:200])} changed while it was read; run the command again"
                raise PluginError(Reason.UNREADABLE, message)
            contents[path] = raw
    return contents


def _noted(note: Diagnostic, given: _OriginFiles, origin: PluginOrigin) -> Diagnostic:
    """Return a diagnostic about a file with its place in the origin instead of the folder it was unpacked to."""
    before = str(given.root)
    if note.path.startswith(before):
        return replace(note, path=printable(origin.shown + note.path.removeprefix(before)))
    return note


async def stage_plugin(
    origin: PluginOrigin, chosen: Sequence[str], place: Path, final: Path, *, keep_missing: bool = False
) -> StagedPlugin:
    """Write the chosen skills of an origin, or all, to the folder `place`, which need not exist.

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
    given = await _files_of(origin, scratch)
    copy = partial(_copy_skills, given, origin, chosen, place / SKILLS_FOLDER, keep_missing=keep_missing)
    staged = await anyio.to_thread.run_sync(copy)
    return staged if staged.faults else _checked(staged, place, final)


async def _from_server(
    address: Address, chosen: Sequence[str], place: Path, final: Path, *, keep_missing: bool
) -> StagedPlugin:
    root = place / SKILLS_FOLDER
    outcome = await fetch_from(address, chosen, root, lambda _: None, max_size=MAX_PLUGIN_SIZE)
    fetched = [result for result in outcome.results if isinstance(result, Fetched)]
    may_lack = keep_missing and fetched
    faults = [each for each in outcome.diagnostics if not (may_lack and each.code is Reason.UNKNOWN_SKILL)]
    for result in fetched:
        faults += [each for each in result.diagnostics if each.severity is Severity.ERROR]
    if faults:
        return StagedPlugin(faults=tuple(_at_final_place(each, place, final) for each in faults))
    skills = _receipts(fetched, root)
    warnings = (_at_final_place(each, place, final) for result in fetched for each in result.skill.diagnostics)
    staged = StagedPlugin(tuple(receipt for receipt, _ in skills), findings=tuple(warnings))
    return _checked(staged, place, final)


def _receipts(fetched: Sequence[Fetched], root: Path) -> list[tuple[SkillReceipt, Entry]]:
    """Return the receipt of each skill with its entry; enclosing skills come before those nested in them."""
    found: list[tuple[SkillReceipt, Entry]] = []
    for result in fetched:
        entry = result.skill.entry
        assert entry is not None  # noqa: S101 - it was verified
        if result.folder is not None:
            folder = Path(result.folder).relative_to(root).as_posix()
        else:
            paths = ((receipt.folder, path_below(outer.root, entry.root)) for receipt, outer in found)
            folder = next(f"{above}/{path}" for above, path in paths if path is not None)
        digest = _digest_over((file.path, file.digest) for file in entry.files)
        found.append((SkillReceipt(entry.uri, entry.name, folder, _version(entry), digest), entry))
    return found


def _digest_over(files: Iterable[tuple[str, str]]) -> str:
    """Return the digest over the paths and digests of a skill's files."""
    return "sha256:" + hashlib.sha256(json.dumps(sorted(files)).encode()).hexdigest()


def _version(entry: Entry) -> str | None:
    """Return the version as text; `version: 1.0` is a number."""
    value = entry.frontmatter.get("version")
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return shown(str(value))
    except ValueError:  # Python refuses to print integers of thousands of digits
        return None


def _checked(staged: StagedPlugin, place: Path, final: Path) -> StagedPlugin:
    """Return the plugin with what a server will say of its skills, and with those that it will not serve."""
    listed = {receipt.folder: receipt.name for receipt in staged.skills}
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
    # A server does not find a folder that lies too deep.
    invalid += [name for folder, name in listed.items() if folder not in found]
    placed = (_at_final_place(each, place, final) for each in findings)
    files = {f"{SKILLS_FOLDER}/{path}": digest for path, digest in digests_below(place / SKILLS_FOLDER).items()}
    return replace(staged, files=files, findings=(*staged.findings, *placed), invalid=tuple(invalid))


def _at_final_place(diagnostic: Diagnostic, place: Path, final: Path) -> Diagnostic:
    for before in {str(place), str(real_path(place))}:
        if diagnostic.path.startswith(before):
            return replace(diagnostic, path=printable(str(final)) + diagnostic.path.removeprefix(before))
    return diagnostic
