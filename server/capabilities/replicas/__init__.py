"""Replicas: several servers with the same skills, which notify each other of changes through Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from server.capabilities.replicas.settings import SECTION, ReplicaSettings
from server.capability import Capability, SealingKeys
from skills_core.installation import extra_advice

if TYPE_CHECKING:
    from server.capability import ServerPart
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration
    from server.config.settings.model import Settings
    from server.hosting.host import Host


def _http_part(host: Host) -> ServerPart | None:
    if not host.settings.section(ReplicaSettings).enabled:
        return None
    from server.capabilities.replicas.settings import ReplicaSettingsError

    try:
        from server.capabilities.replicas.replica import Replica
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        raise ReplicaSettingsError(f"replicas need the extra `team`; {extra_advice('team')}") from None
    return host.service(Replica)


def _sealing_keys(settings: Settings) -> SealingKeys:
    from server.capabilities.replicas.settings import shared_keys

    replicas = settings.section(ReplicaSettings)
    return SealingKeys(replicas.name, shared_keys(replicas))


def _checks(configuration: Configuration) -> Iterator[ConfigFinding]:
    from server.capabilities.replicas.checks import check_replicas

    return check_replicas(configuration)


CAPABILITY: Final = Capability(
    name="replicas", sections=(SECTION,), checks=_checks, http_part=_http_part, sealing_keys=_sealing_keys
)
