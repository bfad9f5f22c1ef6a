"""`eval import`: write a set of evals in the form of another tool into a skill."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from server.capabilities.evals.tested_skills import load_version
from server.cli.console import EXIT_USAGE, fail, print_json, print_text
from skills_core.diagnostics import counted, one_line, printable
from skills_core.evals.importing.formats import import_from
from skills_core.evals.importing.writing import files_of, write_imported

if TYPE_CHECKING:
    from pathlib import Path

    from skills_core.evals.importing.found import Found
    from skills_core.evals.importing.writing import ImportedFiles

_MAX_LISTED = 20
# Input files that are listed one by one.


def import_into(source: Path, skill: Path, *, force: bool, dry_run: bool, as_json: bool) -> None:
    """Write what a file or folder of another tool has into the skill in a folder, and print what was carried over.

    Exits with 2 if nothing could be.
    """
    version = load_version(skill.resolve())
    found = import_from(source, version.name)
    lost = list(found.lost())
    if found.is_empty:
        fail("\n".join(["nothing can be carried over", *lost]), EXIT_USAGE)
    files = files_of(found)
    if not dry_run:
        write_imported(version.folder, files, replaces=force)
    if as_json:
        print_json(
            {
                "form": found.form,
                "skill": found.skill,
                "dry_run": dry_run,
                "cases": files.cases,
                "queries": files.queries,
                "files": list(files.contents),
                "not_carried_over": lost,
                "notes": found.remarks,
                **({"evals": _shown(files)} if dry_run else {}),
            }
        )
        return
    for line in _report(found, files, lost, skill, dry_run=dry_run):
        print_text(line)


def _shown(files: ImportedFiles) -> dict[str, str]:
    """Return the texts of the JSON files that would be written."""
    return {
        name: raw.decode() for name, raw in files.contents.items() if name.count("/") == 1 and name.endswith(".json")
    }


def _report(found: Found, files: ImportedFiles, lost: list[str], skill: Path, *, dry_run: bool) -> Iterator[str]:
    carried = f"{counted(files.cases, 'case')} and {counted(files.queries, 'trigger query', 'trigger queries')}"
    yield f"{found.form}: {carried} {'can be' if dry_run else 'are'} carried over to {printable(str(skill))}"
    if dry_run:
        for name, text in _shown(files).items():
            yield f"{name}:"
            yield from map(one_line, text.rstrip().split("\n"))
    inputs = [name for name in files.contents if name.count("/") > 1]
    written = [name for name in files.contents if name.count("/") == 1]
    yield from (f"{'would write' if dry_run else 'wrote'} {name}" for name in written)
    for name in inputs[:_MAX_LISTED]:
        yield f"{'would write' if dry_run else 'wrote'} {one_line(name)}"
    if len(inputs) > _MAX_LISTED:
        yield f"… and {len(inputs) - _MAX_LISTED} more input files"
    yield from (f"note: {each}" for each in found.remarks)
    if lost:
        yield "not carried over:"
        yield from (f"  {each}" for each in lost)
    if not dry_run and files.cases:
        yield f"next: skillserve eval {shlex.quote(str(skill))} --dry-run, which shows the commands that would be run"
