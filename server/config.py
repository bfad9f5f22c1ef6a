"""Settings: one frozen model, built once from flags, environment, `skillserve.toml` and defaults.

The first that says something wins, in that order. Everything below receives values, nothing else in the
product reads the environment for settings.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from skills_core.sources import Strictness
from skills_core.watcher import WatchMode, WatchOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.jdai_files import JdaiSettings

__all__ = ["ENV_PREFIX", "ConfigurationError", "LogLevel", "OptionalTool", "Settings", "Transport", "load_settings"]

ENV_PREFIX = "SKILLSERVE_"
FILE_NAME = "skillserve.toml"

_TOKEN = re.compile(r"[\x21-\x7e]{16,1024}")
# What can stand in a header, and cannot be guessed.


class ConfigurationError(Exception):
    """A setting cannot be used; the message names it, what is wrong, and where it came from."""


class Transport(StrEnum):
    """How clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"


class LogLevel(StrEnum):
    """How much goes to stderr."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class OptionalTool(StrEnum):
    """Tools that are offered only where settings name them."""

    SKILLS_STATUS = "skills_status"
    RELOAD_SKILLS = "reload_skills"


class Settings(BaseModel):
    """All settings of a server. Times are in the unit that the name says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    transport: Transport = Transport.STDIO
    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8000, ge=0, le=65_535)
    path: str = Field(default="/mcp", pattern=r"^/[A-Za-z0-9_./-]*$")
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    strictness: Strictness = Strictness.LENIENT
    follow_symlinks: bool = False
    trust_workspace: bool = False
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    tools: tuple[OptionalTool, ...] = ()
    admin_token: SecretStr | None = None
    watch: WatchMode = WatchMode.AUTO
    watch_debounce_ms: int = Field(default=250, ge=0, le=60_000)
    watch_poll_ms: int = Field(default=1000, ge=50, le=3_600_000)
    catalog_budget: int = Field(default=32_000, ge=500)
    """Longest catalog text for a model, in characters; about 8,000 tokens."""
    enum_limit: int = Field(default=1000, ge=1)
    """Most names in the enum of `activate_skill`; beyond it any active name is accepted all the same."""
    page_size: int = Field(default=500, ge=1, le=10_000)
    log_level: LogLevel = LogLevel.INFO

    @field_validator("admin_token")
    @classmethod
    def _check_token(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not _TOKEN.fullmatch(token.get_secret_value()):
            # A message of the model itself would hold the value.
            raise ValueError("expected from 16 to 1024 characters of ASCII, without spaces")
        return token

    @property
    def watch_options(self) -> WatchOptions:
        """The settings of the watcher."""
        return WatchOptions(self.watch, self.watch_debounce_ms / 1000, self.watch_poll_ms / 1000)


def load_settings(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    directory: Path | None = None,
    jdai: JdaiSettings | None = None,
) -> Settings:
    """Merge the layers into settings.

    `flags` hold what was given on the command line, None for what was not. `environment` is searched for names
    with the prefix `SKILLSERVE_`; a list there is separated by commas. `directory` is where `skillserve.toml`
    is looked for (the working directory by default). `jdai` is what JD.AI's `skills.json` says of watching, which
    all else overrides.

    Raises:
        ConfigurationError: a layer holds an unknown name or a value that does not fit.
    """
    file = (directory or Path()) / FILE_NAME
    merged: dict[str, tuple[Any, str]] = {}
    if jdai is not None and jdai.watch is not None:
        merged["watch"] = (WatchMode.AUTO if jdai.watch else WatchMode.OFF, "skills.json")
    if jdai is not None and jdai.watch_debounce_ms is not None:
        merged["watch_debounce_ms"] = (jdai.watch_debounce_ms, "skills.json")
    for name, value in _read_file(file).items():
        merged[name] = (value, str(file))
    for name in Settings.model_fields:
        text = environment.get(ENV_PREFIX + name.upper())
        # What a compose file leaves empty is not set.
        if text:
            is_list = isinstance(Settings.model_fields[name].default, tuple)
            value = tuple(part.strip() for part in text.split(",") if part.strip()) if is_list else text
            merged[name] = (value, f"the environment variable {ENV_PREFIX}{name.upper()}")
    for name, value in flags.items():
        if value is not None and value != ():
            merged[name] = (value, f"--{name.replace('_', '-')}")
    try:
        return Settings.model_validate({name: value for name, (value, _) in merged.items()})
    except ValidationError as error:
        fault = error.errors()[0]
        name = str(fault["loc"][0])
        raise ConfigurationError(f"{merged[name][1]}: {name}: {fault['msg']}") from None


def _read_file(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file}: {error}") from None
    import tomllib  # noqa: PLC0415 - few have such a file, and each start would pay for it

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: {error}") from None
