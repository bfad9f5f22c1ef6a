"""Check the whole configuration: read every file that a server would read, and start nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from server.capabilities.runs.settings import RunSettings
from server.cli.config_check.access_check import check_access
from server.cli.config_check.conflicts import check_conflicts
from server.cli.config_check.finding import CheckedFile, Finding, Level
from server.cli.config_check.other_files import (
    check_jdai,
    check_mcp_servers,
    check_project,
    check_secrets,
    check_tokens,
    check_trust,
)
from server.cli.config_check.settings_check import check_settings
from server.cli.config_check.start_checks import check_collector, check_start
from server.config.files import own_file
from server.config.machine import tokens_file
from server.config.project_file import ProjectFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from server.config.machine import Machine
    from server.config.settings.model import Settings

__all__ = ["ConfigurationReport", "check_configuration"]


@dataclass(frozen=True, slots=True)
class ConfigurationReport:
    """What was found, errors first, and which files were looked for."""

    findings: tuple[Finding, ...]
    files: tuple[CheckedFile, ...]

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(each.level is Level.ERROR for each in self.findings)


def check_configuration(machine: Machine, environment: Mapping[str, str]) -> ConfigurationReport:
    """Check all files of settings, the environment variables, and how they fit together."""
    checked = check_settings(machine.places.config_home, environment, machine.jdai.read(trusted=False))
    trusted = checked.settings.discovery.trust_workspace or machine.trusts_project()
    token_findings, tokens = check_tokens(tokens_file())
    server_findings, specs = check_mcp_servers(checked.settings, environment)
    findings = [
        *checked.findings,
        *check_project(machine, trusted=trusted),
        *check_jdai(machine.jdai.read(trusted=trusted)),
        *check_trust(machine),
        *token_findings,
        *server_findings,
        *check_conflicts(checked, tokens),
        *check_access(checked, machine, tokens),
        *check_start(checked),
        *check_collector(environment),
        *check_secrets(checked, machine, specs),
    ]
    ordered = sorted(dict.fromkeys(findings), key=lambda each: each.level is not Level.ERROR)
    return ConfigurationReport(tuple(ordered), tuple(_files(machine, checked.settings)))


def _files(machine: Machine, settings: Settings) -> Iterator[CheckedFile]:
    named: list[tuple[Path, str]] = [(own_file(machine.places.config_home), "your settings")]
    project = ProjectFile(machine.places)
    if not project.is_own:
        named.append((project.path, "settings of the project"))
    named += [(path, "JD.AI") for path in machine.jdai.paths]
    named += [(machine.trust.path, "trusted folders"), (tokens_file(), "static tokens")]
    if servers := settings.section(RunSettings).mcp_servers:
        named.append((Path(os.path.expanduser(servers)), "MCP servers of runs"))  # noqa: PTH111
    for path, purpose in dict(named).items():
        yield CheckedFile(str(path), purpose, os.path.lexists(path))
