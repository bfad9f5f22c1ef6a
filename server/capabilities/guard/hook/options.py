"""The options of the hook, and those of them that a plain command line may have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.config.plain_options import PlainOption, parse_plain_words
from server.config.settings.skills import Conventions

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN_OPTIONS: Final = {
    "--conventions": PlainOption(Conventions),
    "--follow-symlinks": PlainOption(),
    "--gitignore": PlainOption(),
    "--never-ask": PlainOption(),
    "--no-skills": PlainOption(),
    "--project": PlainOption(Path),
    "--skill": PlainOption(str, "skill"),
    "--strict": PlainOption(),
    "--trust-workspace": PlainOption(),
}


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
    """Return the options of a plain command line; None if the command-line library has to parse it."""
    parsed = parse_plain_words(words, PLAIN_OPTIONS)
    if parsed is None:
        return None
    directories, values = parsed
    options = HookOptions(tuple(directories), tuple(values.pop("skill", ())), **values)
    return None if options.contradiction else options
