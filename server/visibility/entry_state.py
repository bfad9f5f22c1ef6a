"""How much of a skill a client's list shows, and why not all of it."""

from __future__ import annotations

from enum import StrEnum

from server.clients.profile import CHARACTERS_A_TOKEN

__all__ = ["EntryState", "Obstacle", "tokens"]


class EntryState(StrEnum):
    """How much of a skill the list for the model shows."""

    WHOLE = "whole"
    CUT = "cut"
    NAME = "name"
    MISSING = "missing"


class Obstacle(StrEnum):
    """Why the client does not show a skill completely in the catalog, the schema or its commands."""

    BEYOND_BUDGET = "beyond_budget"
    """The skill does not fit into the catalog's budget; find_skills finds it."""

    CUT_ENTRY = "cut_entry"
    """The client cuts the tool's description within the skill's entry."""

    BEYOND_ENUM = "beyond_enum"
    """The tool's schema does not list the skill's name, but the tool accepts it."""

    NOT_FOR_MODELS = "not_for_models"
    """The skill declares that models may not activate it."""

    NOT_FOR_USERS = "not_for_users"
    """The skill declares that it is not a command for users."""

    NO_PROMPTS = "no_prompts"
    """The client does not show prompts."""


def tokens(characters: int) -> int:
    """Estimate the number of tokens, at four characters of English per token."""
    return -(-characters // CHARACTERS_A_TOKEN)
