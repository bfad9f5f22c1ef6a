"""The command `lint`: find skills of a catalog that compete, are the same, or are never used."""

from __future__ import annotations

from typing import Annotated

import typer

from server.cli.commands.options import AsJson, Directories, FollowSymlinks, TrustWorkspace
from server.cli.console import EXIT_NO, print_json

__all__ = ["lint"]


def lint(
    directories: Directories = None,
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if skills compete or are the same.")
    ] = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Find skills that compete, are the same, or are never used.

    `validate` checks each skill by itself; `lint` compares the skills that models are offered with one another.
    """
    from server.cli.evals.lint_report import lint_object, print_lint
    from server.config.bootstrap import open_catalog, settings_of
    from server.config.machine import Machine, current_places, state_home
    from server.evals.lint.catalog_lint import lint_catalog
    from server.hosting.usage import read_counts, usage_file

    machine = Machine(current_places())
    settings = settings_of(machine, {"follow_symlinks": follow_symlinks, "trust_workspace": trust_workspace})
    catalog = open_catalog(directories, settings, machine)
    # -1 stands for all in SQLite.
    used = read_counts(usage_file(state_home()), most=-1) if settings.catalog.usage else {}
    found = lint_catalog(catalog.offered, settings, used)
    if as_json:
        print_json(lint_object(found))
    else:
        print_lint(found)
    if strict and found.has_findings:
        raise SystemExit(EXIT_NO)
