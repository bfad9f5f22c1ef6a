"""A section of `skillserve.toml`: its type, and the names of its settings outside of files."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

Kind = TypeVar("Kind", bound=Struct)


@functools.cache
def default_section(kind: type[Kind]) -> Kind:
    """Return a section of which nothing is set."""
    return kind()


class Section(Struct, frozen=True, kw_only=True):
    """A section and the names of its settings.

    A setting is an option with the name `prefix` and key, the flag `--` and option with hyphens, and the variable
    `SKILLSERVE_` and option in capitals. `options` has the keys whose option differs, `flags` the options whose flag
    differs.
    """

    name: str
    kind: type[Struct]
    prefix: str = ""
    options: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    file_only: frozenset[str] = frozenset()
    """Keys whose values a variable cannot hold: tables, and patterns that may contain commas."""
    secrets: frozenset[str] = frozenset()
    """Keys whose values are secret. Their types say so too, but reading types would slow each start."""
    keys_of_models: Mapping[str, str] = {}
    """Keys of models that may be named by an address, with the keys of the secrets that are sent to it."""

    def option(self, key: str) -> str:
        """Return the option of a setting."""
        return self.options.get(key) or self.prefix + key
