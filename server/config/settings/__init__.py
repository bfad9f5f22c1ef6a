"""Settings: one frozen model, built once from flags, environment, `skillserve.toml` and defaults, in that order.

No other module reads the environment for settings; it receives values. Each section is
a struct; the strings below its fields document them, and `docs/reference/settings.md` is generated from these strings.

The `skillserve.toml` in the working directory may be part of a repository, so it is not one of these layers. If the
project is trusted, the file can set the values of `ProjectSettings` for the project's own skills; see `project_file`.
"""

from server.config.files import ConfigurationError
from server.config.settings.access import AccessSettings
from server.config.settings.audit_log import AuditLogSettings
from server.config.settings.evals import EvalSettings
from server.config.settings.history import HistorySettings
from server.config.settings.improve import ImproveSettings
from server.config.settings.layers import load_settings
from server.config.settings.limits import LimitSettings
from server.config.settings.login import LoginSettings, SigningAlgorithm, is_safe_address
from server.config.settings.model import Settings
from server.config.settings.operation import OperationSettings
from server.config.settings.project import ProjectDiscovery, ProjectSettings, ProjectSource
from server.config.settings.replicas import ReplicaSettings
from server.config.settings.runs import RunSettings
from server.config.settings.schedules import ScheduleSettings
from server.config.settings.scripts import ScriptSettings
from server.config.settings.server import (
    AdminSettings,
    HttpSettings,
    LogFormat,
    LoggingSettings,
    LogLevel,
    ServerSettings,
    Transport,
    WatchSettings,
)
from server.config.settings.skills import (
    AuditMode,
    AuditSettings,
    CatalogSettings,
    ClientSettings,
    Conventions,
    DiscoverySettings,
    SearchSettings,
    SkillFolder,
    SourceSettings,
)
from server.config.settings.tools import GuardSettings, OptionalTool, ToolSettings

__all__ = [
    "AccessSettings",
    "AdminSettings",
    "AuditLogSettings",
    "AuditMode",
    "AuditSettings",
    "CatalogSettings",
    "ClientSettings",
    "ConfigurationError",
    "Conventions",
    "DiscoverySettings",
    "EvalSettings",
    "GuardSettings",
    "HistorySettings",
    "HttpSettings",
    "ImproveSettings",
    "LimitSettings",
    "LogFormat",
    "LogLevel",
    "LoggingSettings",
    "LoginSettings",
    "OperationSettings",
    "OptionalTool",
    "ProjectDiscovery",
    "ProjectSettings",
    "ProjectSource",
    "ReplicaSettings",
    "RunSettings",
    "ScheduleSettings",
    "ScriptSettings",
    "SearchSettings",
    "ServerSettings",
    "Settings",
    "SigningAlgorithm",
    "SkillFolder",
    "SourceSettings",
    "ToolSettings",
    "Transport",
    "WatchSettings",
    "is_safe_address",
    "load_settings",
]
