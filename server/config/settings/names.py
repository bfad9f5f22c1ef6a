"""The names of each setting: its path in `skillserve.toml`, its environment variable and its flag.

A file has sections with short keys. Variables and flags share one flat name space, so the settings of some sections
have a prefix there: `turns` under `[runs]` is the option `run_turns` and the variable `SKILLSERVE_RUN_TURNS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from server.config.settings.model import Settings

__all__ = ["BY_OPTION", "BY_PATH", "DEFAULTS", "SECTIONS", "Setting", "SettingPath", "entries", "fault_of"]

SettingPath: TypeAlias = tuple[str, ...]
"""The path to a value in a file: section and key, or one name at the top level."""

DEFAULTS: Final = Settings()
SECTIONS: Final = tuple(name for name in Settings.__struct_fields__ if name != "project")

_PREFIXES: Final = {
    "access": "access_",
    "admin": "admin_",
    "audit_log": "audit_log_",
    "history": "history_",
    "improve": "improve_",
    "logging": "log_",
    "limits": "limits_",
    "login": "login_",
    "replicas": "replicas_",
    "runs": "run_",
    "schedules": "schedule_",
    "scripts": "script_",
    "watch": "watch_",
}
_OPTIONS: Final = {
    ("audit", "accept"): "audit_accept",
    ("audit", "mode"): "audit",
    ("audit_log", "analytics"): "analytics",
    ("audit_log", "enabled"): "audit_log",
    ("catalog", "budget"): "catalog_budget",
    ("clients", "budgets"): "client_budgets",
    ("history", "sources"): "history",
    ("improve", "sources"): "improve",
    ("runs", "at_once"): "runs_at_once",
    ("runs", "mcp_servers"): "mcp_servers",
    ("runs", "model"): "model",
    ("runs", "model_key"): "model_key",
    ("runs", "workflows"): "workflows",
    ("runs", "workspace"): "workspace",
    ("schedules", "enabled"): "schedules",
    ("scripts", "require_sandbox"): "require_sandbox",
    ("tools", "declared"): "skill_tools",
    ("tools", "enabled"): "tools",
    ("watch", "mode"): "watch",
}
# Options that do not follow the rule: prefix of the section, then the key.

_FLAGS: Final = {
    "adapt": "--no-adapt",
    "allowed_hosts": "--allowed-host",
    "improve_review": "--review",
    "pinned": "--pin",
    "run_tools": "--run-tool",
    "script_cwd": "--cwd",
    "script_network": "--network",
    "script_workspace": "--workspace",
    "skill_tools": "--skill-tool",
    "strictness": "--strict",
    "tools": "--tool",
    "workflows": "--workflow",
}
# Flags that do not follow the rule: `--`, then the option with hyphens.

_FILE_ONLY: Final = frozenset(
    {
        *("access_profiles", "access_roles", "access_tools", "audit_accept", "client_budgets", "confirm_patterns"),
        *("danger_patterns", "run_prices", "sources", "tool_names"),
    }
)
# Options whose values a variable cannot hold: tables, and patterns that may contain commas.

_SECRETS: Final = frozenset(
    {
        *("admin_token", "judge_key", "login_introspection_client_secret", "model_key", "replicas_redis_url"),
        *("run_store", "schedule_webhook", "script_index"),
    }
)
# Options whose values are secret. Their types say so too, but reading types would slow each start. `replicas_secret`
# has a setting of its own for its file.

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
        return None if self.option in _FILE_ONLY else f"SKILLSERVE_{self.option.upper()}"

    @property
    def file_variable(self) -> str | None:
        """The environment variable that names a file with the value, None for a setting that is no secret."""
        return f"{self.variable}_FILE" if self.option in _SECRETS else None

    @property
    def flag(self) -> str:
        """The flag; not every setting is an option of a command."""
        return _FLAGS.get(self.option) or f"--{self.option.replace('_', '-')}"

    @property
    def path(self) -> SettingPath:
        """The path to the setting in a file."""
        return (self.section, self.key)

    @property
    def default(self) -> object:
        """The default value."""
        return getattr(getattr(DEFAULTS, self.section), self.key)


def _settings() -> Iterator[Setting]:
    for section in SECTIONS:
        for key in getattr(DEFAULTS, section).__struct_fields__:
            yield Setting(section, key, _OPTIONS.get((section, key)) or _PREFIXES.get(section, "") + key)


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
