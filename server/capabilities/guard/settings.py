"""The patterns of the user for tool calls."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError
from skills_core.texts import pattern_fault


class GuardSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's own patterns for tool calls, in addition to those of skills."""

    danger_patterns: tuple[str, ...] = ()
    """Regular expressions for tool calls that are always denied, with the syntax of a skill's `danger_patterns`."""
    confirm_patterns: tuple[str, ...] = ()
    """Regular expressions for tool calls that the user has to confirm."""

    def __post_init__(self) -> None:
        _check_patterns("danger_patterns", self.danger_patterns)
        _check_patterns("confirm_patterns", self.confirm_patterns)


def _check_patterns(key: str, patterns: tuple[str, ...]) -> None:
    for number, pattern in enumerate(patterns):
        if fault := pattern_fault(pattern):
            raise InvalidValueError(fault, (key, str(number)))


SECTION: Final = Section(name="guard", kind=GuardSettings, file_only=frozenset({"confirm_patterns", "danger_patterns"}))
