"""Sources that a setting names: directories, or scopes whose skills the user edits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from server.config.values import InvalidValueError
from skills_core.disk.sources import Scope

_SCOPES: Final = (Scope.EXPLICIT, Scope.WORKSPACE, Scope.MANAGED, Scope.LEGACY)


def check_sources(sources: Iterable[str]) -> None:
    """Check that each is a directory or a scope that skillserve may change.

    Raises:
        InvalidValueError: one is not.
    """
    for number, source in enumerate(sources):
        if not source or "\0" in source:
            raise InvalidValueError(f"{source[:80]!r}: expected a directory or a scope", ("sources", str(number)))
        if source in set(Scope) - set(_SCOPES):
            scopes = ", ".join(_SCOPES)
            message = f"{source}: skillserve changes no such sources; expected a directory or one of {scopes}"
            raise InvalidValueError(message, ("sources", str(number)))


def scopes_of(sources: Iterable[str]) -> frozenset[str]:
    """Return the scopes among the sources."""
    return frozenset(sources) & frozenset(_SCOPES)


def directories_of(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the directories among the sources; `~` stands for the home directory."""
    return tuple(os.path.expanduser(each) for each in sources if each not in _SCOPES)  # noqa: PTH111 - keeps ~ if there is no home
