"""An injector for programs: it puts the block of the best skill before what a user says.

Source: adk-skill's `SkillInjector`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.context.injection import MAX_INJECTED_CHARS, inject, select_block
from skills_core.context.rankings import by_shared_words
from skills_core.integrations.project import load_skills
from skills_core.selection.policy import SelectionPolicy

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from skills_core.context.injection import Injection, Message, SkillBlock
    from skills_core.context.rankings import Ranking
    from skills_core.gates import Environment

__all__ = ["Injector"]

_POLICY = SelectionPolicy()


@dataclass(frozen=True, slots=True)
class Injector:
    """A ranking of skills with the policy that selects one of them, and the limit for its body.

    It knows the skills that the ranking was made of; make a new injector after they changed.
    """

    ranking: Ranking
    policy: SelectionPolicy = _POLICY
    max_injected_chars: int = MAX_INJECTED_CHARS

    @classmethod
    def from_root(
        cls,
        root: str | os.PathLike[str],
        environment: Environment,
        extras: Iterable[str | os.PathLike[str]] = (),
        *,
        policy: SelectionPolicy = _POLICY,
        max_injected_chars: int = MAX_INJECTED_CHARS,
    ) -> Injector:
        """Return an injector of the project's skills that models may choose, in adk-skill's ranking.

        See `load_skills` for the first parameters.

        Raises:
            InvalidSourceError: `root` is no directory, or cannot be accessed.
        """
        ranking = by_shared_words(load_skills(root, environment, extras).offered)
        return cls(ranking, policy, max_injected_chars)

    def select(self, query: str) -> SkillBlock | None:
        """Return the block of the best skill for what a user says; None if no skill matches."""
        return select_block(query, self.ranking, self.policy, self.max_injected_chars)

    def inject(self, message: Message) -> Injection:
        """Return the message with the block of the best skill before its first text; see `context.injection.inject`."""
        return inject(message, self.ranking, self.policy, self.max_injected_chars)
