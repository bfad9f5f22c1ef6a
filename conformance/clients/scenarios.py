"""What the scripted model does in each measurement."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from conformance.clients import catalogs
from conformance.clients.dialects.messages import Call, Request
from conformance.clients.names import names_in
from conformance.clients.read_on import TOOL as READ
from conformance.clients.read_on import read_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conformance.clients.scripted_model import Play

__all__ = ["ACTIVATE", "FIND", "READ", "SCENARIOS", "Scenario", "ScenarioName"]

ACTIVATE, FIND = "activate_skill", "find_skills"

THINKING = 2.0
"""Seconds between a change on disk and the model's next call: the time that a real model takes to answer."""

MOST_PARTS = 40
"""A body of 30 KB has fewer parts, even for the client with the shortest results."""


class ScenarioName(StrEnum):
    """The measurements."""

    NEWS = "news"
    HUNDRED = "hundred"
    THOUSAND = "thousand"
    LONG_BODY = "long-body"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A catalog of `size` skills, and what the model does with it. Not `served`, the client has no skills."""

    size: int
    play: Callable[[Path, tuple[str, ...], Request], Play]
    served: bool = True


def _news(folder: Path, _names: tuple[str, ...], _first: Request) -> Play:
    """Load a skill; add one and edit the loaded one; load another skill, the added one and the edited one.

    Where the added skill cannot be activated, it is read if the news says so.
    """
    yield Call(ACTIVATE, {"name": catalogs.LOADED})
    catalogs.add(folder)
    catalogs.edit(folder)
    time.sleep(THINKING)
    told = yield Call(ACTIVATE, {"name": catalogs.OTHER})
    answered = yield Call(ACTIVATE, {"name": catalogs.ADDED})
    if READ in _news_in(told) and catalogs.body_mark(catalogs.ADDED) not in "".join(answered.results[-1:]):
        yield Call(READ, {"skill": catalogs.ADDED, "path": "SKILL.md"})
    yield Call(ACTIVATE, {"name": catalogs.LOADED})


def _news_in(request: Request) -> str:
    """Return what the newest result says from the first mention of the added skill on."""
    return "".join(request.results[-1:]).partition(catalogs.ADDED)[2]


def _search(_folder: Path, names: tuple[str, ...], first: Request) -> Play:
    """Search for a skill that no text of the first request names, and load it."""
    visible = names_in(first, names, schemas=False)
    hidden = next((name for name in reversed(names) if name not in visible), names[-1])
    subject, _, work = hidden.partition("-")
    yield Call(FIND, {"query": f"{work} a {subject}"})
    yield Call(ACTIVATE, {"name": hidden})


def _long_body(_folder: Path, _names: tuple[str, ...], _first: Request) -> Play:
    """Load a skill of 30 KB, and read on as long as the newest result says how."""
    request = yield Call(ACTIVATE, {"name": catalogs.LONG})
    asked: list[Call] = []
    while request.results and len(asked) < MOST_PARTS:
        further = read_on(request.results[-1], catalogs.LONG)
        if further is None or further in asked:
            return
        asked.append(further)
        request = yield further


def _idle(_folder: Path, _names: tuple[str, ...], _first: Request) -> Play:
    """Call no tool."""
    yield from ()


SCENARIOS = {
    ScenarioName.NEWS: Scenario(10, _news),
    ScenarioName.HUNDRED: Scenario(100, _search),
    ScenarioName.THOUSAND: Scenario(1000, _search),
    ScenarioName.LONG_BODY: Scenario(10, _long_body),
    ScenarioName.BARE: Scenario(0, _idle, served=False),
}
