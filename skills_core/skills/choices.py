"""Choices of skills, as settings and roles have them: by name, with `*` for any characters, by tag or by source."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_core.disk.sources import Source
    from skills_core.skills.skill import SkillContent


class Choices:
    """Several choices. Asking them costs as much for a thousand names as for one."""

    def __init__(self, choices: Iterable[str]) -> None:
        """Sort the choices by what they look at; `tag:…` and `source:…` do not look at names."""
        values: dict[str, set[str]] = {"tag": set(), "source": set()}
        names, patterns = set[str](), set[str]()
        for choice in choices:
            kind, colon, value = choice.partition(":")
            if colon and kind in values:
                values[kind].add(value.strip())
            else:
                (patterns if "*" in choice else names).add(choice)
        self._tags = frozenset(tag.lower() for tag in values["tag"])
        self._sources = frozenset(values["source"])
        self._names = frozenset(names)
        self._patterns = tuple(sorted(patterns))

    def select(self, content: SkillContent, source: Source, names: Iterable[str]) -> bool:
        """Tell whether one of the choices selects a skill: by one of `names`, or otherwise."""
        for name in names:
            if name in self._names or (self._patterns and any(fits(each, name) for each in self._patterns)):
                return True
        if self._tags and any(tag.lower() in self._tags for tag in content.instructions.frontmatter.tags):
            return True
        return bool(self._sources) and not self._sources.isdisjoint((source.scope.value, str(source.root)))


@lru_cache(64)
def choices_of(choices: tuple[str, ...]) -> Choices:
    """Return the choices of a setting, which is asked for each skill."""
    return Choices(choices)


def fits(choice: str, name: str) -> bool:
    """Tell whether a name is the one of a choice, in which `*` stands for any characters."""
    first, asterisk, rest = choice.partition("*")
    if not asterisk:
        return choice == name
    *middle, last = rest.split("*")
    end = len(name) - len(last)
    if not (name.startswith(first) and name.endswith(last) and len(first) <= end):
        return False
    position = len(first)
    for part in middle:
        found = name.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
