"""The tool `read_skill_file`: the files of the skill being run, verified against the skill's digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.disk.files import read_file
from skills_core.errors import EvalFileError, FileRefusedError, ToolFailedError, did_you_mean, similar_to
from skills_core.run.tools.tool import Effect, Role, Tool
from skills_core.run.tools.workspace.files import LINE_ARGUMENTS, select_lines
from skills_core.withheld_files import files_for_models, is_withheld_from_models, refuse_eval_file

if TYPE_CHECKING:
    from skills_core.run.ports import JsonObject
    from skills_core.run.tools.tool import CallContext
    from skills_core.skill import Skill

__all__ = ["SKILL_ARGUMENT", "read_skill_file_tool", "require_own_skill"]


def read_skill_file_tool(skill: Skill) -> Tool:
    """Return the tool for one skill; a skill may always read its own files."""

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        require_own_skill(skill, arguments)
        path = str(arguments.get("path", "")).removeprefix(skill.root_uri).removeprefix("./")
        raw = await anyio.to_thread.run_sync(_verified_bytes, skill, path)
        return select_lines(path, raw, arguments)

    return Tool(
        "read_skill_file",
        f"Read a file that belongs to the skill {one_line(skill.key)}: a reference, a template, a script.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file's path within the skill, or its URI."},
                **LINE_ARGUMENTS,
                **SKILL_ARGUMENT,
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        Effect.READS,
        f"skill {skill.key}",
        perform,
        Role(own=True),
        built_in=True,
    )


SKILL_ARGUMENT: Final[JsonObject] = {
    "skill": {"type": "string", "description": "The skill's name, if at all: there is no other here."}
}
"""The argument that activation texts tell models to pass, because other servers offer several skills."""


def require_own_skill(skill: Skill, arguments: JsonObject) -> None:
    """Refuse a call for another skill than the one being run.

    Raises:
        ToolFailedError: the call names another skill.
    """
    named = arguments.get("skill")
    if named not in {None, skill.key, skill.name}:
        raise ToolFailedError(f"This run performs only the skill {one_line(skill.key)!r}.")


def _verified_bytes(skill: Skill, path: str) -> bytes:
    file = skill.content.files.get(path)
    if file is None:
        hint = did_you_mean(similar_to(path, files_for_models(skill.content)))
        raise ToolFailedError(f"The skill has no file {one_line(path)[:200]!r}.{hint}")
    try:
        refuse_eval_file(skill, file)
    except EvalFileError as error:
        raise ToolFailedError(str(error)) from None
    try:
        raw, _ = read_file(skill.location(file))
    except FileRefusedError as error:
        raise ToolFailedError(f"{one_line(path)}: {error.message}") from None
    if f"sha256:{hashlib.sha256(raw).hexdigest()}" != file.digest:
        raise ToolFailedError(f"{one_line(path)}: the file has changed since the run began, so it is not read")
    # The call of this skill was authorized; a skill enclosed in it was not called.
    if file is not skill.content.main and is_withheld_from_models(skill, file, raw):
        raise ToolFailedError(
            f"{one_line(path)}: only the user may call the skill that has these instructions; a model may not read them"
        )
    return raw
