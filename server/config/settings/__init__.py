"""Settings: one frozen model, built once from flags, environment, `skillserve.toml` and defaults, in that order.

Everything below receives values; nothing else in the product reads the environment for settings. Each section has its
struct, and its fields are documented by the strings below them: `docs/reference/settings.md` is made of these.

The `skillserve.toml` in the working directory may have come with a repository. It is not one of these layers: what it
may say of the project's own skills, once the project is trusted, is all in `ProjectSettings`; see `project_file`.
"""

from server.config.files import ConfigurationError
from server.config.settings.layers import load_settings
from server.config.settings.model import Settings
from server.config.settings.project import ProjectDiscovery, ProjectSettings, ProjectSource
from server.config.settings.runs import RunSettings
from server.config.settings.scripts import ScriptSettings
from server.config.settings.server import (
    AdminSettings,
    HttpSettings,
    LoggingSettings,
    LogLevel,
    ServerSettings,
    Transport,
    WatchSettings,
)
from server.config.settings.skills import (
    CatalogSettings,
    ClientSettings,
    Conventions,
    DiscoverySettings,
    SearchSettings,
    SourceSettings,
)
from server.config.settings.tools import GuardSettings, OptionalTool, ToolSettings

__all__ = [
    "AdminSettings",
    "CatalogSettings",
    "ClientSettings",
    "ConfigurationError",
    "Conventions",
    "DiscoverySettings",
    "GuardSettings",
    "HttpSettings",
    "LogLevel",
    "LoggingSettings",
    "OptionalTool",
    "ProjectDiscovery",
    "ProjectSettings",
    "ProjectSource",
    "RunSettings",
    "ScriptSettings",
    "SearchSettings",
    "ServerSettings",
    "Settings",
    "SourceSettings",
    "ToolSettings",
    "Transport",
    "WatchSettings",
    "load_settings",
]
