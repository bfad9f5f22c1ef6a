"""The dependencies between steps of a workflow, by reference and by branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skills_core.run.workflow.model import SkillStep, all_steps
from skills_core.run.workflow.references import Referent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skills_core.run.workflow.model import Step
    from skills_core.run.workflow.references import Reference

__all__ = ["Dependencies"]


class _Node(NamedTuple):
    """A step's output, or with `decision`, the choice of a conditional step's branch."""

    name: str
    decision: bool = False


class Dependencies:
    """The dependencies of each output and decision: the referenced steps, and the enclosing decisions."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._needs: dict[_Node, tuple[_Node, ...]] = {}
        self._branches: dict[str, dict[str, bool]] = {}
        self._add(steps, (), {})

    @property
    def names(self) -> Iterable[str]:
        """The names of all steps."""
        return self._branches

    def cycle(self, step: str, referred: str) -> tuple[str, ...]:
        """Return the cycle from `step`, which refers to `referred`, back to `step`; empty if there is none."""
        decision = _Node(step, decision=True)
        goal = decision if decision in self._needs else _Node(step)
        came_from: dict[_Node, _Node | None] = {_Node(referred): None}
        queue = [_Node(referred)]
        for node in queue:  # grows during the loop
            if node == goal:
                return (step, *_path_to(came_from, node))
            for need in self._needs.get(node, ()):
                if need not in came_from:
                    came_from[need] = node
                    queue.append(need)
        return ()

    def are_exclusive(self, one: str, other: str) -> bool:
        """Tell whether two steps are in different branches of the same conditional step."""
        theirs = self._branches[other]
        return any(theirs.get(name, branch) is not branch for name, branch in self._branches[one].items())

    def _add(self, steps: Iterable[Step], around: tuple[_Node, ...], branches: dict[str, bool]) -> None:
        for step in steps:
            self._branches[step.name] = branches
            if isinstance(step, SkillStep):
                own = [reference for _, template in step.templates for reference in template.references]
                self._needs[_Node(step.name)] = (*_step_nodes(own), *around)
                continue
            decision = _Node(step.name, decision=True)
            self._needs[decision] = (*_step_nodes(step.condition.references), *around)
            inner = (_Node(each.name) for each in all_steps((*step.then, *step.otherwise)))
            self._needs[_Node(step.name)] = (decision, *inner)
            self._add(step.then, (*around, decision), {**branches, step.name: True})
            self._add(step.otherwise, (*around, decision), {**branches, step.name: False})


def _path_to(came_from: dict[_Node, _Node | None], end: _Node) -> list[str]:
    """Return the names of the nodes on the path to `end`."""
    names: list[str] = []
    node: _Node | None = end
    while node is not None:
        names.append(node.name)
        node = came_from[node]
    return names[::-1]


def _step_nodes(references: Iterable[Reference]) -> tuple[_Node, ...]:
    return tuple(_Node(reference.name) for reference in references if reference.referent is Referent.STEP)
