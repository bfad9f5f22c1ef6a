"""How much of a skill a client's list shows, when, and why not all of it."""

from __future__ import annotations

from enum import StrEnum

from server.clients.profile import CHARACTERS_A_TOKEN

__all__ = ["EntryState", "Obstacle", "Sight", "tokens"]


class EntryState(StrEnum):
    """How much of a skill the list for the model shows."""

    WHOLE = "whole"
    CUT = "cut"
    NAME = "name"
    MISSING = "missing"


class Sight(StrEnum):
    """What a model has to do before it sees that a skill exists."""

    DESCRIBED = "described"
    """Nothing: it sees the skill's entry from the start."""

    NAMED = "named"
    """Nothing: it sees the skill's name from the start, and at most a part of its entry."""

    TOOL_SEARCH = "tool_search"
    """Use the client's own search for tools, which loads the tool that lists the skill."""

    FIND_SKILLS = "find_skills"
    """Call `find_skills`, or describe the task to `activate_skill`."""


class Obstacle(StrEnum):
    """Why the client does not show a skill completely, or refuses its name."""

    BEYOND_BUDGET = "beyond_budget"
    """The skill does not fit into the catalog's budget; find_skills finds it."""

    CUT_ENTRY = "cut_entry"
    """The client cuts the text within the skill's entry."""

    DEFERRED = "deferred"
    """The model sees the skill's entry only after the client's own search for tools."""

    LONG_ANSWER = "long_answer"
    """An answer of the client's search for tools with the skill's entry is longer than what the model sees of it."""

    BEYOND_ENUM = "beyond_enum"
    """The tool's schema does not list the skill's name, but the tool accepts it."""

    REFUSED_NAME = "refused_name"
    """The tool's schema does not list the skill's name, and the client refuses such a call itself."""

    NOT_FOR_MODELS = "not_for_models"
    """The skill declares that models may not activate it."""

    NOT_FOR_USERS = "not_for_users"
    """The skill declares that it is not a command for users."""

    NO_PROMPTS = "no_prompts"
    """The client does not show prompts."""


def tokens(characters: int) -> int:
    """Estimate the number of tokens, at four characters of English per token."""
    return -(-characters // CHARACTERS_A_TOKEN)
