"""All settings in one frozen model: a struct for each section of `skillserve.toml`."""

from __future__ import annotations

from msgspec import Struct

from server.config.settings.access import AccessSettings
from server.config.settings.audit_log import AuditLogSettings
from server.config.settings.evals import EvalSettings
from server.config.settings.history import HistorySettings
from server.config.settings.improve import ImproveSettings
from server.config.settings.limits import LimitSettings
from server.config.settings.login import LoginSettings
from server.config.settings.operation import OperationSettings
from server.config.settings.project import ProjectSettings
from server.config.settings.replicas import ReplicaSettings
from server.config.settings.runs import RunSettings
from server.config.settings.schedules import ScheduleSettings
from server.config.settings.scripts import ScriptSettings
from server.config.settings.server import (
    AdminSettings,
    HttpSettings,
    LoggingSettings,
    ServerSettings,
    WatchSettings,
)
from server.config.settings.skills import (
    AuditSettings,
    CatalogSettings,
    ClientSettings,
    DiscoverySettings,
    SearchSettings,
)
from server.config.settings.tools import GuardSettings, ToolSettings

__all__ = ["Settings"]

_LEASE = 15
_REPLICA_LEASE = 3


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a server."""

    server: ServerSettings = ServerSettings()
    http: HttpSettings = HttpSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    catalog: CatalogSettings = CatalogSettings()
    clients: ClientSettings = ClientSettings()
    search: SearchSettings = SearchSettings()
    audit: AuditSettings = AuditSettings()
    audit_log: AuditLogSettings = AuditLogSettings()
    watch: WatchSettings = WatchSettings()
    tools: ToolSettings = ToolSettings()
    guard: GuardSettings = GuardSettings()
    runs: RunSettings = RunSettings()
    scripts: ScriptSettings = ScriptSettings()
    evals: EvalSettings = EvalSettings()
    history: HistorySettings = HistorySettings()
    schedules: ScheduleSettings = ScheduleSettings()
    improve: ImproveSettings = ImproveSettings()
    login: LoginSettings = LoginSettings()
    access: AccessSettings = AccessSettings()
    limits: LimitSettings = LimitSettings()
    operation: OperationSettings = OperationSettings()
    replicas: ReplicaSettings = ReplicaSettings()
    admin: AdminSettings = AdminSettings()
    logging: LoggingSettings = LoggingSettings()
    project: ProjectSettings | None = None
    """The settings of the project's file; None unless the project is trusted. The user's file has no such section."""

    @property
    def lease_seconds(self) -> int:
        """Seconds without a sign of life after which another process takes over the runs of this one."""
        return self.runs.lease_seconds or (_REPLICA_LEASE if self.replicas.enabled else _LEASE)
