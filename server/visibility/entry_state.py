"""What became of a skill in a client's list, and why it is not whole."""

from __future__ import annotations

from enum import StrEnum

from server.clients.profile import CHARACTERS_A_TOKEN

__all__ = ["Entry", "Obstacle", "tokens"]


class Entry(StrEnum):
    """How much of a skill stands in the list that a model sees."""

    WHOLE = "whole"
    CUT = "cut"
    NAME = "name"
    MISSING = "missing"


class Obstacle(StrEnum):
    """Why a skill is not wholly shown, or not in some other way than in the catalog."""

    BEYOND_BUDGET = "beyond_budget"
    """The catalog has no room for it; find_skills finds it."""

    CUT_ENTRY = "cut_entry"
    """The client cuts the description within its entry."""

    BEYOND_ENUM = "beyond_enum"
    """Its name is not among those that the tool's schema lists; it is accepted all the same."""

    NOT_FOR_MODELS = "not_for_models"
    """The skill says that models may not activate it."""

    NOT_FOR_USERS = "not_for_users"
    """The skill says that it is no command for users."""

    NO_PROMPTS = "no_prompts"
    """The client does not show prompts."""


def tokens(characters: int) -> int:
    """Return about how many tokens so many characters are: four characters of English to a token."""
    return -(-characters // CHARACTERS_A_TOKEN)
