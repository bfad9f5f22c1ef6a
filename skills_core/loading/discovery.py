"""One source, from folders to contents: find the skills, load them, and load again what changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import Diagnostic, Reason, Severity, capped, printable
from skills_core.disk.files import Reader
from skills_core.disk.folders import Listing, find_main
from skills_core.disk.gitignore import FILE_NAME, UNUSABLE_RULES
from skills_core.disk.links import LinkIndex
from skills_core.disk.scan import Tree, parent, rescan, scan
from skills_core.loading.document_loader import load_document
from skills_core.loading.documents import find_documents
from skills_core.loading.folder_loader import load_content
from skills_core.loading.reading import UnreadPaths
from skills_core.skill import SkillContent, SkillFile
from skills_core.sources import SkillKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from skills_core.disk.files import Location
    from skills_core.sources import Source

__all__ = ["LoadedSource", "load_source", "reload_source"]

_PROBLEMS = {
    Reason.SYMLINK: "symbolic links are not followed; name the link's target as a source, or set follow_symlinks",
    Reason.SYMLINK_OUTSIDE: "this link leads to no skill folder, out of what it must stay in, in a circle, or nowhere",
    Reason.UNREADABLE: "the system cannot read this now, and tries again; what was known of it stays",
    Reason.PERMISSION_DENIED: "this may not be read; check its permissions",
    Reason.SCAN_LIMIT: "this folder was not looked into: it is nested too deep, or there are too many folders or names"
    " in the source; name the folder that holds the skills, or raise scan_depth or scan_folders",
    Reason.INVALID_CONFIGURATION: UNUSABLE_RULES,
}


def _nothing() -> MappingProxyType[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LoadedSource:
    """A source with what its folders hold: `contents` maps the places of skills, in order of their paths.

    Of these, `documents` are single files; `texts` are those that turned out to be no skills, by their paths. `unread`
    are the paths of what the system could not read: it is as it was known before, and read again by each reload. With
    `main_only` of each skill the file alone was read that makes it one.
    """

    source: Source
    tree: Tree = field(repr=False)
    contents: MappingProxyType[str, SkillContent] = field(default_factory=_nothing, repr=False)
    documents: MappingProxyType[str, SkillContent] = field(default_factory=_nothing, repr=False)
    texts: MappingProxyType[str, SkillFile] = field(default_factory=_nothing, repr=False)
    problems: tuple[Diagnostic, ...] = ()
    unread: frozenset[str] = frozenset()
    main_only: bool = False
    links: LinkIndex = field(default_factory=LinkIndex, repr=False, compare=False)

    @property
    def roots(self) -> frozenset[Path]:
        """The folders below which a change may be one of this source."""
        return frozenset() if self.source.barred else self.links.roots | {self.source.root}

    def paths_of(self, real: Path) -> Iterator[str]:
        """Yield the paths in this source that an absolute path stands for; `""` where the root itself may differ."""
        root = self.source.root
        if real.is_relative_to(root):
            relative = real.relative_to(root).as_posix()
            yield "" if relative == "." else relative
        elif root.is_relative_to(real):
            yield ""
        yield from self.links.paths_of(real)


def load_source(source: Source, *, main_only: bool = False) -> LoadedSource:
    """Scan `source` and load every skill in it. A missing root is a problem, not an exception.

    With `main_only` of each skill the file alone that makes it one, for whoever asks what skills say of themselves.
    """
    return _load_all(LoadedSource(source, Tree()), main_only=main_only)


def reload_source(loaded: LoadedSource, changed: Iterable[str] | None = None) -> LoadedSource:
    """Load again what changed; contents that did not are the same objects as before.

    `changed` are paths relative to the root; with None everything is compared by its metadata. What could not be read
    at the last load is looked at in any case.
    """
    if changed is None:
        return _load_all(loaded, main_only=loaded.main_only)
    paths = frozenset(changed) | loaded.unread
    if loaded.source.gitignore:
        # What a file of rules says, it says of its whole folder.
        paths = frozenset(parent(path) if path.rpartition("/")[2] == FILE_NAME else path for path in paths)
    tree, touched = rescan(loaded.source, loaded.tree, paths)
    stale = _enclosing(touched)
    with Reader() as reader:
        # To copy a mapping is many times as fast as to build it again.
        known = loaded.contents.copy(), loaded.documents.copy(), loaded.texts.copy()
        loading = _Loading(loaded, tree, reader, UnreadPaths(loaded.unread), *known, paths, touched, loaded.main_only)
        for folder in stale:
            loading.load_folder(folder)
        if loaded.source.kinds != {SkillKind.FOLDER}:
            for folder in stale | _uncovered(loaded.tree, tree, stale) | _referring(loaded.documents):
                loading.load_documents(folder)
    return _finish(loading)


def _load_all(loaded: LoadedSource, *, main_only: bool = False) -> LoadedSource:
    tree = scan(loaded.source, loaded.tree, fingerprints=bool(loaded.contents or loaded.texts))
    with Reader() as reader:
        unread = UnreadPaths(loaded.unread)
        loading = _Loading(loaded, tree, reader, unread, {}, {}, {}, loaded.unread, main_only=main_only)
        for folder in tree:
            loading.load_folder(folder)
            loading.load_documents(folder)
    return _finish(loading)


@dataclass(slots=True)
class _Loading:
    """One load of a source: the tree as it is now, and the contents as they come to be."""

    before: LoadedSource
    tree: Tree
    reader: Reader
    unread: UnreadPaths
    contents: dict[str, SkillContent]
    documents: dict[str, SkillContent]
    texts: dict[str, SkillFile]
    changed: frozenset[str] = frozenset()
    touched: frozenset[str] | None = None
    main_only: bool = False

    @property
    def source(self) -> Source:
        return self.before.source

    def load_folder(self, folder: str) -> None:
        """Load the skill that a folder is, or forget the one that it was."""
        if folder in self.tree and find_main(self.tree[folder]) and SkillKind.FOLDER in self.source.kinds:
            known = self.before.contents.get(folder)
            known = known if known is not None and known.kind is SkillKind.FOLDER else None
            self.contents[folder] = load_content(
                self.source,
                folder,
                self.tree,
                self.reader,
                known,
                self.changed,
                main_only=self.main_only,
                unread=self.unread,
            )
        else:
            self.contents.pop(folder, None)

    def load_documents(self, folder: str) -> None:
        """Load the skills that files in a folder are, and forget those that they were."""
        for name, _ in self.before.tree.get(folder, Listing()).files:
            place = f"{folder}/{name}" if folder else name
            self.texts.pop(place, None)
            if self.documents.pop(place, None) is not None and place not in self.tree:
                self.contents.pop(place)
        for name, kind in find_documents(self.source, self.tree, folder) if folder in self.tree else ():
            place = f"{folder}/{name}" if folder else name
            known = self.before.texts.get(place) or self.before.documents.get(place)
            loaded = load_document(
                self.source,
                place,
                kind,
                self.tree,
                self.reader,
                known,
                self.changed,
                self.unread,
                main_only=self.main_only,
            )
            if isinstance(loaded, SkillContent):
                self.contents[place] = self.documents[place] = loaded
            else:
                self.texts[place] = loaded


def _enclosing(folders: Iterable[str]) -> set[str]:
    """Return the folders with all folders above them: a change inside is a change of every enclosing skill."""
    found: set[str] = set()
    for folder in folders:
        current = folder
        while current not in found:
            found.add(current)
            current = parent(current)
    return found


def _uncovered(before: Tree, after: Tree, folders: Iterable[str]) -> set[str]:
    """Return all that lies below folders which were skills and are none any more, or the other way round."""
    turned = [
        f"{folder}/" if folder else ""
        for folder in folders
        if (folder in before and find_main(before[folder])) != (folder in after and find_main(after[folder]))
    ]
    return {folder for folder in before | after if folder.startswith(tuple(turned))} if turned else set()


def _referring(documents: Mapping[str, SkillContent]) -> set[str]:
    """Return the folders with documents that have files beside themselves: those may lie anywhere below."""
    return {parent(place) for place, content in documents.items() if content.instructions.frontmatter.references}


def _finish(loading: _Loading) -> LoadedSource:
    source, tree, contents = loading.source, loading.tree, loading.contents
    # Most reloads put one content in the place of another, and leave the order as it is.
    in_order = [*contents] == [*loading.before.contents]
    return LoadedSource(
        source,
        tree,
        MappingProxyType(contents if in_order else dict(sorted(contents.items()))),
        MappingProxyType(loading.documents),
        MappingProxyType(loading.texts),
        _problems(loading) if not in_order or _may_differ(loading) else loading.before.problems,
        tree.unread | loading.unread.now,
        loading.main_only,
        LinkIndex(_links(tree) if source.follow_symlinks else ()),
    )


def _links(tree: Tree) -> list[tuple[str, Location]]:
    return [
        (f"{folder}/{name}" if folder else name, target)
        for folder, listing in tree.items()
        for name, target in listing.links
    ]


def _may_differ(loading: _Loading) -> bool:
    """Tell whether what was looked at again has, or had, something to tell beside the skills."""
    if loading.touched is None or "" not in loading.tree or "" not in loading.before.tree:
        return True
    listings = (tree.get(folder) for tree in (loading.before.tree, loading.tree) for folder in loading.touched)
    return any(listing is not None and listing.refused for listing in listings)


def _problems(loading: _Loading) -> tuple[Diagnostic, ...]:
    """Tell of what lies outside of every skill: inside one, the skill's own diagnostics do."""
    source, tree = loading.source, loading.tree
    root = printable(str(source.root))
    if source.barred:
        message = f"this link leads out of the project {printable(str(source.project))}, which is not trusted"
        advice = "it is not followed; trust the project, and start again"
        return (Diagnostic(Severity.WARNING, Reason.SYMLINK_OUTSIDE, f"{message}; {advice}", root),)
    if "" not in tree and source.optional:
        return ()
    if "" not in tree:
        message = "the directory is gone; its skills come back when it does"
        return (Diagnostic(Severity.ERROR, Reason.MISSING_DIRECTORY, message, root),)
    refusing = [folder for folder, listing in tree.items() if listing.refused]
    return capped(
        Diagnostic(Severity.WARNING, reason, _PROBLEMS[reason], _shown(source, folder, name))
        for folder in sorted(refusing)
        if not any(above in loading.contents for above in _enclosing([folder]))
        for name, reason in tree[folder].refused
        if reason in _PROBLEMS
    )


def _shown(source: Source, folder: str, name: str) -> str:
    return printable("/".join(part for part in (str(source.root), folder, name) if part))
