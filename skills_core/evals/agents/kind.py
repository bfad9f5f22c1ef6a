"""The description of an agent's command line, and the reader of what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from skills_core.evals.agents.transcript import TranscriptBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skills_core.evals.agents.transcript import Transcript


SERVER: Final = "skills"
"""The name of this server in the settings of an agent."""

MAX_LINE: Final = 20_000_000
"""Longest line that is parsed, in characters."""


class AgentName(StrEnum):
    """The agents that are known."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"


class Via(StrEnum):
    """How an agent gets the skill: from its own folder of skills, or from this server over MCP."""

    FOLDER = "folder"
    SERVER = "server"


class Rights(StrEnum):
    """What an agent may do without asking."""

    LOAD = "load"
    """Load skills, for tests of triggers."""
    WORK = "work"
    """Also write files and run commands, for evals."""


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The command of this server for an agent's settings."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setup:
    """Arguments, files and variables of one run. `{root}` in an argument is its folder, in which the files lie."""

    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


ReadEvent = Callable[[Mapping[str, Any], TranscriptBuilder], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentKind:
    """An agent's command line.

    `command` starts it, and `prompt` are its last words, with `{prompt}` for what the user says, so that a text which
    begins with a hyphen is not an option. `model_option` names a model by `{model}`.
    `skills_folder` is the folder of a project from which it takes skills, and `other_folders` are the other folders of
    a project or home in which it finds them. `setup` returns arguments and files for a run with some rights,
    `variables` are environment variables that would lead it to settings outside of its home, and `read_event` reads its
    output.
    """

    name: str
    title: str
    command: tuple[str, ...]
    prompt: tuple[str, ...]
    model_option: tuple[str, ...]
    skills_folder: str
    other_folders: tuple[str, ...]
    setup: Callable[[ServerCommand | None, Rights], Setup]
    read_event: ReadEvent
    variables: tuple[str, ...] = ()

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
