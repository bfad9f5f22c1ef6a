"""When Python looks for garbage among all objects: not while many skills are loaded, and never among those.

Such a look stops all threads, and takes a quarter of a second with 10,000 skills: requests would wait for it. Skills
are in no cycles, so there is nothing to be found among them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEVER: Final = 2**31 - 1


@contextmanager
def left_alone() -> Iterator[None]:
    """Look for garbage among young objects only within the block, and leave out for good what is made there, if much.

    Much is what would have let Python look at everything. What else there is then is left out as well, which is why
    little does not count: cycles of requests that are under way are never freed.
    """
    young, middle, old = gc.get_threshold()
    before = gc.get_count()[2]
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        if gc.get_count()[2] - before > old:
            gc.freeze()
        gc.set_threshold(young, middle, old)
