"""A reranker by embeddings: the similarity of a query and a skill is the cosine of their vectors.

The caller passes the function that computes vectors, so this module depends on no model and no library for models. If
numpy is installed, as it is with most of these, it computes the cosines. Vectors are kept in a file for each model.
"""

from __future__ import annotations

import logging
import math
from array import array
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from operator import mul
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Protocol
from weakref import ref

from skills_core.disk.files import MAX_FILE_SIZE, Location, read_file
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError
from skills_core.selection.fusion import FITTING_SIMILARITY, SIMILARITY_WEIGHT, Similarities

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill, SkillContent


logger = logging.getLogger(__name__)

MAX_DIMENSIONS = 16_384
"""Maximum length of a vector."""

_MAGIC = b"skillserve vectors 1\n"
_LENGTH_BYTES, _KEY_BYTES, _SUM_BYTES = 4, 32, 16
# An entry is a key, a vector and a checksum; the length of all vectors follows the magic bytes.
_TOLERANCE = 1e-3

_MAX_TEXT = 2000
# Characters of a query or skill; small models read 256 to 512 tokens.

_CHUNK = 16
# Texts that are encoded at once.

_STEP_SECONDS = 5.0
# After so long, vectors that are computed ahead are written to the cache.

_SPARE = 10_000
# Vectors that are kept beside those of the skills of the last search, which may have been only some of all.


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
    """Return the valid entries, and the number of bytes that belong to none."""
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


class Encoder(Protocol):
    """Computes vectors, for example the method `encode` of a `SentenceTransformer`. It may be called from threads."""

    def __call__(self, texts: list[str], /) -> Iterable[Iterable[float]]:
        """Return a vector for each text, all of the same length; numpy arrays will do."""


