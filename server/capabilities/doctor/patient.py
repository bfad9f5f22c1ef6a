"""What is examined, and how an examination goes on where the system refuses a part of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.capabilities.doctor.symptoms import Kind, Symptom, found
from server.cli.config_check.settings_check import check_settings
from server.config.bootstrap import settings_in_project
from server.config.files import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from server.capabilities.doctor.symptoms import Health
    from server.cli.config_check.settings_check import CheckedSettings
    from server.config.machine import Machine
    from server.config.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined: the machine, its settings as far as they can be used, and the folders of skills."""

    machine: Machine
    environment: Mapping[str, str]
    checked: CheckedSettings
    settings: Settings
    directories: Sequence[Path] | None


def patient_here(
    machine: Machine, environment: Mapping[str, str], directories: Sequence[Path] | None = None
) -> Patient:
    """Return this machine with what can be used of its settings, whatever is wrong with the rest."""
    checked = check_settings(machine.places.config_home, environment, machine.jdai.read(trusted=False))
    try:
        settings, _ = settings_in_project(machine, checked.settings, {})
    except ConfigurationError:
        # The check of the configuration tells.
        settings = checked.settings
    return Patient(machine, environment, checked, settings, directories)


def guarded(symptoms: Iterator[Symptom], what: str, health: Health | None = None) -> Iterator[Symptom]:
    """Yield symptoms up to a failure of the system or of ours, and then that the rest was not examined.

    That is a note, or has the `health` given.
    """
    try:
        yield from symptoms
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a machine, the rest of it can be examined
        message = f"{what} cannot be examined: {type(error).__name__}: {error}"
        yield found(Kind.NOT_EXAMINED, message, health=health)
