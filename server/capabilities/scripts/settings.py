"""How scripts of skills are run: sandbox, limits, environment and packages."""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta, Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError, SecretStr, home_path
from skills_core.scripts.environment import HIDDEN_PREFIX, WorkingDirectory

_INDEX = r"https?://[\x21-\x7e]{1,2000}"

RUN_SKILL_SCRIPT: Final = "run_skill_script"


class ScriptSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scripts that the tool `run_skill_script`, runs and `skillserve script` start."""

    require_sandbox: bool = False
    """Whether scripts are refused where no sandbox works. Switch it on if you serve skills that you did not review."""
    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 120
    """Seconds after which a script is ended."""
    output_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10_000_000
    """Number of bytes on stdout and stderr together after which a script is ended."""
    environment: tuple[str, ...] = ()
    """Names of variables that scripts inherit from the server, in addition to a fixed list. Variables that begin with
    `SKILLSERVE_` are never passed on."""
    index: SecretStr | None = None
    """URL of the package index for scripts that need Python packages; it may hold credentials. By default it is the
    default index of uv."""
    package_urls: bool = False
    """Whether scripts may name indexes, URLs and paths of their own for the packages that they need."""
    uv_environment: tuple[str, ...] = ()
    """Names of variables that uv inherits, in addition to a fixed list, when it fetches packages for scripts. Set it
    for proxies, certificates or credentials of an index."""
    network: bool = False
    """Whether scripts in a sandbox can use the network; without a sandbox they always can."""
    workspace: str | None = None
    """Absolute path of a folder of yours that scripts may read and write; the variable `WORKSPACE_DIR` names it. By
    default scripts can write only to an empty folder that is removed afterwards."""
    cwd: WorkingDirectory | None = None
    """The folder in which scripts start: their read-only copy of the skill (`skill`), the workspace, or an empty folder
    that is removed afterwards (`scratch`). By default it is the workspace if one is set, else `skill`."""

    def __post_init__(self) -> None:
        _check_names("environment", self.environment)
        _check_names("uv_environment", self.uv_environment)
        if self.index is not None and not re.fullmatch(_INDEX, self.index.get_secret_value()):
            # It may hold a password, so the message does not show it.
            raise InvalidValueError("expected a URL that begins with https:// or http://", ("index",))
        place = home_path(self.workspace) if self.workspace is not None else None
        if place is not None and not (place.is_absolute() and place.is_dir()):
            message = f"{str(place)!r}: expected the absolute path of a folder that exists"
            raise InvalidValueError(message, ("workspace",))
        if self.cwd is WorkingDirectory.WORKSPACE and place is None:
            message = "'workspace': expected skill or scratch, because no workspace is set (scripts.workspace)"
            raise InvalidValueError(message, ("cwd",))


def _check_names(key: str, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        if name.upper().startswith(HIDDEN_PREFIX) or not name or "=" in name or "\0" in name:
            message = f"{name[:80]!r}: expected a variable's name that does not begin with {HIDDEN_PREFIX}"
            raise InvalidValueError(message, (key, str(number)))


SECTION: Final = Section(
    name="scripts",
    kind=ScriptSettings,
    prefix="script_",
    options={"require_sandbox": "require_sandbox"},
    flags={"script_cwd": "--cwd", "script_network": "--network", "script_workspace": "--workspace"},
    secrets=frozenset({"index"}),
)
