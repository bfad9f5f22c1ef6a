"""Check a proposed change to a skill, and turn it into a diff.

The model that proposes has read outputs and transcripts, which may be hostile. So a proposal can change the text of the
skill and add files below `scripts/` and `references/`, and nothing else: fields that grant rights stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.disk.folders import is_ignored
from skills_core.errors import SkillsError
from skills_core.evals.proposals.unified_diff import split_lines, unified_diff
from skills_core.format.document import BOM
from skills_core.format.hidden import find_hidden
from skills_core.format.instructions import Instructions, parse_instructions
from skills_core.sources import Strictness

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["MAX_LINES", "CurrentSkill", "ProposedFile", "RefusedProposalError", "diff_of"]

MAX_LINES = 500
"""Lines of a SKILL.md that a proposal may reach; a longer skill may keep its length."""

_MAX_CHARACTERS = 200_000
_MAX_FILES = 10
_MAX_FILE_CHARACTERS = 64_000
_MAX_PATH = 120

_FOLDERS = ("scripts", "references")
_EDITABLE = frozenset({"description", "version", "references"})
# Fields that grant no right and block no call.

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
# No name of another form needs quotes in a diff, or means something to a shell or to a file system.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


class RefusedProposalError(SkillsError):
    """A proposal breaks a rule; the message says which one, for the model that may try again."""


@dataclass(frozen=True, slots=True)
class ProposedFile:
    """A new text file of a skill."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class CurrentSkill:
    """The skill that a proposal changes: its folder's name, the bytes of its SKILL.md, and the paths of all its files.

    `main` is the name of the SKILL.md on disk. `closed` holds paths below which nothing can be added, such as links.
    """

    folder: str
    raw: bytes
    paths: frozenset[str] = frozenset()
    main: str = "SKILL.md"
    closed: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The SKILL.md without a byte order mark and with line feeds only, as a model sees and returns it.

        Raises:
            RefusedProposalError: the file is not UTF-8.
        """
        try:
            return self.raw.removeprefix(BOM).decode("utf-8").replace("\r\n", "\n")
        except UnicodeDecodeError:
            raise RefusedProposalError(f"{self.main} is not UTF-8; `skillserve validate` shows the place.") from None


def diff_of(current: CurrentSkill, main: str, files: Sequence[ProposedFile]) -> str:
    """Return the diff that replaces the SKILL.md by `main` and adds `files`; empty if nothing would change.

    Line ends, the byte order mark and the last line's end stay as they are, so that the diff shows only real changes.

    Raises:
        RefusedProposalError: the change breaks a rule.
    """
    text = _readable(main, current.main, _MAX_CHARACTERS)
    before = current.raw.decode("utf-8")
    after = _with_line_ends_of(before, text)
    if text.rstrip("\n") == current.text.rstrip("\n"):
        after = before
    _check_main(current, after)
    added = list(_checked_files(current, files))
    diffs = [unified_diff(current.main, before, after), *(unified_diff(path, None, text) for path, text in added)]
    return "".join(diffs)


def _readable(text: str, name: str, limit: int) -> str:
    """Return a text with line feeds and one at its end."""
    if len(text) > limit:
        raise RefusedProposalError(f"{name} has {len(text)} characters; the limit is {limit}.")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n") + "\n"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise RefusedProposalError(f"{name} contains half of a surrogate pair, which is no character.") from None
    if "\r" in text:
        raise RefusedProposalError(f"{name} contains a carriage return that ends no line; use line feeds only.")
    return text


def _with_line_ends_of(before: str, text: str) -> str:
    """Return `text` with the byte order mark and the line ends of `before`: its own for a kept line, else the usual."""
    old = split_lines(before.removeprefix("\ufeff"))
    ends = {line.rstrip("\r\n"): "\r\n" if line.endswith("\r\n") else "\n" for line in old if line.endswith("\n")}
    usual = "\r\n" if sum(line.endswith("\r\n") for line in old) * 2 > len(old) else "\n"
    lines = [line.removesuffix("\n") for line in split_lines(text)]
    after = "".join(f"{line}{ends.get(line, usual)}" for line in lines)
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    return mark + (after if before.endswith("\n") else after.rstrip("\r\n"))


def _check_main(current: CurrentSkill, after: str) -> None:
    old = parse_instructions(current.raw, current.folder, current.main, Strictness.LENIENT)
    new = parse_instructions(after.encode("utf-8"), current.folder, current.main, Strictness.LENIENT)
    known = {each.code for each in old.diagnostics}
    faults = [each for each in new.diagnostics if each.code not in known or each.code is new.fault]
    if faults:
        raise RefusedProposalError(f"The proposed {current.main} is not valid: {faults[0]}")
    if new.name != old.name:
        raise RefusedProposalError(f"The name must stay {old.name!r}; it was {one_line(new.name)[:100]!r}.")
    if changed := sorted(_changed_fields(old, new) - _EDITABLE):
        fields = one_line(", ".join(changed))[:200]
        raise RefusedProposalError(
            f"The frontmatter differs in {fields}; only {', '.join(sorted(_EDITABLE))} and the body may change."
        )
    known_lines = frozenset(split_lines(current.text))
    added = "".join(line for line in split_lines(after) if line.replace("\r\n", "\n") not in known_lines)
    if hidden := find_hidden(added.removeprefix("\ufeff")):
        raise RefusedProposalError(f"The proposed {current.main} contains {hidden[0]}; write visible characters only.")
    lines = after.count("\n")
    if lines > max(MAX_LINES, current.text.count("\n")):
        raise RefusedProposalError(
            f"The proposed {current.main} has {lines} lines; the limit is {MAX_LINES}. Move rare text to references/."
        )


def _changed_fields(old: Instructions, new: Instructions) -> set[str]:
    before, after = dict(old.frontmatter.raw), dict(new.frontmatter.raw)
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _checked_files(current: CurrentSkill, files: Sequence[ProposedFile]) -> Iterator[tuple[str, str]]:
    """Yield path and text of each new file."""
    if len(files) > _MAX_FILES:
        raise RefusedProposalError(f"{len(files)} new files are too many; the limit is {_MAX_FILES}.")
    taken: dict[str, str] = {path.casefold(): path for path in current.paths}
    for file in files:
        _check_path(file.path, taken, current.closed)
        taken[file.path.casefold()] = file.path
        text = _readable(file.content, file.path, _MAX_FILE_CHARACTERS)
        if not text.strip():
            raise RefusedProposalError(f"{file.path} is empty; leave it out.")
        if hidden := find_hidden(text):
            raise RefusedProposalError(f"{file.path} contains {hidden[0]}; write visible characters only.")
        yield file.path, text


def _check_path(path: str, taken: Mapping[str, str], closed: frozenset[str]) -> None:
    shown = repr(one_line(path[:_MAX_PATH]))
    folder, *names = path.split("/")
    if folder not in _FOLDERS or not names or len(path) > _MAX_PATH:
        raise RefusedProposalError(f"{shown} is not a path below scripts/ or references/; new files belong there.")
    if not all(_NAME.fullmatch(name) and not _DEVICE.fullmatch(name) and not is_ignored(name) for name in names):
        raise RefusedProposalError(f"{shown} has a name that is not made of letters, digits, '.', '-' and '_'.")
    folded = path.casefold()
    above = {folded[: at.start()] for at in re.finditer("/", folded)}
    if folded in taken or any(other.startswith(f"{folded}/") for other in taken):
        raise RefusedProposalError(f"{shown} exists already; a proposal may only add files.")
    if above & taken.keys() or above & {each.casefold() for each in closed}:
        raise RefusedProposalError(f"{shown} lies below a file or a link.")
