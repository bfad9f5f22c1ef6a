"""Scripts as tools for models: the tools that a skill declares, long outputs in parts, and reports.

The script of a declared tool reads the arguments as JSON from stdin; its stdout, JSON or text, is the reply to the
model. An exit code other than 0 is a failure, explained by stderr. The idempotency key of the call is in the script's
environment, the same if the call is repeated after an interruption.

To read on in a long output, the model calls the tool that ran the script again, with the arguments that
`CONTINUATION_ARGUMENTS` describes; no script runs then. The cache is in memory and bounded in number, size and time;
the oldest entries are evicted first.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from skills_core.diagnostics import one_line, without_lone_surrogates
from skills_core.errors import InvalidSchemaError, SkillsError, ToolFailedError
from skills_core.guard.argument_validator import ArgumentValidator
from skills_core.guard.tool import IDEMPOTENCY_KEY, Effect, Role, Tool
from skills_core.scripts.process import ProcessEnding, exit_text

if TYPE_CHECKING:
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.guard.tool import CallContext
    from skills_core.scripts.isolation import IsolationKind
    from skills_core.scripts.process import ProcessResult
    from skills_core.scripts.runner import ScriptResult, ScriptRunner
    from skills_core.skills.skill import Skill


OUTPUT: Final = "output"
STREAM: Final = "stream"
OFFSET: Final = "offset"

MAX_OUTPUTS = 50
MAX_CHARACTERS = 50_000_000
"""Most characters of all kept outputs together; a larger single output is kept alone."""

MAX_SECONDS = 1800.0


class Stream(StrEnum):
    """One of the two streams of a program."""

    STDOUT = "stdout"
    STDERR = "stderr"


CONTINUATION_ARGUMENTS: Final[dict[str, JsonValue]] = {
    OUTPUT: {"type": "string", "description": "To read on: the id in an earlier result. Nothing is run then."},
    STREAM: {"type": "string", "enum": [each.value for each in Stream], "description": "Which, to read on."},
    OFFSET: {"type": "integer", "minimum": 0, "description": "Where to read on, in characters."},
}
"""The arguments of a tool for reading a further part, as properties of its JSON Schema."""


def continuation_hint(tool: str, kept: str, stream: Stream, offset: int) -> str:
    """Return the sentence that tells the model how to continue reading the output `kept`."""
    return f'For more of {stream}, call {tool} with {OUTPUT}: "{kept}", {STREAM}: "{stream}", {OFFSET}: {offset}.'


def expired_output(kept: str) -> str:
    """Return the reply to a request for an output that has expired."""
    return f"The output {kept[:100]!r} has expired; run the script again."


@dataclass(frozen=True, slots=True)
class OutputText:
    """The text of both streams, as models receive it."""

    stdout: str
    stderr: str

    @classmethod
    def of(cls, finished: ProcessResult, redact: Callable[[str], str] = str) -> OutputText:
        """Decode the output of a program, and strip surrounding blanks.

        `redact` removes secrets. It runs before any text is cut: half a secret would not be recognized.
        """
        out, err = (each.decode("utf-8", "replace").strip() for each in (finished.stdout, finished.stderr))
        return cls(redact(out), redact(err))


OutputT = TypeVar("OutputT", bound=OutputText)


@dataclass(frozen=True, slots=True)
class OutputSlice:
    """A part of a stream. Offsets count characters."""

    text: str
    offset: int
    total: int

    @property
    def next_offset(self) -> int | None:
        """The offset of the next part, None if this is the last."""
        end = self.offset + len(self.text)
        return end if end < self.total else None

    @classmethod
    def of(cls, text: str, offset: int, size: int) -> OutputSlice:
        """Return the part of `text` from `offset` on, of at most `size` characters."""
        return cls(text[offset : offset + size], offset, len(text))


class OutputCache(Generic[OutputT]):
    """Outputs by unguessable ids."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; `clock` returns seconds."""
        self._clock = clock
        self._kept: OrderedDict[str, tuple[OutputT, float]] = OrderedDict()

    def keep(self, output: OutputT) -> str:
        """Keep an output, and return its id."""
        name = secrets.token_urlsafe(12)
        self._kept[name] = output, self._clock() + MAX_SECONDS
        self._forget()
        return name

    def find(self, name: str) -> OutputT | None:
        """Return an output, None if it has expired."""
        self._forget()
        kept = self._kept.get(name)
        return kept[0] if kept else None

    def _forget(self) -> None:
        now = self._clock()
        size = sum(_size(output) for output, _ in self._kept.values())
        while self._kept:
            output, until = next(iter(self._kept.values()))
            crowded = len(self._kept) > 1 and (len(self._kept) > MAX_OUTPUTS or size > MAX_CHARACTERS)
            if until > now and not crowded:
                return
            size -= _size(output)
            self._kept.popitem(last=False)


def _size(output: OutputText) -> int:
    return len(output.stdout) + len(output.stderr)


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# The names that model APIs accept.

