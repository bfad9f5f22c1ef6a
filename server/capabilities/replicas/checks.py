"""Check the settings of replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from server.capabilities.replicas.settings import ReplicaSettings, shared_keys
from server.cli.config_check.finding import ConfigFinding, Level
from skills_core.errors import SkillsError
from skills_core.installation import extra_advice

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import CheckedSettings, Configuration


def check_replicas(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check replicas; sections with a fault of their own are left out."""
    checked = configuration.checked
    if checked.can_compare("replicas"):
        yield from _replicas(checked)


def _replicas(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    replicas = checked.settings.section(ReplicaSettings)
    if not replicas.enabled:
        return
    name = "secret" if replicas.secret is not None else "secret_file"
    try:
        keys = shared_keys(replicas)
    except SkillsError as error:
        message, _, advice = str(error).removeprefix("replicas.secret: ").partition("; ")
        advice = advice or "name a file that the server's user can read"
        yield checked.finding(Level.ERROR, f"replicas.{name}", message, advice)
        return
    try:
        from server.capabilities.replicas.link import RedisLink
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        message = "replicas need the extra `team`"
        yield checked.finding(Level.ERROR, "replicas.redis_url", message, extra_advice("team"))
        return
    try:
        # It connects only when it runs.
        RedisLink(replicas, keys)
    except SkillsError as error:
        message, _, advice = str(error).removeprefix("replicas.redis_url: ").partition("; ")
        yield checked.finding(Level.ERROR, "replicas.redis_url", message, advice or "correct the address")
