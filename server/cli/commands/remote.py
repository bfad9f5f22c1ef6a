"""The commands `verify` and `fetch`, for the skills of another server."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.console import EXIT_NO, EXIT_USAGE, print_json, print_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from server.remote.operations import RemoteOutcome, SkillResult

__all__ = ["Headers", "Url", "fetch", "silence_libraries", "verify"]

Url = Annotated[str, typer.Argument(metavar="URL", help="The URL of the MCP server, such as https://example.com/mcp.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", help="Names or URIs of skills.", show_default="all skills")
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME: VALUE", help="Send this HTTP header with each request; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def verify(url: Url, names: Names = None, *, header: Headers = None, as_json: AsJson = False) -> None:
    """Verify the skills of another MCP server.

    Compares each file with the size and digest that the server publishes, and checks the rules of the format.
    """
    import anyio

    from server.remote.address import Address
    from server.remote.operations import verify_server

    address = Address.parse(url, header or ())
    silence_libraries()
    _print_and_exit(anyio.run(verify_server, address, names or (), _result_printer(as_json=as_json)), as_json=as_json)


def fetch(
    url: Url,
    names: Names = None,
    *,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Create the skills' folders in this folder.")
    ] = Path(),
    force: Annotated[
        bool, typer.Option("--force", help="Replace folders that were edited, or that come from another server.")
    ] = False,
    header: Headers = None,
    as_json: AsJson = False,
) -> None:
    """Verify the skills of another MCP server and download them."""
    import anyio

    from server.remote.address import Address
    from server.remote.operations import fetch_from

    address = Address.parse(url, header or ())
    silence_libraries()
    run = partial(fetch_from, address, names or (), to, _result_printer(as_json=as_json), force=force)
    _print_and_exit(anyio.run(run), as_json=as_json)


def silence_libraries() -> None:
    """Keep the logs of libraries off the terminal: diagnostics report the failures."""
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _result_printer(*, as_json: bool) -> Callable[[SkillResult], None]:
    from server.cli.remote_report import result_lines

    def print_result(result: SkillResult) -> None:
        if not as_json:
            print_text("\n".join(result_lines(result)))

    return print_result


def _print_and_exit(outcome: RemoteOutcome, *, as_json: bool) -> None:
    from server.cli.remote_report import outcome_object, summary

    if as_json:
        print_json(outcome_object(outcome))
    else:
        for diagnostic in outcome.diagnostics:
            typer.echo(f"skillserve: {diagnostic}", err=True)
        if outcome.results:
            print_text(summary(outcome))
    if outcome.ambiguous:
        raise typer.Exit(EXIT_USAGE)
    if not outcome.succeeded:
        raise typer.Exit(EXIT_NO)
