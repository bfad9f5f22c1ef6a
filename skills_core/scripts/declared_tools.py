"""The tools that a skill declares, each implemented by a script of the skill.

The script reads the arguments as JSON from stdin; its stdout, JSON or text, is the reply to the model. An exit code
other than 0 is a failure, explained by stderr. The idempotency key of the call is in the script's environment, the same
if the call is repeated after an interruption.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.errors import InvalidSchemaError, SkillsError, ToolFailedError
from skills_core.guard.argument_validator import ArgumentValidator
from skills_core.guard.tool import IDEMPOTENCY_KEY, Effect, Role, Tool
from skills_core.scripts.output import OutputText
from skills_core.scripts.process import ProcessEnding, exit_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext
    from skills_core.scripts.runner import ScriptResult, ScriptRunner
    from skills_core.skills.skill import Skill

__all__ = ["DeclaredTools", "declaration_problem", "declared_tools", "script_failure"]

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
        except ToolFailedError:
            raise
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
