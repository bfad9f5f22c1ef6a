"""The entry of `run_skill_script` in `tools/list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config.settings import OptionalTool
from server.listing.schemas import TEXT, hints, object_of, or_null
from skills_core.run.scripts.environment import WorkingDirectory
from skills_core.run.scripts.isolation import IsolationKind
from skills_core.run.scripts.output import CONTINUATION_ARGUMENTS
from skills_core.run.scripts.process import ProcessEnding

if TYPE_CHECKING:
    from skills_core.run.scripts.runner import ScriptSetup

__all__ = ["ARGS", "PATH", "PIECE", "RUN", "SKILL", "STDIN", "tool"]

RUN = OptionalTool.RUN_SKILL_SCRIPT.value
SKILL = "skill"
PATH = "path"
ARGS = "args"
STDIN = "stdin"

PIECE = 16_000
"""Most characters of a stream in one result."""

_COUNT = {"type": "integer", "minimum": 0}

_PIECE = object_of(text=TEXT, offset=_COUNT, total=_COUNT, next_offset=or_null({"type": "integer"}))

_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        SKILL: {"type": "string", "description": "The skill's name."},
        PATH: {"type": "string", "description": "The script's path, relative to the skill root."},
        ARGS: {
            "type": "array",
            "items": TEXT,
            "description": "Its arguments, one an item. No shell reads them, so quote nothing.",
        },
        STDIN: {"type": "string", "description": "What it reads from its standard input; nothing if not given."},
        **CONTINUATION_ARGUMENTS,
    },
    "additionalProperties": False,
}

_OUTPUT = object_of(
    skill=TEXT,
    path=TEXT,
    digest=TEXT,
    ending={"type": "string", "enum": [ending.value for ending in ProcessEnding]},
    exit_code=or_null({"type": "integer"}, "Null where it did not end by itself."),
    isolation={"type": "string", "enum": [kind.value for kind in IsolationKind]},
    note=or_null(TEXT),
    output=or_null(TEXT, "The id by which the rest can be read, for a while; null where there is none."),
    stdout=_PIECE,
    stderr=_PIECE,
)


def tool(setup: ScriptSetup) -> dict[str, Any]:
    """Return the entry; its description and annotations depend on how scripts are run."""
    return {
        "name": RUN,
        "title": "Run a script of a skill",
        "description": (
            "Run a script of a skill, where its instructions say so, and return what it writes. "
            f"{_folders(setup)} It may take {setup.limits.seconds:g} seconds. {setup.statement}"
        ),
        "inputSchema": _INPUT,
        "outputSchema": _OUTPUT,
        "annotations": {
            **hints("Run a script of a skill", read_only=False),
            "destructiveHint": not setup.contained,
            "idempotentHint": False,
            "openWorldHint": setup.network or setup.isolation.sandbox is None,
        },
    }


def _folders(setup: ScriptSetup) -> str:
    """Say where a script starts, and which variables name its other folders."""
    scratch = "an empty folder, which is removed afterwards"
    skill = "the environment variable SKILL_DIR names the skill's folder"
    if setup.directory is WorkingDirectory.WORKSPACE:
        return f"It is started in {setup.workspace}; {skill}."
    workspace = f" It may also write to {setup.workspace} (WORKSPACE_DIR)." if setup.workspace else ""
    if setup.directory is WorkingDirectory.SCRATCH:
        return f"It is started in {scratch}; {skill}.{workspace}"
    return (
        "It is started in the skill's folder, which is read-only; the environment variable SCRATCH_DIR names "
        f"{scratch}.{workspace}"
    )
