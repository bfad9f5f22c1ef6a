"""Find which of a skill's files its body names, what it calls their folder, and which scripts it runs that are missing.

A path counts where the skill has such a file and the path is one of

- relative: `scripts/run.py`, `./forms.md`;
- below a variable or placeholder for the skill's folder: `{baseDir}/run.py`, `${CLAUDE_SKILL_DIR}/run.py`,
  `$SKILL_DIR/run.py`, `<path-to-skill>/run.py`;
- below a folder of the skill's name: `~/.claude/skills/pdf/scripts/run.py`.

A path of a project or a web site that merely ends alike does not count. A path that differs in case from that of one
file alone means this file, as `SkillContent.file` finds it.

A missing script may belong to the user's project, to another repository, or be made by the instructions, so its path
counts only below `scripts/` (the folder that the specification names), below another folder of the skill, and below a
name of the skill's own folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from urllib.parse import unquote

from skills_core.mentions.markdown import in_ascii, lines_at, positions_of, without_fences

_MAX_WORD = 1024
# No longer path can be one of a skill's.

_MAX_PREFIX = 64
# Characters before a token that may hold a variable or a placeholder.

# The patterns are compiled on first use, so that no start waits for them.

_PATH_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~@+%/\\-")
_PATH_WORD = r"[A-Za-z0-9_.~@+%/\\-]+"
# A word of the characters of paths: `forms.md`, `./scripts/run.py`, `~/.claude/skills`, `/run.py` after `{baseDir}`.

_ESCAPE = r"%[0-9A-Fa-f]{2}"

_WORD_OR_QUOTE = rf"{_PATH_WORD}|[`(]"

_MAX_SOUGHT = 64
# Up to this many names of files a search for each name is faster than a look at each word.

_QUOTED = r"`([^`\n]{1,255})`|\]\(<([^<>\n]{1,255})>|\]\(([^()\n]{1,255})\)"
# A whole code span or a link's target: `my notes.md`, [the form](<my form.md>), [the form](form.md#top).

_PLACEHOLDER = r"(?:\$?\{[^{}\s]{1,48}\}|<[^<>\s]{1,48}>)\Z"
# At the end of the text before a token: `{baseDir}`, `${CLAUDE_SKILL_DIR}`, `<path-to-skill>`.

_FOLDER_VARIABLE = r"(?i)skill|base_?dir"
# In a variable or placeholder that means the skill's folder: `SKILL_DIR`, `{baseDir}`, `<path-to-skill>`.

_FOLDER_PHRASE = r"(?:(?:path|your|this)[-_])*(?:to[-_])?skill(?:[-_](?:dir|path|root|folder))?"
# A folder in a path that means the skill's folder: `path-to-skill`, `your_skill`, `this-skill-dir`.

_GENERIC_NAME_TEXT = (
    "README.md LICENSE LICENSE.txt LICENSE.md CHANGELOG.md CONTRIBUTING.md AGENTS.md CLAUDE.md GEMINI.md "
    "package.json package-lock.json tsconfig.json requirements.txt pyproject.toml setup.py setup.cfg Cargo.toml "
    "Makefile Dockerfile docker-compose.yml .env .env.example .gitignore "
    "config.json config.yaml config.yml settings.json _meta.json skill.json "
    "index.html index.js index.ts main.py app.py __init__.py"
)
_GENERIC_NAMES = frozenset(_GENERIC_NAME_TEXT.split())
_GENERIC_FOLDED = frozenset(map(str.casefold, _GENERIC_NAMES))
# Without a folder, these names more likely mean a file of the user's project than one of the skill.


@dataclass(frozen=True, slots=True)
class PathMentions:
    """What a body names, each in the order of first mention.

    `paths` are files relative to the skill's folder, `folders` the body's names for that folder, such as `{baseDir}/`.
    `respelled` are the paths that differ in case from the file's, each where it is first mentioned.
    """

    paths: tuple[str, ...]
    folders: tuple[str, ...]
    respelled: tuple[Respelled, ...] = ()


class Respelled(NamedTuple):
    """A path `written` at a position of a body, which differs in case from the `path` of the only file it can mean."""

    position: int
    written: str
    path: str


class _Mention(NamedTuple):
    """A file that the body names at a position; `folder` is what it calls the skill's folder there, or empty."""

    position: int
    path: str
    folder: str
    written: str


class _Files:
    """The files of a skill, for lookups of paths in the author's spelling."""

    def __init__(self, paths: Collection[str]) -> None:
        self.paths = paths
        self._folded: dict[str, str | None] = {}
        for path in paths:
            folded = path.casefold()
            self._folded[folded] = None if folded in self._folded else path

    def find(self, path: str) -> str | None:
        """Return the path of the file that `path` names, in whatever case; None if there is none, or several."""
        if path in self.paths:
            return path
        near = self._folded.get(path.casefold())
        return near if near is not None and len(near) == len(path) and not _is_generic(path) else None


