"""Check the settings of replicas."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from server.capabilities.replicas.errors import NO_CLIENT
from server.capabilities.replicas.keys import shared_keys
from server.capabilities.replicas.settings import ReplicaSettings
from server.capabilities.runs.settings import RunSettings
from server.capabilities.schedules.settings import ScheduleSettings
from server.cli.config_check.finding import Finding, Level
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.cli.config_check.settings_check import CheckedSettings, Configuration


def check_replicas(configuration: Configuration) -> Iterator[Finding]:
    """Check replicas; sections with a fault of their own are left out."""
    checked = configuration.checked
    if checked.can_compare("replicas"):
        yield from _replicas(checked)
    if checked.can_compare("replicas", "runs", "schedules"):
        yield from _shared_runs(checked)


def _replicas(checked: CheckedSettings) -> Iterator[Finding]:
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
        message, _, advice = NO_CLIENT.partition(": ")
        yield checked.finding(Level.ERROR, "replicas.redis_url", message, advice)
        return
    try:
        # It connects only when it runs.
        RedisLink(replicas, keys)
    except SkillsError as error:
        message, _, advice = str(error).removeprefix("replicas.redis_url: ").partition("; ")
        yield checked.finding(Level.ERROR, "replicas.redis_url", message, advice or "correct the address")


def _shared_runs(checked: CheckedSettings) -> Iterator[Finding]:
    from skills_core.runs.durable.store import SqliteStore, store_of

    runs = checked.settings.section(RunSettings)
    if not checked.settings.section(ReplicaSettings).enabled or (
        runs.model is None and not checked.settings.section(ScheduleSettings).enabled
    ):
        return
    with suppress(SkillsError):  # which another check reports
        if runs.store is None or isinstance(store_of(runs.store.get_secret_value()), SqliteStore):
            message = "each replica records runs in a file of its own (SQLite), which no other one shows or continues"
            origin = checked.origin("replicas.redis_url" if runs.store is None else "runs.store")
            advice = "set it to a database that all replicas reach, as postgresql://user@host/database"
            yield Finding(Level.WARNING, origin, "runs.store", message, advice)
