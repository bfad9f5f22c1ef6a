"""Names with a meaning below a source: those of main files and document folders, and ignored names."""

from __future__ import annotations

import re

__all__ = [
    "CLAUDE_SKILLS",
    "DOCUMENTS_FOLDER",
    "EVALS",
    "MAIN_FILE",
    "MAIN_FILE_LOWERCASE",
    "NOT_A_SOURCE",
    "SCHEDULES",
    "is_above_schedules",
    "is_ignored",
]

MAIN_FILE = "SKILL.md"
"""The file that makes its folder a skill."""

CLAUDE_SKILLS = ".claude/skills"
"""Claude Code's folder of skills, in a home directory or project; adk-skill reads single files in it too."""

MAIN_FILE_LOWERCASE = "skill.md"
"""The main file of a folder that has no `SKILL.md`."""

DOCUMENTS_FOLDER = ".skills"
"""A hidden folder that is scanned: each Markdown file in it may be a skill."""

NOT_A_SOURCE = "skillserve-workspace.json"
"""The file that keeps its folder out of every search for skills: a workspace of test results, or scheduler skills."""

SCHEDULES = "scheduler"
"""The tree of scheduler skills among Agenvoy's skills. A schedule or its user starts them; no model may find them."""

EVALS = "evals"
"""The folder, in any case, in the folder of a skill, that has the files of its tests."""

# The other hidden names that are scanned are folders of OpenAI's public collection of skills.
_IGNORED = re.compile(
    r"""\.(?!(?:skills|curated|experimental|system)\Z).*  # hidden: .git, .DS_Store, .venv, swap files of vim and emacs
      | __pycache__ | node_modules                  # build output and dependencies
      | .*~ | \#.*\# | .*\.sw[op] | .*\.(?:bak|orig|rej)  # backups of editors and patch
      | 4913 | ___jb_(?:tmp|old)___                 # temporary files of vim and JetBrains
      | Thumbs\.db | desktop\.ini""",
    re.VERBOSE | re.DOTALL,
)


def is_above_schedules(folder: str) -> bool:
    """Tell whether a folder, an absolute path with `/`, is Agenvoy's folder of skills, the one above `SCHEDULES`."""
    return folder.endswith("/agenvoy/skills")


def is_ignored(name: str) -> bool:
    """Tell whether a file or folder of this name is left out of all skills."""
    return _IGNORED.fullmatch(name) is not None