def _is_generic(path: str) -> bool:
    return path.casefold() in _GENERIC_FOLDED


def mentioned_paths(body: str, files: Collection[str], names: Collection[str] = ()) -> PathMentions:
    """Return which of `files`, paths relative to the skill's folder, a body names.

    `names` are the names that this folder may have where the skill is installed: its own, and the skill's.
    """
    places, known = _places(body, files), _Files(files)
    mentions = sorted((*_in_tokens(body, known, names, places), *_in_quotes(body, known, places)))
    respelled: dict[tuple[str, str], Respelled] = {}
    for each in mentions:
        if each.written != each.path:
            respelled.setdefault((each.written, each.path), Respelled(each.position, each.written, each.path))
    return PathMentions(
        _unique(mention.path for mention in mentions),
        _unique(mention.folder for mention in mentions),
        tuple(respelled.values()),
    )


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are not empty, each once, in order."""
    return tuple(dict.fromkeys(filter(None, texts)))


def _places(body: str, files: Collection[str]) -> list[int]:
    """Return where a body may name a file: where it has a name, or an escape, which may stand for a part of one."""
    sought = {path.rpartition("/")[2] for path in files}
    if len(sought) > _MAX_SOUGHT:
        return [match.start() for match in re.finditer(_WORD_OR_QUOTE, body)]
    text = in_ascii(body).lower()
    found = {match.start() for match in re.finditer(_ESCAPE, text)} if "%" in text else set()
    for name in filter(None, sought):
        if name.isascii():
            found.update(positions_of(name.lower(), text))
        else:
            # A body in lower case may be longer, so that positions differ.
            found.update(match.start() for match in re.finditer(re.escape(name), body, re.IGNORECASE))
    return sorted(found)


def _in_tokens(body: str, files: _Files, names: Collection[str], places: Iterable[int]) -> Iterator[_Mention]:
    """Find files named by words that look like paths."""
    depths = sorted({path.count("/") + 1 for path in files.paths})
    for start, token in _tokens(body, places):
        parts = _parts(token)
        before = body[max(0, start - _MAX_PREFIX) : start]
        for depth in depths:
            written = "/".join(parts[-depth:])
            path = files.find(written) if depth <= len(parts) else None
            if path is None:
                continue
            folder = _skill_folder(before, parts[:-depth], path, names)
            if folder is not None:
                yield _Mention(start, path, folder, written)
                break


def _tokens(body: str, places: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Yield the words that look like paths at the places, which ascend; with each word, yield where it begins."""
    token, end = re.compile(_PATH_WORD), 0
    for place in places:
        match = token.match(body, place) if place >= end else None
        if match is None:
            continue
        start, least, end = place, max(end, place - _MAX_WORD), match.end()
        while start > least and body[start - 1] in _PATH_CHARACTERS:
            start -= 1
        word = body[start:end]
        if len(word) <= _MAX_WORD and ("." in word or "/" in word or "\\" in word):
            yield start, word


def _in_quotes(body: str, files: _Files, places: Iterable[int]) -> Iterator[_Mention]:
    """Find files named by a whole code span or link, where names may have blanks and letters of any script."""
    for offset, line in lines_at(places, body):
        for match in re.finditer(_QUOTED, line):
            code, *targets = match.groups()
            target = next(filter(None, targets), "")
            written = (code or unquote(target.partition("#")[0].partition(' "')[0])).strip().removeprefix("./")
            path = files.find(written)
            if path is not None and not (code and path in _GENERIC_NAMES):
                yield _Mention(offset + match.start() + 1, path, "", written)


def _parts(token: str) -> list[str]:
    """Split a token at its slashes, without a mention's `@` before it or a sentence's `.` after it."""
    text = token.replace("\\", "/").rstrip(".").removeprefix("@")
    return (unquote(text) if "%" in text else text).split("/")


def _skill_folder(before: str, parents: list[str], path: str, names: Collection[str]) -> str | None:
    """Return what the text calls the skill's folder in front of `path`; None if the path lies in another place.

    `before` is the text before the token, `parents` are the parts of the token before `path`. A relative path names
    no folder, so the result is empty.
    """
    if parents == ["."]:
        return ""
    if not parents:
        return "" if _is_relative(before, path) else None
    sign = _sign(before, parents)
    if _is_folder_variable(sign, parents) or (_is_skill_folder(parents[-1], names) and not _is_url(before, parents)):
        return f"{sign}{'/'.join(parents)}/"
    return None


