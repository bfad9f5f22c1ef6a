"""The index and the downloads of one view, which are always those of its current catalog.

The digest of an archive is known only once it is made. So the first index of a catalog makes the archives of all skills
that have changed since the last one; their digests are kept, and of the archives as many as the memory for them holds.
Archives are made one at a time, whoever asks, so that their number does not count for what the server needs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.hosting.verified_reader import read_whole
from skills_core.diagnostics import agreeing, counted, one_line
from skills_core.errors import SkillsError
from skills_core.publish.artifacts import (
    SCHEMA,
    ArchivedFile,
    ArtifactType,
    UnfitReason,
    archive,
    artifact_type,
    unfit_reason,
)

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.hosting.views import ViewName
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill, SkillContent, SkillFile

logger = logging.getLogger(__name__)

_CACHE_BYTES: Final = 32 * 1024 * 1024
# Enough for two archives of the largest size, or for some thousands of the usual one.

_BATCH_BYTES: Final = 4 * 1024 * 1024
# Files that are read together; of a larger skill, all are.

_URLS: Final = {ArtifactType.SKILL_MD: "{}/SKILL.md", ArtifactType.ARCHIVE: "{}.tar.gz"}
# Relative to the index.

_ATTEMPTS: Final = 3
# Skills that change at each attempt are being written continuously.

_NAMED: Final = 5
# Skills that a line of the log names.


class ChangingError(SkillsError):
    """Skills change while they are read; a later request may succeed."""


@dataclass(frozen=True, slots=True)
class Download:
    """What a request is answered with; `digest` is that of the bytes, and `skill` the one that they are of."""

    raw: bytes
    digest: str
    skill: Skill | None = None


@dataclass(frozen=True, slots=True)
class _Archived:
    """The digest of the archive of a skill with this content."""

    content: SkillContent
    digest: str


class Archives:
    """The archives of all views of a server: those that were asked for last, by their digests."""

    def __init__(self, size: int = _CACHE_BYTES) -> None:
        """Keep `size` bytes."""
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._free = size
        self.turn = anyio.Lock()
        """Held by the one who makes archives."""

    def get(self, digest: str) -> bytes | None:
        """Return the archive with a digest, None if it is not kept."""
        raw = self._kept.get(digest)
        if raw is not None:
            self._kept.move_to_end(digest)
        return raw

    def keep(self, digest: str, raw: bytes) -> None:
        """Keep an archive, and forget others for it."""
        if digest not in self._kept:
            self._kept[digest] = raw
            self._free -= len(raw)
        while self._free < 0:
            self._free += len(self._kept.popitem(last=False)[1])


class Publication:
    """What one view publishes."""

    def __init__(self, host: Host, view: ViewName, archives: Archives) -> None:
        """Publish the skills of `host` that a view offers to models."""
        self._host = host
        self._view = view
        self._archives = archives
        self._known: dict[str, _Archived] = {}
        self._index: Download | None = None
        self._indexed: Catalog | None = None
        self._left_out: Mapping[str, UnfitReason] = {}

    async def index(self) -> Download:
        """Return the index.

        Raises:
            ChangingError: skills change at every attempt to read them.
            FileUnavailableError: the system cannot read a file now.
        """
        found = self._current_index()
        if found is not None:
            return found
        async with self._archives.turn:
            for _ in range(_ATTEMPTS):
                found = self._current_index() or await self._next_index(self._catalog)
                if found is not None:
                    return found
        raise ChangingError("skills change while they are read; try again")

    async def skill_md(self, name: str) -> Download | None:
        """Return the SKILL.md of a skill that has no other file, None if there is no such skill.

        Raises:
            InvalidRequestError: the file changes at every attempt to read it, or is gone by now.
            FileUnavailableError: the system cannot read it now.
        """
        skill = self._skill(name, ArtifactType.SKILL_MD)
        if skill is None:
            return None
        _, file, raw = await self._host.reader.read(skill.uri, lambda: self._catalog)
        # An edit that was found on the way may have made it a skill for users alone.
        skill = self._skill(name, ArtifactType.SKILL_MD)
        return Download(raw, file.digest, skill) if skill is not None and skill.digest == file.digest else None

    async def archive(self, name: str) -> Download | None:
        """Return the archive of a skill, None if there is no such skill.

        Raises:
            ChangingError: its files change at every attempt to read them.
            FileUnavailableError: the system cannot read a file now.
        """
        found = self._kept(name)
        if found is not None:
            return found
        async with self._archives.turn:
            for _ in range(_ATTEMPTS):
                found = self._kept(name)
                skill = self._skill(name, ArtifactType.ARCHIVE)
                if found is not None or skill is None:
                    return found
                made = await self._make([skill])
                if made:
                    return made[0]
        raise ChangingError("this skill changes while it is read; try again")

    @property
    def _catalog(self) -> Catalog:
        return self._host.view_called(self._view).catalog

    def _skill(self, name: str, kind: ArtifactType) -> Skill | None:
        skill = self._catalog.offer(name)
        fits = skill is not None and skill.name == name and unfit_reason(skill) is None
        return skill if skill is not None and fits and artifact_type(skill) is kind else None

    def _kept(self, name: str) -> Download | None:
        """Return the archive of a skill if it is kept and its skill has not changed since."""
        skill = self._skill(name, ArtifactType.ARCHIVE)
        digest = None if skill is None else self._digest_of(skill)
        raw = None if digest is None else self._archives.get(digest)
        return Download(raw, digest, skill) if digest is not None and raw is not None else None

    def _current_index(self) -> Download | None:
        return self._index if self._indexed is self._catalog else None

    async def _next_index(self, catalog: Catalog) -> Download | None:
        """Make the index of a catalog, None if a file was found to have changed."""
        # A catalog may have thousands of skills.
        fit, left_out = await anyio.to_thread.run_sync(_sorted_out, catalog)
        # Of skills that are gone, nothing is kept.
        self._known = {each.name: self._known[each.name] for each in fit if each.name in self._known}
        missing = [
            each for each in fit if artifact_type(each) is ArtifactType.ARCHIVE and self._digest_of(each) is None
        ]
        for batch in _batches(missing):
            if not await self._make(batch):
                return None
        self._log(left_out)
        raw = await anyio.to_thread.run_sync(_index_of, [(each, self._digest_of(each)) for each in fit])
        self._index, self._indexed = Download(raw, _digest(raw)), catalog
        return self._index

    def _digest_of(self, skill: Skill) -> str | None:
        """Return the digest of what a skill is downloaded as, None if its archive has to be made."""
        if artifact_type(skill) is ArtifactType.SKILL_MD:
            return skill.digest
        known = self._known.get(skill.name)
        return known.digest if known is not None and known.content is skill.content else None

    async def _make(self, skills: Sequence[Skill]) -> list[Download]:
        """Make the archives of skills; if a file has changed on disk, return none and reload its skill."""
        made = await anyio.to_thread.run_sync(_archives_of, skills)
        if isinstance(made, Path):
            await self._host.reload([made])
            return []
        for skill, download in zip(skills, made, strict=True):
            if self._digest_of(skill) not in {None, download.digest}:
                # Whether a file is executable is no part of the catalog.
                self._indexed = None
            self._known[skill.name] = _Archived(skill.content, download.digest)
            self._archives.keep(download.digest, download.raw)
        return made

    def _log(self, left_out: Mapping[str, UnfitReason]) -> None:
        """Log which skills are left out, if they are others than before."""
        if left_out and left_out != self._left_out:
            shown = ", ".join(f"{one_line(key)} ({reason})" for key, reason in [*left_out.items()][:_NAMED])
            more = ", …" if len(left_out) > _NAMED else ""
            number = counted(len(left_out), "skill"), agreeing(len(left_out), "is", "are")
            logger.info("%s %s not published: %s%s", *number, shown, more)
        self._left_out = left_out


def _sorted_out(catalog: Catalog) -> tuple[list[Skill], dict[str, UnfitReason]]:
    """Return the skills that can be downloaded, and why the others cannot, in the order of their keys."""
    skills = sorted(catalog.offered, key=lambda each: each.key)
    reasons = {each.key: unfit_reason(each) for each in skills}
    left_out = {key: reason for key, reason in reasons.items() if reason is not None}
    return [each for each in skills if each.key not in left_out], left_out


def _batches(skills: Iterable[Skill]) -> Iterator[list[Skill]]:
    """Yield skills in groups whose files fit into memory together."""
    batch: list[Skill] = []
    size = 0
    for skill in skills:
        own = sum(file.size for file in skill.content.files.values())
        if batch and size + own > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(skill)
        size += own
    if batch:
        yield batch


def _archives_of(skills: Iterable[Skill]) -> list[Download] | Path:
    """Make the archives of skills, or return the place of a file that has changed."""
    made: list[Download] = []
    for skill in skills:
        files = read_whole(skill)
        if isinstance(files, Path):
            return files
        raw = archive(
            ArchivedFile(path, files[path], _is_executable(skill, file)) for path, file in skill.content.files.items()
        )
        made.append(Download(raw, _digest(raw), skill))
    return made


def _index_of(skills: Iterable[tuple[Skill, str | None]]) -> bytes:
    entries = [
        {
            "name": skill.name,
            "type": artifact_type(skill),
            "description": skill.description,
            "url": _URLS[artifact_type(skill)].format(skill.name),
            "digest": digest,
        }
        for skill, digest in skills
    ]
    return json.dumps({"$schema": SCHEMA, "skills": entries}, ensure_ascii=False, indent=2).encode() + b"\n"


def _is_executable(skill: Skill, file: SkillFile) -> bool:
    try:
        return bool(skill.location(file).lstat().st_mode & stat.S_IXUSR)
    except OSError:
        # It was there a moment ago; the reload that follows finds out.
        return False


def _digest(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()
