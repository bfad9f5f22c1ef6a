"""The options of the hook, and a parser for plain command lines that imports no command-line library.

The parser leaves everything that it does not know, and every error, to the full command line, which explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.config.settings import Conventions

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HookOptions", "parse_plain_options"]

_SWITCHES: Final = (
    "--follow-symlinks",
    "--gitignore",
    "--never-ask",
    "--no-skills",
    "--strict",
    "--trust-workspace",
)
_WITH_VALUE: Final = {"--skill": str, "--project": Path, "--conventions": Conventions}


@dataclass(frozen=True, slots=True)
class HookOptions:
    """The parsed command line. Only the patterns of the skills named in `skill`, if any, apply beside the settings'."""

    directories: tuple[Path, ...] = ()
    skill: tuple[str, ...] = ()
    no_skills: bool = False
    never_ask: bool = False
    project: Path | None = None
    strict: bool = False
    follow_symlinks: bool = False
    trust_workspace: bool = False
    conventions: Conventions | None = None
    gitignore: bool = False

    @property
    def contradiction(self) -> str | None:
        """What is contradictory about the options; None if nothing is."""
        if self.no_skills and (self.skill or self.directories):
            return "--no-skills ignores all skills; do not combine it with directories or --skill"
        return None


def parse_plain_options(words: Sequence[str]) -> HookOptions | None:
    """Return the options of a plain command line; None if the full parser has to read it."""
    found: dict[str, Any] = {}
    directories: list[Path] = []
    skills: list[str] = []
    rest = iter(words)
    for word in rest:
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("-"):
            directories.append(Path(word))
        elif word in _SWITCHES:
            found[name] = True
        elif (kind := _WITH_VALUE.get(word)) and (value := next(rest, "-")) and not value.startswith("-"):
            if kind is Conventions and value not in list(Conventions):
                return None
            if word == "--skill":
                skills.append(value)
            else:
                found[name] = kind(value)
        else:
            return None
    options = HookOptions(tuple(directories), tuple(skills), **found)
    return None if options.contradiction else options
