"""Which sources have a history."""

from __future__ import annotations

from msgspec import Struct

from server.config.settings.named_sources import check_sources, directories_of, scopes_of

__all__ = ["HistorySettings"]


class HistorySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Histories of sources, for `skillserve history` and `rollback`."""

    sources: tuple[str, ...] = ()
    """Sources whose changes are recorded: directories, or the scopes `explicit`, `workspace`, `managed` and `legacy`.
    Name the sources that you or skillserve edit. Needs the extra `history`."""
    work_trees: bool = False
    """Whether sources that lie in a git repository of yours are recorded too. Your repository stays as it is in either
    case: the history is kept in the state directory."""

    def __post_init__(self) -> None:
        check_sources(self.sources)

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes among the sources."""
        return scopes_of(self.sources)

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories among the sources; `~` stands for the home directory."""
        return directories_of(self.sources)
