"""Add skills to a user's message: the skill that it calls, triggers or matches best, with the tools that it may use.

Pure functions over skills and rankings. `calls` parses slash commands, `section` adds skills by trigger words,
`injection` adds the best match, and `assembly` combines these. `coordinator` selects one skill together with its tools.
"""

from skills_core.context.assembly import AssembledContext, ContextBounds, assemble_context
from skills_core.context.calls import SkillCall, activation_of, match_skill_call, request_of, stack_activations
from skills_core.context.coordinator import (
    ByName,
    ByQuery,
    ByTag,
    ContextCoordinator,
    CoordinatorConfig,
    MissingTools,
    Rejected,
    Rejection,
    Resolution,
    SkillContext,
    Strategy,
    ToolRegistry,
)
from skills_core.context.injection import (
    MAX_INJECTED_CHARS,
    Injection,
    Message,
    Ranking,
    SkillBlock,
    TextPart,
    by_full_text,
    by_shared_words,
    inject,
    select_block,
)
from skills_core.context.section import Triggered, always_on, triggered_by

__all__ = [
    "MAX_INJECTED_CHARS",
    "AssembledContext",
    "ByName",
    "ByQuery",
    "ByTag",
    "ContextBounds",
    "ContextCoordinator",
    "CoordinatorConfig",
    "Injection",
    "Message",
    "MissingTools",
    "Ranking",
    "Rejected",
    "Rejection",
    "Resolution",
    "SkillBlock",
    "SkillCall",
    "SkillContext",
    "Strategy",
    "TextPart",
    "ToolRegistry",
    "Triggered",
    "activation_of",
    "always_on",
    "assemble_context",
    "by_full_text",
    "by_shared_words",
    "inject",
    "match_skill_call",
    "request_of",
    "select_block",
    "stack_activations",
    "triggered_by",
]
