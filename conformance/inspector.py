"""Verify skills with the inspector: it lists them, reads every file, and checks digests and frontmatter."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import unquote

from conformance.outcome import Outcome
from conformance.processes import HERE, REPOSITORY, CheckError, Finished, Place, run, skillserve, tail
from conformance.suite import NODE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = ["INSPECTOR", "files_below", "inspect", "published"]

INSPECTOR = HERE / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
VERIFY = ("--protocol-era", "modern", "--method", "skills/list", "--verify", "--require-digests", "--format", "json")
BOUNDS = ("--skill-catalog-max-skills", "10000", "--skill-catalog-max-bytes", str(1 << 30))

NONCONFORMANT = 7
"""The inspector's exit code when it rejects a skill."""

LEGAL = {"duplicate-name"}
"""Issues that SEP-2640 allows: names are labels, and URIs identify skills."""


class _Issue(TypedDict):
    code: str
    message: str


class _File(TypedDict, total=False):
    uri: str
    status: str
    reason: str


class _Report(TypedDict):
    """The inspector's report on a skill; it prints one as a line of JSON for each."""

    uri: str
    conformance: list[_Issue]
    frontmatter: list[_Issue]
    files: list[_File]
    outcome: str


async def inspect(folders: Sequence[Path], url: str | None, place: Place, must: Collection[str] = ()) -> Outcome:
    """Verify the skills of `folders`, at `url` or over stdio; `must` names URIs that must be listed.

    Raises:
        CheckError: A program's output cannot be parsed.
    """
    served = await published(folders, place)
    # The inspector passes only the variables of -e to a server; `--` separates its flags from the server's command.
    stdio = ["-e", f"PYTHONPATH={REPOSITORY}", "--", *skillserve("serve", folders, "--log-level", "error")]
    target = [url] if url else stdio
    finished = await run([str(NODE), str(INSPECTOR), "--cli", *VERIFY, *BOUNDS, *target], place)
    reports = {report["uri"]: report for report in _reports(finished)}
    faults = {uri: list(_faults(uri, reports.get(uri), served.get(uri))) for uri in {*served, *reports, *must}}
    found = [fault for uri in sorted(faults) for fault in faults[uri]]
    refused = any(report["outcome"] == "failed" for report in reports.values())
    if finished.code != (NONCONFORMANT if refused else 0) or not reports:
        found.append(f"the inspector ended with {finished.code}: {tail(finished.err)}")
    return Outcome(sum(not each for each in faults.values()), len(faults), tuple(found))


def _reports(finished: Finished) -> list[_Report]:
    try:
        return [json.loads(line) for line in finished.out.split("\n") if line.strip()]
    except ValueError as error:
        raise CheckError(f"the inspector ended with {finished.code}, without JSON: {tail(finished.err)}") from error


def _faults(uri: str, report: _Report | None, folder: Path | None) -> Iterator[str]:
    """Yield the faults of a skill that is listed, is served from a folder, or must be both."""
    if report is None or folder is None:
        yield f"{uri}: is {'not listed' if report is None else 'listed and not served'}"
        return
    for issue in (*report["conformance"], *report["frontmatter"]):
        if issue["code"] not in LEGAL:
            yield f"{uri}: {issue['code']}: {issue['message']}"
    for file in report["files"]:
        if file["status"] != "verified":
            yield f"{file['uri']}: {file['status']}: {file.get('reason', 'no reason')}"
    if report["outcome"] != "verified":
        yield f"{uri}: {report['outcome']}"
    base = uri.removesuffix("SKILL.md")
    listed = {unquote(file["uri"].removeprefix(base), errors="surrogateescape") for file in report["files"]}
    for path in sorted(listed ^ files_below(folder)):
        yield f"{uri}: {path!r} is {'listed' if path in listed else 'on disk'} only"


async def published(folders: Sequence[Path], place: Place) -> dict[str, Path]:
    """Return the URIs and folders of the skills that the extension lists, according to `skillserve status`.

    Raises:
        CheckError: It printed no JSON.
    """
    finished = await run(skillserve("status", folders, "--json"), place)
    try:
        skills = json.loads(finished.out)["skills"]
    except ValueError as error:
        raise CheckError(f"skillserve status ended with {finished.code}: {tail(finished.err)}") from error
    return {
        skill["uri"]: Path(skill["path"])
        for skill in skills
        if skill["state"] == "active" and all(note["code"] != "not_published" for note in skill["diagnostics"])
    }


def files_below(folder: Path) -> set[str]:
    """Return the paths of a skill's files by docs/reference/skill-folders.md: not hidden, no bytecode."""
    return {
        path.relative_to(folder).as_posix()
        for path in (Path(above) / name for above, _, names in os.walk(folder) for name in names)
        if not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(folder).parts)
    }
