"""Diagnostics about skills and their files, with a closed set of reason codes.

Pure values at the bottom of the core: every other module may import this one, and it imports none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

MAX_PER_REASON = 20
"""Diagnostics of one reason that are reported one by one; a file may have thousands."""


class Severity(StrEnum):
    """Severity: an error makes the skill invalid, a warning breaks a rule, an info does neither."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Reason(StrEnum):
    """Every reason for a diagnostic, or for a state other than active.

    The values are part of the public contract: users filter on them, so they never change.
    """

    # Files
    UNREADABLE = "unreadable"
    PERMISSION_DENIED = "permission_denied"
    TOO_LARGE = "too_large"
    NOT_UTF8 = "not_utf8"
    EMPTY = "empty"
    SYMLINK = "symlink_refused"
    SYMLINK_OUTSIDE = "symlink_outside"
    SPECIAL_FILE = "special_file"
    TOO_MANY_FILES = "too_many_files"
    FILE_NAME_CASE = "file_name_case"
    MISSING_SKILL_FILE = "missing_skill_file"
    MISSING_REFERENCE = "missing_reference"
    PATH_CASE = "path_case"
    # The document: frontmatter and body
    MISSING_FRONTMATTER = "missing_frontmatter"
    UNCLOSED_FRONTMATTER = "unclosed_frontmatter"
    STAR_FENCES = "star_fences"
    INVALID_YAML = "invalid_yaml"
    YAML_LIMIT = "yaml_limit"
    YAML_REPAIRED = "yaml_repaired"
    DUPLICATE_KEY = "duplicate_key"
    NOT_JSON = "not_json"
    HIDDEN_CHARACTERS = "hidden_characters"
    # Fields
    MISSING_NAME = "missing_name"
    INVALID_NAME = "invalid_name"
    NAME_TOO_LONG = "name_too_long"
    NAME_MISMATCH = "name_mismatch"
    MISSING_DESCRIPTION = "missing_description"
    DESCRIPTION_TOO_LONG = "description_too_long"
    COMPATIBILITY_TOO_LONG = "compatibility_too_long"
    UNKNOWN_FIELD = "unknown_field"
    INVALID_FIELD = "invalid_field"
    INVALID_VERSION = "invalid_version"
    INVALID_PATTERN = "invalid_pattern"
    DECODED_PATTERN = "decoded_pattern"
    TOOL_WITHOUT_SCRIPT = "tool_without_script"
    # The Skills extension
    NOT_PUBLISHED = "not_published"
    # Skills of other servers
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    ACCESS_DENIED = "access_denied"
    NOT_MCP = "not_mcp"
    NO_SKILLS_EXTENSION = "no_skills_extension"
    SERVER_ERROR = "server_error"
    INVALID_LISTING = "invalid_listing"
    UNKNOWN_SKILL = "unknown_skill"
    AMBIGUOUS_NAME = "ambiguous_name"
    INVALID_ENTRY = "invalid_entry"
    INVALID_URI = "invalid_uri"
    OUTSIDE_SKILL = "outside_skill"
    DUPLICATE_FILE = "duplicate_file"
    DYNAMIC_SKILL = "dynamic_skill"
    INCOMPLETE_ENTRY = "incomplete_entry"
    ENTRY_MISMATCH = "entry_mismatch"
    DIRECTORY_MISMATCH = "directory_mismatch"
    INVALID_CONTENTS = "invalid_contents"
    SIZE_MISMATCH = "size_mismatch"
    DIGEST_MISMATCH = "digest_mismatch"
    FRONTMATTER_MISMATCH = "frontmatter_mismatch"
    UNSUPPORTED_NAME = "unsupported_name"
    NAME_COLLISION = "name_collision"
    FOLDER_TAKEN = "folder_taken"
    EDITED_COPY = "edited_copy"
    UNWRITABLE = "unwritable"
    UNKNOWN_PLUGIN = "unknown_plugin"
    INVALID_SKILL = "invalid_skill"
    OLDER_VERSION = "older_version"
    # The catalog
    SHADOWED = "shadowed"
    DUPLICATE_NAME = "duplicate_name"
    OS_MISMATCH = "os_mismatch"
    MISSING_BIN = "missing_bin"
    MISSING_ENV = "missing_env"
    CONFIG_DISABLED = "config_disabled"
    UNREADABLE_CONDITION = "unreadable_condition"
    DISABLED = "disabled_by_config"
    UNTRUSTED = "untrusted_project"
    UNMET_REQUIREMENT = "unmet_requirement"
    CIRCULAR_REQUIREMENT = "circular_requirement"
    BUNDLED_NOT_ALLOWED = "bundled_not_allowlisted"
    AUDIT_FINDING = "audit_finding"
    # Sources
    MISSING_DIRECTORY = "missing_directory"
    NOT_A_DIRECTORY = "not_a_directory"
    SCAN_LIMIT = "scan_limit"
    # Configuration
    INVALID_CONFIGURATION = "invalid_configuration"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding about one file; `path` is printable, `line` counts from 1."""

    severity: Severity
    code: Reason
    message: str
    path: str
    line: int | None = None

    def __str__(self) -> str:
        """Format as compilers do, `path:line: severity[code]: message`, so that editors can jump to the line."""
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return one_line(f"{where}: {self.severity}[{self.code}]: {self.message}")


def capped(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the first diagnostics of each reason, and for each reason that has more of them one with their number."""
    kept: list[Diagnostic] = []
    alike: dict[Reason, list[Diagnostic]] = {}
    for diagnostic in found:
        same = alike.setdefault(diagnostic.code, [])
        same.append(diagnostic)
        if len(same) <= MAX_PER_REASON:
            kept.append(diagnostic)
    for code, same in alike.items():
        if len(same) > MAX_PER_REASON:
            first = same[MAX_PER_REASON]
            message = f"and {len(same) - MAX_PER_REASON} more of this kind"
            kept.append(
                Diagnostic(
                    min((each.severity for each in same), key=list(Severity).index),
                    code,
                    message,
                    first.path,
                    first.line,
                )
            )
    return tuple(kept)


def printable(text: str) -> str:
    """Return `text` safe for UTF-8 output: bytes of file names that are not UTF-8 become escapes."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # file names on Windows may hold lone surrogates
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def without_lone_surrogates(text: str) -> str:
    """Return `text` with each surrogate pair joined to one character, and each lone surrogate replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def shortened(text: str, length: int) -> str:
    """Return a message as one line of at most `length` characters, without its middle if it is longer.

    A message begins with a path of any length and ends with the fault.
    """
    line = one_line(text)
    kept = (length - 1) // 2
    return line if len(line) <= length else f"{line[:kept]}…{line[-kept:]}"


def one_line(text: str) -> str:
    """Return `text` for a log or a terminal, with line ends, escape sequences and direction marks escaped."""
    # Lone surrogates are not printable.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in printable(text))


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, as in `1 query` or `2 queries`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def agreeing(number: int, one: str, several: str) -> str:
    """Return the form of a verb that agrees with a number, as in `1 passes` or `2 pass`."""
    return one if number == 1 else several
