"""Find skills whose names clash with each other or with a client's commands."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from skills_core.skill import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from server.clients import ClientProfile
    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["NameClash", "NameClashKind", "name_clashes", "plain_name"]

_PARTS = re.compile(r"[^\W_]+")
_SHORTEST_PLURAL = 4


class NameClashKind(StrEnum):
    """The kind of a clash."""

    SHADOWED = "shadowed"
    """Several sources have the name; the source with the highest precedence is served."""

    SHARED = "shared"
    """Several skills of one source have the name and are served under their paths."""

    ALIKE = "alike"
    """The names differ only by case, separators or a plural."""

    COMMAND = "command"
    """A client has a slash command with that name."""


@dataclass(frozen=True, slots=True)
class NameClash:
    """Skills that clash by name; `clients` are those with a command of that name."""

    kind: NameClashKind
    skills: tuple[Skill, ...]
    clients: tuple[ClientProfile, ...] = ()


def name_clashes(catalog: Catalog, clients: Iterable[ClientProfile]) -> tuple[NameClash, ...]:
    """Return the name clashes, the skills of each in the order of the catalog."""
    named = [skill for skill in catalog.skills if skill.state in {State.ACTIVE, State.SHADOWED}]
    return (*_same(named), *_alike(catalog.active), *_commands(catalog.active, tuple(clients)))


def plain_name(name: str) -> str:
    """Return a name without differences that people overlook: case, separators, and plurals."""
    return "".join(_singular(part) for part in _PARTS.findall(name.casefold()))


def _same(skills: Iterable[Skill]) -> Iterator[NameClash]:
    for group in _groups(skills, lambda skill: skill.name):
        served = [skill for skill in group if skill.state is State.ACTIVE]
        if len(served) < len(group):
            yield NameClash(NameClashKind.SHADOWED, group)
        if len(served) > 1:
            yield NameClash(NameClashKind.SHARED, tuple(served))


def _alike(skills: Iterable[Skill]) -> Iterator[NameClash]:
    for group in _groups(skills, lambda skill: plain_name(skill.name)):
        if len({skill.name for skill in group}) > 1:
            yield NameClash(NameClashKind.ALIKE, group)


def _commands(skills: Iterable[Skill], clients: tuple[ClientProfile, ...]) -> Iterator[NameClash]:
    commands = [(client, client.commands.names) for client in clients if client.commands]
    for skill in skills:
        having = tuple(client for client, names in commands if skill.name.lower() in names)
        if having:
            yield NameClash(NameClashKind.COMMAND, (skill,), having)


def _groups(skills: Iterable[Skill], key: Callable[[Skill], str]) -> Iterator[tuple[Skill, ...]]:
    """Yield each group of skills that share a non-empty key."""
    groups: dict[str, list[Skill]] = defaultdict(list)
    for skill in skills:
        groups[key(skill)].append(skill)
    return (tuple(group) for shared, group in groups.items() if shared and len(group) > 1)


def _singular(word: str) -> str:
    return word[:-1] if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss") else word
