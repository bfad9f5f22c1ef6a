"""The command `report`: the results of evals and trigger queries as a page, JUnit XML and Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.evals.report.gates import Gate

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

_Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the newest results as JUnit XML.")]

_Markdown = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a summary as Markdown.")]

_MinPassRate = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, metavar="RATE", help="Exit with code 1 if the pass rate is lower, or cannot be measured."
    ),
]

_MaxRegression = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="RATE",
        help="Exit with code 1 if the pass rate is lower than the baseline's by more than this, or cannot be compared.",
    ),
]


def report(
    workspace: _Workspace,
    *,
    open_page: _Open = False,
    output: _Output = None,
    junit: _Junit = None,
    markdown: _Markdown = None,
    min_pass_rate: _MinPassRate = None,
    max_regression: _MaxRegression = None,
) -> None:
    """Show the results of evals and trigger queries as a page.

    The page is one file that requests nothing from elsewhere. It refreshes itself while the evals run.
    """
    from server.evals.report.gates import ci_exit_code, ci_gates
    from server.evals.report.junit import junit as junit_xml
    from server.evals.report.markdown import markdown as markdown_text
    from server.evals.report.workspace import read_workspace
    from server.evals.report.writing import write_report, write_text

    results = read_workspace(workspace)
    limits = {"min_pass_rate": min_pass_rate, "max_regression": max_regression}
    gates = ci_gates(results, **limits)
    if junit is not None:
        write_text(junit, junit_xml(results))
    if markdown is not None:
        write_text(markdown, markdown_text(results, gates))
    print_text(f"Report: {write_report(workspace, output, gates=gates)}")
    _print_gates(gates)
    if open_page:
        _serve(workspace)
    if ci_exit_code(results, **limits):
        raise typer.Exit(EXIT_NO)


def _print_gates(gates: Sequence[Gate]) -> None:
    from skills_core.diagnostics import one_line

    for gate in gates:
        print_text(one_line(f"{gate.outcome}: {gate.name}: {gate.words}"))


def _serve(workspace: Path) -> None:
    import webbrowser

    from server.evals.report.serving import ReportServer

    try:
        server = ReportServer(workspace)
    except OSError as error:
        fail(f"cannot listen on 127.0.0.1: {error.strerror or error}", EXIT_USAGE)
    print_text(f"Serving {server.url} until you press Ctrl+C; do not share this address.")
    server.serve(lambda: webbrowser.open(server.url))
