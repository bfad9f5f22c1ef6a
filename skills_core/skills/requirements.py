"""Requirements between skills: a skill is served only if all skills named in its `requires` are served.

Source: the capability format. A name is provided by every skill that has it as its name or `skillKey`; where several
do, one that is served is enough. A skill is excluded if it requires, directly or through others, a skill that is
missing, not served or part of a cycle; the detail names the chain. Pure: names in, exclusions out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from skills_core.diagnostics import Reason, shortened
from skills_core.skills.gates import Exclusion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Requiring", "unmet_requirements"]

_MAX_CHAIN = 10
_SHOWN = 200
# Names of a chain that a detail shows, and characters of each.


class Requiring(NamedTuple):
    """The names that a skill has, the one to show first, and the names that it requires."""

    names: tuple[str, ...]
    requires: tuple[str, ...]


class _Cause(NamedTuple):
    """The unmet requirement of a skill: the name, and the number of the skill that has it, None if there is none."""

    name: str
    skill: int | None


_Numbers: TypeAlias = dict[str, list[int]]
# The numbers of skills, by a name that they have or require.


def unmet_requirements(served: Sequence[Requiring], unserved: Mapping[str, str]) -> dict[int, Exclusion]:
    """Return the exclusions of skills with unmet requirements, by their numbers in `served`.

    `served` are the skills that are otherwise served; `unserved` maps other names to why they are not served.
    """
    providers, dependents = _by_name(served)
    satisfied = _satisfied(served, dependents)
    rest = set(range(len(served))) - satisfied
    if not rest:
        return {}
    causes = _missing(served, rest, providers, dependents)
    # Each of the others requires another one of them: they are on cycles, or lead to one.
    met = {name for number in satisfied for name in served[number].names}
    unmet = {
        number: tuple(name for name in served[number].requires if name not in met) for number in rest - causes.keys()
    }
    circular = _circular(unmet, served)
    first = _first_with_each_name(served, sorted(unmet))
    first_circular = _first_with_each_name(served, sorted(circular))
    causes |= {number: _Cause(name := unmet[number][0], first[name]) for number in unmet}
    for number in circular:
        name = next(name for name in unmet[number] if name in first_circular)
        causes[number] = _Cause(name, first_circular[name])
    return {number: _exclusion(number, served, causes, circular, unserved) for number in sorted(rest)}


def _by_name(served: Sequence[Requiring]) -> tuple[_Numbers, _Numbers]:
    """Return the skills that have each name, and those that require it."""
    providers: _Numbers = defaultdict(list)
    dependents: _Numbers = defaultdict(list)
    for number, skill in enumerate(served):
        for name in set(skill.names):
            providers[name].append(number)
        for name in set(skill.requires):
            dependents[name].append(number)
    return providers, dependents


def _satisfied(served: Sequence[Requiring], dependents: _Numbers) -> set[int]:
    """Return the skills whose requirements are met: those that require nothing, and then those that require them."""
    open_names = [len(set(skill.requires)) for skill in served]
    waiting = [number for number, count in enumerate(open_names) if not count]
    satisfied = set(waiting)
    met: set[str] = set()
    while waiting:
        for name in set(served[waiting.pop()].names) - met:
            met.add(name)
            for number in dependents.get(name, ()):
                open_names[number] -= 1
                if not open_names[number]:
                    satisfied.add(number)
                    waiting.append(number)
    return satisfied


def _missing(
    served: Sequence[Requiring], rest: Iterable[int], providers: _Numbers, dependents: _Numbers
) -> dict[int, _Cause]:
    """Return the skills of `rest` that require a name which no skill has, directly or through others."""
    causes: dict[int, _Cause] = {}
    left = Counter({name: len(numbers) for name, numbers in providers.items()})
    needed = dict.fromkeys(name for number in sorted(rest) for name in served[number].requires)
    waiting = [_Cause(name, None) for name in needed if not left[name]]
    while waiting:
        cause = waiting.pop()
        for number in dependents.get(cause.name, ()):
            if number in causes:
                continue
            causes[number] = cause
            for name in set(served[number].names):
                left[name] -= 1
                if not left[name]:
                    waiting.append(_Cause(name, number))
    return causes


def _first_with_each_name(served: Sequence[Requiring], numbers: Iterable[int]) -> dict[str, int]:
    first: dict[str, int] = {}
    for number in numbers:
        for name in served[number].names:
            first.setdefault(name, number)
    return first


def _circular(unmet: Mapping[int, Sequence[str]], served: Sequence[Requiring]) -> frozenset[int]:
    """Return the skills on cycles, or between cycles: what is left when skills that nothing left requires are removed.

    `unmet` maps each skill to the names that it requires, which others of them have. Counts are kept by name, because
    the pairs of skills that require and have a common name can be many.
    """
    users = Counter(name for names in unmet.values() for name in names)
    holders: _Numbers = defaultdict(list)
    wanted: dict[int, int] = {}
    for number in unmet:
        names = {name for name in served[number].names if users[name]}
        wanted[number] = len(names)
        for name in names:
            holders[name].append(number)
    waiting = [number for number, count in wanted.items() if not count]
    left = set(unmet)
    while waiting:
        number = waiting.pop()
        left.discard(number)
        for name in unmet[number]:
            users[name] -= 1
            for holder in holders[name] if not users[name] else ():
                wanted[holder] -= 1
                if not wanted[holder]:
                    waiting.append(holder)
    return frozenset(left)


def _exclusion(
    number: int,
    served: Sequence[Requiring],
    causes: Mapping[int, _Cause],
    circular: frozenset[int],
    unserved: Mapping[str, str],
) -> Exclusion:
    names, seen, last = [served[number].names[0]], {number}, number
    why = "is not served either"
    while len(names) <= _MAX_CHAIN:
        cause = causes[last]
        if cause.skill is None:
            names.append(cause.name)
            why = unserved.get(cause.name, "does not exist")
            break
        if cause.skill in seen:
            why = "is part of a circular requirement"
            break
        names.append(cause.name)
        last = cause.skill
        seen.add(last)
    if number in circular:
        return Exclusion(Reason.CIRCULAR_REQUIREMENT, f"requires itself: {_chain([*names, causes[last].name])}")
    return Exclusion(Reason.UNMET_REQUIREMENT, f"requires {_chain(names[1:])}, which {why}")


def _chain(names: Sequence[str]) -> str:
    return " → ".join(shortened(name, _SHOWN) for name in names)
