"""Names that mean something below a source: what makes a folder a skill, and what is no part of any."""

from __future__ import annotations

import re

__all__ = ["DOCUMENTS", "MAIN_FILE", "OTHER_SPELLING", "is_ignored"]

MAIN_FILE = "SKILL.md"
"""The file that makes its folder a skill."""

OTHER_SPELLING = "skill.md"
"""Makes its folder a skill as well where there is no `SKILL.md`."""

DOCUMENTS = ".skills"
"""The hidden folder that is looked into all the same: each Markdown file in it may be a skill."""

# Three more hidden names are the shelves on which OpenAI's public collection keeps its skills.
_IGNORED = re.compile(
    r"""\.(?!(?:skills|curated|experimental|system)\Z).*  # hidden: .git, .DS_Store, .venv, swap files of vim and emacs
      | __pycache__ | node_modules                  # what tools leave beside the sources
      | .*~ | \#.*\# | .*\.sw[op] | .*\.(?:bak|orig|rej)  # backups of editors and of patch
      | 4913 | ___jb_(?:tmp|old)___                 # probes that vim and JetBrains write while they save
      | Thumbs\.db | desktop\.ini""",
    re.VERBOSE | re.DOTALL,
)


def is_ignored(name: str) -> bool:
    """Tell whether a file or folder of this name is no part of any skill."""
    return _IGNORED.fullmatch(name) is not None
