"""Bodies of skills in memory: as many as fit, those that were used last.

A small library has all its bodies here, so that using one never reads the disk. Of a large one the others are read from
their files when they are used, and verified: see `SkillContent.body`. Equal files are kept once.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from threading import Lock
from typing import Final, TypeAlias

BodyKey: TypeAlias = tuple[bytes, int]
"""The digest of a file, and the position of the body in its text: as a document, a file may have another body."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Most memory of all bodies together: those of some fifteen hundred skills."""

_ENTRY: Final = 300
# Bytes that an entry takes beside its text.


class Bodies:
    """Texts by key, at most `budget` bytes of them; threads may share it."""

    def __init__(self, budget: int = MAX_BYTES) -> None:
        self._free = budget
        self._texts: OrderedDict[BodyKey, str] = OrderedDict()
        self._lock = Lock()

    def find(self, key: BodyKey) -> str | None:
        """Return a text that is kept, which counts as a use."""
        with self._lock:
            text = self._texts.get(key)
            if text is not None:
                self._texts.move_to_end(key)
            return text

    def keep(self, key: BodyKey, text: str) -> None:
        """Keep a text, and drop those that were used longest ago if there are too many."""
        with self._lock:
            if key not in self._texts:
                self._texts[key] = text
                self._free -= _size(text)
            self._texts.move_to_end(key)
            while self._free < 0:
                self._free += _size(self._texts.popitem(last=False)[1])


def _size(text: str) -> int:
    return sys.getsizeof(text) + _ENTRY


BODIES: Final = Bodies()
"""The bodies that this process keeps; a library that is loaded twice has them once."""
