"""The command line of a coding agent, the reader of what it prints, and what that says of a run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from skills_core.diagnostics import shortened

_MAX_AMOUNT = 1e9
# More is not a price, and infinity is not JSON.

ANY_SKILL: Final = "*"
"""Stands among denied skills for a call that does not say which skill it is for."""

_MAX_REASON: Final = 200


def record(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def records(value: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401 - JSON
    """Return the objects of a JSON array."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a text, empty if the value is none."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """Return a number of things, 0 if the value is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def amount_of(value: object) -> float:
    """Return an amount of money, 0 if the value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < _MAX_AMOUNT else 0.0


def text_of_content(value: object) -> str:
    """Return the text of a result: a text, or blocks of content."""
    return value if isinstance(value, str) else "\n".join(text_of(block.get("text")) for block in records(value))


def lines_of(printed: bytes) -> list[str]:
    """Return the lines of what was printed; a text in JSON may have other line separators than these."""
    return [line.rstrip("\r") for line in printed.decode("utf-8", "replace").split("\n")]


def transcript_lines(stdout: bytes, stderr: bytes) -> Iterator[str]:
    """Yield the lines of both streams, one JSON value a line; other lines become objects with their text."""
    for line in lines_of(stdout):
        if line.strip():
            yield _json_line(line)
    for line in lines_of(stderr):
        if line.strip():
            yield json.dumps({"text": line, "stream": "stderr"}, ensure_ascii=False)


def _json_line(line: str) -> str:
    try:
        # A bare word or number is text that happens to be JSON.
        if isinstance(value := json.loads(line), dict | list):
            return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"text": line}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Transcript:
    """The record of a run by the agent itself.

    `loaded` are skills whose instructions a successful result brought, `denied` those that a permission kept from the
    agent, and `failed` those that could not be loaded for another reason, with the words of the agent's tool.
    `available` are the skills that the agent says it has, None if it does not say. `is_error` tells that the run itself
    failed, for the reason `error`. `finished` tells that the agent reported its end, and `recognized` that its output
    was understood at all. Tokens and cost are None if they are unknown; `output_tokens` are a part of all. `model` is
    the one that the agent names, and `requests` are those to a model, None if they are not counted.
    """

    loaded: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tool_calls: int = 0
    total_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    requests: int | None = None
    model: str = ""
    text: str = ""
    is_error: bool = False
    error: str = ""
    available: tuple[str, ...] | None = None
    finished: bool = False
    recognized: bool = False


