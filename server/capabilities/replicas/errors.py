"""Errors of replicas."""

from __future__ import annotations

from skills_core.errors import SkillsError

__all__ = ["NO_CLIENT", "ForwardedCallError", "LinkLostError", "ReplicaSettingsError"]

NO_CLIENT = "replicas need the Redis client: install skillserve with the extra `team`, as skillserve[team]"


class ReplicaSettingsError(SkillsError):
    """This server cannot be a replica with its settings."""


class LinkLostError(SkillsError):
    """Redis cannot be reached now, or refuses a message."""


class ForwardedCallError(SkillsError):
    """A call that another replica has to answer has no result there."""
