"""The frozen values of the core: a file of a skill, the content of a skill, and a skill with its state and its URIs.

A URI is `skill://<skill-path>/<file-path>`, every segment percent-encoded (SEP-2640, RFC 3986). On most systems file
names are bytes; a name that is not UTF-8 keeps its bytes when encoded and decoded.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Container, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from skills_core.disk.files import FINGERPRINT_SIZE, Fingerprint, Location, read_at_once, read_file
from skills_core.disk.sources import SkillKind
from skills_core.errors import FileRefusedError, FileUnavailableError, SkillChangedError
from skills_core.format.instructions import Instructions
from skills_core.sharing import shared
from skills_core.skills.bodies import BODIES
from skills_core.values import value_type

if TYPE_CHECKING:
    from skills_core.diagnostics import Diagnostic, Reason
    from skills_core.disk.sources import Source
    from skills_core.format.frontmatter import Frontmatter
    from skills_core.format.instructions import InstructionsHead
    from skills_core.skills.gates import Credential, Exclusion


SCHEME = "skill://"

_SAFE = "-._~"
# All but unreserved characters are encoded, even those that RFC 3986 allows in a segment: each file has one spelling,
# and the first segment is a valid reg-name.

_is_unreserved = re.compile(rf"[\w/{re.escape(_SAFE)}]*", re.ASCII).fullmatch

_INVALID = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|\0")
# A path with NUL, or with an empty segment, `.` or `..`.

_MAX_URI = 32_768
# More than twice the longest path of any system with every byte encoded.


# As large as a few pages of a list: a library has more paths than are worth their memory.
@lru_cache(maxsize=8192)
def _encode(path: str) -> str:
    if _is_unreserved(path):
        # Quoting would copy it.
        return path
    return quote_from_bytes(path.encode("utf-8", "surrogateescape"), safe=_SAFE + "/")


def file_uri(skill_path: str, path: str) -> str:
    """Return the URI of the file `path` of the skill at `skill_path`; both use `/` as separator.

    With an empty `path` this is the URI of the skill's folder, which ends with `/`.
    """
    return f"{SCHEME}{_encode(skill_path)}/{_encode(path)}"


def decode_path(uri: str) -> str | None:
    """Return the decoded path of a `skill://` URI, or None if the text is not one.

    Texts of more than 32 KiB, queries, fragments, empty, `.` and `..` segments, and encoded separators or NUL are
    refused, so that a path names at most one file.
    """
    if not uri.startswith(SCHEME) or len(uri) > _MAX_URI or "?" in uri or "#" in uri:
        return None
    path = encoded = uri[len(SCHEME) :]
    # Few URIs encode anything, and each read decodes one.
    if "%" in encoded or not encoded.isascii():
        try:
            path = unquote_to_bytes(encoded).decode("utf-8", "surrogateescape")
        except UnicodeError:
            return None
    has_encoded_separator = path.count("/") != encoded.count("/") or (os.sep != "/" and os.sep in path)
    return None if has_encoded_separator or _INVALID.search(path) else path


_ID_DIGITS = 12


def _id_characters(char: str) -> str:
    """Return the characters of an id for one character of a name."""
    if char in " -_":
        return "-"
    # Letters outside ASCII are kept as they are.
    return (char.lower() if char.isascii() else char) if char.isalnum() else ""


class State(StrEnum):
    """Whether a skill is served, and if not, which step of the decision ended it."""

    ACTIVE = "active"
    EXCLUDED = "excluded"
    SHADOWED = "shadowed"
    INVALID = "invalid"


@value_type(frozen=True, slots=True)
class SkillFile:
    """One file of a skill.

    `path` is relative to the skill's folder, `sha256` is the hash of the bytes, `text` tells that they are UTF-8
    without NUL. `settled` is false if the file was written so shortly before it was read that a
    later change might keep its fingerprint; the next reload reads such a file again. `linked` is the location of the
    bytes if the path leads through a link.
    """

    path: str
    size: int
    sha256: bytes
    text: bool
    fingerprint: Fingerprint = field(compare=False)
    settled: bool = field(compare=False)
    linked: Location | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        """The hash of the bytes as text: `sha256:` and 64 hexadecimal digits."""
        return f"sha256:{self.sha256.hex()}"

    def is_made_of(self, raw: bytes) -> bool:
        """Tell whether these are the bytes that were loaded."""
        return self.sha256 == hashlib.sha256(raw).digest()


_RECORD = struct.Struct("<32sI??")
# Of a file: the hash, the size, and whether it is text and settled.

_NUL = "\0"
# No path has it.

_NO_LINKS: Mapping[str, Location] = MappingProxyType({})


class SkillFiles(Mapping[str, SkillFile]):
    """The files of a skill by path, in the order in which they were given.

    A library has hundreds of thousands. A file takes about 100 bytes in one text of all paths and two records of all
    values, and about 600 as an object in a dictionary; so a `SkillFile` is made when it is asked for.
    """

    __slots__ = ("_fingerprints", "_linked", "_paths", "_records")

    def __init__(
        self,
        paths: str = "",
        records: bytes = b"",
        fingerprints: bytes = b"",
        linked: Mapping[str, Location] = _NO_LINKS,
    ) -> None:
        """Use the parts that `packed` returned.

        Raises:
            ValueError: the parts do not belong together.
        """
        count = max(0, paths.count(_NUL) - 1)
        if len(records) != _RECORD.size * count or len(fingerprints) != FINGERPRINT_SIZE * count:
            raise ValueError("there is not one record for each path")
        self._paths = shared(paths)
        self._records = records
        self._fingerprints = fingerprints
        self._linked = linked

    @classmethod
    def of(cls, files: Iterable[SkillFile]) -> SkillFiles:
        """Return files, whose paths differ, as one object."""
        given = list(files)
        records = (_RECORD.pack(each.sha256, each.size, each.text, each.settled) for each in given)
        linked = {each.path: each.linked for each in given if each.linked is not None}
        # Each path has a NUL before and behind it, so that it is found.
        paths = _NUL.join(("", *(each.path for each in given), "")) if given else ""
        return cls(paths, b"".join(records), b"".join([each.fingerprint for each in given]), linked or _NO_LINKS)

    @property
    def packed(self) -> tuple[str, bytes, bytes, Mapping[str, Location]]:
        """The parts: paths, records, fingerprints, and the locations of files that are reached through links."""
        return self._paths, self._records, self._fingerprints, self._linked

    @property
    def paths(self) -> str:
        """All paths, with a NUL before and behind each."""
        return self._paths

    @property
    def fingerprints(self) -> bytes:
        """The fingerprints, one after the other."""
        return self._fingerprints

    @property
    def linked(self) -> Mapping[str, Location]:
        """The locations of those files that are reached through links, by path."""
        return self._linked

    @property
    def are_settled(self) -> bool:
        """Whether all files are settled."""
        return b"\0" not in self._records[_RECORD.size - 1 :: _RECORD.size]

    def __getitem__(self, path: str) -> SkillFile:
        at = -1 if _NUL in path else self._paths.find(f"{_NUL}{path}{_NUL}")
        if at < 0:
            raise KeyError(path)
        number = self._paths.count(_NUL, 0, at)
        return self._file(path, number, _RECORD.unpack_from(self._records, number * _RECORD.size))

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and _NUL not in path and f"{_NUL}{path}{_NUL}" in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths.split(_NUL)[1:-1])

    def __len__(self) -> int:
        return len(self._records) // _RECORD.size

    def items(self) -> ItemsView[str, SkillFile]:
        """Return the paths and the files, made in one pass."""
        return self._by_path().items()

    def values(self) -> ValuesView[SkillFile]:
        """Return the files, made in one pass."""
        return self._by_path().values()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SkillFiles) or self._paths != other._paths:
            return super().__eq__(other)
        return self._records == other._records or list(self._compared()) == list(other._compared())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<SkillFiles {list(self)}>"

    def is_read_as(self, other: object) -> bool:
        """Tell whether these are equal files with the same fingerprints, equally settled."""
        return isinstance(other, SkillFiles) and self.packed == other.packed

    def differing(self, other: SkillFiles) -> Iterator[str]:
        """Yield the paths of the files that only one of these has, or that differ."""
        if self._paths == other._paths and self._records == other._records:
            return
        mine = dict(zip(self, self._compared(), strict=True))
        others = dict(zip(other, other._compared(), strict=True))
        yield from (path for path in {**mine, **others} if mine.get(path) != others.get(path))

    def _compared(self) -> Iterator[tuple[Any, ...]]:
        """Yield the fields of each file that equality compares, apart from its path."""
        return ((sha256, size, text) for sha256, size, text, _ in _RECORD.iter_unpack(self._records))

    def _by_path(self) -> dict[str, SkillFile]:
        records = zip(self, _RECORD.iter_unpack(self._records), strict=True)
        return {path: self._file(path, number, record) for number, (path, record) in enumerate(records)}

    def _file(self, path: str, number: int, record: tuple[Any, ...]) -> SkillFile:
        sha256, size, text, settled = record
        start = number * FINGERPRINT_SIZE
        fingerprint = Fingerprint(self._fingerprints[start : start + FINGERPRINT_SIZE])
        return SkillFile(path, size, sha256, text, fingerprint, settled, self._linked.get(path))


@value_type(frozen=True, slots=True, weakref_slot=True)
class SkillContent:
    """The content of one skill, before conflicts over names are settled.

    `place` is its folder or document, relative to the source's root. `main_path` is that of the SKILL.md or the
    document, None if it could not be read; in `files` it comes first, then the others in the order of their paths.
    `folders` are all folders in the skill, including empty ones. `notes` are the diagnostics about files. `published`
    tells whether the Skills extension may list the skill. `exclusion` says why a review of the content keeps the skill
    from being served.

    What is loaded from the source at `root` has its body in the file alone, and a few of them in memory; a content that
    was made of a text has `Instructions` with the body.
    """

    place: str
    instructions: InstructionsHead
    files: SkillFiles
    main_path: str | None
    folders: frozenset[str] = frozenset()
    notes: tuple[Diagnostic, ...] = ()
    published: bool = True
    kind: SkillKind = SkillKind.FOLDER
    exclusion: Exclusion | None = None
    root: Path = field(default=Path(), repr=False, compare=False)

    @property
    def main(self) -> SkillFile | None:
        """The SKILL.md or the document, None if it could not be read."""
        return None if self.main_path is None else self.files.get(self.main_path)

    def is_main(self, file: SkillFile) -> bool:
        """Tell whether a file of the skill is its main file."""
        return file.path == self.main_path

    @property
    def body(self) -> str:
        """The Markdown after the frontmatter, of the bytes that were loaded; it may be read from the disk.

        Raises:
            SkillChangedError: the file on disk is not the one that was loaded; a reload is due.
            FileUnavailableError: the system cannot read the file now.
        """
        kept, main = self.kept_body, self.main
        if kept is not None or main is None:
            return kept or ""
        location = main.linked or Location(self.root, self.within_source(main.path))
        raw = read_at_once(location, main.fingerprint)
        if raw is None:
            try:
                raw, _ = read_file(location)
            except FileUnavailableError:
                raise
            except FileRefusedError:
                raise SkillChangedError(self.name, (location.path,)) from None
        if not main.is_made_of(raw):
            raise SkillChangedError(self.name, (location.path,))
        return self.keep_body(raw)

    @property
    def readable_body(self) -> str:
        """The body for what is derived from it beside requests: empty if it cannot be read.

        The content that a reload puts in the place of this one has it again.
        """
        try:
            return self.body
        except (SkillChangedError, FileUnavailableError):
            return ""

    @property
    def kept_body(self) -> str | None:
        """The body if it is in memory."""
        if isinstance(self.instructions, Instructions):
            return self.instructions.body
        main = self.main if self.instructions.body_length else None
        return "" if main is None else BODIES.find((main.sha256, self.instructions.body_offset))

    def keep_body(self, raw: bytes) -> str:
        """Return the body, and keep it in memory; `raw` are the verified bytes of the main file."""
        head = self.instructions
        text = raw.decode("utf-8")[head.body_offset : head.body_offset + head.body_length]
        if (main := self.main) is not None:
            BODIES.keep((main.sha256, head.body_offset), text)
        return text

    @property
    def folder(self) -> str:
        """The folder that file paths are relative to; it is relative to the source's root."""
        return self.place if self.kind is SkillKind.FOLDER else self.place.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The skill's name: from the frontmatter, else the folder's."""
        return self.instructions.name

    def file(self, path: str) -> SkillFile | None:
        """Return the file at `path`, which may begin with `./`; None if there is none.

        Authors write `FORMS.md` for `forms.md`, which works where file systems ignore case. So a path also means the
        only file whose path differs from it in case alone; `SkillFile.path` is then another than `path`.
        """
        path = path.removeprefix("./")
        found = self.files.get(path)
        near = path if found is not None else only_respelling(path, self.files)
        return None if near is None else self.files[near]

    def within_source(self, path: str) -> str:
        """Return a file's path relative to the root of the source."""
        return f"{self.folder}/{path}" if self.folder else path

    def subfolder(self, path: str) -> str | None:
        """Return the path of the folder at `path`, found like a file; None if there is none."""
        return path if path in self.folders else only_respelling(path, self.folders)

    @property
    def skill_key(self) -> str:
        """The skill's key in configuration: `metadata.jdai.skillKey`, else its name."""
        return self.instructions.frontmatter.skill_key or self.name

    @property
    def names(self) -> tuple[str, ...]:
        """The names that others may use for the skill: its name, then its key in configuration if that differs."""
        return self.names_beside(())

    def names_beside(self, taken: Container[str]) -> tuple[str, ...]:
        """Return the names that others may use beside skills with the names `taken`, which no key can be.

        Nor can a key be a URI.
        """
        key = self.skill_key
        return (self.name,) if key == self.name or key in taken or key.startswith(SCHEME) else (self.name, key)


