"""The exceptions that callers handle: one family, with the facts as attributes; and what errors of the system mean.

Faults of skills are data, not exceptions; see `diagnostics`.

Of the system's errors only absence means that a file is gone. When a process has no descriptors left, a disk fails or a
file server restarts, the error is transient and says nothing about the file.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from skills_core.diagnostics import Diagnostic, Reason


_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK})
# The last two: a link where links are not followed.

_REFUSED = frozenset({errno.EINVAL, errno.ENAMETOOLONG, errno.ENXIO, errno.EISDIR, errno.EILSEQ, errno.EOPNOTSUPP})
# No later attempt can succeed: the name is invalid, or names something other than a regular file.

_DENIED = frozenset({errno.EACCES, errno.EPERM})

_SHARING = frozenset({32, 33})
# Windows: another program has locked the file or a part of it; Python reports EACCES.


class Fault(StrEnum):
    """Why an attempt to read failed."""

    ABSENT = "absent"
    REFUSED = "refused"
    DENIED = "denied"
    TRANSIENT = "transient"


def fault_of(error: OSError) -> Fault:
    """Classify an error; unknown errors count as transient."""
    if error.errno in _ABSENT:
        return Fault.ABSENT
    if error.errno in _REFUSED:
        return Fault.REFUSED
    if error.errno in _DENIED and getattr(error, "winerror", None) not in _SHARING:
        return Fault.DENIED
    return Fault.TRANSIENT


def is_absence(error: OSError) -> bool:
    """Tell whether an error means that there is no such file or folder; a link in its place does not count as one."""
    return fault_of(error) is Fault.ABSENT


def system_message(error: OSError) -> str:
    """Return the system's message for an error, in lower case."""
    return (error.strerror or "cannot be read").lower()


_MAX_COMPARED = 300
# Each comparison takes ten microseconds or more.

_MAX_SIMILAR = 3

_MAX_CHOICES = 10
_CHOICE_LENGTH = 200
# How many skills of one name an error lists, and how many characters of their descriptions.


