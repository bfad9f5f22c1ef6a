"""A capability for agents of pydantic-ai: each user prompt reaches the model with the block of the best skill.

Needs the extra `run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest, TextContent, UserPromptPart

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, UserContent
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import RunContext

    from skills_core.context.injection import SkillBlock
    from skills_core.integrations.project import Injector


_KEPT_BLOCKS: Final = 256
"""Prompts whose block is kept: each request of an agent sends all prompts of its conversation again."""


class SkillInjection(AbstractCapability[Any]):
    """Puts the block of the best skill before each user prompt of a request.

    The conversation that the agent keeps stays as the user wrote it, and each prompt gets the same block in every
    request, so that the provider's cache of prompts remains valid.
    """

    def __init__(self, injector: Injector) -> None:
        self._select = lru_cache(_KEPT_BLOCKS)(injector.select)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the blocks."""
        del ctx  # its messages are those that the agent keeps
        return replace(request_context, messages=[self._with_blocks(message) for message in request_context.messages])

    def _with_blocks(self, message: ModelMessage) -> ModelMessage:
        if not isinstance(message, ModelRequest):
            return message
        parts = [self._with_block(part) if isinstance(part, UserPromptPart) else part for part in message.parts]
        return replace(message, parts=parts) if parts != list(message.parts) else message

    def _with_block(self, part: UserPromptPart) -> UserPromptPart:
        contents = [part.content] if isinstance(part.content, str) else part.content
        query = "\n".join(text for content in contents if (text := _text_of(content)) is not None)
        block = self._select(query)
        if block is None:
            return part
        if isinstance(part.content, str):
            return replace(part, content=block.before(part.content))
        return replace(part, content=_with_first_text(part.content, block))


def _with_first_text(contents: Sequence[UserContent], block: SkillBlock) -> list[UserContent]:
    """Return the contents with the block before the first text."""
    changed = list(contents)
    for at, content in enumerate(changed):
        if isinstance(content, TextContent):
            changed[at] = replace(content, content=block.before(content.content))
            break
        if isinstance(content, str):
            changed[at] = block.before(content)
            break
    return changed


def _text_of(content: UserContent) -> str | None:
    if isinstance(content, TextContent):
        return content.content
    return content if isinstance(content, str) else None
