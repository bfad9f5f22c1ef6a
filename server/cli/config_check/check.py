"""Check the whole configuration: read every file that a server would read, and start nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from server.capabilities import CAPABILITIES
from server.cli.config_check.access_check import check_access
from server.cli.config_check.conflicts import check_conflicts
from server.cli.config_check.finding import CheckedFile, ConfigFinding, Level
from server.cli.config_check.other_files import (
    check_jdai,
    check_project,
    check_secrets,
    check_trust,
)
from server.cli.config_check.settings_check import Configuration, check_settings
from server.cli.config_check.start_checks import check_start
from server.config.files import own_file
from server.config.project_file import ProjectFile

if TYPE_CHECKING:
    from server.config.machine import Machine
    from server.config.settings.model import Settings


@dataclass(frozen=True, slots=True)
class ConfigurationReport:
    """What was found, errors first, and which files were looked for."""

    findings: tuple[ConfigFinding, ...]
    files: tuple[CheckedFile, ...]

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(each.level is Level.ERROR for each in self.findings)


def check_configuration(machine: Machine, environment: Mapping[str, str]) -> ConfigurationReport:
    """Check all files of settings, the environment variables, and how they fit together."""
    checked = check_settings(machine.places.config_home, environment, machine.jdai.read(trusted=False))
    trusted = checked.settings.discovery.trust_workspace or machine.trusts_project()
    configuration = Configuration(checked, machine, environment)
    findings = [
        *checked.findings,
        *check_project(machine, trusted=trusted),
        *check_jdai(machine.jdai.read(trusted=trusted)),
        *check_trust(machine),
        *check_conflicts(checked),
        *check_access(checked, machine),
        *check_start(checked),
        *check_secrets(checked, machine),
    ]
    for each in CAPABILITIES:
        if each.checks is not None:
            findings += each.checks(configuration)
    ordered = sorted(dict.fromkeys(findings), key=lambda each: each.level is not Level.ERROR)
    return ConfigurationReport(tuple(ordered), tuple(_files(machine, checked.settings)))


def _files(machine: Machine, settings: Settings) -> Iterator[CheckedFile]:
    named: list[tuple[Path, str]] = [(own_file(machine.places.config_home), "your settings")]
    project = ProjectFile(machine.places)
    if not project.is_own:
        named.append((project.path, "settings of the project"))
    named += [(path, "JD.AI") for path in machine.jdai.paths]
    named.append((machine.trust.path, "trusted folders"))
    for path, purpose in dict(named).items():
        yield CheckedFile(str(path), purpose, os.path.lexists(path))
    for each in CAPABILITIES:
        if each.files is not None:
            yield from each.files(settings)
