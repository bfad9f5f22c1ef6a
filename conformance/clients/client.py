"""What a measured client is, and what it must know of a run to be started."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.processes import REPOSITORY
from conformance.suite import NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from conformance.clients.dialects.messages import Json

__all__ = ["KEY", "PACKAGES", "Client", "Command", "Run", "earlier_packages", "write_json", "write_used_home"]

PACKAGES = Path(__file__).resolve().parent / "packages"

BARE_SERVER = Path(__file__).resolve().parent / "bare_server.py"
"""A server that offers nothing."""

KEY = "no-key"
"""Clients insist on a key; the endpoint reads none."""

PROMPT = "Write the release notes."


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and the variables that it needs beyond those of every client."""

    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """The folders of a run, and the address of the model; not `served`, a server offers nothing.

    `options` are those of `skillserve serve`.
    """

    root: Path
    model: str
    prompt: str = PROMPT
    packages: Path = PACKAGES
    served: bool = True
    options: tuple[str, ...] = ()

    @property
    def skills(self) -> Path:
        """The folder of skills that is served."""
        return self._folder("skills")

    @property
    def home(self) -> Path:
        """The home folder of the client."""
        return self._folder("home")

    @property
    def work(self) -> Path:
        """The working directory of the client."""
        return self._folder("work")

    @property
    def recording(self) -> Path:
        """The file of the recording."""
        return self.root / "requests.jsonl"

    @property
    def server(self) -> list[str]:
        """The command of the MCP server."""
        if not self.served:
            return [sys.executable, str(BARE_SERVER)]
        return [sys.executable, "-m", "server", "serve", str(self.skills), *self.options]

    @property
    def server_environment(self) -> dict[str, str]:
        """The environment of the MCP server."""
        return {"PYTHONPATH": str(REPOSITORY), "HOME": str(self.home), "PATH": "/usr/bin:/bin"}

    def npm(self, package: str, name: str) -> str:
        """Return the program of this name that npm has installed with a package."""
        return str(self.packages / package / "node_modules/.bin" / name)

    def python(self, package: str, name: str = "python") -> str:
        """Return the program of this name in the virtual environment of a package."""
        return str(self.packages / package / ".venv/bin" / name)

    def stdio(self, **further: object) -> Json:
        """Return the server's entry in the form that most clients read."""
        return {"command": self.server[0], "args": self.server[1:], "env": self.server_environment, **further}

    def environment(self) -> dict[str, str]:
        """Return the environment of every client; it inherits nothing."""
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self._folder("tmp")),
            "PATH": f"{NODE.parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "CI": "1",
            "DO_NOT_TRACK": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def _folder(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True, slots=True)
class Client:
    """A client or a framework; `package` is its folder in `packages`, `distribution` its name in the registry.

    `remark` states a condition or a cause that a recording cannot show.
    """

    name: str
    title: str
    package: str
    distribution: str
    prepare: Callable[[Run], Command]
    remark: str = ""

    def version(self, packages: Path = PACKAGES) -> str | None:
        """Return the version that is installed below `packages`, or None if it is not installed."""
        folder = packages / self.package
        if (folder / "package.json").exists():
            path = folder / "node_modules" / self.distribution / "package.json"
            return str(json.loads(path.read_text(encoding="utf-8"))["version"]) if path.exists() else None
        name = self.distribution.replace("-", "_")
        found = sorted(folder.glob(f".venv/lib/python*/site-packages/{name}-*.dist-info"))
        return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else None


def earlier_packages(day: str) -> Path:
    """Return the folder for packages as they were before a day (ISO 8601)."""
    return PACKAGES / ".earlier" / day


def write_json(path: Path, value: object) -> None:
    """Write a file of settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_used_home(home: Path, project: Path | str, **more: object) -> None:
    """Write the settings of a Claude Code that was used before in a project, so that it asks nothing at its start."""
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "autoModeOptInDismissed": True,
        "hasResetAutoModeOptInForDefaultOffer": True,
        "customApiKeyResponses": {"approved": [KEY], "rejected": []},
        "projects": {str(project): {"hasTrustDialogAccepted": True}},
        **more,
    }
    write_json(home / ".claude.json", known)
    # Without its default mode the client begins with an announcement.
    write_json(home / ".claude/settings.json", {"permissions": {"defaultMode": "default"}})
