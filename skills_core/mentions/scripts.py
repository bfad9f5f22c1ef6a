"""Find scripts that a body runs and that the skill does not have.

A command counts in prose, in a code span and in fenced code. Its script may belong to the user's project, to another
repository, or be made by the instructions, so a path counts only below `scripts/` (the folder that the specification
names), below another folder of the skill, and below a name of the skill's own folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from skills_core.mentions.markdown import positions_of, without_fences
from skills_core.mentions.paths import path_below_skill

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["MissingScript", "missing_scripts"]

# The patterns are compiled on first use, so that no start waits for them.

_LAUNCHER = (
    r"(?:python(?:3(?:\.\d{1,2})?)?|py|uv[ ]run(?:[ ]python3?)?|pipx[ ]run|bash|sh|zsh|node|(?:npx[ ])?tsx|ts-node"
    r"|bun(?:[ ]run)?|deno[ ]run|ruby|perl|php|Rscript|pwsh|powershell|source)"
)
_OPTIONS = r"(?:[ \t]+-[\w-]{1,40}(?:=[^\s`]{1,80}|[ \t]+[\w.,=<>-]{1,60}(?=[ \t]))?){0,6}"
_SCRIPT = (
    r"[\"']?(?P<folder>\$?\{[^{}\s]{1,48}\}|<[^<>\s]{1,48}>|\$\w{1,48})?"
    r"(?P<path>[\w.~@/\\-]{1,200}\.(?:py|sh|bash|js|mjs|cjs|ts|rb|pl|php|ps1|r|R))(?![\w/*{<$-]|\.\w)"
)
_RUNS = (
    rf"(?m)(?:(?<![\w./-]){_LAUNCHER}{_OPTIONS}[ \t]+"  # python scripts/run.py
    r"|\b(?:[Rr]un|[Ee]xecute)[ ](?:the[ ]script[ ])?`?"  # Run scripts/run.py
    rf"|^[ \t]{{0,16}}(?:\$[ ])?(?=\./|scripts/)|`(?=\./)){_SCRIPT}"  # ./scripts/run.sh
)
# A command or sentence that runs a script, in prose, in a code span or in fenced code.

_NOT_OWN = (
    r"(?i)\b(?:e\.g|for example|examples?|such as|like|might|could|would)\b|\b(?:your|my|foo|bar|example|some)[_-]|xxx"
    r"|\bscript[_-]?name\b|\b(?:script|example)\.\w"
    r"|\b(?:your|the|this|their|user'?s?|target|host)[ ](?:\w{1,20}[ ])?"
    r"(?:project|repo|repository|codebase|workspace)\b"
)
# In the line of a command: the script is an example, or one of the user's project.

_WRITES = (
    r"(?i)(?:\b(?:creat|writ|sav|generat|add|mak|put|cop|cp|mv|tee|touch|curl|wget)\w*\b|[ \t]>{1,2})"
    rf"(?:(?!\b(?:run|with|using|by|{_LAUNCHER})\b)[^\n]){{0,120}}$"
)
# In front of a path: the instructions make the file, and do not make something else by running it.

_ENTERS = r"(?m)^[ \t]{0,16}(?:\$[ ])?(?:cd|pushd)[ ]"
# Earlier in the paragraph or fence: the command runs in another folder.

_CLONE = "git clone"
# Instructions that fetch a repository run its scripts as well.

_TEXTS = frozenset({"markdown", "md", "text", "txt", "yaml", "yml", "json", "diff"})
# Fenced code of these languages shows files; it is not to be run.

_END = "\n"
_MAX_RUNS = 200
_NEARBY = 2000
# Commands of a body, and characters around each, that are looked at.


@dataclass(frozen=True, slots=True)
class MissingScript:
    """A script that a body runs at a position, and that is not a file of the skill; `path` is relative to its folder.

    It is `certain` that the skill's own file is meant if the body names the skill's folder, or the skill has other
    files in the same folder. Otherwise it may be a file of the user's project.
    """

    position: int
    path: str
    certain: bool


def missing_scripts(body: str, files: Collection[str], names: Collection[str] = ()) -> tuple[MissingScript, ...]:
    """Return the scripts that a body runs and that are not among `files`, each once, in the order of first mention.

    The parameters are those of `mentioned_paths`. A script counts below `scripts/`, below another folder of the skill,
    and below a name of the skill's folder. It does not count where the body calls it an example or a file of the user's
    project, makes it or runs it in another folder, nor below a mere `scripts/` if the body clones a repository.
    """
    text = without_fences(body, _TEXTS)
    folders = {path.partition("/")[0] for path in files if "/" in path}
    # The body may have entered a folder, so the end of a path is enough.
    there = {end for path in files for end in _ends(path.casefold())}
    found: dict[str, MissingScript] = {}
    for match in islice(re.finditer(_RUNS, text), _MAX_RUNS):
        path, certain = _script_of(match, folders, names)
        known = found.get(path)
        if path == "" or (known is not None and known.certain >= certain) or path.casefold() in there:
            continue
        if (certain or _CLONE not in text) and _means_own(text, match, path):
            found[path] = MissingScript(known.position if known else match.start("path"), path, certain)
    return tuple(found.values())


def _ends(path: str) -> Iterator[str]:
    """Yield a path, and what it is below each of its folders."""
    parts = path.split("/")
    return ("/".join(parts[number:]) for number in range(len(parts)))


def _script_of(match: re.Match[str], folders: Collection[str], names: Collection[str]) -> tuple[str, bool]:
    """Return the path in the skill's folder that a command runs, and whether it certainly lies in this folder.

    The path is empty if it lies elsewhere.
    """
    sign, written = match["folder"] or "", match["path"].replace("\\", "/")
    if ".." in written.split("/"):
        return "", False
    path = path_below_skill(sign, written, names)
    if path is not None or sign:
        return path or "", True
    path = written.removeprefix("./")
    above = path.partition("/")[0] if "/" in path else ""
    return (path, above in folders) if above in {"scripts", *folders} else ("", False)


def _means_own(text: str, match: re.Match[str], path: str) -> bool:
    """Tell whether nothing near a command says that its script is an example, another's, or made by the steps."""
    begin, end = max(0, match.start() - _NEARBY), match.end() + _NEARBY
    before, after = text[begin : match.start()], text[match.end() : end]
    line = f"{before.rpartition(_END)[2]}{match[0]}{after.partition(_END)[0]}"
    paragraph = before[max(before.rfind("\n\n"), before.rfind("```"), 0) :]
    if re.search(_NOT_OWN, line) or re.search(_ENTERS, paragraph):
        return False
    places = islice(positions_of(path, text), _MAX_RUNS)
    return not any(re.search(_WRITES, text[max(0, place - 160) : place].rpartition(_END)[2]) for place in places)