def similar_to(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three of `known` similar to `name`; of many, compare only those with the same beginning or end."""
    name, candidates = name[:100], list(known)
    if len(candidates) > _MAX_COMPARED:
        candidates = [each for each in candidates if each[:3] == name[:3] or each[-5:] == name[-5:]][:_MAX_COMPARED]
    import difflib  # noqa: PLC0415 - few names are wrong; at the top, every start would pay for it

    return tuple(difflib.get_close_matches(name, candidates, n=_MAX_SIMILAR))


def similar_paths(path: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three of `known` that `path` may mean: files of this name in another folder, then similar paths."""
    paths, name = list(known), path.rpartition("/")[2].casefold()
    same_name = [each for each in paths if each.rpartition("/")[2].casefold() == name] if name else []
    return tuple(dict.fromkeys([*same_name, *similar_to(path, paths)]))[:_MAX_SIMILAR]


def did_you_mean(similar: Sequence[str], lead: str = " Did") -> str:
    """Return the end of a message, as in ` Did you mean 'a' or 'b'?`; empty if nothing is similar."""
    return f"{lead} you mean {' or '.join(map(repr, similar))}?" if similar else ""


class SkillsError(Exception):
    """Root of all errors that `skills_core` raises on purpose."""


class InvalidSourceError(SkillsError):
    """A directory that the user named cannot be a source of skills."""

    def __init__(self, root: Path, reason: Reason, message: str) -> None:
        super().__init__(f"{root}: {message}")
        self.root = root
        self.reason = reason


class FileRefusedError(SkillsError):
    """A file cannot be read within its skill's folder; `fault` classifies the failure."""

    def __init__(self, path: str, reason: Reason, message: str, fault: Fault = Fault.REFUSED) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.reason = reason
        self.message = message
        self.fault = fault


class FileUnavailableError(FileRefusedError):
    """The system cannot read a file now; a later attempt may succeed."""

    def __init__(self, path: str, reason: Reason, message: str) -> None:
        super().__init__(path, reason, message, Fault.TRANSIENT)


class InvalidSkillError(SkillsError):
    """The skill at a path cannot be used; the subclasses say what kind of fault it has.

    `reason`, `message` and `line` are those of the fault that makes it unusable. `field` is the field concerned, None
    if there is none or more than one. `diagnostics` holds all diagnostics of the skill.
    """

    def __init__(
        self, path: Path, fault: Diagnostic, field: str | None, diagnostics: tuple[Diagnostic, ...] = ()
    ) -> None:
        super().__init__(str(fault))
        self.path = path
        self.reason = fault.code
        self.message = fault.message
        self.line = fault.line
        self.field = field
        self.diagnostics = diagnostics or (fault,)


class SkillIoError(InvalidSkillError):
    """There is no SKILL.md, or it cannot be read as text."""


class SkillYamlError(InvalidSkillError):
    """The frontmatter is not valid YAML, or parsers disagree on it."""


class InvalidFrontmatterError(InvalidSkillError):
    """There is no frontmatter, or it breaks a rule of the format."""


class MissingFieldError(InvalidSkillError):
    """The frontmatter lacks `field`."""


class InvalidSkillsRootError(InvalidSkillError):
    """There is no folder at `path`."""


class EntryRefusedError(SkillsError):
    """Another server's entry for a skill breaks a rule; `diagnostics` holds each fault.

    `uri` and `name` are those of the entry, empty if it has none.
    """

    def __init__(self, uri: str, name: str, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("; ".join(map(str, diagnostics)))
        self.uri = uri
        self.name = name
        self.diagnostics = diagnostics


class InstallRefusedError(SkillsError):
    """A skill cannot be written to `path`; the files there are unchanged."""

    def __init__(self, path: Path, reason: Reason, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.reason = reason
        self.message = message


class HistoryError(SkillsError):
    """The history of a source cannot be read, kept or restored; the message says what to do."""


class SkillEditedError(HistoryError):
    """A skill was edited since the version on which a change is based, so the change is not made."""


class InvalidPatternError(SkillsError):
    """A guard pattern cannot be used; the message ends with the regular-expression engine's."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"the pattern {pattern[:100]!r} cannot be used: {why}")


class InvalidSchemaError(SkillsError):
    """The JSON Schema of a tool's arguments cannot be used."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the schema of the arguments cannot be used: {why}")


class InvalidTimeError(SkillsError):
    """The time, span, cron expression or zone of a schedule cannot be used; `text` is what was given."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"{text[:100]!r} cannot be used as the time of a schedule: {why}")
        self.text = text
        self.why = why


class NestedTooDeepError(SkillsError):
    """A JSON value has more than `limit` nested levels of lists and objects; it was not processed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The value is nested deeper than {limit} levels of lists and objects; use a flatter one.")
        self.limit = limit


class ScriptRefusedError(SkillsError):
    """A script of a skill cannot or must not be run; it was not started."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path[:200]} cannot be run: {why}")
        self.path = path
        self.why = why


class SkillChangedError(SkillsError):
    """Files of a skill differ from those that were loaded, or are gone; `paths` are the files on disk."""

    def __init__(self, skill: str, paths: tuple[Path, ...]) -> None:
        super().__init__(f"The files of the skill {skill!r} have changed since it was loaded; try again.")
        self.paths = paths


class ToolFailedError(SkillsError):
    """A tool call failed; the message is for the model that made the call."""


class UnansweredError(ToolFailedError):
    """Nobody answers the question that a tool asked; the message is for the model that made the call."""


class InvalidRecordError(SkillsError):
    """The record of a run cannot be read back; `where` is the field."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"The record of this run cannot be read: {where}: {why}. Start a new run.")
        self.where = where


class UnknownSkillError(SkillsError):
    """No active skill has this name; `similar` holds similar names, `because` says why a skill is not active."""

    def __init__(self, name: str, known: Iterable[str], because: str = "") -> None:
        self.name = name
        self.similar = similar_to(name, known)
        why = f": {because}" if because else f".{did_you_mean(self.similar)}"
        super().__init__(f"There is no active skill {name[:200]!r}{why}")


class AmbiguousSkillError(UnknownSkillError):
    """Several active skills have this name; `choices` maps their full names to their descriptions."""

    def __init__(self, name: str, choices: Mapping[str, str]) -> None:
        self.name = name
        self.choices = choices
        self.similar = tuple(choices)[:_MAX_CHOICES]
        listed = [f"- {key[:200]}: {one_line(choices[key][:_CHOICE_LENGTH])}" for key in self.similar]
        rest = [f"- and {len(choices) - len(listed)} more"] if len(choices) > len(listed) else []
        head = f"{len(choices)} skills are named {name[:200]!r}. Use the full name of the one that you mean:"
        SkillsError.__init__(self, "\n".join([head, *listed, *rest]))


class EvalFileError(SkillsError):
    """A model asked for a file with the tests of a skill."""

    def __init__(self, skill: str, path: str) -> None:
        self.skill = skill
        self.path = path
        super().__init__(
            f"{path[:200]} of the skill {skill!r} belongs to its tests and may hold the expected answers; a model may "
            "not use it. Perform the skill without it."
        )


class UnknownFileError(SkillsError):
    """A skill has no such file; `similar` holds similar paths."""

    def __init__(self, skill: str, path: str, known: Iterable[str]) -> None:
        self.skill = skill
        self.path = path
        self.similar = similar_paths(path, known)
        super().__init__(f"The skill {skill!r} has no file {path[:200]!r}.{did_you_mean(self.similar)}")
