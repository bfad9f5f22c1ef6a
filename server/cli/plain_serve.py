"""Run `serve` with a plain command line without the command-line library, which takes a fifth of the start.

Options and values that this module does not know, and every error, are left to the full command line, which explains
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.cli.process import command_process
from server.cli.start_server import start_server
from server.config.settings import AuditMode, Conventions, LogFormat, LogLevel, OptionalTool, SkillFolder, Transport
from skills_core.watch_options import WatchMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["parse_plain_words", "serve_plainly"]

_EXIT_INTERRUPTED: Final = 130

_SWITCHES: Final = frozenset(
    {
        *("--follow-symlinks", "--gitignore", "--no-adapt", "--require-sandbox", "--serve-evals", "--strict"),
        "--trust-workspace",
    }
)
_WITH_VALUE: Final[dict[str, Callable[[str], object]]] = {
    "--audit": AuditMode,
    "--conventions": Conventions,
    "--log-format": LogFormat,
    "--log-level": LogLevel,
    "--mcp-servers": str,
    "--model": str,
    "--skill-folder": SkillFolder,
    "--transport": Transport,
    "--watch": WatchMode,
    "--workspace": str,
}
_REPEATABLE: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "--pin": ("pinned", str),
    "--skill-tool": ("skill_tools", str),
    "--tool": ("tools", OptionalTool),
    "--workflow": ("workflows", str),
}

_EXPANDED: Final = frozenset("*?[~$%")
# On Windows, the command-line library expands these in arguments.


def serve_plainly(words: Sequence[str]) -> bool:
    """Serve as the words after `serve` say, and return True at the end; return False if the words are not plain."""
    parsed = parse_plain_words(words)
    if parsed is None:
        return False
    try:
        with command_process():
            start_server(*parsed)
    except KeyboardInterrupt:
        raise SystemExit(_EXIT_INTERRUPTED) from None
    return True


def parse_plain_words(words: Sequence[str]) -> tuple[list[Path], dict[str, object]] | None:
    """Return the directories and the flags that are given, None if the full command line has to parse the words."""
    directories: list[Path] = []
    flags: dict[str, object] = {}
    repeated: dict[str, list[object]] = {}
    rest = iter(words)
    for word in rest:
        if _EXPANDED & set(word):
            return None
        if not word.startswith("-"):
            directories.append(Path(word))
        elif word in _SWITCHES:
            flags[_name(word)] = True
        elif not _take_value(word, next(rest, ""), flags, repeated):
            return None
    return directories, {**flags, **repeated}


def _take_value(word: str, value: str, flags: dict[str, object], repeated: dict[str, list[object]]) -> bool:
    """Store the value of an option, and return whether the option is known and the value is plain."""
    if not value or value.startswith("-") or _EXPANDED & set(value):
        return False
    try:
        if word in _WITH_VALUE:
            flags[_name(word)] = _WITH_VALUE[word](value)
            return True
        if word in _REPEATABLE:
            name, convert = _REPEATABLE[word]
            repeated.setdefault(name, []).append(convert(value))
            return True
    except ValueError:
        pass  # not a member of the enum
    return False


def _name(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
