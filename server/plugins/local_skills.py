"""Copy the skills of a folder, an archive or a repository into the staging folder of a plugin."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio.to_thread

from server.plugins.archives import unpack
from server.plugins.git import export_skills
from server.plugins.origins import OriginKind
from server.plugins.record import PluginError, SkillRecord
from server.remote.fetch import FolderNames
from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line, printable
from skills_core.disk.files import Location, Reader
from skills_core.disk.names import MAIN_FILE
from skills_core.errors import FileRefusedError, InstallRefusedError, InvalidSourceError
from skills_core.format.frontmatter import name_fault
from skills_core.gates import Environment
from skills_core.library import Library
from skills_core.remote.entries import shown
from skills_core.remote.installation import ORIGIN_FILE, install
from skills_core.sources import SkillKind, explicit_sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from server.plugins.origins import Origin
    from skills_core.skill import Skill

__all__ = ["LocalSkills", "Tree", "install_local", "tree_of"]

_PLACES: Final = ("skills", ".agents/skills", ".claude/skills", ".jdai/skills", ".github/skills")
# Where a plugin or a project keeps its skills, in this order; otherwise they are looked for everywhere.

_ANY_MACHINE: Final = Environment(os="", has_bin=lambda _: True)
_INCOMPLETE: Final = frozenset({Reason.TOO_LARGE, Reason.UNREADABLE})
# A skill without a file of its own that cannot be read would look whole.

_MAX_NAMED: Final = 5
_MAX_SKILL: Final = 256 * 1024 * 1024
# Bytes of one skill, which is held in memory while it is copied.


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of an origin: their folder, the commit of a repository, and a note on what was left out."""

    root: Path
    commit: str | None = None
    notes: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalSkills:
    """The skills that were written to the staging folder, with digests of all files by path below it."""

    records: tuple[SkillRecord, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()


async def tree_of(origin: Origin, scratch: Path, limit: int) -> Tree:
    """Return the files of a folder, an archive or a repository; `scratch` is an empty folder that the caller removes.

    Raises:
        PluginError: there is nothing that can be read.
        OSError: a file cannot be written.
    """
    if origin.kind is OriginKind.GIT:
        exported = await export_skills(origin, scratch / "objects", scratch / "files", limit)
        return Tree(scratch / "files", exported.commit, _left_out(origin, exported.left_out))
    return await anyio.to_thread.run_sync(_from_disk, origin, scratch / "files", limit)


def _from_disk(origin: Origin, files: Path, limit: int) -> Tree:
    assert origin.path is not None  # noqa: S101 - that of a folder or archive
    is_folder = origin.kind is OriginKind.FOLDER
    if not (origin.path.is_dir() if is_folder else origin.path.is_file()):
        raise PluginError(Reason.UNREACHABLE, f"{origin.shown}: there is no such {origin.kind} any more")
    if is_folder:
        return Tree(origin.path)
    unpacked = unpack(origin.path, files, limit)
    return Tree(_single_folder(files), None, _left_out(origin, unpacked.links))


def _left_out(origin: Origin, paths: Sequence[str]) -> tuple[Diagnostic, ...]:
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


class _Found(NamedTuple):
    """A skill of a tree; `path` is its folder below the root, empty for the root itself."""

    path: str
    skill: Skill

    @property
    def uri(self) -> str:
        """What names it in the record."""
        return f"{self.path}/{MAIN_FILE}".lstrip("/")


def install_local(
    tree: Tree, origin: Origin, chosen: Sequence[str], root: Path, limit: int, *, keep_missing: bool = False
) -> LocalSkills:
    """Write the chosen skills of a tree, or all, below the new folder `root`; nothing of them is executable.

    With `keep_missing`, chosen skills that are not there any more are left out, as long as there are others.

    Raises:
        PluginError: there is no skill, or a file cannot be read.
    """
    place, found, problems = _skills_of(tree.root)
    unread = tuple(_noted(each, tree, origin) for each in problems)
    if not found:
        message = f"{origin.shown}: there is no {MAIN_FILE} in it, so there is no skill to install"
        if unread:
            message += f"; not all of it can be read: {unread[0].path}: {unread[0].message}"
        raise PluginError(Reason.UNREADABLE if unread else Reason.UNKNOWN_SKILL, message)
    selected, faults = _selected(found, chosen, origin)
    if faults and not (keep_missing and selected and all(each.code is Reason.UNKNOWN_SKILL for each in faults)):
        return LocalSkills(faults=tuple(faults))
    sizes = [sum(file.size for file in each.skill.content.files.values()) for each in selected]
    if sum(sizes) > limit or max(sizes) > _MAX_SKILL:
        message = (
            f"{origin.shown}: the skills have {sum(sizes)} bytes, the largest of them {max(sizes)}; the limits are "
            f"{limit} and {_MAX_SKILL}; choose other skills"
        )
        raise PluginError(Reason.TOO_LARGE, message)
    notes = tuple(_noted(note, tree, origin) for each in selected for note in each.skill.content.notes)
    if lacking := [replace(note, severity=Severity.ERROR) for note in notes if note.code in _INCOMPLETE]:
        return LocalSkills(faults=tuple(lacking))
    return _written(place, found, selected, origin, root, (*tree.notes, *unread, *notes))


def _skills_of(root: Path) -> tuple[Path, list[_Found], tuple[Diagnostic, ...]]:
    """Return the folder that paths of skills are relative to, the skills, enclosing ones first, and what is unread.

    Raises:
        PluginError: a folder cannot be read.
    """
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
        found = [_Found("" if skill.content.place == "." else skill.content.place, skill) for skill in listed]
        if found:
            return place, sorted(found, key=lambda each: f"{each.path}/" if each.path else ""), problems
    return root, [], problems


def _selected(found: Sequence[_Found], chosen: Sequence[str], origin: Origin) -> tuple[list[_Found], list[Diagnostic]]:
    if not chosen:
        return list(found), []
    faults: list[Diagnostic] = []
    selected: dict[str, _Found] = {}
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
    found: Sequence[_Found],
    selected: Sequence[_Found],
    origin: Origin,
    root: Path,
    notes: tuple[Diagnostic, ...],
) -> LocalSkills:
    names = {each.uri: _folder_name(each) for each in found}
    folders = FolderNames(names.values())
    records: list[SkillRecord] = []
    files: dict[str, str] = {}
    whole: list[tuple[str, str, frozenset[str]]] = []
    for each in selected:
        contents = _contents(place, each)
        digests = {path: "sha256:" + hashlib.sha256(raw).hexdigest() for path, raw in contents.items()}
        folder = _nested_folder(each, whole)
        if folder is None:
            folder = folders.claim(names[each.uri], each.path or names[each.uri])
            if folder is None:
                message = "its folder would be inside that of another skill; choose other skills"
                fault = Diagnostic(Severity.ERROR, Reason.NAME_COLLISION, message, shown(each.uri))
                return LocalSkills(faults=(fault,))
            try:
                install(root, folder, contents, server=origin.shown, uri=each.uri)
            except InstallRefusedError as error:
                return LocalSkills(faults=(Diagnostic(Severity.ERROR, error.reason, error.message, shown(each.uri)),))
            whole.append((each.path, folder, frozenset(contents)))
            raw = (root / folder / ORIGIN_FILE).read_bytes()
            files[f"{root.name}/{folder}/{ORIGIN_FILE}"] = "sha256:" + hashlib.sha256(raw).hexdigest()
        files |= {f"{root.name}/{folder}/{path}": digest for path, digest in digests.items()}
        digest = "sha256:" + hashlib.sha256(json.dumps(sorted(digests.items())).encode()).hexdigest()
        version = each.skill.content.instructions.frontmatter.version
        records.append(SkillRecord(each.uri, each.skill.content.name, folder, version, digest))
    return LocalSkills(tuple(records), files, notes=notes)


