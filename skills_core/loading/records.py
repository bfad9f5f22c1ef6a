"""The entries of the index: what loading produced as bytes, and back; see `index`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from skills_core.diagnostics import Diagnostic, Reason
from skills_core.disk.files import UNKNOWN_FINGERPRINT, Fingerprint, Location
from skills_core.disk.folders import Listing
from skills_core.disk.sources import SkillKind
from skills_core.disk.tree import Branch, Tree, join, parent
from skills_core.format.frontmatter import Evaluation, Frontmatter, ToolDeclaration
from skills_core.format.gate import Gate
from skills_core.format.instructions import InstructionsHead
from skills_core.loading.discovery import LoadedSource, links_of, problems_of
from skills_core.sharing import shared
from skills_core.skills.skill import SkillContent, SkillFile, SkillFiles

if TYPE_CHECKING:
    from skills_core.disk.sources import Source


class _Content(msgspec.Struct, array_like=True, gc=False):
    """A content; `front` has the fields of the frontmatter that are not as by default."""

    place: str
    kind: SkillKind
    name: str
    written: bytes
    front: dict[str, Any]
    diagnostics: tuple[Diagnostic, ...]
    fault: Reason | None
    verbatim: bool
    body_offset: int
    body_length: int
    parameters: tuple[str, ...]
    files: tuple[str, bytes, bytes, dict[str, Location]]
    main_path: str | None
    folders: frozenset[str]
    notes: tuple[Diagnostic, ...]
    published: bool


class _Entry(msgspec.Struct, array_like=True, gc=False):
    """An entry: its folder and what is in it, what is a skill there, and what is not.

    Its folders are one branch, or each has a listing. The branch has the fields of a `Branch`; without paths, it has
    the files of the skill.
    """

    place: str
    branch: tuple[str, bytes, str, bytes] | None
    listings: list[tuple[str, Listing]]
    contents: list[_Content]
    texts: list[tuple[str, SkillFile]]


def _plain(value: object) -> str | bytes:
    return bytes(value) if isinstance(value, Fingerprint) else str(value)


@lru_cache(maxsize=256)
def _from_plain(kind: type, value: object) -> Path | Fingerprint:
    # Most links of a source have the same root, which becomes one object.
    if kind is Fingerprint and isinstance(value, bytes) and len(value) == len(UNKNOWN_FINGERPRINT):
        return Fingerprint(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"this is no {kind.__name__}")


# These make most of the objects of a start; msgspec makes them several times as fast as their classes do.
_encode: Final = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_decode: Final = msgspec.msgpack.Decoder(_Entry, dec_hook=cast("Callable[[type, Any], Any]", _from_plain)).decode


def encoded(loaded: LoadedSource, folders: list[str]) -> bytes | None:
    """Return the record of an entry, None if it is gone; its place must be text.

    What the next load must read again leaves an entry without files: entries of folders below need one above.
    """
    if not folders:
        return None
    try:
        return _encode(_kept(loaded, folders) or _unread(folders[0]))
    except (ValueError, TypeError, OverflowError, RecursionError):
        # Among these are names that are not UTF-8, and numbers that are longer than 64 bits.
        pass
    return _encode(_unread(folders[0]))


def _unread(folder: str) -> _Entry:
    return _Entry(folder, None, [(folder, Listing())], [], [])


def _kept(loaded: LoadedSource, folders: list[str]) -> _Entry | None:
    """Return an entry; None if something in it could not be read, or might change unnoticed."""
    top = folders[0]
    branch = loaded.tree.branches.get(top)
    listings = [(folder, loaded.tree[folder]) for folder in folders] if branch is None else []
    single = [join(folder, name) for folder, listing in listings for name in listing.file_names]
    single += [join(top, path) for path in branch.file_names] if branch is not None else []
    found = [each for folder in folders if (each := loaded.contents.get(folder)) is not None]
    found += [loaded.documents[place] for place in single if place in loaded.documents]
    texts = [(place, loaded.texts[place]) for place in single if place in loaded.texts]
    if not all(each.files.are_settled for each in found) or not all(file.settled for _, file in texts):
        return None
    if found and any(listing.unread for _, listing in listings):
        return None
    if loaded.unread and not all(loaded.unread.isdisjoint(_read_for(each)) for each in found):
        return None
    packed = None
    if branch is not None:
        listed = branch.paths, branch.fingerprints
        files = loaded.contents[top].files if top in loaded.contents else SkillFiles()
        packed = (*(("", b"") if listed == (files.paths, files.fingerprints) else listed), branch.folders, branch.own)
    return _Entry(top, packed, listings, [_content_record(each) for each in found], texts)


def _read_for(content: SkillContent) -> Iterator[str]:
    """Yield what was read for a content."""
    yield content.place
    yield from (join(content.folder, path) for path in content.files)


def _content_record(content: SkillContent) -> _Content:
    read = content.instructions
    front = read.frontmatter
    return _Content(
        content.place,
        content.kind,
        read.name,
        front.written,
        {name: value for name, default in _DEFAULTS.items() if (value := getattr(front, name)) != default},
        read.diagnostics,
        read.fault,
        read.verbatim,
        read.body_offset,
        read.body_length,
        read.parameters,
        _packed(content.files),
        content.main_path,
        content.folders,
        content.notes,
        content.published,
    )


def _packed(files: SkillFiles) -> tuple[str, bytes, bytes, dict[str, Location]]:
    paths, records, fingerprints, linked = files.packed
    return paths, records, fingerprints, dict(linked)


_DEFAULTS: Final = {
    field.name: field.default for field in fields(Frontmatter) if field.init and field.name != "written"
}


class Restoration:
    """What entries of a source hold, without those that are torn, or do not belong to one tree."""

    def __init__(self, source: Source, top: Tree | None = None) -> None:
        """Begin without entries, or with the listings of folders above them."""
        self._source = source
        self._tree = Tree(top)
        self._contents: dict[str, SkillContent] = {}
        self._documents: dict[str, SkillContent] = {}
        self._texts: dict[str, SkillFile] = {}
        self.is_empty = True
        """Whether no entry was added, or none was whole."""

    def add(self, place: object, checksum: object, record: object) -> None:
        """Add an entry; those of the folders above, which decide what is a skill in this one, come before it."""
        tree = self._tree
        # An entry has all folders of a skill, so there is none inside of what is packed.
        if not isinstance(place, str) or place in tree.plain or (place and parent(place) not in tree.plain):
            return
        if not isinstance(record, bytes) or zlib.crc32(record) != checksum:
            return
        try:
            entry = _decode(record)
        except (msgspec.MsgspecError, UnicodeError):
            return
        if entry.place != place:
            return
        self.is_empty = False
        for folder, listing in entry.listings:
            tree.enter(folder, listing)
            tree.entries += len(listing.file_names) + len(listing.folders) + len(listing.refused)
        folders = {folder: folder for folder in (place, *(folder for folder, _ in entry.listings))}
        for each in entry.contents:
            # The skill of a folder has the text of the folder as its place, as one that is loaded.
            own = folders.get(each.place, each.place)
            content = self._contents[own] = _content(each, own, self._source.root)
            if each.kind is not SkillKind.FOLDER:
                self._documents[own] = content
        if entry.branch is not None:
            self._add_branch(place, entry.branch)
        self._texts.update(entry.texts)

    def _add_branch(self, place: str, packed: tuple[str, bytes, str, bytes]) -> None:
        paths, fingerprints, folders, own = packed
        if not paths and (content := self._contents.get(place)) is not None:
            paths, fingerprints = content.files.paths, content.files.fingerprints
        branch = Branch(paths, fingerprints, folders, own)
        self._tree.add_branch(place, branch)
        self._tree.entries += branch.entries

    @property
    def is_beyond_bounds(self) -> bool:
        """Whether more folders or entries were added than the source may have."""
        bounds = self._source.bounds
        return len(self._tree) > bounds.folders or self._tree.entries > bounds.entries

    def loaded(self) -> LoadedSource:
        """Return what is restored so far, which further entries do not change; it is not known to be complete."""
        source, tree, contents = self._source, Tree(self._tree), dict(sorted(self._contents.items()))
        tree.entries = self._tree.entries
        return LoadedSource(
            source,
            tree,
            contents,
            self._documents.copy(),
            self._texts.copy(),
            problems_of(source, tree, contents),
            tree.unread,
            links=links_of(source, tree),
            complete=False,
        )


def _content(record: _Content, place: str, root: Path) -> SkillContent:
    # Most skills have the name of their folder: what follows finds the text that the tree has.
    shared(place.rpartition("/")[2])
    front = record.front
    for name, value in front.items():
        if isinstance(value, str):
            front[name] = shared(value)
        elif (convert := _CONVERTED.get(name)) is not None:
            front[name] = convert(value)
    frontmatter = Frontmatter(written=record.written, **front)
    read = InstructionsHead(
        frontmatter.name if frontmatter.name == record.name else record.name,
        frontmatter,
        record.diagnostics,
        record.fault,
        record.verbatim,
        record.body_offset,
        record.body_length,
        record.parameters,
    )
    return SkillContent(
        place,
        read,
        SkillFiles(*record.files),
        record.main_path and shared(record.main_path),
        shared(record.folders),
        record.notes,
        record.published,
        record.kind,
        root=root,
    )


def _strings(values: list[str]) -> tuple[str, ...]:
    return shared(tuple(map(shared, values)))


def _gates(values: list[dict[str, Any]]) -> tuple[Gate, ...]:
    def gate(value: dict[str, Any]) -> Gate:
        config = tuple((key, wanted) for key, wanted in value.pop("config"))
        return Gate(config=config, **{name: tuple(each) for name, each in value.items()})

    return tuple(map(gate, values))


def _evaluation(value: dict[str, Any]) -> Evaluation:
    return Evaluation(**{**value, "criteria": tuple(value["criteria"])})


_CONVERTED: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: _strings for name, default in _DEFAULTS.items() if default == () or name == "allowed_tools"},
    "gates": _gates,
    "evaluation": _evaluation,
    "tools": lambda values: tuple(ToolDeclaration(**value) for value in values),
}
# JSON has no tuples and no classes.
