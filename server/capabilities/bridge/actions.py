"""Write the stubs of a client once, and remove them: for the commands `bridge` and `connect`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from server.capabilities.bridge.stub_folder import StubReport, sync_stubs
from server.capabilities.bridge.stubs import local_catalog, server_name, wanted_stubs
from server.config.bootstrap import open_with_settings
from server.config.machine import current_places
from server.transport.client_commands import USUAL_NAME
from skills_core.diagnostics import counted, one_line

if TYPE_CHECKING:
    from server.capabilities.bridge.clients import BridgedClient


class Outcome(NamedTuple):
    """What was done for a client, by the name of the server, and by key why a skill has no stub."""

    server: str
    report: StubReport
    left_out: dict[str, str]

    def lines(self) -> list[str]:
        """Return what people read of it."""
        report = self.report
        numbers = f"{len(report.removed)} removed, {report.current} up to date in {_shown(report.folder)}"
        lines = [f"{counted(len(report.written), 'stub')} written, {numbers}"]
        lines += [f"{name} is left as it is: {why}" for name, why in report.kept.items()]
        lines += [f"{key} has no stub: {why}" for key, why in self.left_out.items()]
        lines += [f"nothing more can be written: {report.fault}"] if report.fault else []
        return [one_line(line) for line in lines]


def write_stubs(
    client: BridgedClient, directories: Sequence[Path] | None, name: str | None = None, **flags: object
) -> Outcome:
    """Write the stubs of the skills that `serve` has with these directories and flags, and the server's name.

    Raises:
        ConfigurationError: a setting cannot be used.
        InvalidSourceError: a directory is missing, or is a file.
    """
    library, settings = open_with_settings(directories, server_name=name, **flags)
    home, server = current_places().home, server_name(settings)
    stubs = wanted_stubs(client, local_catalog(library.catalog, settings), settings, home)
    return Outcome(server, sync_stubs(client.place(home), stubs.texts, server), stubs.left_out)


def remove_stubs(client: BridgedClient, name: str | None = None) -> Outcome:
    """Remove the stubs of the server with this name."""
    server = name or USUAL_NAME
    return Outcome(server, sync_stubs(client.place(current_places().home), {}, server), {})


def _shown(folder: Path) -> str:
    home = current_places().home
    return f"~/{folder.relative_to(home).as_posix()}" if folder.is_relative_to(home) else str(folder)
