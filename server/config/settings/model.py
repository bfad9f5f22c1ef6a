"""All settings in one frozen model: a struct for each section of `skillserve.toml`."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct, structs

from server.config.settings.access import AccessSettings
from server.config.settings.limits import LimitSettings
from server.config.settings.project import ProjectSettings
from server.config.settings.section import default_section
from server.config.settings.server import (
    HttpSettings,
    LoggingSettings,
    OperationSettings,
    ServerSettings,
    WatchSettings,
)
from server.config.settings.skills import CatalogSettings, ClientSettings, DiscoverySettings, SearchSettings
from server.config.settings.tools import ToolSettings

Kind = TypeVar("Kind", bound=Struct)


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a server: those of the core by name, and those of capabilities by their type."""

    server: ServerSettings = ServerSettings()
    http: HttpSettings = HttpSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    catalog: CatalogSettings = CatalogSettings()
    clients: ClientSettings = ClientSettings()
    search: SearchSettings = SearchSettings()
    watch: WatchSettings = WatchSettings()
    tools: ToolSettings = ToolSettings()
    access: AccessSettings = AccessSettings()
    limits: LimitSettings = LimitSettings()
    operation: OperationSettings = OperationSettings()
    logging: LoggingSettings = LoggingSettings()
    project: ProjectSettings | None = None
    """The settings of the project's file; None unless the project is trusted. The user's file has no such section."""
    capabilities: frozenset[Struct] = frozenset()
    """Sections of capabilities that are not as by default, at most one of a type."""

    def section(self, kind: type[Kind]) -> Kind:
        """Return the section of a capability, as by default where nothing of it is set."""
        return next((each for each in self.capabilities if type(each) is kind), default_section(kind))

    def with_sections(self, *sections: Struct) -> Settings:
        """Return settings in which these sections replace those of their types."""
        replaced = {type(each): each for each in sections}
        core = {name: replaced.pop(kind) for name, kind in _CORE.items() if kind in replaced}
        others = [*replaced.values(), *(each for each in self.capabilities if type(each) not in replaced)]
        return structs.replace(
            self, **core, capabilities=frozenset(each for each in others if each != default_section(type(each)))
        )


_CORE = {field.name: type(field.default) for field in structs.fields(Settings) if isinstance(field.default, Struct)}
