"""What a skill is downloaded as: its SKILL.md alone, or an archive of its folder.

The form is that of the discovery of Agent Skills by `.well-known/agent-skills/index.json`, version 0.2.0. An installer
compares the digest of a download with the index, and with the digest of what it installed before. So the bytes of an
archive depend on the files alone: on no clock, no owner and no library. Nothing is compressed, because compressors
differ between systems and versions, and most skills have a few kilobytes.
"""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill

SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
"""What identifies the version of the index; nobody requests it."""

_NAME: Final = re.compile(r"(?!.{65})[a-z0-9]+(?:-[a-z0-9]+)*")
_ENCODING: Final = "utf-8"
_GZIP_HEADER: Final = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
# Without a name and a time, of an unknown system.

_SHORT: Final = 100
# Characters of a path that fits as it is, as nearly all do.

_BLOCK: Final = 65_535
# Most bytes of a block that is stored as it is.


class ArtifactType(StrEnum):
    """What the file to download is."""

    SKILL_MD = "skill-md"
    """The SKILL.md, which is the only file of the skill."""
    ARCHIVE = "archive"
    """A `.tar.gz` with the files of the skill; the SKILL.md lies at its root."""


class UnfitReason(StrEnum):
    """Why a skill cannot be downloaded."""

    NOT_LISTED = "not_listed"
    """The Skills extension does not list it either: it lacks a file, is too large, or its frontmatter is ambiguous."""
    SHARED_NAME = "shared_name"
    """Other skills have the same name, and an installer has one folder for a name."""
    NAME = "name"
    """Its name is not made of up to 64 small letters, digits and single hyphens."""
    DESCRIPTION = "description"
    """It has no description."""
    PATH = "path"
    """A file has a path that is too long for the archive, or is not UTF-8."""


class ArchivedFile(NamedTuple):
    """A file in an archive."""

    path: str
    raw: bytes
    executable: bool


def unfit_reason(skill: Skill) -> UnfitReason | None:
    """Return why an active skill cannot be downloaded, None if it can."""
    if not skill.content.published:
        return UnfitReason.NOT_LISTED
    if skill.key != skill.name:
        return UnfitReason.SHARED_NAME
    if not _NAME.fullmatch(skill.name):
        return UnfitReason.NAME
    if not skill.description.strip():
        return UnfitReason.DESCRIPTION
    return None if all(map(_has_header, skill.content.files)) else UnfitReason.PATH


def artifact_type(skill: Skill) -> ArtifactType:
    """Return what a skill is downloaded as."""
    return ArtifactType.SKILL_MD if len(skill.content.files) == 1 else ArtifactType.ARCHIVE


def archive(files: Iterable[ArchivedFile]) -> bytes:
    """Return a `.tar.gz` of files whose paths fit; the same files give the same bytes, in whatever order they come."""
    packed = bytearray()
    for file in sorted(files):
        packed += _header(file.path, len(file.raw), executable=file.executable) + file.raw
        packed += bytes(-len(packed) % tarfile.BLOCKSIZE)
    packed += bytes(2 * tarfile.BLOCKSIZE)
    packed += bytes(-len(packed) % tarfile.RECORDSIZE)
    return b"".join(_stored(memoryview(packed)))


def _header(path: str, size: int = 0, *, executable: bool = False) -> bytes:
    """Return the header of a file, without an extension.

    Raises:
        ValueError: the path is too long, or is not UTF-8.
    """
    # The time and the owner are zero by default, and the names of owners empty.
    header = tarfile.TarInfo(path)
    header.size, header.mode = size, 0o755 if executable else 0o644
    return header.tobuf(tarfile.USTAR_FORMAT, _ENCODING, "strict")


def _has_header(path: str) -> bool:
    """Tell whether a path fits into the header of the format that every reader of archives knows."""
    if path.isascii() and len(path) <= _SHORT:
        return True
    try:
        _header(path)
    except ValueError:
        return False
    return True


def _stored(raw: memoryview) -> Iterator[bytes | memoryview]:
    """Yield the parts of a gzip file (RFC 1952) with blocks that are stored as they are (RFC 1951)."""
    yield _GZIP_HEADER
    for start in range(0, len(raw), _BLOCK):
        block = raw[start : start + _BLOCK]
        is_last = start + _BLOCK >= len(raw)
        yield is_last.to_bytes() + _little(len(block), 2) + _little(len(block) ^ 0xFFFF, 2)
        yield block
    yield _little(zlib.crc32(raw), 4) + _little(len(raw) & 0xFFFFFFFF, 4)


def _little(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little")
