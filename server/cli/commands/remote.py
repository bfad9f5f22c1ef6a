"""The commands `verify` and `fetch`. What speaks to servers is imported only when one of them runs."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.console import NO, WRONG_USE, print_json, print_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from server.remote.operations import RemoteOutcome, Result

__all__ = ["fetch", "verify"]

Url = Annotated[str, typer.Argument(metavar="URL", help="Where the server is, such as https://example.com/mcp.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", help="Skills, by name or URI; all if none is given.")
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME: VALUE", help="A header for each request; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def verify(url: Url, names: Names = None, *, header: Headers = None, as_json: AsJson = False) -> None:
    """Check that another server's skills are what it says they are."""
    import anyio

    from server.remote.address import Address
    from server.remote.operations import verify_server

    address = Address.parse(url, header or ())
    _quiet()
    _finish(anyio.run(verify_server, address, names or (), _teller(as_json=as_json)), as_json=as_json)


def fetch(
    url: Url,
    names: Names = None,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the skills' folders go.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace folders that are edited, or from elsewhere.")] = False,
    header: Headers = None,
    as_json: AsJson = False,
) -> None:
    """Verify another server's skills and write them to folders."""
    import anyio

    from server.remote.address import Address
    from server.remote.operations import fetch_from

    address = Address.parse(url, header or ())
    _quiet()
    run = partial(fetch_from, address, names or (), to, _teller(as_json=as_json), force=force)
    _finish(anyio.run(run), as_json=as_json)


def _quiet() -> None:
    """Keep the libraries' own logs, with their tracebacks, off the terminal: what matters becomes a diagnostic."""
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _teller(*, as_json: bool) -> Callable[[Result], None]:
    from server.cli.remote_report import result_lines

    def tell(result: Result) -> None:
        if not as_json:
            print_text("\n".join(result_lines(result)))

    return tell


def _finish(outcome: RemoteOutcome, *, as_json: bool) -> None:
    from server.cli.remote_report import outcome_object, summary

    if as_json:
        print_json(outcome_object(outcome))
    else:
        for diagnostic in outcome.diagnostics:
            typer.echo(f"skillserve: {diagnostic}", err=True)
        if outcome.results:
            print_text(summary(outcome))
    if outcome.misused:
        raise typer.Exit(WRONG_USE)
    if not outcome.done:
        raise typer.Exit(NO)
