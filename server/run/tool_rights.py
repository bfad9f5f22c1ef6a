"""The tools of skills that a run has not, because the client that began it may not use them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from server.config.settings import OptionalTool
from server.listing.declared import settings_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.run.skill_runner import RunParticipants
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.skill import Skill

__all__ = ["with_recorded_rights", "withheld_tools"]

_KEY = "withheld_tools"


def withheld_tools(skill: Skill, participants: RunParticipants) -> JsonObject:
    """Return what is recorded of the tools that a run of `skill` has not; nothing if it has all."""
    names = [OptionalTool.RUN_SKILL_SCRIPT.value]
    names += [settings_name(skill, tool) for tool in skill.frontmatter.tools]
    withheld: list[JsonValue] = [name for name in names if not participants.allows(name)]
    return {_KEY: withheld} if withheld else {}


def with_recorded_rights(participants: RunParticipants, inputs: Mapping[str, JsonValue]) -> RunParticipants:
    """Return the participants of a run without the tools that it was recorded not to have.

    A run that another process continues has no client whose roles could tell.
    """
    withheld = inputs.get(_KEY)
    if not isinstance(withheld, list):
        return participants
    allows = participants.allows
    return replace(participants, allows=lambda name: name not in withheld and allows(name))
