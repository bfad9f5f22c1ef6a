"""Which of a skill's files its body names, and what the body calls the folder that they are in.

A path counts where the skill has such a file: relative (`scripts/run.py`, `./forms.md`), below what stands for the
skill's folder (`{baseDir}/…`, `${CLAUDE_SKILL_DIR}/…`, `$SKILL_DIR/…`, `<path-to-skill>/…`), or below a folder of the
skill's name (`~/.claude/skills/pdf/scripts/run.py`). A path of a project or of a site that only ends alike does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["PathMentions", "mentioned_paths"]

_LONGEST = 1024
# No path that is longer can be one of a skill's.

# Patterns are compiled when the first body is looked at: no start waits for them.
_PATH_LIKE = r"(?a)(?<![A-Za-z0-9_.~@+%/\\-])[A-Za-z0-9_~@+%-]*+[./\\][A-Za-z0-9_.~@+%/\\-]*+"
_WHOLE = r"`([^`\n]{1,255})`|\]\(<([^<>\n]{1,255})>|\]\(([^()\n]{1,255})\)"
_PLACEHOLDER = r"(?:\$?\{[^{}\s]{1,48}\}|<[^<>\s]{1,48}>)\Z"
_STANDS_FOR_FOLDER = r"(?i)skill|base_?dir"
_PLACEHOLDER_FOLDER = r"(?:(?:path|your|this)[-_])*(?:to[-_])?skill(?:[-_](?:dir|path|root|folder))?"

_ANYBODYS = frozenset(
    {
        "README.md",
        "LICENSE",
        "LICENSE.txt",
        "LICENSE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
    }
    | {
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        "requirements.txt",
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "Cargo.toml",
    }
    | {
        "Makefile",
        "Dockerfile",
        "docker-compose.yml",
        ".env",
        ".env.example",
        ".gitignore",
        "config.json",
        "config.yaml",
        "config.yml",
        "settings.json",
    }
    | {"index.html", "index.js", "index.ts", "main.py", "app.py", "__init__.py", "_meta.json", "skill.json"}
)
# Names that a body more likely says of the user's project than of the skill.


@dataclass(frozen=True, slots=True)
class PathMentions:
    """The files that a body names, relative to the skill's folder and in its order, and its names for that folder."""

    paths: tuple[str, ...]
    folders: tuple[str, ...]


def mentioned_paths(body: str, files: Collection[str], names: Collection[str] = ()) -> PathMentions:
    """Return which of `files`, paths relative to the skill's folder, a body names.

    `names` are what that folder is called where it is installed: its own name, and the skill's.
    """
    found: dict[str, int] = {}
    folders: dict[str, int] = {}
    depths = sorted({path.count("/") + 1 for path in files})
    for at, path, before in (*_in_tokens(body, files, depths, names), *_whole(body, files)):
        found[path] = min(at, found.get(path, at))
        if before:
            folders[before] = min(at, folders.get(before, at))
    return PathMentions(tuple(sorted(found, key=found.__getitem__)), tuple(sorted(folders, key=folders.__getitem__)))


def _in_tokens(
    body: str, files: Collection[str], depths: list[int], names: Collection[str]
) -> Iterator[tuple[int, str, str]]:
    """Yield where each path stands, the file that it names, and what stands before it for the skill's folder."""
    for match in re.finditer(_PATH_LIKE, body):
        token = match[0]
        if len(token) > _LONGEST:
            continue
        at = match.start()
        text = token.replace("\\", "/").rstrip(".").removeprefix("@")
        parts = (unquote(text) if "%" in text else text).split("/")
        for depth in depths:
            path = "/".join(parts[-depth:])
            if depth <= len(parts) and path in files:
                before = _before(body[max(0, at - 64) : at], parts[:-depth], path, names)
                if before is not None:
                    yield at, path, before
                    break


def _before(left: str, above: list[str], path: str, names: Collection[str]) -> str | None:
    """Return what stands for the skill's folder before a path, empty where nothing does.

    `left` is the text before, `above` are the parts that the path has and the skill has not. None tells that it is
    a path of another place.
    """
    if above in ([], ["."]):
        elsewhere = not above and (left.endswith(("}", "$")) or path in _ANYBODYS)
        return None if elsewhere else ""
    placed = re.search(_PLACEHOLDER, left) if above[0] == "" else None
    start = placed[0] if placed else "$" if left.endswith("$") else ""
    if len(above) == 1:
        sign = placed[0] if placed else above[0] if start or above[0].isupper() else ""
        if re.search(_STANDS_FOR_FOLDER, sign):
            return f"{start}{above[0]}/"
    named = above[-1] in names or re.fullmatch(_PLACEHOLDER_FOLDER, above[-1]) is not None
    is_address = left.endswith(":") and above[:2] == ["", ""]
    return f"{start}{'/'.join(above)}/" if named and above[-1] and not is_address else None


def _whole(body: str, files: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """Yield what is named by all of a code span or by a link: names with spaces and letters of any script."""
    for match in re.finditer(_WHOLE, body):
        text = next(group for group in match.groups() if group)
        if match[1] is None:
            text = unquote(text.partition("#")[0].partition(' "')[0])
        path = text.strip().removeprefix("./")
        if path in files and not (match[1] and path in _ANYBODYS):
            yield match.start() + 1, path, ""
