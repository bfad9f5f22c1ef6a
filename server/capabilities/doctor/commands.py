"""The command `doctor`: find out why something does not work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_text
from skills_core.diagnostics import counted

if TYPE_CHECKING:
    from server.capabilities.doctor.symptoms import Part, Symptom

_MARKS = {"good": "ok  ", "note": "note", "bad": "FAIL"}


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
    """Find out why it does not work: installation, settings, skills, address and clients; or a running server.

    Each line that is not in order says what to do, and in brackets under which name the troubleshooting page explains
    it. The server is started as each client starts it; nothing is changed. The exit code is 1 if something does not
    work.
    """
    from server.capabilities.doctor.examination import described
    from server.capabilities.doctor.symptoms import PAGE, Health

    report: dict[str, list[dict[str, Any]]] = {}
    bad = 0
    for part, symptoms in _examined(places or (), header or ()):
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
        print_text("\nall is well" if not bad else f"\n{counted(bad, 'thing')} to mend; {PAGE} explains them")
    if bad:
        raise typer.Exit(EXIT_NO)


def _examined(places: Sequence[str], headers: Sequence[str]) -> Iterator[tuple[Part, Iterator[Symptom]]]:
    from server.capabilities.doctor.examination import examine
    from server.capabilities.doctor.patient import guarded, patient_here
    from server.capabilities.doctor.symptoms import Part
    from server.config.machine import Machine, current_places

    urls = [each for each in places if "://" in each]
    if not urls:
        if headers:
            fail("--header is for a server; name its URL, as in `skillserve doctor http://HOST:8000/mcp`", EXIT_USAGE)
        folders = [Path(each).expanduser() for each in places]
        yield from examine(patient_here(Machine(current_places()), os.environ, folders or None))
        return
    if len(places) > 1:
        fail("expected the URL of one server, or folders", EXIT_USAGE)
    from server.capabilities.doctor.server_examination import examine_server
    from server.wire.address import Address

    yield Part.SERVER, guarded(examine_server(Address.parse(urls[0], headers)), "the server")


def _print(symptom: Symptom) -> None:
    key = f" [{symptom.kind.key}]" if symptom.kind is not None else ""
    print_text(f"  {_MARKS[symptom.health]} {symptom.message}{key}")
    if symptom.advice:
        print_text(f"       {symptom.advice}")
