"""The command `report`: the results of evals and trigger queries as a page, JUnit XML and Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.commands.report_options import Junit, Markdown, MaxRegression, MinPassRate
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_text

__all__ = ["report"]


_Workspace = Annotated[
    Path,
    typer.Argument(
        metavar="WORKSPACE", help="The folder of results, such as my-skill-workspace, or one of its iterations."
    ),
]

_Open = Annotated[
    bool,
    typer.Option("--open", help="Serve the page on this machine, open it in the browser, and save feedback there."),
]

_Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the page to this file.", show_default="report.html in WORKSPACE"),
]


def report(
    workspace: _Workspace,
    *,
    open_page: _Open = False,
    output: _Output = None,
    junit: Junit = None,
    markdown: Markdown = None,
    min_pass_rate: MinPassRate = None,
    max_regression: MaxRegression = None,
) -> None:
    """Show the results of evals and trigger queries as a page.

    The page is one file that requests nothing from elsewhere. It refreshes itself while the evals run.
    """
    from server.cli.evals.report_files import ReportFiles, gates_pass, print_gates
    from server.evals.report.gates import ci_gates
    from server.evals.report.workspace import read_workspace
    from server.evals.report.writing import write_report

    results = read_workspace(workspace)
    gates = ci_gates(results, min_pass_rate=min_pass_rate, max_regression=max_regression)
    ReportFiles(junit, markdown).write(results, gates)
    print_text(f"Report: {write_report(workspace, output, gates=gates)}")
    print_gates(gates)
    if open_page:
        _serve(workspace)
    if not gates_pass(gates):
        raise typer.Exit(EXIT_NO)


def _serve(workspace: Path) -> None:
    import webbrowser

    from server.evals.report.serving import ReportServer

    try:
        server = ReportServer(workspace)
    except OSError as error:
        fail(f"cannot listen on 127.0.0.1: {error.strerror or error}", EXIT_USAGE)
    print_text(f"Serving {server.url} until you press Ctrl+C; do not share this address.")
    server.serve(lambda: webbrowser.open(server.url))
