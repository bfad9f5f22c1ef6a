"""Read all results of a workspace: that of skillserve, of skill-creator, or a single iteration of either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.evals.report.fields import first, record, text
from server.evals.report.folder import Folder, natural
from server.evals.report.iterations import is_iteration, read_iteration
from server.evals.report.model import Workspace
from server.evals.report.outputs import Budget
from server.evals.report.trigger_results import read_triggers
from skills_core.disk.files import Reader
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["WorkspaceError", "read_workspace"]

_SUFFIX = "-workspace"

_MAX_ITERATIONS = 200


class WorkspaceError(SkillsError):
    """A folder has no results of evals or of trigger queries."""


def read_workspace(root: Path) -> Workspace:
    """Return the results in a workspace; files that cannot be used are named in its `problems`.

    Raises:
        WorkspaceError: there is no such folder, or it holds no results.
    """
    if not root.is_dir():
        raise WorkspaceError(
            f"{root}: there is no such folder; name a workspace, such as my-skill-workspace, which `skillserve eval` "
            "or `skillserve triggers` writes beside the skill"
        )
    with Reader() as reader:
        folder = Folder(root, reader)
        return _workspace(folder, root)


def _workspace(folder: Folder, root: Path) -> Workspace:
    names = folder.folders()
    numbered = [name for name in names if name.startswith("iteration-")]
    if not numbered and is_iteration(folder, ""):
        numbered = [""]
    kept = sorted(numbered, key=natural)[-_MAX_ITERATIONS:]
    # The report shows outputs and transcripts of the newest iteration alone.
    iterations = tuple(
        read_iteration(folder, name, place, Budget() if place == len(kept) else None)
        for place, name in enumerate(kept, 1)
    )
    places = ["", *sorted((name for name in names if name not in numbered), key=natural)]
    if "" in numbered:
        places = [""]
    # Only the last results are shown with transcripts.
    last = next((name for name in reversed(places) if read_triggers(folder, name, 0) is not None), None)
    found = (
        read_triggers(folder, name, place, Budget() if name == last else None) for place, name in enumerate(places)
    )
    triggers = tuple(each for each in found if each is not None)[-_MAX_ITERATIONS:]
    if not iterations and not triggers:
        raise WorkspaceError(
            f"{root}: no results here; expected folders such as iteration-1 (from `skillserve eval`) or triggers-1 "
            "(from `skillserve triggers`)"
        )
    named = next((each.skill for each in reversed(triggers) if each.skill), "")
    return Workspace(
        _skill_name(folder, kept) or named or _own_name(folder),
        iterations,
        triggers,
        tuple(dict.fromkeys(folder.problems)),
    )


def _skill_name(folder: Folder, iterations: list[str]) -> str:
    for name in reversed(iterations):
        found = record(folder.json(f"{name}/benchmark.json".lstrip("/")))
        given = text(first(record(found.get("metadata")), "skill_name"))
        if given and not given.startswith("<"):
            return given
    return ""


def _own_name(folder: Folder) -> str:
    return folder.name.removesuffix(_SUFFIX)
