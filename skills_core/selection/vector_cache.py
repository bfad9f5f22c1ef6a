"""Keep the vectors of texts in a file, one for each model, so that a restart does not compute them again.

The file is a cache that anything may have damaged: each entry has a checksum, and an entry that does not match, has
another length than the others or is no unit vector is dropped and computed again. The file is replaced as a whole. If
two processes replace it at the same time, the vectors of one of them are computed again later.
"""

from __future__ import annotations

import logging
from array import array
from contextlib import suppress
from hashlib import sha256
from operator import mul
from typing import TYPE_CHECKING

from skills_core.disk.files import MAX_FILE_SIZE, Location, read_file
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["MAX_DIMENSIONS", "VectorCache", "is_unit", "key_of"]

logger = logging.getLogger(__name__)

MAX_DIMENSIONS = 16_384
"""Maximum length of a vector."""

_MAGIC = b"skillserve vectors 1\n"
_LENGTH_BYTES, _KEY_BYTES, _SUM_BYTES = 4, 32, 16
# An entry is a key, a vector and a checksum; the length of all vectors follows the magic bytes.
_TOLERANCE = 1e-3


def key_of(model: str, text: str) -> bytes:
    """Return the digest under which the vector of a text is kept."""
    return sha256(b"\0".join((model.encode(), text.encode()))).digest()


def is_unit(vector: bytes) -> bool:
    """Tell whether single-precision numbers are a vector of length 1, or of zeros only."""
    numbers = array("f", vector)
    squares: float = sum(map(mul, numbers, numbers))
    return squares == 0 or abs(squares - 1) <= _TOLERANCE


class VectorCache:
    """The file with the vectors of one model. Vectors are single-precision numbers in the byte order of the machine."""

    def __init__(self, folder: Path, model: str) -> None:
        """Name the file; read nothing yet."""
        self._folder = folder
        self._name = f"{sha256(model.encode()).hexdigest()[:16]}.vectors"

    def load(self) -> dict[bytes, bytes]:
        """Return the vectors by key, the ones written last at the end; log damaged entries and leave them out."""
        try:
            vectors, damaged = self._read()
        except FileRefusedError as error:
            if (self._folder / self._name).exists():
                logger.warning("the cache of vectors cannot be read, so they are computed again: %s", error)
            return {}
        if damaged:
            logger.warning("%s in %s: %d damaged bytes are ignored", self._name, self._folder, damaged)
        return vectors

    def save(self, vectors: Mapping[bytes, bytes]) -> None:
        """Add vectors to the file; beyond the maximum size, those that were written first are dropped."""
        known: dict[bytes, bytes] = {}
        with suppress(FileRefusedError):
            # Another process may have added some since the file was loaded.
            known, _ = self._read()
        kept = {key: vector for key, vector in known.items() if key not in vectors}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_file(Location(self._folder, self._name), _packed({**kept, **vectors}), 0o600)
        except (OSError, FileRefusedError) as error:
            logger.warning("the cache of vectors cannot be written: %s", error)

    def _read(self) -> tuple[dict[bytes, bytes], int]:
        raw, _ = read_file(Location(self._folder, self._name))
        return _unpacked(raw)


def _packed(vectors: Mapping[bytes, bytes]) -> bytes:
    *_, size = (0, *map(len, vectors.values()))
    entries = [key + vector for key, vector in vectors.items() if len(vector) == size]
    room = (MAX_FILE_SIZE - len(_MAGIC) - _LENGTH_BYTES) // (_KEY_BYTES + size + _SUM_BYTES)
    kept = entries[-room:]
    return b"".join([_MAGIC, size.to_bytes(_LENGTH_BYTES, "big"), *(entry + _checksum(entry) for entry in kept)])


def _unpacked(raw: bytes) -> tuple[dict[bytes, bytes], int]:
    """Return the valid entries, and the number of bytes that are no part of one."""
    start = len(_MAGIC) + _LENGTH_BYTES
    size = int.from_bytes(raw[len(_MAGIC) : start], "big")
    if not raw.startswith(_MAGIC) or size % array("f").itemsize or not 0 < size <= MAX_DIMENSIONS * array("f").itemsize:
        return {}, len(raw)
    step = _KEY_BYTES + size + _SUM_BYTES
    vectors: dict[bytes, bytes] = {}
    for at in range(start, len(raw) - step + 1, step):
        entry, checksum = raw[at : at + step - _SUM_BYTES], raw[at + step - _SUM_BYTES : at + step]
        if checksum == _checksum(entry) and is_unit(entry[_KEY_BYTES:]):
            vectors[entry[:_KEY_BYTES]] = entry[_KEY_BYTES:]
    return vectors, len(raw) - start - len(vectors) * step


def _checksum(entry: bytes) -> bytes:
    return sha256(entry).digest()[:_SUM_BYTES]
