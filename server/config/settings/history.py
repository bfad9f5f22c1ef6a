"""Which sources have a history."""

from __future__ import annotations

import os
from typing import Final

from msgspec import Struct

from server.config.values import InvalidValueError
from skills_core.sources import Scope

__all__ = ["HistorySettings"]

_SCOPES: Final = (Scope.EXPLICIT, Scope.WORKSPACE, Scope.MANAGED, Scope.LEGACY)


class HistorySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Histories of sources, for `skillserve history` and `rollback`."""

    sources: tuple[str, ...] = ()
    """Sources whose changes are recorded: directories, or the scopes `explicit`, `workspace`, `managed` and `legacy`.
    Name the sources that you or skillserve edit. Needs the extra `history`."""
    work_trees: bool = False
    """Whether sources that lie in a git repository of yours are recorded too. Your repository stays as it is in either
    case: the history is kept in the state directory."""

    def __post_init__(self) -> None:
        for source in self.sources:
            if not source or "\0" in source:
                raise InvalidValueError(f"{source[:80]!r}: expected a directory or a scope", ("sources",))
            if source in set(Scope) - set(_SCOPES):
                scopes = ", ".join(_SCOPES)
                message = f"{source}: skillserve changes no such sources; expected a directory or one of {scopes}"
                raise InvalidValueError(message, ("sources",))

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes among the sources."""
        return frozenset(self.sources) & frozenset(_SCOPES)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories among the sources; `~` stands for the home directory."""
        return tuple(os.path.expanduser(each) for each in self.sources if each not in _SCOPES)  # noqa: PTH111 - keeps ~ if there is no home
