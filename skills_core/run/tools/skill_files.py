"""The tool `read_skill_file`: the files of the skills that a run has loaded, verified against their digests."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.disk.files import read_file
from skills_core.errors import EvalFileError, FileRefusedError, ToolFailedError, did_you_mean, similar_paths
from skills_core.guard.tool import Effect, Role, Tool
from skills_core.run.tools.workspace.files import LINE_ARGUMENTS, select_lines
from skills_core.withheld_files import files_for_models, is_withheld_from_models, refuse_eval_file

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext
    from skills_core.run.run_skills import RunSkills
    from skills_core.skill import Skill, SkillFile

__all__ = ["SKILL_ARGUMENT", "loaded_skill", "read_skill_file_tool", "spelled_path"]


def read_skill_file_tool(skills: RunSkills) -> Tool:
    """Return the tool for one run; skills may always read their own files."""
    performed = skills.performed

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        named = str(arguments.get("path", ""))
        skill = loaded_skill(skills, arguments, named)
        file = _file_of(skill, named.removeprefix(skill.root_uri))
        raw = await anyio.to_thread.run_sync(_verified_bytes, skill, file)
        return select_lines(file.path, raw, arguments)

    return Tool(
        "read_skill_file",
        f"Read a file that belongs to the skill {one_line(performed.key)}, or to another skill whose instructions you "
        "have: a reference, a template, a script.",
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
        f"skill {performed.key}",
        perform,
        Role(own=True),
        built_in=True,
        spelled=partial(spelled_path, skills),
    )


def spelled_path(skills: RunSkills, arguments: JsonObject) -> JsonObject:
    """Return the arguments of a call with the path of the skill's file that `path` names in whatever case."""
    named = str(arguments.get("path", ""))
    try:
        skill = loaded_skill(skills, arguments, named)
    except ToolFailedError:
        return arguments
    file = skill.content.file(named.removeprefix(skill.root_uri))
    return arguments if file is None else {**arguments, "path": file.path}


SKILL_ARGUMENT: Final[JsonObject] = {
    "skill": {"type": "string", "description": "The skill's name; without it, the skill that you perform."}
}
"""The argument that activation texts tell models to pass."""


def loaded_skill(skills: RunSkills, arguments: JsonObject, path: str = "") -> Skill:
    """Return the loaded skill that a call names: by the argument `skill`, or by a `path` that is a URI.

    Raises:
        ToolFailedError: the model does not have the instructions of the skill that the call names.
    """
    named = arguments.get("skill")
    if named is None:
        by_uri = [skill for skill in skills.loaded if path.startswith(skill.root_uri)]
        return max(by_uri, key=lambda skill: len(skill.root_uri), default=skills.performed)
    skill = skills.find(str(named))
    if skill is None:
        hint = " Call activate_skill for it first." if skills.key_of(str(named)) in skills.offers else ""
        loaded = ", ".join(one_line(each.key) for each in skills.loaded)
        raise ToolFailedError(
            f"You do not have the instructions of a skill {one_line(str(named))[:200]!r} in this run, only those of "
            f"{loaded}.{hint}"
        )
    return skill


def _file_of(skill: Skill, path: str) -> SkillFile:
    file = skill.content.file(path)
    if file is None:
        hint = did_you_mean(similar_paths(path, files_for_models(skill.content)))
        raise ToolFailedError(f"The skill has no file {one_line(path.removeprefix('./'))[:200]!r}.{hint}")
    return file


def _verified_bytes(skill: Skill, file: SkillFile) -> bytes:
    path = file.path
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
