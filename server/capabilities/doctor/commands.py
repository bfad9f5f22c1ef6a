"""The command `doctor`: find out why something does not work."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, discard_stream, fail, print_json, print_text, wrapped
from server.config.values import home_path
from skills_core.diagnostics import counted
from skills_core.errors import system_message

if TYPE_CHECKING:
    from server.capabilities.doctor.symptoms import Part, Symptom

_HOST = re.compile(r"[\w.-]+:\d{1,5}(/.*)?")
_MARKS = {"good": "ok  ", "note": "note", "bad": "FAIL"}
_INDENT = " " * 7


def doctor(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIR|URL]...",
            help="Folders of skills; or the address of a running server, which is asked as a client would ask it.",
            show_default="this machine, with the configured and standard folders",
        ),
    ] = None,
    *,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME: VALUE'", help="A header for the server at URL, such as its token; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find out why it does not work, and what to do about it.

    It looks at the installation, the settings, the skills, the address and the clients; or at a running server, at URL.
    Each line that is not in order says what to do, and in brackets under which name the troubleshooting page explains
    it. The server is started as each client starts it; nothing is changed. The exit code is 1 if something does not
    work.
    """
    try:
        is_well = _report(_examined(places or (), header or ()), as_json=as_json)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        # What the examinations meet, they tell: this is the output itself, as on a full disk.
        discard_stream(sys.stdout)
        fail(f"the result cannot be written: {system_message(error)}", EXIT_NO)
    if not is_well:
        raise typer.Exit(EXIT_NO)


def _report(examined: Iterator[tuple[Part, Iterator[Symptom]]], *, as_json: bool) -> bool:
    """Print what was found, and return whether all is well."""
    from server.capabilities.doctor.examination import described
    from server.capabilities.doctor.symptoms import PAGE, Health

    report: dict[str, list[dict[str, Any]]] = {}
    bad = 0
    for part, symptoms in examined:
        if not as_json:
            print_text(part.value)
        report[part.value] = []
        for symptom in symptoms:
            bad += symptom.health is Health.BAD
            report[part.value].append(described(symptom))
            if not as_json:
                _print(symptom)
    if as_json:
        print_json({"ok": not bad, "page": PAGE, "examinations": report})
    else:
        advice = f"{counted(bad, 'thing')} to mend; {PAGE} in the documentation explains them"
        print_text(f"\n{advice if bad else 'all is well'}")
    sys.stdout.flush()
    return not bad


def _examined(places: Sequence[str], headers: Sequence[str]) -> Iterator[tuple[Part, Iterator[Symptom]]]:
    from server.capabilities.doctor.examination import examine
    from server.capabilities.doctor.patient import guarded, patient_here
    from server.capabilities.doctor.symptoms import Health, Part
    from server.config.machine import Machine, current_places

    urls = [each for each in places if "://" in each]
    if not urls:
        if headers:
            fail("--header is for a server; name its URL, as in `skillserve doctor http://HOST:8000/mcp`", EXIT_USAGE)
        folders = [home_path(each) for each in places]
        for folder in folders:
            if _HOST.fullmatch(str(folder)) and not folder.exists():
                fail(f"{folder}: there is no such folder; for a server, write http://{folder}", EXIT_USAGE)
        yield from examine(patient_here(Machine(current_places()), os.environ, folders or None))
        return
    if len(places) > 1:
        fail("expected the URL of one server, or folders", EXIT_USAGE)
    from server.capabilities.doctor.server_examination import examine_server
    from server.wire.address import Address

    yield Part.SERVER, guarded(examine_server(Address.parse(urls[0], headers)), "the server", Health.BAD)


def _print(symptom: Symptom) -> None:
    key = f" [{symptom.kind.key}]" if symptom.kind is not None else ""
    print_text(wrapped(f"  {_MARKS[symptom.health]} {symptom.message}{key}", _INDENT))
    if symptom.advice:
        print_text(wrapped(f"{_INDENT}{symptom.advice}", _INDENT))
