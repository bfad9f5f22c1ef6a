"""The team of the soak test: roles that see different skills, and a token for each client."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus import skill_name

from server.capabilities.login.static_tokens import TokenFile

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TOKEN", "Team"]

TOKEN: ContextVar[str] = ContextVar("soak_token", default="")
"""The token of the client that the current task plays; empty where there is no login."""


@dataclass(frozen=True)
class Team:
    """Roles, of which each one sees the edited skill and one of its own, and the tokens of their members.

    Without roles there is no login, and all clients see all skills.
    """

    tokens: tuple[str, ...] = ()

    @classmethod
    def found(cls, home: Path, roles: int) -> Team:
        """Write the settings and the tokens of a server with this home folder."""
        if not roles:
            return cls()
        lines = ["[login]", "tokens = true", "[access.roles]"]
        lines += [f'role-{number} = ["{skill_name(0)}", "{skill_name(number + 1)}"]' for number in range(roles)]
        config = home / ".config/skillserve/skillserve.toml"
        config.parent.mkdir(parents=True)
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        file = TokenFile(home / ".local/state/skillserve/tokens.json")
        return cls(tuple(file.add(f"member-{number}", (f"role-{number}",), None) for number in range(roles)))

    def log_in(self, number: int) -> None:
        """Let the current task play a member, chosen by the number of the client."""
        if self.tokens:
            TOKEN.set(self.tokens[number % len(self.tokens)])

    def skill_of(self, number: int) -> str:
        """Return the skill that a client sees beside the edited one."""
        return skill_name(number % len(self.tokens) + 1 if self.tokens else 1)

    def hidden_from(self, number: int) -> str | None:
        """Return a skill that a client must not see."""
        return skill_name((number + 1) % len(self.tokens) + 1) if len(self.tokens) > 1 else None
