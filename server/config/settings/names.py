"""The names of each setting: its path in `skillserve.toml`, its environment variable and its flag.

A file has sections with short keys. Variables and flags share one flat name space, so the settings of some sections
have a prefix there: `turns` under `[runs]` is the option `run_turns` and the variable `SKILLSERVE_RUN_TURNS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from server.capabilities import CAPABILITIES
from server.config.settings.access import AccessSettings
from server.config.settings.limits import LimitSettings
from server.config.settings.section import Section, default_section
from server.config.settings.server import (
    HttpSettings,
    LoggingSettings,
    OperationSettings,
    ServerSettings,
    WatchSettings,
)
from server.config.settings.skills import CatalogSettings, ClientSettings, DiscoverySettings, SearchSettings
from server.config.settings.tools import ToolSettings

if TYPE_CHECKING:
    from server.config.settings.model import Settings


SettingPath: TypeAlias = tuple[str, ...]
"""The path to a value in a file: section and key, or one name at the top level."""

_CORE: Final = (
    Section(name="server", kind=ServerSettings),
    Section(name="http", kind=HttpSettings, flags={"allowed_hosts": "--allowed-host"}),
    Section(
        name="discovery", kind=DiscoverySettings, flags={"strictness": "--strict"}, file_only=frozenset({"sources"})
    ),
    Section(name="catalog", kind=CatalogSettings, options={"budget": "catalog_budget"}, flags={"pinned": "--pin"}),
    Section(
        name="clients",
        kind=ClientSettings,
        options={"budgets": "client_budgets"},
        flags={"adapt": "--no-adapt"},
        file_only=frozenset({"budgets", "tool_names"}),
    ),
    Section(name="search", kind=SearchSettings),
    Section(name="watch", kind=WatchSettings, prefix="watch_", options={"mode": "watch"}),
    Section(
        name="tools",
        kind=ToolSettings,
        options={"declared": "skill_tools", "enabled": "tools"},
        flags={"skill_tools": "--skill-tool", "tools": "--tool"},
    ),
    Section(
        name="access",
        kind=AccessSettings,
        prefix="access_",
        file_only=frozenset({"profiles", "roles", "tools"}),
    ),
    Section(name="limits", kind=LimitSettings, prefix="limits_"),
    Section(name="operation", kind=OperationSettings),
    Section(name="logging", kind=LoggingSettings, prefix="log_"),
)
_CORE_NAMES: Final = frozenset(section.name for section in _CORE)
SECTIONS: Final[Mapping[str, Section]] = {
    section.name: section for section in (*_CORE, *(each for found in CAPABILITIES for each in found.sections))
}

_SHOWN: Final = 100
# Characters of an unknown name in a message.


class Setting(Struct, frozen=True):
    """The names of one setting; `option` is its name in the flat name space of variables and flags."""

    section: str
    key: str
    option: str

    @property
    def variable(self) -> str | None:
        """The environment variable, None for a setting that only files can set."""
        return None if self.key in SECTIONS[self.section].file_only else f"SKILLSERVE_{self.option.upper()}"

    @property
    def file_variable(self) -> str | None:
        """The environment variable that names a file with the value, None for a setting that is not a secret."""
        return f"{self.variable}_FILE" if self.is_secret else None

    @property
    def is_secret(self) -> bool:
        """Whether the value is a secret."""
        return self.key in SECTIONS[self.section].secrets

    @property
    def flag(self) -> str:
        """The flag; not every setting is an option of a command."""
        return SECTIONS[self.section].flags.get(self.option) or f"--{self.option.replace('_', '-')}"

    @property
    def path(self) -> SettingPath:
        """The path to the setting in a file."""
        return (self.section, self.key)

    @property
    def default(self) -> object:
        """The default value."""
        return getattr(default_section(SECTIONS[self.section].kind), self.key)


def value_of(settings: Settings, path: SettingPath) -> Any:  # noqa: ANN401 - of the setting's type
    """Return the value of a setting."""
    section, key = path
    found = getattr(settings, section) if section in _CORE_NAMES else settings.section(SECTIONS[section].kind)
    return getattr(found, key)


def _settings() -> Iterator[Setting]:
    for section in SECTIONS.values():
        for key in section.kind.__struct_fields__:
            yield Setting(section.name, key, section.option(key))


BY_PATH: Final[Mapping[SettingPath, Setting]] = {setting.path: setting for setting in _settings()}
BY_OPTION: Final[Mapping[str, Setting]] = {setting.option: setting for setting in BY_PATH.values()}


def entries(found: Mapping[str, object]) -> Iterator[tuple[SettingPath, object]]:
    """Yield the values of a file with their paths; the path of a value outside of a section is one name."""
    for name, value in found.items():
        if name in SECTIONS and isinstance(value, Mapping):
            yield from (((name, str(key)), each) for key, each in value.items())
        else:
            yield (name,), value


def fault_of(path: SettingPath) -> str:
    """Explain why a file must not have a value at this path, and suggest another path."""
    *section, name = path
    shown = ".".join(path)[:_SHOWN]
    if meant := BY_OPTION.get(name):
        return f"{shown}: write {meant.key} under [{meant.section}]"
    if not section and name in SECTIONS:
        return f"{shown}: expected the table [{name}]"
    import difflib  # noqa: PLC0415 - for errors alone

    names = {".".join(known): ".".join(known) for known in BY_PATH}
    if not section:
        names |= {option: ".".join(setting.path) for option, setting in BY_OPTION.items()}
        names |= {known: f"[{known}]" for known in SECTIONS}
    near = [known for known in names if known.endswith(f".{name}")] or difflib.get_close_matches(shown, names, 1)
    if near:
        return f"{shown}: unknown; the closest known name is {names[near[0]]}"
    known_here = [key for known_section, key in BY_PATH if [known_section] == section]
    expected = ", ".join(known_here or (f"[{known}]" for known in SECTIONS))
    return f"{shown}: unknown; expected one of {expected}"
