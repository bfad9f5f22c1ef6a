"""The tools that a skill declares: each is carried out by a script of the skill.

The script gets the arguments as JSON on stdin; what it writes to stdout, JSON or text, is what the model is told. It
fails by an exit code other than 0, with what it wrote to stderr. The key of the call is in its environment, the same
when the call is made again after an interruption, so that a script can do what it does only once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.errors import InvalidSchemaError, SkillsError, ToolFailedError
from skills_core.run.scripts.output import OutputText
from skills_core.run.scripts.process import ProcessEnding
from skills_core.run.tools.argument_validator import ArgumentValidator
from skills_core.run.tools.tool import Effect, Role, Tool
from skills_core.run.tools.workspace.commands import IDEMPOTENCY_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.run.ports import JsonObject
    from skills_core.run.scripts.process import ProcessResult
    from skills_core.run.scripts.runner import ScriptRunner
    from skills_core.run.tools.tool import CallContext
    from skills_core.skill import Skill

__all__ = ["DeclaredTools", "declaration_problem", "declared_tools", "script_failure"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# What the interfaces of models take.

MAX_ERROR = 4000
"""Characters of what a script wrote, the last of them, that a model is told where it failed."""


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """The tools of a skill that can be carried out, and why the others cannot, in a sentence each."""

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
    """Return the tools that `skill` declares and somebody `allows`, run by `runner`.

    `variables` are what the user has set for the environment of this skill's scripts, `prefix` stands before each
    tool's name where tools of several skills are together.
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
    """Return why a declaration makes no tool of this name, empty where it does."""
    if not declaration.script:
        return "it names no script that carries it out"
    if declaration.script not in skill.content.files:
        return f"the skill has no file {one_line(declaration.script)[:200]}"
    if not _NAME.fullmatch(name):
        return f"{one_line(name)[:100]!r} is no name that models take: up to 64 letters, digits, _ and -"
    try:
        notes = ArgumentValidator(declaration.parameters).notes
    except InvalidSchemaError as error:
        return str(error)
    # A script relies on what its schema says, unlike a server, which checks for itself.
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
        if fault := script_failure(result.finished, texts):
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
    )


def script_failure(finished: ProcessResult, texts: OutputText) -> str:
    """Return how a script failed, with the end of what it wrote; empty where it ended well."""
    if finished.ending is ProcessEnding.EXITED and finished.exit_code == 0:
        return ""
    how = {
        ProcessEnding.EXITED: f"its script ended with exit code {finished.exit_code}",
        ProcessEnding.TIMED_OUT: "its script took too long and was ended",
        ProcessEnding.TOO_MUCH_OUTPUT: "its script wrote more than is allowed and was ended",
        ProcessEnding.NOT_STARTED: f"its script could not be started: {finished.fault}",
    }[finished.ending]
    said = texts.stderr or texts.stdout
    return f"The tool failed: {how}.{f' It wrote:{chr(10)}{said[-MAX_ERROR:]}' if said else ''}"
