"""The commands `history propose`, `accept` and `reject`: improvements of skills after failed runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from server.cli.commands.options import AsJson, Directories
from server.cli.console import EXIT_NO, fail, print_json, print_notice, print_text

Id = Annotated[str, typer.Argument(metavar="ID", help="The id that `history propose` lists.")]

_HIDDEN = frozenset({"change"})
# The bytes of the changed files; the diff shows them.


def propose(
    number: Annotated[
        str | None, typer.Argument(metavar="ID", help="Show only this one.", show_default="all open proposals")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="List every improvement with its result, not only open proposals.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the changes that are proposed after failed runs.

    Those are all that do more than correct names of tools, targets of links and typing errors. Their diffs follow. With
    --all, list every improvement that was begun, and why it was made or dropped.
    """
    from server.capabilities.improve.records import improvement_records
    from skills_core.diagnostics import one_line
    from skills_core.improve.improvement import ImprovementStatus

    records = improvement_records()
    with _denials():
        found = [records.get(number)] if number is not None else records.all()
    shown = [each for each in found if everything or number or each["status"] == ImprovementStatus.PROPOSED]
    if as_json:
        print_json({"improvements": [_object(each) for each in shown]})
        return
    if not shown:
        what = "improvement was begun" if everything else "change is proposed"
        print_notice(f"no {what}; servers and runs with --improve do so after failed runs")
    for each in shown:
        print_text(_line(each))
        if each.get("diff") and (number or each["status"] == ImprovementStatus.PROPOSED):
            print_text("\n".join(map(one_line, each["diff"].splitlines())))


def accept(number: Id, directories: Directories = None, *, as_json: AsJson = False) -> None:
    """Make a proposed change.

    It is checked again against the skill as it is now. The exit code is 1 if the skill was edited since, or the change
    breaks a rule.
    """
    from server.capabilities.improve.installation import accept as install
    from server.capabilities.improve.records import improvement_records
    from server.config.bootstrap import open_with_settings

    library, settings = open_with_settings(directories)
    with _denials():
        record = install(improvement_records(), number, library.catalog, settings)
    _print(record, as_json=as_json)


def reject(number: Id, *, as_json: AsJson = False) -> None:
    """Close a proposed change without making it."""
    from server.capabilities.improve.installation import reject as close
    from server.capabilities.improve.records import improvement_records

    with _denials():
        record = close(improvement_records(), number)
    _print(record, as_json=as_json)


def forget(directories: Directories = None, *, as_json: AsJson = False) -> None:
    """Remove a secret that slipped in from all histories.

    The secret is read from standard input, so that it is in no list of processes or commands. It is removed from all
    versions, messages and names, and from proposed improvements; the ids of commits change. DIR chooses the sources.
    The exit code is 1 if a file that is there now still has it, or a history cannot be changed.
    """
    # In the place of the command of histories, which knows no improvements.
    from server.capabilities.history.commands import forget_secret
    from server.capabilities.improve.records import improvement_records

    forget_secret(directories, improvement_records().forget, as_json=as_json)


@contextmanager
def _denials() -> Iterator[None]:
    """Exit with 1 if a proposal is unknown or closed."""
    from server.capabilities.improve.installation import ClosedProposalError
    from server.capabilities.improve.records import UnknownImprovementError

    try:
        yield
    except (ClosedProposalError, UnknownImprovementError) as error:
        fail(str(error), EXIT_NO)


def _print(record: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"improvement": _object(record)})
    else:
        print_text(_line(record))


def _object(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in _HIDDEN}


def _line(record: dict[str, Any]) -> str:
    from skills_core.diagnostics import one_line

    why = f"  {record['reason']}: {record['message']}" if record.get("reason") else ""
    text = why or f"  {record.get('summary', '')}"
    return one_line(f"{record['id']}  {record['at']}  {record['status']:<9}  {record['skill']}{text}")
