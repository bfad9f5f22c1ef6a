"""The command `doctor`."""

from __future__ import annotations

import os
from typing import Any

import typer

from server.cli.commands.options import AsJson, Directories
from server.cli.console import EXIT_NO, print_json, print_text
from skills_core.diagnostics import counted, one_line

_MARKS = {"good": "ok  ", "note": "note", "bad": "FAIL"}


def doctor(directories: Directories = None, *, as_json: AsJson = False) -> None:
    """Find out why it does not work, and what to do about it.

    It looks at the installation, the settings, the skills, the address and the clients. Each line that is not in order
    says what to do. The server is started as each client starts it; nothing is changed. The exit code is 1 if something
    does not work.
    """
    from server.capabilities.doctor.examination import EXAMINATIONS, Health, Patient
    from server.config.bootstrap import settings_of
    from server.config.machine import Machine, current_places

    machine = Machine(current_places())
    patient = Patient(machine, os.environ, settings_of(machine, {}), directories)
    report: dict[str, list[dict[str, Any]]] = {}
    bad = 0
    for examination in EXAMINATIONS:
        if not as_json:
            print_text(examination.title)
        report[examination.title] = []
        for symptom in examination.examine(patient):
            bad += symptom.health is Health.BAD
            found = {"health": symptom.health.value, "message": symptom.message, "advice": symptom.advice or None}
            report[examination.title].append(found)
            if not as_json:
                print_text(one_line(f"  {_MARKS[symptom.health]} {symptom.message}"))
                if symptom.advice:
                    print_text(one_line(f"       {symptom.advice}"))
    if as_json:
        print_json({"ok": not bad, "examinations": report})
    else:
        print_text("\nall is well" if not bad else f"\n{counted(bad, 'thing')} to mend")
    if bad:
        raise typer.Exit(EXIT_NO)