def _is_relative(before: str, path: str) -> bool:
    """Tell whether a token that is a path of the skill means it: not after `${prefix}` or `$`, and no generic name."""
    return not before.endswith(("}", "$")) and path not in _GENERIC_NAMES


def _sign(before: str, parents: list[str]) -> str:
    """Return what begins a variable before a token: `{baseDir}` before `/run.py`, `$` before `SKILL_DIR/run.py`."""
    placeholder = re.search(_PLACEHOLDER, before) if parents[0] == "" else None
    if placeholder:
        return placeholder[0]
    return "$" if before.endswith("$") else ""


def _is_folder_variable(sign: str, parents: list[str]) -> bool:
    """Tell whether `parents` are a variable for the skill's folder: `{baseDir}`, `$skill_dir` or a bare `SKILL_DIR`."""
    if len(parents) > 1 or not (sign or parents[0].isupper()):
        return False
    return re.search(_FOLDER_VARIABLE, f"{sign}{parents[0]}") is not None


def _is_skill_folder(name: str, names: Collection[str]) -> bool:
    """Tell whether a folder is the skill's by its name, or by a phrase such as `path-to-skill`."""
    return name != "" and (name in names or re.fullmatch(_FOLDER_PHRASE, name) is not None)


def _is_url(before: str, parents: list[str]) -> bool:
    """Tell whether the token goes on after the scheme of a URL, as `//host/pdf/run.py` does after `https:`."""
    return before.endswith(":") and parents[:2] == ["", ""]


def path_below_skill(sign: str, path: str, names: Collection[str] = ()) -> str | None:
    """Return the part of a path below what it calls the skill's folder; None if it does not name that folder.

    `sign` is the variable or placeholder in front of `path`, such as `{baseDir}`, or empty; `names` are those of
    `mentioned_paths`.
    """
    parts = _parts(path)
    if sign:
        is_folder = parts[0] == "" and re.search(_FOLDER_VARIABLE, sign) is not None
        return "/".join(parts[1:]) if is_folder else None
    named = [number for number, part in enumerate(parts[:-1]) if _is_skill_folder(part, names)]
    return "/".join(parts[named[-1] + 1 :]) if named else None


# The patterns are compiled on first use, so that no start waits for them.

_LAUNCHER = (
    r"(?:python(?:3(?:\.\d{1,2})?)?|py|uv[ ]run(?:[ ]python3?)?|pipx[ ]run|bash|sh|zsh|node|(?:npx[ ])?tsx|ts-node"
    r"|bun(?:[ ]run)?|deno[ ]run|ruby|perl|php|Rscript|pwsh|powershell|source)"
)
_OPTIONS = r"(?:[ \t]+-[\w-]{1,40}(?:=[^\s`]{1,80}|[ \t]+[\w.,=<>-]{1,60}(?=[ \t]))?){0,6}"
_ENDING = r"\.(?:py|sh|bash|js|mjs|cjs|ts|rb|pl|php|ps1|r|R)"
_SCRIPT = (
    r"[\"']?(?P<folder>\$?\{[^{}\s]{1,48}\}|<[^<>\s]{1,48}>|\$\w{1,48})?"
    rf"(?P<path>[\w.~@/\\-]{{1,200}}{_ENDING})(?![\w/*{{<$-]|\.\w)"
)
_RUNS = (
    rf"(?m)(?:(?<![\w./-]){_LAUNCHER}{_OPTIONS}[ \t]+"  # python scripts/run.py
    r"|\b(?:[Rr]un|[Ee]xecute)[ ](?:the[ ]script[ ])?`?"  # Run scripts/run.py
    rf"|^[ \t]{{0,16}}(?:\$[ ])?(?=\./|scripts/)|`(?=\./)){_SCRIPT}"  # ./scripts/run.sh
)
# A command or sentence that runs a script, in prose, in a code span or in fenced code. It lies on one line.

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
    for match in islice(_runs_in(text), _MAX_RUNS):
        path, certain = _script_of(match, folders, names)
        known = found.get(path)
        if path == "" or (known is not None and known.certain >= certain) or path.casefold() in there:
            continue
        if (certain or _CLONE not in text) and _means_own(text, match, path):
            found[path] = MissingScript(known.position if known else match.start("path"), path, certain)
    return tuple(found.values())


def _runs_in(text: str) -> Iterator[re.Match[str]]:
    """Yield the commands and sentences that run a script; only lines with the ending of one are searched for them."""
    pattern = re.compile(_RUNS)
    for offset, line in lines_at((match.start() for match in re.finditer(_ENDING, text)), text):
        yield from pattern.finditer(text, offset, offset + len(line))


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