@value_type(frozen=True, slots=True)
class Skill:
    """A skill in a catalog: its content, source, key, path and state.

    `key` identifies it in enums, prompts and commands: its name, or its path if the name is not unique. `path` is that
    in URIs. `reason` and `detail` say why it is not active. `credential` is its primary one, None if it names none.
    `skill_key` is its key in configuration: that of its content, unless another skill has it as its name. `server_key`
    is its `key` in the catalog of all skills, None if it is the same there: to callers who do not see all, a name may
    be unique that is not.
    """

    content: SkillContent
    source: Source
    key: str
    path: str
    state: State
    reason: Reason | None = None
    detail: str = ""
    notes: tuple[Diagnostic, ...] = ()
    credential: Credential | None = None
    skill_key: str = ""
    server_key: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "skill_key", self.skill_key or self.content.skill_key)

    @property
    def identity(self) -> tuple[Path, str]:
        """What tells the skill from all others: the root of its source, and its place below the root."""
        return self.source.root, self.content.place

    @property
    def name(self) -> str:
        """The display name; several skills may share it."""
        return self.content.name

    @property
    def settings_key(self) -> str:
        """The key by which settings and records name the skill, whoever sees it."""
        return self.key if self.server_key is None else self.server_key

    @property
    def description(self) -> str:
        """What the skill does and when to use it."""
        return self.frontmatter.description

    @property
    def frontmatter(self) -> Frontmatter:
        """The typed frontmatter."""
        return self.content.instructions.frontmatter

    @property
    def body(self) -> str:
        """The Markdown after the frontmatter; see `SkillContent.body` for what it raises."""
        return self.content.body

    @property
    def body_length(self) -> int:
        """The length of the body in characters, which is known without reading it."""
        return self.content.instructions.body_length

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the `{{parameters}}` in the body, each once."""
        return self.content.instructions.parameters

    @property
    def digest(self) -> str | None:
        """The digest of the SKILL.md, None if it could not be read."""
        main = self.content.main
        return None if main is None else main.digest

    @property
    def id(self) -> str | None:
        """The name and the first digits of the digest, as adk-skill builds its ids; None if there is no digest."""
        normal = "".join(map(_id_characters, self.name))
        return f"{normal or 'skill'}-{digest.partition(':')[2][:_ID_DIGITS]}" if (digest := self.digest) else None

    @property
    def last_modified(self) -> int | None:
        """When the SKILL.md was last written, in seconds since 1970; None if it could not be read."""
        main = self.content.main
        return None if main is None else main.fingerprint.mtime_ns // 1_000_000_000

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics of the skill, from its files and from the catalog."""
        return self.content.instructions.diagnostics + self.content.notes + self.notes

    @property
    def uri(self) -> str:
        """The URI of the SKILL.md, which identifies the skill."""
        return self.file_uri(self.content.main_path or "SKILL.md")

    @property
    def root_uri(self) -> str:
        """The URI of the skill's folder."""
        return file_uri(self.path, "")

    @property
    def is_offered(self) -> bool:
        """Whether the skill is offered to models: it is active, and models may activate it."""
        return self.state is State.ACTIVE and self.content.instructions.frontmatter.model_invocable

    @property
    def model_invocable(self) -> bool:
        """Whether a model may activate the skill by itself."""
        return self.frontmatter.model_invocable

    @property
    def user_invocable(self) -> bool:
        """Whether a user may activate the skill as a command."""
        return self.frontmatter.user_invocable

    def file_uri(self, path: str) -> str:
        """Return the URI of one of the skill's files."""
        return file_uri(self.path, path)

    def location(self, file: SkillFile) -> Location:
        """Return the location of the bytes of one of the skill's files."""
        return file.linked or Location(self.source.root, self.within_source(file.path))

    def within_source(self, path: str) -> str:
        """Return a file's path relative to the root of the source."""
        return self.content.within_source(path)


def only_respelling(path: str, known: Iterable[str]) -> str | None:
    """Return the only one of `known` that differs from `path` in case alone; None if there is none, or several."""
    folded = path.casefold()
    found = [each for each in known if len(each) == len(path) and each.casefold() == folded]
    return found[0] if len(found) == 1 else None


def is_same_skill(old: Skill, new: Skill) -> bool:
    """Tell whether two skills are equal and their files have the same fingerprints.

    Then everything that was derived from the one, or is kept in memory for it, holds for the other.
    """
    if old is new:
        return True
    same_files = old.content.files.fingerprints == new.content.files.fingerprints
    return same_files and (old.server_key, old) == (new.server_key, new)