def _folder_name(found: _Found) -> str:
    """Return the name of a skill's folder: its name, or that of its folder if its name is not a valid one."""
    name = found.skill.content.name
    return name if name_fault(name) is None else found.path.rpartition("/")[2] or "skill"


def _nested_folder(each: _Found, whole: Sequence[tuple[str, str, frozenset[str]]]) -> str | None:
    """Return where a skill lies that was written with the files of an enclosing one; None if there is none."""
    for path, folder, contents in whole:
        prefix = f"{path}/" if path else ""
        below = each.path.removeprefix(prefix)
        main = each.skill.content.main
        if each.path.startswith(prefix) and below and main is not None and f"{below}/{main.path}" in contents:
            return f"{folder}/{below}"
    return None


def _contents(place: Path, each: _Found) -> dict[str, bytes]:
    """Return the files of a skill as they were found.

    Raises:
        PluginError: one of them cannot be read, or has changed meanwhile.
    """
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


def _noted(note: Diagnostic, tree: Tree, origin: Origin) -> Diagnostic:
    """Return a diagnostic about a file with its place in the origin instead of the folder it was unpacked to."""
    before = str(tree.root)
    if note.path.startswith(before):
        return replace(note, path=printable(origin.shown + note.path.removeprefix(before)))
    return note
