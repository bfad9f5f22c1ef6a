"""Fixtures for calls of tools: tools, gates and users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from skills_core.format.yaml12 import JsonObject, JsonValue
from skills_core.guard.allowed_tools import AllowedTools
from skills_core.guard.guard import Guard, GuardRule
from skills_core.guard.tool import CallContext, CallLimits, Effect, Perform, Role, Secrets, Tool
from skills_core.guard.tool_gate import ToolGate
from skills_core.interaction import NoUser, User

MakeTool = Callable[..., Tool]
MakeGate = Callable[..., ToolGate]


async def _echo(arguments: JsonObject, context: CallContext) -> str:
    return f"{context.key} {arguments}"


@pytest.fixture
def make_tool() -> MakeTool:
    """Make a tool that tells its key and its arguments, unless something else is performed."""

    def make(
        name: str = "echo",
        parameters: dict[str, JsonValue] | None = None,
        perform: Perform = _echo,
        role: Role | None = None,
    ) -> Tool:
        schema: dict[str, JsonValue] = {"type": "object"} if parameters is None else parameters
        return Tool(name, "Says it back.", schema, Effect.READS, "workspace", perform, role or Role())

    return make


@pytest.fixture
def make_gate() -> MakeGate:
    """Make the gate of the run `r1` for the tools."""

    def make(
        *tools: Tool,
        allowed: Sequence[str] | None = None,
        rules: Sequence[GuardRule] = (),
        user: User | None = None,
        secrets: Mapping[str, str] | None = None,
        **limits: Any,
    ) -> ToolGate:
        return ToolGate(
            tools,
            AllowedTools(allowed),
            Guard(rules),
            user or NoUser(),
            CallLimits(**limits),
            run_id="r1",
            digest="sha256:abc",
            secrets=Secrets(secrets or {}),
        )

    return make


class ScriptedUser:
    """A user who gives the same answer to everything, and remembers what was asked."""

    def __init__(self, *, agrees: bool | None = None, answer: str | None = None) -> None:
        self.agrees = agrees
        self.answer = answer
        self.asked: list[str] = []

    async def confirm(self, question: str) -> bool | None:
        self.asked.append(question)
        return self.agrees

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        self.asked.append(f"{question} {list(choices)}")
        return self.answer


@pytest.fixture
def person() -> Callable[..., ScriptedUser]:
    """Make a user."""
    return ScriptedUser


def raising(error: BaseException) -> Perform:
    """Return a tool's work that raises."""

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        del arguments, context
        raise error

    return perform


@pytest.fixture
def failing() -> Callable[[BaseException], Perform]:
    """Make work that raises."""
    return raising


@pytest.fixture
def saying() -> Callable[[str], Perform]:
    """Make work that says a text."""

    def make(text: str) -> Callable[[JsonObject, CallContext], Awaitable[str]]:
        async def perform(arguments: JsonObject, context: CallContext) -> str:
            del arguments, context
            return text

        return perform

    return make
