"""Requirements between skills: a skill is served only if all skills named in its `requires` are served.

Source: the capability format. A skill is excluded if it requires, directly or through others, a skill that is missing,
not served or part of a cycle; the detail names the chain. Pure: names in, exclusions out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.gates import Exclusion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["unmet_requirements"]

_MAX_CHAIN = 10
# Names of a chain that a detail shows.


def unmet_requirements(requires: Mapping[str, Sequence[str]], unserved: Mapping[str, str]) -> dict[str, Exclusion]:
    """Return the exclusions of skills with unmet requirements, by name.

    `requires` maps the name of each skill that is otherwise served to the names it requires; `unserved` maps other
    names to why they are not served.
    """
    causes = _unavailable(requires)
    circular = _circular({name: needed for name, needed in requires.items() if name not in causes})
    for name in circular:
        causes[name] = next(needed for needed in requires[name] if needed in circular)
    causes |= _unavailable({name: needed for name, needed in requires.items() if name not in causes})
    return {name: _exclusion(name, causes, circular, unserved) for name in causes}


def _unavailable(requires: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the skills that depend on an unserved skill, each with the first one found that it requires."""
    dependents: dict[str, list[str]] = {}
    causes: dict[str, str] = {}
    for name, needed in requires.items():
        for each in needed:
            dependents.setdefault(each, []).append(name)
    waiting = [each for each in dependents if each not in requires]
    while waiting:
        missing = waiting.pop()
        for name in dependents.get(missing, ()):
            if name not in causes:
                causes[name] = missing
                waiting.append(name)
    return causes


def _circular(requires: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the skills on cycles, or between cycles: what is left when all others are removed.

    Skills that require nothing that is left are removed repeatedly, then skills that nothing left requires.
    """
    forward = {name: {each for each in needed if each in requires} for name, needed in requires.items()}
    backward: dict[str, set[str]] = {name: set() for name in forward}
    for name, needed in forward.items():
        for each in needed:
            backward[each].add(name)
    for edges, others in ((forward, backward), (backward, forward)):
        waiting = [name for name, needed in edges.items() if not needed]
        while waiting:
            name = waiting.pop()
            if name not in edges:
                continue
            del edges[name]
            for other in others.pop(name, ()):
                if other in edges:
                    edges[other].discard(name)
                    if not edges[other]:
                        waiting.append(other)
    return frozenset(forward)


def _exclusion(
    name: str, causes: Mapping[str, str], circular: frozenset[str], unserved: Mapping[str, str]
) -> Exclusion:
    chain = [name]
    while chain[-1] in causes and len(chain) <= _MAX_CHAIN and causes[chain[-1]] not in chain:
        chain.append(causes[chain[-1]])
    last = chain[-1]
    if name in circular:
        return Exclusion(Reason.CIRCULAR_REQUIREMENT, f"requires itself: {' → '.join([*chain, causes[last]])}")
    why = "is part of a circular requirement" if last in circular else unserved.get(last, "does not exist")
    return Exclusion(Reason.UNMET_REQUIREMENT, f"requires {' → '.join(chain[1:])}, which {why}")