@dataclass(slots=True)
class TranscriptBuilder:
    """Collects a transcript while an agent prints it."""

    error: str = ""
    is_error: bool = False
    available: tuple[str, ...] | None = None
    model: str = ""
    finished: bool = False
    recognized: bool = False
    _loaded: dict[str, None] = field(default_factory=dict)
    _denied: dict[str, None] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    _calls: set[str] = field(default_factory=set)
    _inputs: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    _tokens: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    _costs: dict[str, float] = field(default_factory=dict)
    _texts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def call(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Note a tool call that begins; a call that is reported twice counts once."""
        self._calls.add(call_id)
        self._inputs.setdefault(call_id, (tool, arguments))

    def input_of(self, call_id: str) -> tuple[str, Mapping[str, Any]]:
        """Return the tool and the arguments of a call, both empty if it never began."""
        return self._inputs.get(call_id, ("", {}))

    def loads(self, names: Iterable[str]) -> None:
        """Note skills whose instructions the agent has received."""
        self._loaded.update(dict.fromkeys(names))

    def denies(self, names: Iterable[str]) -> None:
        """Note skills that a permission kept from the agent."""
        self._denied.update(dict.fromkeys(names))

    def fails(self, names: Iterable[str], why: str = "") -> None:
        """Note skills that could not be loaded, and what the tool said."""
        self._failed.update(dict.fromkeys(names, shortened(why, _MAX_REASON)))

    def tokens(self, key: str, count: int, output: int | None = None) -> None:
        """Set the tokens of one answer; of one that is reported several times, the last report counts."""
        self._tokens[key] = (count, output)

    def total(self, count: int, output: int | None = None) -> None:
        """Set the tokens of the whole run, in place of those of single answers."""
        self._tokens = {"": (count, output)}

    def cost(self, key: str, dollars: float) -> None:
        """Set the price of one answer, or with an empty key that of the run; 0 is unknown."""
        if dollars:
            self._costs[key] = dollars

    def says(self, text: str, *, part: str = "", more: bool = False) -> None:
        """Note what the agent says; `more` continues the text of the same `part`."""
        kept = self._texts[part] if more and part in self._texts else []
        self._texts = {part: [*kept, text]}

    def fault(self, message: str) -> None:
        """Note that the run itself failed."""
        self.is_error = True
        self.error = message

    def transcript(self) -> Transcript:
        """Return what is known so far."""
        outputs = [output for _, output in self._tokens.values() if output is not None]
        return Transcript(
            loaded=tuple(self._loaded),
            denied=tuple(name for name in self._denied if name not in self._loaded),
            failed={name: why for name, why in self._failed.items() if name not in self._loaded},
            tool_calls=len(self._calls),
            total_tokens=sum(count for count, _ in self._tokens.values()) if self._tokens else None,
            output_tokens=sum(outputs) if outputs and len(outputs) == len(self._tokens) else None,
            cost_usd=sum(self._costs.values()) if self._costs else None,
            model=self.model,
            text="".join(text for texts in self._texts.values() for text in texts),
            is_error=self.is_error,
            error=self.error,
            available=self.available,
            finished=self.finished,
            recognized=self.recognized,
        )


def skill_name(written: object) -> str:
    """Return the name of a skill from what an agent writes, such as `plugin:name` or `/name`; empty if it is none."""
    return written.rpartition(":")[2].removeprefix("/").strip() if isinstance(written, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """The agent's record of a run, and how the run ended.

    `exit_code` is None if the agent is not a process, or was ended. `stopped` tells that nothing more was to be learned
    from it, and `fault` says why the run failed, as far as the agent's own record does not. `errors` is the end of what
    it printed on stderr, `lines` are all lines as JSON values, and `answer` is its last message.
    """

    transcript: Transcript
    exit_code: int | None = None
    timed_out: bool = False
    stopped: bool = False
    fault: str = ""
    seconds: float = 0.0
    errors: str = ""
    lines: tuple[str, ...] = ()
    answer: str = ""
    notes: tuple[str, ...] = ()


SERVER: Final = "skills"
"""The name of this server in the settings of an agent."""

MAX_LINE: Final = 20_000_000
"""Longest line that is parsed, in characters."""

ReadEvent = Callable[[Mapping[str, Any], TranscriptBuilder], None]


class Via(StrEnum):
    """How an agent gets the skill: from its own folder of skills, or from this server over MCP."""

    FOLDER = "folder"
    SERVER = "server"


class AgentRights(StrEnum):
    """What an agent may do without asking."""

    LOAD = "load"
    """Load skills, for tests of triggers."""
    WORK = "work"
    """Also write files and run commands, for evals."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Arguments, files and variables of one run. `{root}` in an argument is its folder, in which the files lie."""

    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentKind:
    """An agent's command line.

    `command` starts it, and `prompt` are its last words, with `{prompt}` for what the user says, so that a text which
    begins with a hyphen is not an option. `model_option` names a model by `{model}`.
    `skills_folder` is the folder of a project from which it takes skills, and `other_folders` are the other folders of
    a project or home in which it finds them. `setup` returns arguments and files for a run with some rights, from the
    words that start this server if the agent has skills from it. `variables` are environment variables that would lead
    it to settings outside of its home, and `read_event` reads its output. `provider` is that of its models, empty if
    their names have it, and `tells_cost` says whether it reports what a run that ends has cost.
    """

    name: str
    title: str
    command: tuple[str, ...]
    prompt: tuple[str, ...]
    model_option: tuple[str, ...]
    skills_folder: str
    other_folders: tuple[str, ...]
    setup: Callable[[tuple[str, ...] | None, AgentRights], Setup]
    read_event: ReadEvent
    variables: tuple[str, ...] = ()
    provider: str = ""
    tells_cost: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        """All folders, relative to a project or to a home, in which the agent finds skills."""
        return (self.skills_folder, *self.other_folders)

    def reader(self) -> TranscriptReader:
        """Return a reader for the output of one run."""
        return TranscriptReader(self.read_event)

    def parse(self, lines: Iterable[str]) -> Transcript:
        """Return the transcript in the lines that the agent printed."""
        reader = self.reader()
        for line in lines:
            reader.take(line)
        return reader.transcript()


class TranscriptReader:
    """Reads the output of an agent line by line."""

    def __init__(self, read_event: ReadEvent) -> None:
        """Start before the first line."""
        self._read_event = read_event
        self._builder = TranscriptBuilder()

    def take(self, line: str) -> None:
        """Read a line; lines that are not a JSON object, or have another shape, are ignored."""
        text = line.strip()
        if not text.startswith("{") or len(text) > MAX_LINE:
            return
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict) and isinstance(event.get("type"), str):
            self._read_event(event, self._builder)

    def transcript(self) -> Transcript:
        """Return what is known so far."""
        return self._builder.transcript()
