"""Find and load the skills of one source, and reload what changed; `loader` loads each skill."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from skills_core.diagnostics import Diagnostic, Reason, Severity, capped, printable
from skills_core.disk.files import Reader
from skills_core.disk.folders import EVALS, MAIN_FILES, Listing, find_main
from skills_core.disk.gitignore import FILE_NAME, UNUSABLE_RULES
from skills_core.disk.links import LinkIndex
from skills_core.disk.scan import Walk, locate, rescan, scan, share_walked
from skills_core.disk.sources import SkillKind
from skills_core.disk.tree import Tree, join, parent
from skills_core.errors import SkillsError
from skills_core.format.instructions import holds_documents, kind_of_file
from skills_core.format.stubs import MAX_STUB, is_stub, read_stub
from skills_core.layered import Layered
from skills_core.loading.loader import SourceReading, load_content, load_document
from skills_core.skills.skill import SkillContent, SkillFile

if TYPE_CHECKING:
    from skills_core.disk.files import Location
    from skills_core.disk.sources import Source


_PROBLEMS = {
    Reason.SYMLINK: "symbolic links are not followed; name the link's target as a source, or set follow_symlinks",
    Reason.SYMLINK_OUTSIDE: "this link is not followed: it is broken, circular, or leads out of the source to something"
    " other than a skill folder",
    Reason.UNREADABLE: "this cannot be read now and will be tried again; until then, its last known content stays",
    Reason.PERMISSION_DENIED: "reading this is not permitted; check its permissions",
    Reason.SCAN_LIMIT: "this folder was not scanned: it is nested too deep, or the source has too many folders or"
    " entries; name the folder that holds the skills, or raise scan_depth or scan_folders",
    Reason.INVALID_CONFIGURATION: UNUSABLE_RULES,
}


def _nothing() -> MappingProxyType[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LoadedSource:
    """A source with its loaded skills: `contents` maps their places to their contents.

    `documents` are those of `contents` that are single files. `texts` are files, by path, that could be skills and are
    not. `unread` are the paths that the system could not read: their last known content stays, and each reload tries
    again. With `main_only`, only the main file of each skill was read. `changed` are the places whose contents differ
    from those of the load before; `renewed` are the folders that were listed again, and the places that were loaded
    again; None if that is not known. One that is not `complete` is still being loaded: what it
    does not have is unknown, not absent. `fault` says why loading it goes on later.
    """

    source: Source
    tree: Tree = field(repr=False)
    contents: Mapping[str, SkillContent] = field(default_factory=_nothing, repr=False)
    documents: Mapping[str, SkillContent] = field(default_factory=_nothing, repr=False)
    texts: Mapping[str, SkillFile] = field(default_factory=_nothing, repr=False)
    problems: tuple[Diagnostic, ...] = ()
    unread: frozenset[str] = frozenset()
    main_only: bool = False
    links: LinkIndex = field(default_factory=LinkIndex, repr=False, compare=False)
    changed: frozenset[str] | None = field(default=None, repr=False, compare=False)
    renewed: frozenset[str] | None = field(default=None, repr=False, compare=False)
    complete: bool = True
    fault: str = ""

    def places_changed_since(self, before: LoadedSource) -> Collection[str]:
        """Return the places whose contents came, went or changed since `before`, the load before this one."""
        if self.changed is not None:
            return self.changed
        known = before.contents
        places = [place for place, content in self.contents.items() if known.get(place) is not content]
        return [*places, *(known.keys() - self.contents.keys())]

    def places_concerned_since(self, before: LoadedSource) -> Collection[str] | None:
        """Return the places whose contents differ from those of the load before, and those beside; None for all."""
        if self.changed is None:
            return None
        found = {*self.changed}
        for folder in {parent(place) for place in self.changed}:
            listings = (tree.get(folder) for tree in (before.tree, self.tree))
            found.update(join(folder, name) for listing in listings if listing is not None for name in listing.folders)
        return found

    @property
    def roots(self) -> frozenset[Path]:
        """The folders below which changes may concern this source."""
        return frozenset() if self.source.barred else self.links.roots | {self.source.root}

    def paths_of(self, reals: Iterable[Path]) -> Iterator[str]:
        """Yield the paths in this source that absolute paths correspond to; `""` if the root itself may differ.

        Some may come twice. A checkout changes many files of each folder, so each folder is compared once.
        """
        root = self.source.root
        above = frozenset((root, *root.parents))
        known: dict[str, list[str]] = {}
        for real in reals:
            if real in above:
                yield ""
            yield from self.links.links_to(real)
            folder, _, name = str(real).rpartition(os.sep)
            if folder not in known:
                known[folder] = list(self._paths_of_folder(real.parent))
            for path in known[folder]:
                yield join(path, name)

    def _paths_of_folder(self, folder: Path) -> Iterator[str]:
        if folder.is_relative_to(self.source.root):
            relative = folder.relative_to(self.source.root).as_posix()
            yield "" if relative == "." else relative
        yield from self.links.paths_through(folder)


class Part(NamedTuple):
    """A part of a source: `source` makes it, and `share` estimates how much of the whole it is, from 0 to 1.

    Both cost time, and are for some of the parts only. `folder` is the one that was loaded since the part before, None
    if there is no single one.
    """

    source: Callable[[], LoadedSource]
    share: Callable[[], float]
    folder: str | None = None


def load_in_parts(
    source: Source, *, main_only: bool = False, pause: Callable[[], None] | None = None
) -> Iterator[Part]:
    """Load a source, one folder a step; each step yields the source as it is then.

    A folder is loaded as soon as all below it is listed, so the first step does not wait for the whole scan. The last
    one is complete. If the source has more folders or entries than its bounds allow, that is known only at the end;
    then the last one may lack what earlier ones had. `pause` is called often, and may block to let others work, or
    raise.
    """
    before = LoadedSource(source, Tree())
    with Reader() as reader:
        walk = Walk(source, reader, fingerprints=not main_only, pause=pause)
        reading = SourceReading(source, walk.tree, reader, frozenset(), frozenset(), main_only)
        loading = _Loading(before, reading, Layered(), Layered(), Layered())
        for folder in walk.finished() if not source.barred else ():
            loading.load(folder, pause)
            yield Part(partial(_so_far, loading, walk.tree, folder), partial(share_walked, walk.tree, folder), folder)
    whole = _load_all(before, main_only=main_only, pause=pause) if walk.is_full else _finish(loading)
    yield Part(lambda: whole, lambda: 1.0)


_WORTH_DIVIDING = 1000
# Folders: most take half a millisecond to load, and another process a quarter of a second to start.

_MOST_LISTED = 100
# Folders that are listed to find so many.


def divided(source: Source) -> tuple[Tree, list[str]] | None:
    """Return folders that can be loaded one by one, and the listings of those above.

    None for a small source, for one with links or ignore files, where what a folder has depends on others, and for one
    that is searched for single files alone, of whose folders few have anything to read.
    """
    if source.barred or source.gitignore or source.follow_symlinks or SkillKind.FOLDER not in source.kinds:
        return None
    with Reader() as reader:
        walk = Walk(source, reader, fingerprints=False)
        folders = walk.divide(_WORTH_DIVIDING, _MOST_LISTED)
    return (walk.tree, folders) if len(folders) >= _WORTH_DIVIDING else None


def load_below(source: Source, folders: Iterable[str]) -> LoadedSource:
    """Load folders of a source with all below them, none of which is in a skill or in another one.

    What is in the folders above is unknown. If a bound of the source is reached, nothing is loaded.
    """
    before = LoadedSource(source, Tree())
    with Reader() as reader:
        walk = Walk(source, reader)
        reading = SourceReading(source, walk.tree, reader, frozenset(), frozenset(), main_only=False)
        loading = _Loading(before, reading, Layered(), Layered(), Layered())
        for start in folders:
            above = start
            while above:
                above = parent(above)
                walk.tree.enter(above, _UNFINISHED)
            for folder in walk.finished(start):
                loading.load(folder, None)
    return before if walk.is_full else _finish(loading)


def reload_in_parts(
    loaded: LoadedSource, *, main_only: bool = False, pause: Callable[[], None] | None = None
) -> Iterator[Part]:
    """Compare a source with the disk and load what differs, one folder a step; see `load_in_parts`.

    All folders are compared in the first step. What is not loaded again yet is in the parts as it was before.
    """
    # Without the other files, a catalog is made once; else the next load compares the fingerprints.
    tree = scan(loaded.source, loaded.tree, fingerprints=not main_only or bool(loaded.contents), pause=pause)
    stale = _inmost_first(_stale(loaded, tree))
    whole = loaded
    if stale or not loaded.tree:
        with Reader() as reader:
            known = Layered(loaded.contents), Layered(loaded.documents), Layered(loaded.texts)
            reading = SourceReading(loaded.source, tree, reader, loaded.unread, loaded.unread, main_only)
            loading = _Loading(loaded, reading, *known)
            listed = Tree(loaded.tree)
            for number, folder in enumerate(stale, 1):
                loading.load(folder, pause)
                if folder in tree:
                    listed.enter(folder, tree[folder])
                else:
                    listed.drop(folder)
                yield Part(partial(_so_far, loading, listed, folder), partial(float, number / len(stale)), folder)
        whole = _finish(loading)
    yield Part(lambda: whole, lambda: 1.0)


def _inmost_first(folders: Iterable[str]) -> list[str]:
    """Return folders in an order in which a folder comes after all below it, with nothing else in between."""
    # One sort of three hundred thousand would keep Python's lock from all requests for 0.2 s.
    below: dict[str, list[str]] = {}
    for folder in folders:
        below.setdefault(folder.partition("/")[0], []).append(folder)
    in_turn = (sorted(below[top], key=_parts_in_order, reverse=True) for top in sorted(below, reverse=True))
    return [*chain.from_iterable(in_turn)]


def _parts_in_order(folder: str) -> str:
    return folder.replace("/", "\0")


_UNFINISHED = Listing()


def _so_far(loading: _Loading, listed: Tree, folder: str) -> LoadedSource:
    """Return what is loaded when all in `folder` is; as the folders above are not, nothing is known to be in them.

    `listed` are the listings of the folders that were loaded, and of those of before.
    """
    tree = Tree(listed)
    above = folder
    while above:
        above = parent(above)
        tree.enter(above, _UNFINISHED)
    contents, documents, texts = loading.contents.copy(), loading.documents.copy(), loading.texts.copy()
    reading = replace(loading.reading, tree=tree)
    part = _finish(replace(loading, reading=reading, contents=contents, documents=documents, texts=texts))
    # What is refused may belong to a skill that is not loaded yet.
    return replace(part, problems=(), complete=False)


def find_skill_files(source: Source) -> Iterator[str]:
    """Yield the paths in `source` of all files that a load reads as skills; a missing root has none."""
    tree = scan(source, fingerprints=False)
    with Reader() as reader:
        for folder, listing in tree.items():
            main = find_main(listing)
            if main is not None and _is_skill_folder(source, tree, folder):
                path = join(folder, main)
                if not _is_stub_at(reader, locate(source, tree, path)):
                    yield path
            for name, _ in find_documents(source, tree, folder):
                yield join(folder, name)


def _is_stub_at(reader: Reader, location: Location) -> bool:
    try:
        return read_stub(reader.read(location, MAX_STUB)[0].decode("utf-8")) is not None
    except (SkillsError, OSError, UnicodeDecodeError):
        return False


_AT_ROOT_ONLY = "SOUL.MD"

_SUPPORTING_FOLDERS = frozenset({"references", "agents", "scripts"})
# Folders below `.skills` and `.claude/skills` whose Markdown files are supporting files.

_BUILD_FOLDERS = frozenset({"target", "dist", "build", "coverage"})
# Build output, which may hold copies of convention files.


def find_documents(source: Source, tree: Tree, folder: str) -> Iterator[tuple[str, SkillKind]]:
    """Yield the names and kinds of the files in one folder of the tree that may be skills."""
    # Most folders have no such file, and this is asked of every folder.
    named = [name for name in tree[folder].file_names if name.lower().endswith(".md") and name not in MAIN_FILES]
    if not named or source.kinds <= {SkillKind.FOLDER}:
        return
    parts = {part.lower() for part in folder.split("/")}
    folders = (*source.root.parts, *folder.split("/"))
    is_below = holds_documents(folders)
    if not parts.isdisjoint(_SUPPORTING_FOLDERS if is_below else _BUILD_FOLDERS):
        return
    found = [
        (name, kind)
        for name in named
        if (kind := kind_of_file(folders, name)) is not None and _is_wanted(source, folder, name, kind, below=is_below)
    ]
    if found and not _is_in_skill(tree, folder):
        yield from found


def _is_wanted(source: Source, folder: str, name: str, kind: SkillKind, *, below: bool) -> bool:
    if kind is SkillKind.DOCUMENT:
        # One outside of these folders is a `*.skill.md`, and belongs to every source that is searched for single files.
        return kind in source.kinds or not below
    if kind is SkillKind.CONVENTION:
        return kind in source.kinds and not (folder and name.upper() == _AT_ROOT_ONLY)
    return False


def _is_in_skill(tree: Tree, folder: str) -> bool:
    above = folder
    while tree.main_of(above) is None:
        if not above:
            return False
        above = above.rpartition("/")[0]
    return True


def load_source(source: Source, *, main_only: bool = False) -> LoadedSource:
    """Scan `source` and load every skill in it. A missing root is a problem, not an exception.

    With `main_only`, only the main file of each skill is read.
    """
    (last,) = deque(load_in_parts(source, main_only=main_only), maxlen=1)
    return last.source()


def reload_source(
    loaded: LoadedSource, changed: Iterable[str] | None = None, pause: Callable[[], None] | None = None
) -> LoadedSource:
    """Reload what changed; unchanged contents stay the same objects.

    `changed` are paths relative to the root; with None, the metadata of all files is compared. Paths that could not be
    read at the last load are read in either case. `pause` is called for each folder that is compared or loaded.
    """
    if changed is None:
        return _load_all(loaded, main_only=loaded.main_only, pause=pause)
    paths = frozenset(changed) | loaded.unread
    if loaded.source.gitignore:
        # An ignore file applies to its whole folder.
        paths = frozenset(parent(path) if path.rpartition("/")[2] == FILE_NAME else path for path in paths)
    tree, touched = rescan(loaded.source, loaded.tree, paths, pause)
    stale = enclosing(touched)
    with Reader() as reader:
        known = Layered(loaded.contents), Layered(loaded.documents), Layered(loaded.texts)
        reading = SourceReading(loaded.source, tree, reader, paths, loaded.unread, loaded.main_only)
        loading = _Loading(loaded, reading, *known, touched)
        uncovered = _uncovered(loaded.tree, tree, stale)
        for folder in _inmost_first(stale | uncovered | _referring(loaded.documents)):
            loading.load(folder, pause)
    return _finish(loading)


def _load_all(
    loaded: LoadedSource, *, main_only: bool = False, pause: Callable[[], None] | None = None
) -> LoadedSource:
    (last,) = deque(reload_in_parts(loaded, main_only=main_only, pause=pause), maxlen=1)
    return last.source()


def _stale(loaded: LoadedSource, tree: Tree) -> set[str]:
    """Return the folders to load again after a scan of the whole source.

    These are the folders whose listings differ, those with files that could not be read or were not settled, all that
    enclose them, and those where what is a skill may have changed. Through links, what a folder shows may change while
    its listing does not.
    """
    before, contents, texts = loaded.tree, loaded.contents, loaded.texts
    if loaded.source.follow_symlinks:
        return {*before, *tree}
    touched: set[str] = set()
    if tree is not before:
        touched = tree.differing(before)
    touched |= {each.folder for each in contents.values() if not each.files.are_settled}
    touched |= {parent(place) for place, file in texts.items() if not file.settled}
    stale = enclosing((*touched, *map(parent, loaded.unread)))
    return stale | _uncovered(before, tree, stale) | _referring(loaded.documents)


@dataclass(slots=True)
class _Loading:
    """One load of a source: the new tree, the contents loaded so far, and the places that were looked at.

    `touched` are the folders that were listed again; None if all were.
    """

    before: LoadedSource
    reading: SourceReading
    contents: Layered[str, SkillContent]
    documents: Layered[str, SkillContent]
    texts: Layered[str, SkillFile]
    touched: frozenset[str] | None = None
    entered: set[str] = field(default_factory=set)

    @property
    def source(self) -> Source:
        return self.before.source

    @property
    def tree(self) -> Tree:
        return self.reading.tree

    def load(self, folder: str, pause: Callable[[], None] | None) -> None:
        """Load the skills of a folder, or remove them; `pause` is called before."""
        if pause is not None:
            pause()
        # The listings of a skill are packed once it is loaded.
        self.load_documents(folder)
        self.load_folder(folder)

    def load_folder(self, folder: str) -> None:
        """Load the skill of a folder, or remove it if the folder is not one."""
        self.entered.add(folder)
        if _is_skill_folder(self.source, self.tree, folder):
            known = self.before.contents.get(folder)
            known = known if known is not None and known.kind is SkillKind.FOLDER else None
            found = load_content(self.reading, folder, known)
            if not is_stub(found.instructions.frontmatter):
                self.contents[folder] = found
                if not self.reading.main_only:
                    self.tree.pack(folder, found.files.paths, found.files.fingerprints)
                return
        # A stub stands for a skill of a server, maybe of this one.
        self.contents.pop(folder, None)

    def load_documents(self, folder: str) -> None:
        """Load the skills that are single files in a folder, and remove those that are gone."""
        # No file of a skill is a document, so what is packed had none.
        known = self.before.tree.plain.get(folder)
        for name in known.file_names if known is not None else ():
            place = join(folder, name)
            self.entered.add(place)
            self.texts.pop(place, None)
            if self.documents.pop(place, None) is not None and place not in self.tree:
                self.contents.pop(place)
        for name, kind in find_documents(self.source, self.tree, folder) if folder in self.tree else ():
            place = join(folder, name)
            self.entered.add(place)
            loaded = load_document(
                self.reading, place, kind, self.before.texts.get(place) or self.before.documents.get(place)
            )
            if isinstance(loaded, SkillContent):
                self.contents[place] = self.documents[place] = loaded
            else:
                self.texts[place] = loaded


def _is_skill_folder(source: Source, tree: Tree, folder: str) -> bool:
    is_main = SkillKind.FOLDER in source.kinds and tree.main_of(folder) is not None
    return is_main and not _is_input_of_tests(tree, folder)


def _is_input_of_tests(tree: Tree, folder: str) -> bool:
    """Tell whether a folder lies in the folder `evals` of a skill: a skill there is one to test the outer skill with.

    A folder `evals` that is a skill itself is not such a folder.
    """
    if f"{EVALS}/" not in folder.casefold():
        return False
    parts = folder.split("/")
    return any(
        part.casefold() == EVALS
        and tree.main_of("/".join(parts[:number]))
        and not tree.main_of("/".join(parts[: number + 1]))
        for number, part in enumerate(parts[:-1])
    )


def enclosing(folders: Iterable[str]) -> set[str]:
    """Return the folders and all folders above: a change in a folder changes every enclosing skill."""
    found: set[str] = set()
    for folder in folders:
        current = folder
        while current not in found:
            found.add(current)
            current = parent(current)
    return found


def _uncovered(before: Tree, after: Tree, folders: Iterable[str]) -> set[str]:
    """Return all folders below those that became skills or ceased to be skills."""
    found: set[str] = set()
    for folder in folders:
        # What is below a folder that came or went came or went itself.
        if folder in before and folder in after and before.main_of(folder) != after.main_of(folder):
            waiting = [folder]
            while waiting:
                current = waiting.pop()
                found.add(current)
                below = {name for tree in (before, after) if current in tree for name in tree[current].folders}
                waiting += [path for name in below if (path := join(current, name)) not in found]
    return found


def _referring(documents: Mapping[str, SkillContent]) -> set[str]:
    """Return the folders of documents with references, which may be anywhere below."""
    return {parent(place) for place, content in documents.items() if content.instructions.frontmatter.references}


def _finish(loading: _Loading) -> LoadedSource:
    source, tree, contents, before = loading.source, loading.tree, loading.contents, loading.before
    for mapping in (tree, contents, loading.documents, loading.texts):
        mapping.merge()
    changed = None
    if loading.touched is not None:
        changed = frozenset(each for each in loading.entered if before.contents.get(each) is not contents.get(each))
    has_same_places = changed is not None and all(each in contents and each in before.contents for each in changed)
    return LoadedSource(
        source,
        tree,
        contents,
        loading.documents,
        loading.texts,
        before.problems if has_same_places and not _may_differ(loading) else problems_of(source, tree, contents),
        tree.unread | loading.reading.unread,
        loading.reading.main_only,
        links_of(source, tree),
        changed,
        None if loading.touched is None else loading.touched | loading.entered,
    )


def links_of(source: Source, tree: Tree) -> LinkIndex:
    """Return the links that are followed in a tree."""
    if not source.follow_symlinks:
        return LinkIndex()
    return LinkIndex(
        [(join(folder, name), target) for folder in sorted(tree.linking) for name, target in tree[folder].links]
    )


def _may_differ(loading: _Loading) -> bool:
    """Tell whether problems outside of skills may have changed."""
    if loading.touched is None or "" not in loading.tree or "" not in loading.before.tree:
        return True
    return not all(map(loading.touched.isdisjoint, (loading.before.tree.refusing, loading.tree.refusing)))


def problems_of(source: Source, tree: Tree, contents: Mapping[str, SkillContent]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics about entries outside of skills; those inside have diagnostics of the skill."""
    root = printable(str(source.root))
    if source.barred:
        project = printable(str(source.project))
        message = f"this link leads out of the untrusted project {project}; it is not followed until you trust it"
        return (Diagnostic(Severity.WARNING, Reason.SYMLINK_OUTSIDE, f"{message} and restart", root),)
    if "" not in tree and source.optional:
        return ()
    if "" not in tree:
        message = "the directory is missing; its skills are served again when it is back"
        return (Diagnostic(Severity.ERROR, Reason.MISSING_DIRECTORY, message, root),)
    return capped(
        Diagnostic(Severity.WARNING, reason, _PROBLEMS[reason], source.shown(join(folder, name)))
        for folder in sorted(tree.refusing)
        if not any(above in contents for above in enclosing([folder]))
        for name, reason in tree[folder].refused
        if reason in _PROBLEMS
    )
