"""Build a workflow in Python: values that stand for the document, and the document that they make.

A built workflow is read from its document like any other, so the same rules and checks apply to it, and a recorded run
can be continued from the text. Names of the fields follow the format; see `document`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from skills_core.runs.workflow.document import MAX_LEVELS
from skills_core.runs.workflow.model import StepKind
from skills_core.runs.workflow.plan import prepare

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.yaml12 import JsonValue
    from skills_core.runs.workflow.plan import Plan

_WORDS: Final = re.compile(r"[A-Za-z][A-Za-z _-]*")
"""Texts that PyYAML, which writes by YAML 1.1, quotes wherever YAML 1.2 would read them as another type."""


@dataclass(frozen=True, slots=True)
class InputDefinition:
    """An input of a workflow; unless `required` says otherwise, it is required if it has no default."""

    default: str | None = None
    required: bool | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class RunSkill:
    """A step that performs the skill `target`; without a `name`, the step has that of the skill.

    `parameters` and `message` may hold references such as `{{previous.output}}`.
    """

    target: str
    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Conditional:
    """A step that performs `then` if the condition holds, else `otherwise`."""

    name: str
    condition: str
    then: Sequence[StepDefinition]
    otherwise: Sequence[StepDefinition] = ()


StepDefinition: TypeAlias = RunSkill | Conditional


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    """A workflow as a program writes it; `inputs` maps their names to their definitions."""

    name: str
    steps: Sequence[StepDefinition]
    inputs: Mapping[str, InputDefinition] = field(default_factory=dict)
    version: str | None = None
    description: str = ""
    tags: Sequence[str] = ()

    def to_yaml(self) -> str:
        """Return the document of the workflow."""
        document = _given(
            {
                "name": self.name,
                "version": self.version,
                "description": self.description or None,
                "tags": list(self.tags) or None,
                "inputs": {name: _input(each) for name, each in self.inputs.items()} or None,
                "steps": _steps(self.steps, 0),
            }
        )
        text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=sys.maxsize)
        return text

    def plan(self, catalog: Catalog, inputs: Mapping[str, str] | None = None) -> Plan:
        """Check the workflow and its inputs against a catalog, and return the plan that `run_workflow` takes.

        Raises:
            InvalidWorkflowError: the workflow or the inputs have faults; lines are those of `to_yaml`.
        """
        return prepare(self.to_yaml().encode(), self.name, catalog, inputs or {})


class _Dumper(yaml.SafeDumper):
    """Writes texts so that YAML 1.2 reads them as texts, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401 - of the base class
        del data
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if _WORDS.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_multi_representer(str, _represent_text)


def _given(fields: Mapping[str, JsonValue]) -> JsonValue:
    """Return the fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _input(definition: InputDefinition) -> JsonValue:
    description = definition.description or None
    return _given({"default": definition.default, "required": definition.required, "description": description})


def _steps(steps: Sequence[StepDefinition], level: int) -> list[JsonValue]:
    # Reading refuses deeper levels; a list that contains itself has no end.
    return [_step(step, level) for step in steps] if level <= MAX_LEVELS + 1 else []


def _step(step: StepDefinition, level: int) -> JsonValue:
    if isinstance(step, RunSkill):
        return _given(
            {
                "kind": StepKind.SKILL.value,
                "name": step.target if step.name is None else step.name,
                "target": step.target,
                "parameters": dict(step.parameters) or None,
                "message": step.message,
            }
        )
    return _given(
        {
            "kind": StepKind.CONDITIONAL.value,
            "name": step.name,
            "condition": step.condition,
            "subSteps": _steps(step.then, level + 1),
            "else": _steps(step.otherwise, level + 1) or None,
        }
    )