MAX_ERROR = 4000
"""Characters at the end of a failed script's output that the model receives."""


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """The usable tools of a skill, and a sentence for each tool that is not usable."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[str, ...] = ()


def declared_tools(
    skill: Skill,
    runner: ScriptRunner,
    variables: Mapping[str, str] | None = None,
    *,
    prefix: str = "",
    allows: Callable[[ToolDeclaration], bool] = lambda _: True,
) -> DeclaredTools:
    """Return the tools that `skill` declares and `allows` permits, executed by `runner`.

    `variables` are the user's environment variables for this skill's scripts. `prefix` precedes each tool's name, for
    lists with tools of several skills.
    """
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for declaration in skill.frontmatter.tools:
        name = f"{prefix}{declaration.name}"
        why = declaration_problem(skill, declaration, name) or ("it is declared twice" if name in tools else "")
        why = why or ("" if allows(declaration) else "it is not switched on")
        if why:
            problems.append(f"the tool {one_line(declaration.name)[:100]} of {one_line(skill.key)[:100]}: {why}")
        else:
            tools[name] = _tool(skill, declaration, name, runner, variables or {})
    return DeclaredTools(tuple(tools.values()), tuple(problems))


def declaration_problem(skill: Skill, declaration: ToolDeclaration, name: str) -> str:
    """Return why a declaration yields no tool of this name, empty if it does."""
    if not declaration.script:
        return "it names no script"
    if skill.content.file(declaration.script) is None:
        return f"the skill has no file {one_line(declaration.script)[:200]}"
    if not _NAME.fullmatch(name):
        return f"{one_line(name)[:100]!r} is not a name that model APIs accept: up to 64 letters, digits, _ and -"
    try:
        notes = ArgumentValidator(declaration.parameters).notes
    except InvalidSchemaError as error:
        return str(error)
    # A script relies on its schema, unlike a server, which validates by itself.
    return notes[0] if notes else ""


def _tool(
    skill: Skill, declaration: ToolDeclaration, name: str, runner: ScriptRunner, variables: Mapping[str, str]
) -> Tool:
    script = declaration.script or ""

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        given = json.dumps(arguments, ensure_ascii=True).encode("ascii")
        try:
            result = await runner.run(skill, script, stdin=given, variables={**variables, IDEMPOTENCY_KEY: context.key})
        except SkillsError as error:
            raise ToolFailedError(str(error)) from None
        texts = OutputText.of(result.finished, context.redact)
        if fault := script_failure(result, texts):
            raise ToolFailedError(fault)
        return texts.stdout

    return Tool(
        name,
        declaration.description,
        {"type": "object", **declaration.parameters},
        Effect.READS if runner.setup.contained else Effect.WRITES,
        f"skill {skill.key}",
        perform,
        Role(own=True),
        declaration.name,
    )


def script_failure(result: ScriptResult, texts: OutputText) -> str:
    """Return how a script failed, with the end of its output; empty if it succeeded."""
    finished = result.finished
    if finished.ending is ProcessEnding.EXITED and finished.exit_code == 0:
        return ""
    how = {
        ProcessEnding.EXITED: f"its script {exit_text(finished.exit_code)}",
        ProcessEnding.TIMED_OUT: "its script took too long and was terminated",
        ProcessEnding.TOO_MUCH_OUTPUT: "its script wrote too much output and was terminated",
        ProcessEnding.NOT_STARTED: f"its script could not be started: {finished.fault}",
    }[finished.ending]
    said = texts.stderr or texts.stdout
    note = f" ({result.note})" if result.note else ""
    return f"The tool failed: {how}{note}.{f' It wrote:{chr(10)}{said[-MAX_ERROR:]}' if said else ''}"


_ENDINGS = {
    ProcessEnding.TIMED_OUT: "took too long and was ended",
    ProcessEnding.TOO_MUCH_OUTPUT: "wrote more than is allowed and was ended",
}


@dataclass(frozen=True, slots=True)
class ScriptReport(OutputText):
    """A script's run: which script, how it ended, and its output as text."""

    skill: str
    path: str
    digest: str
    ending: ProcessEnding
    exit_code: int | None
    isolation: IsolationKind
    note: str

    @property
    def succeeded(self) -> bool:
        """Whether the script exited with code 0."""
        return self.exit_code == 0

    @property
    def summary(self) -> str:
        """How the script ended, as a sentence without a full stop."""
        script = f"{one_line(self.path)} of the skill {one_line(self.skill)}"
        if self.ending is ProcessEnding.NOT_STARTED:
            return f"{script} could not be started: {self.note}"
        how = _ENDINGS.get(self.ending, exit_text(self.exit_code))
        return f"{script} {how}{f' ({self.note})' if self.note else ''}"

    @property
    def facts(self) -> dict[str, Any]:
        """Everything but the output, for JSON."""
        return {
            "skill": self.skill,
            "path": self.path,
            "digest": self.digest,
            "ending": self.ending.value,
            "exit_code": self.exit_code,
            "isolation": self.isolation.value,
            "note": self.note or None,
        }


def report_of(
    skill: Skill, path: str, isolation: IsolationKind, result: ScriptResult, hide: Callable[[str], str] = str
) -> ScriptReport:
    """Return the report; bytes that are not UTF-8 become U+FFFD, and `hide` removes secrets from the output."""
    finished = result.finished
    return ScriptReport(
        skill=skill.key,
        path=path,
        digest=skill.content.files[path].digest,
        ending=finished.ending,
        exit_code=finished.exit_code,
        isolation=isolation,
        note=without_lone_surrogates(finished.fault or result.note),
        stdout=hide(finished.stdout.decode("utf-8", errors="replace")),
        stderr=hide(finished.stderr.decode("utf-8", errors="replace")),
    )
