"""The model that revises descriptions: one request a round, and further ones while its answer is not usable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from server.evals.skills.skill_copies import digest_of
from skills_core.errors import SkillsError
from skills_core.evals.triggers.revision import (
    INSTRUCTIONS,
    cut_description,
    read_description,
    render_again,
    render_revision,
    render_shortening,
)
from skills_core.format.frontmatter import DESCRIPTION_LIMIT
from skills_core.run.models import describe_model_error

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.evals.triggers.journal import Journal
    from skills_core.evals.triggers.revision import RevisionRequest

__all__ = ["MAX_REQUESTS", "DescriptionModel", "RevisionError"]

MAX_REQUESTS: Final = 3
"""Most requests for one description: one, and further ones while there is none, or it is too long."""

_SECONDS: Final = 300.0


class RevisionError(SkillsError):
    """The model gave no description; the message says why."""


@dataclass(slots=True)
class DescriptionModel:
    """A model, and the journal that keeps its answers."""

    model: Model
    name: str
    journal: Journal
    requests: int = 0

    async def revise(self, request: RevisionRequest) -> str:
        """Return another description, at most as long as the format allows.

        Raises:
            RevisionError: the model fails, or writes no description.
        """
        message = render_revision(request)
        key = f"revision-{digest_of(self.name, INSTRUCTIONS, message)[:32]}"
        record = self.journal.find(key)
        if record is not None:
            return str(record["description"])
        description = await self._description(message)
        description = cut_description(description)
        self.journal.add(key, {"description": description})
        return description

    async def _description(self, message: str) -> str:
        """Return the description in the first usable answer; the last one that is too long if no other is."""
        prompt, found = message, ""
        for _ in range(MAX_REQUESTS):
            answer = read_description(await self._ask(prompt))
            if not answer:
                prompt = render_again(message)
                continue
            found = answer
            if len(found) <= DESCRIPTION_LIMIT:
                return found
            prompt = message = render_shortening(found)
        if not found:
            raise RevisionError(
                f"none of {MAX_REQUESTS} answers of the model had a description between <description> and "
                "</description>; run the command again, or name another model with --model"
            )
        return found

    async def _ask(self, message: str) -> str:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest

        self.requests += 1
        try:
            with anyio.fail_after(_SECONDS):
                answer = await model_request(
                    self.model, [ModelRequest.user_text_prompt(message, instructions=INSTRUCTIONS)]
                )
        except TimeoutError as error:
            raise RevisionError(f"the model did not answer in {_SECONDS:.0f} seconds") from error
        except Exception as error:  # each provider's library raises errors of its own family
            raise RevisionError(describe_model_error(error)) from error
        return answer.text or ""
