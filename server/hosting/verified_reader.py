"""Read files of skills so that the bytes served are the bytes hashed.

If the bytes on disk do not match the digest in the catalog, the skill is reloaded first. Bytes are cached and served
from memory while the file's metadata is unchanged. A worker thread costs several times the read itself, so a short file
that the system has in memory is read on the event loop. Files of skills that models are about to use are read ahead.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from server.wire.params import InvalidRequestError
from skills_core.disk.files import Fingerprint, Reader, read_at_once, read_file
from skills_core.errors import FileRefusedError, FileUnavailableError, did_you_mean
from skills_core.live.watcher import is_remote

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.disk.sources import Source
    from skills_core.skills.skill import Skill, SkillFile


_CACHE_BYTES = 64 * 1024 * 1024
# Enough for the files of about two thousand skills.

_SHORT = 64 * 1024
# Bytes that are read and hashed on the event loop; this takes less time than a worker thread.

_AHEAD_BYTES = 4 * 1024 * 1024
# Most bytes in the cache after which no more files are read ahead: they displace none that was asked for.

_AHEAD_FILES = 10
# Files of one skill that are read ahead; this takes about as long as a request.

ATTEMPTS: Final = 3
# A file that changes at each attempt is being written continuously.


class VerifiedReader:
    """Reads files of catalogs."""

    def __init__(self, sources: Iterable[Source], reload: Callable[[Iterable[Path]], Awaitable[object]]) -> None:
        """Read from `sources`; `reload` brings the catalog up to date with changed paths, and announces that."""
        self._reload = reload
        self._cache: OrderedDict[bytes, bytes] = OrderedDict()
        self._free = _CACHE_BYTES
        # A look at a remote file, or at one behind a link, may block, so a worker thread does it.
        self._remote = frozenset(source.root for source in sources if is_remote(source.root))

    async def read(self, uri: str, catalog: Callable[[], Catalog]) -> tuple[Skill, SkillFile, bytes]:
        """Return the file that `uri` names, with the bytes that its digest in the catalog was made of.

        `catalog` returns the caller's current catalog. It is called again after a reload, which may change the file or
        take it away.

        Raises:
            InvalidRequestError: no active skill has such a file, or it changes at every attempt to read it.
            FileUnavailableError: the system cannot read it now.
        """
        for _ in range(ATTEMPTS):
            found = catalog().file(uri)
            if found is None:
                hint = did_you_mean(catalog().similar_files(uri))
                raise InvalidRequestError(f"Resource not found: {uri[:500]}{'.' if hint else ''}{hint}", uri[:500])
            skill, file = found
            raw = self._from_memory(skill, file)
            if raw is not None:
                return skill, file, raw
            raw = self._at_once(skill, file)
            if raw is None:
                raw = await anyio.to_thread.run_sync(_from_disk, skill, file)
            if raw is not None:
                self._store(file.sha256, raw)
                return skill, file, raw
            await self._reload([skill.location(file).path])
        raise InvalidRequestError(f"Resource changes while it is read; try again: {uri[:500]}")

    async def hold_body(self, skill: Skill) -> None:
        """Bring the body of a skill into memory, where `Skill.body` finds it.

        Raises:
            SkillChangedError: the file on disk is not the one that was loaded.
            FileUnavailableError: the system cannot read it now.
        """
        content = skill.content
        if content.kept_body is not None or (main := content.main) is None:
            return
        raw = self._at_once(skill, main)
        if raw is not None:
            content.keep_body(raw)
        else:
            await anyio.to_thread.run_sync(lambda: skill.body)

    def read_ahead(self, skill: Skill) -> None:
        """Read the first short files of a skill into the cache, as far as reading does not wait."""
        for file in islice(skill.content.files.values(), _AHEAD_FILES):
            if self._free - file.size < _CACHE_BYTES - _AHEAD_BYTES:
                return
            raw = self._at_once(skill, file) if file.sha256 not in self._cache else None
            if raw is not None:
                self._store(file.sha256, raw)

    def _from_memory(self, skill: Skill, file: SkillFile) -> bytes | None:
        raw = self._cache.get(file.sha256)
        if raw is None or file.linked or self._is_remote(skill):
            return None
        try:
            unchanged = Fingerprint.of(skill.location(file).lstat()) == file.fingerprint
        except OSError:
            return None
        if not unchanged:
            return None
        self._cache.move_to_end(file.sha256)
        return raw

    def _at_once(self, skill: Skill, file: SkillFile) -> bytes | None:
        """Return the bytes on disk if reading them does not wait, and they match the digest."""
        if not 0 < file.size <= _SHORT or file.linked or self._is_remote(skill):
            return None
        raw = read_at_once(skill.location(file), file.fingerprint)
        return raw if raw is not None and file.is_made_of(raw) else None

    def _is_remote(self, skill: Skill) -> bool:
        return skill.source.root in self._remote

    def _store(self, digest: bytes, raw: bytes) -> None:
        if digest not in self._cache:
            self._cache[digest] = raw
            self._free -= len(raw)
        self._cache.move_to_end(digest)
        while self._free < 0:
            self._free += len(self._cache.popitem(last=False)[1])


def _from_disk(skill: Skill, file: SkillFile) -> bytes | None:
    """Return the bytes on disk if they match the digest, None if the file has changed or is gone."""
    try:
        raw, _ = read_file(skill.location(file))
    except FileUnavailableError:
        raise
    except FileRefusedError:
        return None
    return raw if file.is_made_of(raw) else None


def read_whole(skill: Skill) -> dict[str, bytes] | Path:
    """Return the bytes of all files of a skill by path, or the place of a file that does not match its digest.

    This blocks. Nothing is cached: files that are read once would displace those that are asked for often.

    Raises:
        FileUnavailableError: the system cannot read a file now.
    """
    found: dict[str, bytes] = {}
    with Reader() as reader:
        for path, file in skill.content.files.items():
            location = skill.location(file)
            try:
                raw, _ = reader.read(location)
            except FileUnavailableError:
                raise
            except FileRefusedError:
                return location.path
            if not file.is_made_of(raw):
                return location.path
            found[path] = raw
    return found
