"""One source, from folders to contents: find the skill folders, load them, and load again what changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.files import Reader
from skills_core.folders import find_main
from skills_core.links import LinkIndex
from skills_core.loader import load_content
from skills_core.scan import Tree, parent, rescan, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from skills_core.files import Location
    from skills_core.skill import SkillContent
    from skills_core.sources import Source

__all__ = ["LoadedSource", "load_source", "reload_source"]

_PROBLEMS = {
    Reason.SYMLINK: "symbolic links are not followed; name the link's target as a source, or set follow_symlinks",
    Reason.SYMLINK_OUTSIDE: "this link leads to no skill folder, out of what it must stay in, in a circle, or nowhere",
    Reason.UNREADABLE: "this folder cannot be read; check its permissions",
    Reason.SCAN_LIMIT: "the scan stopped above this folder; it is nested too deep, or there are too many folders",
}


@dataclass(frozen=True, slots=True)
class LoadedSource:
    """A source with what its folders hold: `contents` maps the skill folders, in order of their paths."""

    source: Source
    tree: Tree = field(repr=False)
    contents: Mapping[str, SkillContent] = field(repr=False)
    problems: tuple[Diagnostic, ...] = ()
    links: LinkIndex = field(default_factory=LinkIndex, repr=False, compare=False)

    @property
    def roots(self) -> frozenset[Path]:
        """The folders below which a change may be one of this source."""
        return self.links.roots | {self.source.root}

    def paths_of(self, real: Path) -> Iterator[str]:
        """Yield the paths in this source that an absolute path stands for; `""` where the root itself may differ."""
        root = self.source.root
        if real.is_relative_to(root):
            relative = real.relative_to(root).as_posix()
            yield "" if relative == "." else relative
        elif root.is_relative_to(real):
            yield ""
        yield from self.links.paths_of(real)


def load_source(source: Source) -> LoadedSource:
    """Scan `source` and load every skill in it. A missing root is a problem, not an exception."""
    return _load_all(LoadedSource(source, {}, {}))


def reload_source(loaded: LoadedSource, changed: Iterable[str] | None = None) -> LoadedSource:
    """Load again what changed; contents that did not are the same objects as before.

    `changed` are paths relative to the root; with None everything is compared by its metadata.
    """
    if changed is None:
        return _load_all(loaded)
    paths = frozenset(changed)
    tree, touched = rescan(loaded.source, loaded.tree, paths)
    contents = dict(loaded.contents)
    with Reader() as reader:
        for folder in _enclosing(touched):
            if folder in tree and find_main(tree[folder]):
                contents[folder] = load_content(loaded.source, folder, tree, reader, contents.get(folder), paths)
            else:
                contents.pop(folder, None)
    return _finish(loaded.source, tree, contents)


def _load_all(loaded: LoadedSource) -> LoadedSource:
    source, known = loaded.source, loaded.contents
    tree = scan(source, fingerprints=bool(known))
    with Reader() as reader:
        contents = {
            folder: load_content(source, folder, tree, reader, known.get(folder))
            for folder, listing in tree.items()
            if find_main(listing)
        }
    return _finish(source, tree, contents)


def _enclosing(folders: Iterable[str]) -> set[str]:
    """Return the folders with all folders above them: a change inside is a change of every enclosing skill."""
    found: set[str] = set()
    for folder in folders:
        current = folder
        while current not in found:
            found.add(current)
            current = parent(current)
    return found


def _finish(source: Source, tree: Tree, contents: dict[str, SkillContent]) -> LoadedSource:
    ordered = MappingProxyType(dict(sorted(contents.items())))
    problems = tuple(_problems(source, tree, contents))
    return LoadedSource(source, tree, ordered, problems, LinkIndex(_links(tree) if source.follow_symlinks else ()))


def _links(tree: Tree) -> list[tuple[str, Location]]:
    return [
        (f"{folder}/{name}" if folder else name, target)
        for folder, listing in tree.items()
        for name, target in listing.links
    ]


def _problems(source: Source, tree: Tree, contents: Mapping[str, SkillContent]) -> Iterator[Diagnostic]:
    """Tell of what lies outside of every skill: inside one, the skill's own diagnostics do."""
    if "" not in tree and source.optional:
        return
    if "" not in tree:
        message = "the directory is gone; its skills come back when it does"
        yield Diagnostic(Severity.ERROR, Reason.MISSING_DIRECTORY, message, printable(str(source.root)))
        return
    refusing = [folder for folder, listing in tree.items() if listing.refused]
    for folder in sorted(refusing):
        if any(above in contents for above in _enclosing([folder])):
            continue
        for name, reason in tree[folder].refused:
            if reason in _PROBLEMS:
                path = "/".join(part for part in (str(source.root), folder, name) if part)
                yield Diagnostic(Severity.WARNING, reason, _PROBLEMS[reason], printable(path))
