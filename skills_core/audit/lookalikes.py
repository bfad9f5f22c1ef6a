"""Letters of other scripts that look like Latin ones: text that is written with them reads the same."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LOOKALIKES"]

_SMALL = {
    **dict(zip("аеорсухіјһԁԛԝѕ", "aeopcyxijhdqws", strict=True)),  # noqa: RUF001
    **dict(zip("вкмнтвгпзд", "bkmhtbrnzd", strict=True)),
    **dict(zip("νοαειυκτρ", "voaeiuktp", strict=True)),
    **dict(zip("ɑɡıȷʟօոհսցքյ", "agijlonhugpj", strict=True)),
}
# Cyrillic, twice; Greek; phonetic and Armenian.

LOOKALIKES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            char.upper(): plain.upper()
            for char, plain in _SMALL.items()
            if len(char.upper()) == 1 and not char.upper().isascii()
        },
        **_SMALL,
    }
)
"""The Latin letter that each of them looks like, small and capital."""
