"""Finds environment variables with our prefix that no setting has: a misspelled one would change nothing, silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from server.config.machine import SCHEDULED_RUN
from server.config.settings.names import BY_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["UnknownVariable", "unknown_variables"]

_PREFIX: Final = "SKILLSERVE_"


class UnknownVariable(NamedTuple):
    """A variable that no setting has, what is wrong with it, and what to do."""

    name: str
    message: str
    advice: str


def unknown_variables(environment: Iterable[str]) -> list[UnknownVariable]:
    """Return the variables among these names that begin like those of settings and belong to none, sorted by name."""
    names = (name for setting in BY_PATH.values() for name in (setting.variable, setting.file_variable))
    known = {*filter(None, names), SCHEDULED_RUN}
    return [_described(name, known) for name in sorted(environment) if name.startswith(_PREFIX) and name not in known]


def _described(name: str, known: set[str]) -> UnknownVariable:
    import difflib  # noqa: PLC0415 - a server imports little before it answers

    if any(name == f"{_PREFIX}{setting.option.upper()}" for setting in BY_PATH.values()):
        return UnknownVariable(name, "only a file can have this setting", "set it in skillserve.toml")
    near = difflib.get_close_matches(name.removeprefix(_PREFIX), [each.removeprefix(_PREFIX) for each in known], 1)
    if near:
        message = f"no setting has this name; the closest one is {_PREFIX}{near[0]}"
        return UnknownVariable(name, message, "correct the name, or unset it")
    return UnknownVariable(name, "no setting has this name", "unset it")
