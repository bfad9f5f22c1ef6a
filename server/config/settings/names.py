"""What each setting is called: in `skillserve.toml`, in the environment and on the command line.

A file has sections with short keys. The environment and the command line have one flat name space, so most settings of
`[runs]` and some other sections have a prefix there: `[runs] turns` is `SKILLSERVE_RUN_TURNS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from server.config.settings.model import Settings

__all__ = ["BY_OPTION", "BY_PATH", "DEFAULTS", "SECTIONS", "Path", "Setting", "entries", "fault_of"]

Path: TypeAlias = tuple[str, ...]
"""The way to a value in a file: section and key, or a name that stands at the top."""

DEFAULTS: Final = Settings()
SECTIONS: Final = tuple(name for name in Settings.__struct_fields__ if name != "project")

_PREFIXES: Final = {"admin": "admin_", "logging": "log_", "runs": "run_", "scripts": "script_", "watch": "watch_"}
_OPTIONS: Final = {
    ("catalog", "budget"): "catalog_budget",
    ("clients", "budgets"): "client_budgets",
    ("runs", "at_once"): "runs_at_once",
    ("runs", "mcp_servers"): "mcp_servers",
    ("runs", "model"): "model",
    ("runs", "model_key"): "model_key",
    ("runs", "workflows"): "workflows",
    ("runs", "workspace"): "workspace",
    ("scripts", "require_sandbox"): "require_sandbox",
    ("tools", "declared"): "skill_tools",
    ("tools", "enabled"): "tools",
    ("watch", "mode"): "watch",
}
# Options that are not the key behind the prefix of its section.

_FLAGS: Final = {
    "adapt": "--no-adapt",
    "allowed_hosts": "--allowed-host",
    "pinned": "--pin",
    "run_tools": "--run-tool",
    "script_network": "--network",
    "script_workspace": "--workspace",
    "skill_tools": "--skill-tool",
    "strictness": "--strict",
    "tools": "--tool",
    "workflows": "--workflow",
}
# Flags that are not spelt as their option is.

_FILE_ONLY: Final = frozenset({"client_budgets", "confirm_patterns", "danger_patterns", "sources", "tool_names"})
# Options whose values a variable cannot hold: tables, and patterns that may contain commas.

_SHOWN: Final = 100
# Characters of an unknown name in a message.


class Setting(Struct, frozen=True):
    """The names of one setting; `option` is the one outside of files."""

    section: str
    key: str
    option: str

    @property
    def variable(self) -> str | None:
        """The variable of the environment, None for a setting that only files can express."""
        return None if self.option in _FILE_ONLY else f"SKILLSERVE_{self.option.upper()}"

    @property
    def flag(self) -> str:
        """The flag, if a command has one for the setting."""
        return _FLAGS.get(self.option) or f"--{self.option.replace('_', '-')}"

    @property
    def path(self) -> Path:
        """The way to it in a file."""
        return (self.section, self.key)

    @property
    def default(self) -> object:
        """Its value where nothing sets it."""
        return getattr(getattr(DEFAULTS, self.section), self.key)


def _settings() -> Iterator[Setting]:
    for section in SECTIONS:
        for key in getattr(DEFAULTS, section).__struct_fields__:
            yield Setting(section, key, _OPTIONS.get((section, key)) or _PREFIXES.get(section, "") + key)


BY_PATH: Final[Mapping[Path, Setting]] = {setting.path: setting for setting in _settings()}
BY_OPTION: Final[Mapping[str, Setting]] = {setting.option: setting for setting in BY_PATH.values()}


def entries(found: Mapping[str, object]) -> Iterator[tuple[Path, object]]:
    """Yield the values of a file with their paths; what is not in a section has a path of one name."""
    for name, value in found.items():
        if name in SECTIONS and isinstance(value, Mapping):
            yield from (((name, str(key)), each) for key, each in value.items())
        else:
            yield (name,), value


def fault_of(path: Path) -> str:
    """Return why a file may not have a value at this path, and what was probably meant."""
    *section, name = path
    shown = ".".join(path)[:_SHOWN]
    if meant := BY_OPTION.get(name):
        return f"{shown}: write {meant.key} under [{meant.section}]"
    if not section and name in SECTIONS:
        return f"{shown}: expected the table [{name}]"
    import difflib  # noqa: PLC0415 - for errors alone

    keys = [".".join(known) for known in BY_PATH]
    near = [known for known in keys if known.endswith(f".{name}")] or difflib.get_close_matches(shown, keys, 1, 0.0)
    return f"{shown}: unknown; the closest known name is {near[0]}"
