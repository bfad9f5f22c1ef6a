"""The tool `read_skill_file`: the files of the skill that is run, with the bytes that its digest is of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.disk.files import read_file
from skills_core.errors import FileRefusedError, ToolFailedError, similar_to
from skills_core.run.tools.tool import Effect, Role, Tool
from skills_core.run.tools.workspace.files import LINES, shown_lines

if TYPE_CHECKING:
    from skills_core.run.ports import JsonObject
    from skills_core.run.tools.tool import CallContext
    from skills_core.skill import Skill

__all__ = ["read_skill_file_tool"]


def read_skill_file_tool(skill: Skill) -> Tool:
    """Return the tool for one skill; every skill may read its own files."""

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        path = str(arguments.get("path", "")).removeprefix(skill.root_uri).removeprefix("./")
        raw = await anyio.to_thread.run_sync(_verified, skill, path)
        return shown_lines(path, raw, arguments)

    return Tool(
        "read_skill_file",
        f"Read a file that belongs to the skill {one_line(skill.key)}: a reference, a template, a script.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file's path within the skill, or its URI."},
                **LINES,
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        Effect.READS,
        f"skill {skill.key}",
        perform,
        Role(own=True),
    )


def _verified(skill: Skill, path: str) -> bytes:
    file = skill.content.files.get(path)
    if file is None:
        similar = similar_to(path, skill.content.files)
        hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
        raise ToolFailedError(f"The skill has no file {one_line(path)[:200]!r}.{hint}")
    try:
        raw, _ = read_file(skill.location(file))
    except FileRefusedError as error:
        raise ToolFailedError(f"{one_line(path)}: {error.message}") from None
    if f"sha256:{hashlib.sha256(raw).hexdigest()}" != file.digest:
        raise ToolFailedError(f"{one_line(path)}: the file has changed since the run began, and is not read")
    return raw
