"""Read a workflow from YAML: the fields of its document, each checked with its line."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from skills_core.diagnostics import Severity
from skills_core.errors import did_you_mean, similar_to
from skills_core.format.document import read_lines
from skills_core.format.yaml12 import MAX_CHARACTERS, YamlError, YamlNoteKind, load_mapping
from skills_core.runs.workflow.conditions import (
    CLOSING,
    INPUT_NAME,
    OPENING,
    Condition,
    Literal,
    ParseError,
    excerpt_at,
    parse_condition,
)
from skills_core.runs.workflow.faults import FaultCode, Faults, WorkflowFault
from skills_core.runs.workflow.model import (
    ConditionalStep,
    FieldLocation,
    SkillStep,
    StepKind,
    Template,
    Workflow,
    WorkflowInput,
    parse_template,
)

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue, YamlNote
    from skills_core.runs.workflow.model import Step

_T = TypeVar("_T")


def _parse_fault(code: FaultCode, at: FieldLocation, text: str, message: str, position: int) -> WorkflowFault:
    """Return an error at a position within a text of the document."""
    return WorkflowFault(Severity.ERROR, code, message, at.field, at.line, excerpt_at(text, position))


class Fields:
    """One mapping of a document: `at` is its location, `faults` collects faults, `wrong` the keys with wrong types."""

    def __init__(self, values: Mapping[str, JsonValue], at: FieldLocation, faults: Faults) -> None:
        self._values = values
        self.at = at
        self.faults = faults
        self.wrong: set[str] = set()

    @property
    def names(self) -> Iterable[str]:
        """The keys, in their order."""
        return self._values

    def has(self, key: str) -> bool:
        """Tell whether the field is present."""
        return key in self._values

    def fault(self, code: FaultCode, message: str, key: str) -> None:
        """Record an error of a field."""
        self._add(code, message, self.at.within(key))

    def _add(self, code: FaultCode, message: str, at: FieldLocation) -> None:
        self.faults.add(WorkflowFault(Severity.ERROR, code, message, at.field, at.line))

    def missing(self, key: str, expected: str) -> None:
        """Record that a field is missing, at the location of the mapping."""
        self._add(FaultCode.MISSING_FIELD, f"{key!r} is missing: {expected}", self.at)

    def unknown(self, code: FaultCode, what: str, written: str, known: Sequence[str], key: str) -> None:
        """Record an unknown value, with the known ones and a likely correction."""
        if self.faults.full:
            return
        close = similar_to(written, known) or [each for each in known if each.lower() == written.lower()]
        self.fault(code, f"{what}; known are {', '.join(known)}{did_you_mean(close[:1], '; did')}", key)

    def only(self, known: Sequence[str], what: str) -> None:
        """Record each unknown field."""
        for key in self._values:
            if key not in known:
                self.unknown(FaultCode.UNKNOWN_FIELD, f"{what} has no field {key[:60]!r}", key, known, key)

    def _mistyped(self, key: str, expected: str) -> None:
        shown = {bool: "true or false", dict: "a mapping", list: "a list", str: "a text", type(None): "nothing"}
        got = shown.get(type(self._values[key]), "a number")
        self.wrong.add(key)
        self.fault(FaultCode.INVALID_FIELD, f"expected {expected}, not {got}", key)

    def text(self, key: str, *, strip: bool = True) -> str | None:
        """Return a text; numbers and booleans are converted."""
        value = self._values.get(key)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return value.strip() if strip else value
        if isinstance(value, int | float):
            return str(value)
        if self.has(key):
            self._mistyped(key, "a text")
        return None

    def required_text(self, key: str, *, strip: bool = True) -> str | None:
        """Return a text that must be present and not empty."""
        if not self.has(key):
            self.missing(key, "expected a text")
            return None
        text = self.text(key, strip=strip)
        if text is not None and not text.strip():
            self.fault(FaultCode.MISSING_FIELD, f"{key!r} is empty", key)
            return None
        return text

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self._mistyped(key, "true or false")
            return default
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._values.get(key, [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(str(item) for item in value)
        self._mistyped(key, "a list of texts")
        return ()

    def mapping(self, key: str) -> Fields:
        """Return the fields of a mapping; no fields if it is absent."""
        value = self._values.get(key)
        if not isinstance(value, dict):
            if value is not None:
                self._mistyped(key, "a mapping")
            value = {}
        return Fields(value, self.at.within(key), self.faults)

    def items(self, key: str) -> tuple[Fields, ...]:
        """Return the mappings of a list."""
        value = self._values.get(key, [])
        if not isinstance(value, list):
            self._mistyped(key, "a list of steps")
            return ()
        found = []
        for number, item in enumerate(value):
            at = self.at.within(key).within(number)
            if isinstance(item, dict):
                found.append(Fields(item, at, self.faults))
            else:
                self.wrong.add(key)
                self._add(FaultCode.INVALID_FIELD, "expected a step, as in '- kind: skill'", at)
        return tuple(found)

    def parsed(self, key: str, text: str, parse: Callable[[str], _T], code: FaultCode) -> _T | None:
        """Parse the text of a field with `parse`; record a `ParseError` and return None."""
        try:
            return parse(text)
        except ParseError as error:
            self.faults.add(_parse_fault(code, self.at.within(key), text, error.message, error.position))
            return None


MAX_BYTES: Final = 4 * MAX_CHARACTERS
MAX_STEPS: Final = 200
MAX_LEVELS: Final = 8
"""Nesting levels of conditional steps."""
MAX_INPUTS: Final = 100
MAX_PARAMETERS: Final = 50
MAX_TEMPLATE: Final = 20_000
MAX_REFERENCES: Final = 5_000
"""Most references in all texts together."""
MAX_NAME: Final = 200

_WORKFLOW_FIELDS: Final = ("name", "version", "description", "tags", "inputs", "steps")
_INPUT_FIELDS: Final = ("default", "required", "description")
_STEP_FIELDS: Final = {
    StepKind.SKILL: ("kind", "name", "target", "parameters", "message"),
    StepKind.CONDITIONAL: ("kind", "name", "condition", "subSteps", "else"),
}
_UNSUPPORTED_KINDS: Final = ("tool", "nested", "loop", "agent")
"""Kinds of steps that JD.AI has and this product does not."""

_UNREADABLE_CONDITION: Final = Condition("", Literal(value=None, text=""))
"""Replaces a condition that cannot be read."""


@dataclass(frozen=True, slots=True)
class ReadWorkflow:
    """The workflow in a file, None if the file is not a mapping.

    With an error among the faults, the workflow is partial, and serves only to find more faults.
    """

    workflow: Workflow | None
    faults: tuple[WorkflowFault, ...]


def read_workflow(raw: bytes, default_name: str) -> ReadWorkflow:
    """Read the bytes of a workflow's file; a workflow without a `name` gets `default_name`."""
    try:
        text = raw.decode("utf-8")
        mapping = load_mapping(text)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return _unreadable(FaultCode.NOT_UTF8, f"byte 0x{error.object[error.start]:02x} is not UTF-8", line)
    except YamlError as error:
        return _unreadable(FaultCode.INVALID_YAML, error.message, error.line)
    reader = _DocumentReader()
    for note in mapping.notes:
        reader.faults.add(_fault_of_note(note))
    fields = Fields(mapping.value, FieldLocation("", read_lines(text.removeprefix("\ufeff"))), reader.faults)
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    return ReadWorkflow(reader.workflow(fields, default_name, text, digest), reader.faults.in_order())


