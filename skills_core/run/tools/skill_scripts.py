"""The tool `run_skill_script` of a run: the scripts of the skill that is run, by the same runner as everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError, ToolFailedError
from skills_core.run.tools.declared import text_of
from skills_core.run.tools.skill_files import OWN_SKILL, refuse_other
from skills_core.run.tools.tool import Effect, Role, Tool
from skills_core.run.tools.workspace.commands import IDEMPOTENCY_KEY
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.run.ports import JsonObject
    from skills_core.run.scripts.runner import ScriptRunner
    from skills_core.run.tools.tool import CallContext
    from skills_core.skill import Skill

__all__ = ["NAME", "run_skill_script_tool"]

NAME = "run_skill_script"


def run_skill_script_tool(skill: Skill, runner: ScriptRunner, variables: Mapping[str, str]) -> Tool:
    """Return the tool for one skill; `variables` are what the user has set for its scripts."""

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        refuse_other(skill, arguments)
        path, stdin, args = arguments["path"], arguments.get("stdin", ""), arguments.get("args", [])
        assert isinstance(args, list)  # noqa: S101 - by the schema
        try:
            result = await runner.run(
                skill,
                str(path).removeprefix("./"),
                [str(each) for each in args],
                stdin=str(stdin).encode("utf-8", "replace"),
                variables={**variables, IDEMPOTENCY_KEY: context.key},
            )
        except ToolFailedError:
            raise
        except SkillsError as error:
            raise ToolFailedError(str(error)) from None
        return text_of(result.finished)

    return Tool(
        NAME,
        f"Run a script of the skill {one_line(skill.key)}. {runner.setup.statement}",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The script's path, relative to the skill root."},
                "args": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Its arguments, one an item. No shell reads them, so quote nothing.",
                },
                "stdin": {"type": "string", "description": "What it reads from its standard input."},
                **OWN_SKILL,
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        Effect.READS if runner.setup.contained else Effect.WRITES,
        f"skill {skill.key}",
        perform,
        # Whoever may run any command may run these; a pattern of commands says nothing of them.
        Role(capabilities=frozenset({Capability.RUN_COMMAND})),
    )
