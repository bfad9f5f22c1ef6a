"""The tool `run_skill_script` of a run: runs scripts of the skills that the run has loaded with the shared runner.

Output beyond the limit of one reply is kept as long as the run, and the model reads on by offset.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError, ToolFailedError
from skills_core.guard.tool import IDEMPOTENCY_KEY, Effect, Role, Tool
from skills_core.run.scripts.declared_tools import MAX_ERROR, script_failure
from skills_core.run.scripts.output import (
    CONTINUATION_ARGUMENTS,
    OFFSET,
    OUTPUT,
    STREAM,
    OutputCache,
    OutputSlice,
    OutputText,
    Stream,
    continuation_hint,
    expired_output,
)
from skills_core.run.tools.skill_files import SKILL_ARGUMENT, loaded_skill, spelled_path
from skills_core.toolboxes import Capability
from skills_core.withheld_files import refuse_eval_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext
    from skills_core.run.run_skills import RunSkills
    from skills_core.run.scripts.runner import ScriptResult, ScriptRunner
    from skills_core.skill import Skill

__all__ = ["NAME", "run_skill_script_tool"]

NAME = "run_skill_script"


_HINT_CHARACTERS = 250
# Characters reserved for the note below a part: its offsets, and how to read on.


def run_skill_script_tool(skills: RunSkills, runner: ScriptRunner, variables: Mapping[str, Mapping[str, str]]) -> Tool:
    """Return the tool for one run; `variables` are the user's environments for the scripts of skills, by key."""
    performed = skills.performed
    outputs: OutputCache[OutputText] = OutputCache()

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        if arguments.get(OUTPUT) is not None:
            return _continuation(outputs, arguments, context.characters)
        skill = loaded_skill(skills, arguments)
        result = await _run_script(skill, runner, variables.get(skill.key, {}), arguments, context)
        texts = OutputText.of(result.finished, context.redact)
        if fault := script_failure(result, texts):
            raise ToolFailedError("\n".join([fault, *_continuation_hints(outputs, texts)]))
        if len(texts.stdout) <= context.characters:
            return texts.stdout
        return _slice_text(outputs.keep(texts), Stream.STDOUT, texts.stdout, 0, context.characters)

    return Tool(
        NAME,
        f"Run a script of the skill {one_line(performed.key)}, or of another skill whose instructions you have. "
        f"{runner.setup.statement}",
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
                **CONTINUATION_ARGUMENTS,
                **SKILL_ARGUMENT,
            },
            "additionalProperties": False,
        },
        Effect.READS if runner.setup.contained else Effect.WRITES,
        f"skill {performed.key}",
        perform,
        # An entry that permits all commands permits scripts too; a pattern for commands does not.
        Role(capabilities=frozenset({Capability.RUN_COMMAND})),
        spelled=partial(spelled_path, skills),
    )


async def _run_script(
    skill: Skill, runner: ScriptRunner, variables: Mapping[str, str], arguments: JsonObject, context: CallContext
) -> ScriptResult:
    path, stdin, args = arguments.get("path"), arguments.get("stdin", ""), arguments.get("args", [])
    assert isinstance(args, list)  # noqa: S101 - by the schema
    if not path:
        raise ToolFailedError(f"path: name the script to run, or pass {OUTPUT} to read the output of an earlier call.")
    script = str(path).removeprefix("./")
    try:
        if file := skill.content.file(script):
            refuse_eval_file(skill, file)
        return await runner.run(
            skill,
            script,
            [str(each) for each in args],
            stdin=str(stdin).encode("utf-8", "replace"),
            variables={**variables, IDEMPOTENCY_KEY: context.key},
        )
    except ToolFailedError:
        raise
    except SkillsError as error:
        raise ToolFailedError(str(error)) from None


def _continuation(outputs: OutputCache[OutputText], arguments: JsonObject, characters: int) -> str:
    kept, stream, offset = (
        str(arguments[OUTPUT]),
        Stream(str(arguments.get(STREAM, Stream.STDOUT))),
        arguments.get(OFFSET),
    )
    texts = outputs.find(kept)
    if texts is None:
        raise ToolFailedError(expired_output(kept))
    text = texts.stdout if stream is Stream.STDOUT else texts.stderr
    return _slice_text(kept, stream, text, offset if isinstance(offset, int) else 0, characters)


def _slice_text(kept: str, stream: Stream, text: str, offset: int, characters: int) -> str:
    """Return the part of a stream from `offset` on, with a note about the rest."""
    if not offset and len(text) <= characters:
        return text
    piece = OutputSlice.of(text, offset, max(characters - _HINT_CHARACTERS, 1))
    if not piece.text:
        return f"[{stream} has {piece.total} characters, none from {offset} on]"
    end = offset + len(piece.text)
    more = "" if piece.next_offset is None else f" {continuation_hint(NAME, kept, stream, piece.next_offset)}"
    return f"{piece.text}\n[characters {offset} to {end} of {piece.total}.{more}]"


def _continuation_hints(outputs: OutputCache[OutputText], texts: OutputText) -> list[str]:
    """Return hints for the streams of a failed script that the model has not received whole."""
    reported = Stream.STDERR if texts.stderr else Stream.STDOUT
    sizes = {Stream.STDOUT: len(texts.stdout), Stream.STDERR: len(texts.stderr)}
    left = [stream for stream, size in sizes.items() if size > (MAX_ERROR if stream is reported else 0)]
    if not left:
        return []
    kept = outputs.keep(texts)
    return [continuation_hint(NAME, kept, stream, 0) for stream in left]