def _unreadable(code: FaultCode, message: str, line: int | None) -> ReadWorkflow:
    return ReadWorkflow(None, (WorkflowFault(Severity.ERROR, code, message, line=line),))


def _fault_of_note(note: YamlNote) -> WorkflowFault:
    """Return an error for YAML whose meaning differs from its looks: in a workflow that is never intended."""
    duplicate = note.kind is YamlNoteKind.DUPLICATE_KEY
    code = FaultCode.DUPLICATE_KEY if duplicate else FaultCode.INVALID_YAML
    return WorkflowFault(Severity.ERROR, code, note.message, line=note.line)


class _DocumentReader:
    """Reads the parts of one document, and collects their faults."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._names: dict[str, FieldLocation] = {}
        self._steps = 0
        self._references = 0

    def workflow(self, fields: Fields, default_name: str, text: str, digest: str) -> Workflow:
        fields.only(_WORKFLOW_FIELDS, "a workflow")
        name = self._name(fields) if fields.has("name") else default_name
        description, version = fields.text("description"), fields.text("version")
        inputs = self._inputs(fields)
        if not fields.has("steps"):
            fields.missing("steps", "list at least one step")
        steps = self._list(fields, "steps", 0)
        if self._steps > MAX_STEPS:
            fields.fault(FaultCode.LIMIT, f"there are more than {MAX_STEPS} steps", "steps")
        return Workflow(name, description or "", version, fields.texts("tags"), inputs, steps, text, digest)

    def _inputs(self, fields: Fields) -> Mapping[str, WorkflowInput]:
        of_inputs = fields.mapping("inputs")
        names = list(of_inputs.names)
        if len(names) > MAX_INPUTS:
            fields.fault(FaultCode.LIMIT, f"there are {len(names)} inputs; at most {MAX_INPUTS}", "inputs")
        return {name: self._input(name, of_inputs) for name in names}

    def _input(self, name: str, of_inputs: Fields) -> WorkflowInput:
        if not INPUT_NAME.fullmatch(name):
            rule = "at most 64 letters, digits, '_' and '-', not starting with a digit"
            message = f"{name[:80]!r} is not a name of an input: {rule}"
            of_inputs.fault(FaultCode.INVALID_FIELD, message, name)
        fields = of_inputs.mapping(name)
        fields.only(_INPUT_FIELDS, "an input")
        default = fields.text("default")
        required = fields.flag("required", default=default is None)
        if required and default is not None:
            message = "an input with a default cannot be required; leave out 'required' or 'default'"
            fields.fault(FaultCode.INVALID_FIELD, message, "required")
        return WorkflowInput(name, default, required, fields.text("description") or "")

    def _list(self, fields: Fields, key: str, level: int) -> tuple[Step, ...]:
        items = fields.items(key)
        if fields.has(key) and not items and key not in fields.wrong:
            fields.fault(FaultCode.MISSING_FIELD, f"{key!r} has no steps; list at least one, or leave it out", key)
        self._steps += len(items)
        if self._steps > MAX_STEPS:
            return ()
        if items and level > MAX_LEVELS:
            message = f"conditional steps are nested deeper than {MAX_LEVELS} levels"
            fields.fault(FaultCode.LIMIT, message, key)
            return ()
        return tuple(self._step(item, level) for item in items)

    def _step(self, fields: Fields, level: int) -> Step:
        kind = self._kind(fields)
        if kind is not None:
            fields.only(_STEP_FIELDS[kind], f"a step of kind {kind.value!r}")
        name = self._step_name(fields)
        if kind is None:
            # Keep the step, so that references to it are not faults too.
            return SkillStep(name, "", {}, None, fields.at)
        if kind is StepKind.SKILL:
            return self._skill_step(fields, name)
        condition = self._condition(fields)
        if not fields.has("subSteps"):
            fields.missing("subSteps", "list the steps that run if the condition holds")
        then, otherwise = self._list(fields, "subSteps", level + 1), self._list(fields, "else", level + 1)
        return ConditionalStep(name, condition, then, otherwise, fields.at)

    def _kind(self, fields: Fields) -> StepKind | None:
        kinds = tuple(kind.value for kind in StepKind)
        if not fields.has("kind"):
            fields.missing("kind", "expected " + " or ".join(kinds))
            return None
        written = fields.text("kind")
        if written in kinds:
            return StepKind(written)
        if written in _UNSUPPORTED_KINDS:
            message = f"steps of kind {written!r} are not supported; known are {', '.join(kinds)}"
            fields.fault(FaultCode.UNKNOWN_KIND, message, "kind")
        elif written is not None:
            fields.unknown(FaultCode.UNKNOWN_KIND, f"there is no kind {written[:60]!r}", written, kinds, "kind")
        return None

    def _name(self, fields: Fields) -> str:
        name = fields.required_text("name") or ""
        if len(name) > MAX_NAME:
            fields.fault(FaultCode.LIMIT, f"the name has {len(name):,} characters; at most {MAX_NAME}", "name")
        elif not name.isprintable() or OPENING in name or CLOSING in name:
            fields.fault(FaultCode.INVALID_FIELD, "a name is one line without '{{' and '}}'", "name")
        return name

    def _step_name(self, fields: Fields) -> str:
        name = self._name(fields)
        if name and name in self._names:
            first = self._names[name]
            message = f"the step {name!r} exists already, in line {first.line}; names of steps are unique"
            fields.fault(FaultCode.DUPLICATE_STEP, message, "name")
        self._names.setdefault(name, fields.at)
        return name

    def _skill_step(self, fields: Fields, name: str) -> SkillStep:
        of_step = fields.mapping("parameters")
        names = list(of_step.names)
        if len(names) > MAX_PARAMETERS:
            message = f"there are {len(names)} parameters; at most {MAX_PARAMETERS}"
            fields.fault(FaultCode.LIMIT, message, "parameters")
        parameters = {each: self._template(of_step, each) for each in names}
        message_text = self._template(fields, "message") if fields.has("message") else None
        return SkillStep(name, fields.required_text("target") or "", parameters, message_text, fields.at)

    def _template(self, fields: Fields, key: str) -> Template:
        text = fields.text(key, strip=False) or ""
        if len(text) > MAX_TEMPLATE:
            fields.fault(FaultCode.LIMIT, f"the text has {len(text):,} characters; at most {MAX_TEMPLATE:,}", key)
        elif self._references <= MAX_REFERENCES:
            template = fields.parsed(key, text, parse_template, FaultCode.INVALID_TEMPLATE)
            self._references += len(template.references) if template else 0
            if self._references > MAX_REFERENCES:
                message = f"there are more than {MAX_REFERENCES:,} references in all texts together"
                fields.fault(FaultCode.LIMIT, message, key)
            elif template:
                return template
        return Template("", ())

    def _condition(self, fields: Fields) -> Condition:
        text = fields.required_text("condition", strip=False)
        read = fields.parsed("condition", text, parse_condition, FaultCode.INVALID_CONDITION) if text else None
        return read or _UNREADABLE_CONDITION
