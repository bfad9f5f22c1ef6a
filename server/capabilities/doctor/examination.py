"""What `doctor` looks at, in the order in which things have to work: installation, settings, skills, address, clients.

An examination yields what it finds and changes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from server import __version__
from server.capabilities.connect.changes import connected
from server.capabilities.connect.clients import known_clients
from server.capabilities.connect.trial import try_server
from server.cli.config_check.check import check_configuration
from server.cli.config_check.finding import Level
from server.config.bootstrap import open_catalog
from server.config.settings.server import Transport
from server.hosting.status import capability_lines, count_states, diagnostic_lines
from skills_core.diagnostics import Severity, counted
from skills_core.errors import SkillsError
from skills_core.installation import extra_advice
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.config.machine import Machine
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog

_EXTRAS: Final[Mapping[str, Sequence[str]]] = {
    "run": ("pydantic_ai", "dbos", "jsonschema"),
    "history": ("dulwich",),
    "team": ("redis", "prometheus_client"),
}
"""The modules by which an extra is known to be installed."""

_MOST_BROKEN: Final = 20
_LOG_BYTES: Final = 200_000


class Health(StrEnum):
    """How something is."""

    GOOD = "good"
    NOTE = "note"
    """It works, and something is worth knowing."""
    BAD = "bad"
    """It does not work."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """What was found, and what to do; nothing has to be done where the advice is empty."""

    health: Health
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined: the machine, its settings, and the skills that a server would have."""

    machine: Machine
    environment: Mapping[str, str]
    settings: Settings
    directories: Sequence[Path] | None


class Examination(NamedTuple):
    """One examination, by its title."""

    title: str
    examine: Callable[[Patient], Iterator[Symptom]]


def _installation(_: Patient) -> Iterator[Symptom]:
    """Which Python runs which skillserve, and which extras are installed."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Symptom(Health.GOOD, f"skillserve {__version__} at {Path(sys.argv[0]).absolute()}, Python {version}")
    for extra, modules in _EXTRAS.items():
        missing = [each for each in modules if find_spec(each) is None]
        if missing:
            message = f"without the extra `{extra}`: {', '.join(missing)} is not installed"
            yield Symptom(Health.NOTE, message, extra_advice(extra))
        else:
            yield Symptom(Health.GOOD, f"with the extra `{extra}`")


def _capabilities(patient: Patient) -> Iterator[Symptom]:
    """Whether runs and scripts are available, and whether a sandbox works."""
    for line in capability_lines(patient.settings):
        yield Symptom(Health.GOOD, line)


def _configuration(patient: Patient) -> Iterator[Symptom]:
    """Which files have settings, and what is wrong in them, as `config check` tells."""
    report = check_configuration(patient.machine, patient.environment)
    for file in report.files:
        if file.exists:
            yield Symptom(Health.GOOD, f"{file.path}: {file.purpose}")
    for each in report.findings:
        health = Health.BAD if each.level is Level.ERROR else Health.NOTE
        key = "" if each.key is None else f"{each.key}: "
        yield Symptom(health, f"{each.file}: {key}{each.message}", each.advice)


def _skills(patient: Patient) -> Iterator[Symptom]:
    """Where skills were looked for, and which of them are not served, and why."""
    try:
        catalog = open_catalog(patient.directories, patient.settings, patient.machine)
    except SkillsError as error:
        yield Symptom(Health.BAD, str(error), "name a folder that exists")
        return
    yield from _sources(catalog)
    broken = [skill for skill in catalog.skills if skill.state is State.INVALID]
    for skill in broken[:_MOST_BROKEN]:
        faults = [each for each in skill.diagnostics if each.severity is Severity.ERROR]
        lines = [line for each in faults[:1] for line in diagnostic_lines(each)]
        yield Symptom(Health.BAD, f"{skill.key} is not served: {lines[0] if lines else skill.detail}", *lines[1:2])
    if len(broken) > _MOST_BROKEN:
        yield Symptom(Health.BAD, f"{len(broken) - _MOST_BROKEN} more are not served", "run: skillserve status")


def _sources(catalog: Catalog) -> Iterator[Symptom]:
    for found in catalog.sources:
        place = found.source.root
        if found.exists and not found.trusted:
            yield Symptom(Health.NOTE, f"{place} belongs to a project that is not trusted", "run: skillserve trust")
        elif found.exists:
            yield Symptom(Health.GOOD, f"{place}: {counted(found.skills, 'skill')}")
        elif not found.source.optional:
            yield Symptom(Health.BAD, f"{place}: there is no such folder", "create it, or correct the path")
    counts = count_states(catalog.skills)
    if counts[State.ACTIVE.value]:
        yield Symptom(Health.GOOD, ", ".join(f"{number} {state}" for state, number in counts.items()))
    else:
        looked = ", ".join(str(found.source.root) for found in catalog.sources)
        yield Symptom(Health.BAD, f"no skill is served; looked in {looked}", "run: skillserve init NAME")


def _address(patient: Patient) -> Iterator[Symptom]:
    """Whether a server over HTTP can listen at the address of the settings."""
    from server.transport.listening import AddressInUseError, listen

    http = patient.settings.http
    try:
        listen(http).close()
    except AddressInUseError as error:
        served = patient.settings.server.transport is Transport.HTTP
        yield Symptom(Health.BAD if served else Health.NOTE, str(error), "is a server running already? else use --port")
        return
    yield Symptom(Health.GOOD, f"{http.host} port {http.port} is free for --transport http")


def _clients(patient: Patient) -> Iterator[Symptom]:
    """Which clients are installed, whether they have this server, and whether it answers as they start it."""
    home = patient.machine.places.home
    installed = [each for each in known_clients().values() if each.is_installed(home, patient.environment)]
    if not installed:
        yield Symptom(Health.NOTE, "no client that is known is installed", "see docs/reference/clients.md")
    for client in installed:
        found = connected(client, home)
        if isinstance(found, str):
            yield Symptom(Health.BAD, f"{client.title}: {found}", "correct the file")
            continue
        if not found:
            yield Symptom(
                Health.NOTE, f"{client.title} does not have this server", f"run: skillserve connect {client.key}"
            )
        for name, server in found.items():
            trial = try_server(server)
            if trial.works:
                yield Symptom(Health.GOOD, f"{client.title}: {name} answers ({trial.message})")
            else:
                yield Symptom(
                    Health.BAD,
                    f"{client.title}: {name} does not answer: {trial.message}",
                    f"run: skillserve connect {client.key}",
                )
            if said := _last_error(client.log_file(name, home, patient.environment)):
                yield Symptom(Health.NOTE, f"{client.title} logged of {name}: {said}")


def _last_error(log: Path | None) -> str | None:
    """Return the last line of a client's log that tells of an error."""
    if log is None:
        return None
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line for line in reversed(lines) if "error" in line.lower()), None)


EXAMINATIONS: Final = (
    Examination("Installation", _installation),
    Examination("Runs and scripts", _capabilities),
    Examination("Settings", _configuration),
    Examination("Skills", _skills),
    Examination("Address", _address),
    Examination("Clients", _clients),
)