class EmbeddingReranker:
    """Compares a query with skills by the cosine of their vectors.

    Vectors of skills are kept in memory and, with a folder as `cache`, in a file there, by the digest of the model's
    name and the text. A changed skill or another model therefore gets new vectors.
    """

    def __init__(
        self,
        encode: Encoder,
        model: str,
        *,
        cache: str | Path | None = None,
        weight: float = SIMILARITY_WEIGHT,
        fits: float = FITTING_SIMILARITY,
        seconds: float | None = 2.0,
    ) -> None:
        """Compute nothing yet.

        `model` identifies the model and its version. A search computes missing vectors of skills for about `seconds`;
        the next searches compute the others, and until then rank these skills by their words. With None, searches leave
        that to `warm`. `Similarities` explains `weight` and `fits`.
        """
        self._encode = encode
        self._model = model
        self._cache = VectorCache(Path(cache).expanduser(), model) if cache is not None else None
        self._weight, self._fits, self._seconds = weight, fits, seconds
        self._loading, self._encoding = Lock(), Lock()
        self._vectors: dict[bytes, bytes] | None = None
        self._keys: dict[int, tuple[ref[SkillContent], bytes]] = {}

    def __call__(self, query: str, skills: Sequence[Skill], /) -> Similarities:
        """Return the similarities of the skills whose vectors are known.

        Raises:
            ValueError: the encoder returned something else than a vector of finite numbers for each text.
        """
        (asked,) = self._encoded([_embeddable(query)])
        vectors = self._loaded()
        # The encoder may have changed under the same name; vectors of another length cannot be compared.
        size = len(asked)
        keys = [self._key_of(skill.content) for skill in skills]
        contents = {key: skill.content for key, skill in zip(keys, skills, strict=True)}
        seconds = self._seconds
        if seconds is not None and _missing(vectors, contents, size) and self._encoding.acquire(blocking=False):
            # Other searches meanwhile do not wait; they use the vectors that are known.
            try:
                self._compute(vectors, contents, size, seconds)
            finally:
                self._encoding.release()
        pairs = ((skill, vectors.get(key, b"")) for key, skill in zip(keys, skills, strict=True))
        known = [(skill, vector) for skill, vector in pairs if len(vector) == size]
        cosines = _cosines(asked, [vector for _, vector in known])
        found = ((skill, cosine) for (skill, _), cosine in zip(known, cosines, strict=True))
        return Similarities(found, self._weight, self._fits)

    def warm(self, skills: Sequence[Skill], go_on: Callable[[], bool] = lambda: True) -> int:
        """Compute the missing vectors of all these skills, as long as `go_on`, and return how many were missing.

        Raises:
            ValueError: the encoder returned something else than a vector of finite numbers for each text.
        """
        vectors = self._loaded()
        contents = {self._key_of(skill.content): skill.content for skill in skills}
        with self._encoding:
            size = len(self._encoded(["skill"])[0])
            count = len(_missing(vectors, contents, size))
            while _missing(vectors, contents, size) and go_on():
                self._compute(vectors, contents, size, _STEP_SECONDS, go_on)
        return count

    def _loaded(self) -> dict[bytes, bytes]:
        with self._loading:
            if self._vectors is None:
                self._vectors = self._cache.load() if self._cache else {}
            return self._vectors

    def _compute(
        self,
        vectors: dict[bytes, bytes],
        contents: Mapping[bytes, SkillContent],
        size: int,
        seconds: float,
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """Add missing vectors until the time is over, and keep them in the cache."""
        missing = _missing(vectors, contents, size)
        new: dict[bytes, bytes] = {}
        until = monotonic() + seconds
        try:
            for at in range(0, len(missing), _CHUNK):
                keys = missing[at : at + _CHUNK]
                encoded = self._encoded([embedded_text(contents[key]) for key in keys])
                if any(len(vector) != size for vector in encoded):
                    raise ValueError("the encoder returned vectors of different lengths")
                new |= zip(keys, encoded, strict=True)
                if monotonic() >= until or not go_on():
                    break
        finally:
            vectors.update(new)
            self._forget(vectors, contents)
            if self._cache and new:
                self._cache.save(new)

    def _key_of(self, content: SkillContent) -> bytes:
        known = self._keys.get(id(content))
        # Another content may have got the id of one that is gone.
        if known is None or known[0]() is not content:
            known = self._keys[id(content)] = ref(content), key_of(self._model, embedded_text(content))
        return known[1]

    def _forget(self, vectors: dict[bytes, bytes], used: Container[bytes]) -> None:
        """Drop the oldest vectors beyond the limit, but none in use."""
        spare = [key for key in vectors if key not in used]
        for key in spare[: max(0, len(spare) - _SPARE)]:
            del vectors[key]
        self._keys = {at: known for at, known in self._keys.copy().items() if known[0]() is not None}

    def _encoded(self, texts: list[str]) -> list[bytes]:
        vectors = [_unit(vector) for vector in self._encode(texts)]
        if len(vectors) != len(texts):
            raise ValueError(f"the encoder returned {len(vectors)} vectors for {len(texts)} texts")
        return vectors


def _missing(vectors: Mapping[bytes, bytes], wanted: Iterable[bytes], size: int) -> list[bytes]:
    """Return the keys without a vector of this size."""
    return [key for key in wanted if len(vectors.get(key, b"")) != size]


def embedded_text(content: SkillContent) -> str:
    """Return the text that is encoded for a skill: its name, description, triggers and the beginning of its body."""
    front = content.instructions.frontmatter
    parts = (f"{content.name}: {front.description}", front.when_to_use, *front.triggers, content.readable_body)
    return _embeddable("\n".join(part for part in parts if part))


def _embeddable(text: str) -> str:
    """Return the beginning of a text; lone surrogates, which encoders refuse, are replaced."""
    return text[:_MAX_TEXT].encode(errors="replace").decode()


def _unit(vector: Iterable[float]) -> bytes:
    """Return the vector in single precision with length 1; zeros stay zeros."""
    numbers = [float(number) for number in vector]
    length = math.hypot(*numbers)
    if not 0 < len(numbers) <= MAX_DIMENSIONS or not math.isfinite(length):
        raise ValueError(f"the encoder returned {len(numbers)} numbers of length {length}; expected a finite vector")
    return array("f", [number / length for number in numbers] if length else numbers).tobytes()


def _cosines(query: bytes, vectors: Sequence[bytes]) -> list[float]:
    """Return the products of unit vectors."""
    try:
        import numpy as np  # noqa: PLC0415 - optional
    except ImportError:
        asked = array("f", query).tolist()
        return [sum(map(mul, asked, memoryview(vector).cast("f"))) for vector in vectors]
    rows = np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), len(query) // array("f").itemsize)
    products: list[float] = (rows @ np.frombuffer(query, np.float32)).tolist()
    return products
