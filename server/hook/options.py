"""The options of the hook, and the short way to them: a plain command line is read without what reads all others.

What the short way does not know, and whatever is wrong, it leaves to the long way, which explains and refuses as every
command does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.config.settings import Conventions

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HookOptions", "plain_options"]

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
    """What the command line says: of `skills` alone, or of none, patterns count beside those of the settings."""

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
        """What of it does not go together."""
        if self.no_skills and (self.skill or self.directories):
            return "--no-skills leaves all skills out; name neither directories nor skills with it"
        return None


def plain_options(words: Sequence[str]) -> HookOptions | None:
    """Return the options that a plain command line says, None where it takes more to understand it."""
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
