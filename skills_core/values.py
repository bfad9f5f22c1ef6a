"""Frozen dataclasses of which a library makes thousands.

A frozen dataclass sets each field by a call of `object.__setattr__`, so making one takes three times as long as if it
were not frozen. A `value_type` is frozen to type checkers, which see `dataclass` itself; at run time nothing checks it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as value_type
else:

    def value_type(*, frozen: bool, **options: bool) -> Callable[[type], type]:
        """Declare a frozen dataclass; the options are those of `dataclass`."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)


__all__ = ["value_type"]
