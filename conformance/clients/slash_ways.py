"""How a user types a skill as a slash command into each client."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BODY", "NAME", "NATIVE", "NATIVE_FOLDERS", "NATIVE_MARK", "SERVED_MARK", "SLASHES", "WORDS", "Slash", "Way"]

NAME = "deploy-app"

WORDS = ("staging-quokka", "v2-walrus")
"""What the user types after the command: words that stand nowhere else."""

SERVED_MARK, NATIVE_MARK = "These are the served steps.", "These are the native steps:"

BODY = f"{SERVED_MARK} Deploy to [$ARGUMENTS], which is $1 on $0."
NATIVE = f"{NATIVE_MARK} [$ARGUMENTS], [$ARGUMENTS[1]], [$0], [$1], [$5], [\\$0]."


class Way(StrEnum):
    """The measurements of a client."""

    HEADLESS = "headless"
    TERMINAL = "terminal"
    RELOADED = "reloaded"
    MENTION = "mention"
    BESIDE_NATIVE = "beside-native"


@dataclass(frozen=True, slots=True)
class Slash:
    """How a client is typed into.

    `command` is the command without its words; `drop` are the words of its command line that belong to a run without
    a person, before the prompt. `ready` is what its screen shows when one can type, `declined` an offer to refuse.
    `reload` makes the client read its commands again. `mention` names the skill's resource; where one has to choose it
    from a menu, `pick` is the key for that. `asks` is what a client shows that asks for the words of a command.
    `headlessly` tells that commands work without a person; with `without_person`, by words of their own.
    """

    command: str
    drop: tuple[str, ...]
    ready: tuple[str, ...]
    declined: tuple[str, ...] = ()
    headlessly: bool = False
    without_person: tuple[str, ...] | None = None
    reload: str = ""
    mention: str = f"@skills:skill://{NAME}/SKILL.md"
    pick: str = ""
    asks: str = ""

    def typed(self, way: Way) -> str:
        """Return what is typed."""
        if way is Way.MENTION:
            return f"{self.mention} {' '.join(WORDS)}"
        command = f"/{NAME}" if way is Way.BESIDE_NATIVE else self.command
        return f"{command} {' '.join(WORDS)}"

    def interactive(self, words: Sequence[str]) -> list[str]:
        """Return the command line of a run in a terminal, from that of a run without a person."""
        words = list(words)
        for place in range(len(words)):
            if tuple(words[place : place + len(self.drop)]) == self.drop:
                return words[:place] + words[place + len(self.drop) + 1 :]
        raise ValueError(f"{' '.join(self.drop)} is not in {words}")

    def headless(self, words: Sequence[str]) -> list[str]:
        """Return the command line of a run without a person."""
        return list(words) if self.without_person is None else [words[0], *self.without_person]


SLASHES = {
    "claude": Slash(
        f"/mcp__skills__{NAME}",
        ("--print",),
        ("manual mode on", "for shortcuts"),
        declined=("auto mode",),
        headlessly=True,
    ),
    "codex": Slash(f"/{NAME}", ("exec", "--skip-git-repo-check"), ("OpenAI Codex",)),
    "gemini": Slash(f"/{NAME}", ("--prompt",), ("Type your message",), headlessly=True, reload="/commands reload"),
    "qwen": Slash(f"/{NAME}", ("--prompt",), ("Type your message",), headlessly=True),
    "opencode": Slash(
        f"/skills:{NAME}",
        ("run",),
        ("Ask anything",),
        headlessly=True,
        without_person=("run", "--command", f"skills:{NAME}", *WORDS),
        mention=f"@{NAME}",
        pick="Tab",
    ),
    "continue": Slash(f"/{NAME}", ("--print",), ("Ask anything",)),
    "fast-agent": Slash(
        f"/prompt skills__{NAME}",
        ("--message",),
        ("Agent", "agent"),
        mention="",
        asks="Enter value for arguments",
    ),
}
"""By the name of the client."""

NATIVE_FOLDERS = {
    "claude": ".claude/skills",
    "codex": ".codex/skills",
    "gemini": ".gemini/skills",
    "qwen": ".qwen/skills",
    "opencode": ".config/opencode/skills",
}
"""Where a client looks for skills of its own, below the home folder."""
