"""Third-party Python programs in a separate environment: FastMCP's client and the format's validator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypedDict

from conformance.inspector import files_below, published
from conformance.outcome import Outcome
from conformance.processes import HERE, REPOSITORY, CheckError, Place, run, tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["FASTMCP_REFUSES", "PYTHON", "SAMPLES", "download_with_fastmcp", "issues_of", "validate_format"]

PYTHON = HERE / ".venv/bin/python"
SAMPLES = REPOSITORY / "sample_skills"

FASTMCP_REFUSES: Mapping[str, str] = {
    # The format requires a string. Claude Code also accepts a list; the sample shows that lists are served verbatim.
    "skill://code-review/SKILL.md": "allowed-tools must be a string",
}
"""Samples that FastMCP's models reject, with the error. A single one makes its typed list fail."""

FASTMCP_ASKS_FOR = "/_manifest"
"""A file of FastMCP's own servers that its download helpers read; in SEP-2640 the entry has the manifest."""

BEYOND_THE_FORMAT: Mapping[str, str] = {
    "code-review": "Unexpected fields in frontmatter: evaluation.",
    "csv-insights": "Unexpected fields in frontmatter: references, tags, version.",
    "git-bisect-guide": "Unexpected fields in frontmatter: when.",
    "house-style": "Unexpected fields in frontmatter: triggers, user-invocable, version.",
    "incident-response": "Unexpected fields in frontmatter: tags.",
    "meeting-minutes": "Unexpected fields in frontmatter: disable-model-invocation, hint.",
    # Its parser, StrictYAML, rejects flow style: `tools: []`.
    "sql-guard": "Found ugly disallowed JSONesque flow mapping",
    "summarize-document": "Unexpected fields in frontmatter: argument-hint.",
    "windows-event-triage": "Unexpected fields in frontmatter: when.",
}
"""Features of the samples beyond the plain format (see sample_skills/README.md), with the validator's message."""


class _SkillReport(TypedDict, total=False):
    get_refused: str
    unverified: list[str]


class _ClientReport(TypedDict, total=False):
    """The output of fastmcp_client."""

    listed: list[str]
    list_refused: str
    skills: dict[str, _SkillReport]
    download_refused: str


async def download_with_fastmcp(folder: Path, url: str, place: Place) -> Outcome:
    """List, get and download the skills of `folder` with FastMCP's client; compare the bytes with those on disk.

    Raises:
        CheckError: A program's output cannot be parsed.
    """
    served = await published([folder], place)
    target = place.folder(f"downloads-{folder.name}")
    report: _ClientReport = await _json_of("fastmcp_client.py", url, str(target), place=place)
    refused = {uri: got["get_refused"] for uri, got in report["skills"].items() if "get_refused" in got}
    faults = [
        *_differences("resources/list", set(report["skills"]), set(served)),
        *(f"{uri}: unexpectedly rejected: {why}" for uri, why in refused.items() if not _is_known(uri, why)),
        *(
            f"{uri}: is listed in FASTMCP_REFUSES, but was accepted"
            for uri in FASTMCP_REFUSES
            if uri in served and uri not in refused
        ),
        *(
            f"{uri}: does not match its digest or size"
            for got in report["skills"].values()
            for uri in got["unverified"]
        ),
        *_list_faults(report, set(served)),
        *_helper_faults(report),
    ]
    good = total = 0
    for uri, source in served.items():
        copy = target / source.relative_to(folder)
        expected = files_below(source)
        same = {path for path in expected if _same(source / path, copy / path)}
        faults += [f"{uri}: {path!r} was not downloaded as it is on disk" for path in sorted(expected - same)]
        faults += [f"{uri}: {path!r} was downloaded only" for path in sorted(files_below(copy) - expected)]
        good, total = good + len(same), total + len(expected)
    return Outcome(good, total, tuple(faults), len(refused))


def _is_known(uri: str, why: str) -> bool:
    return uri in FASTMCP_REFUSES and FASTMCP_REFUSES[uri] in why


def _list_faults(report: _ClientReport, served: set[str]) -> Iterator[str]:
    known = [why for uri, why in FASTMCP_REFUSES.items() if uri in served]
    if "listed" in report:
        yield from _differences("skills/list", set(report["listed"]), served)
        if known:
            yield "skills/list: accepted, in spite of FASTMCP_REFUSES"
    elif not any(why in report["list_refused"] for why in known):
        yield f"skills/list: unexpectedly rejected: {report['list_refused']}"


def _helper_faults(report: _ClientReport) -> Iterator[str]:
    refused = report.get("download_refused")
    if refused is None:
        yield "the download helper succeeded, but was expected to fail: compare its files too"
    elif not refused.endswith(FASTMCP_ASKS_FOR):
        yield f"the download helper failed: {refused}"


def _differences(what: str, found: set[str], expected: set[str]) -> Iterator[str]:
    for uri in sorted(found ^ expected):
        yield f"{what}: {uri} is {'missing' if uri in expected else 'unexpected'}"


def _same(original: Path, copy: Path) -> bool:
    return copy.is_file() and copy.read_bytes() == original.read_bytes()


async def validate_format(place: Place) -> Outcome:
    """Run the reference validator on each sample.

    Raises:
        CheckError: It printed no JSON.
    """
    folders = sorted(path.parent for path in SAMPLES.rglob("SKILL.md"))
    found = await issues_of(folders, place)
    faults: list[str] = []
    valid = 0
    for folder in folders:
        issues = found[str(folder)]
        known = BEYOND_THE_FORMAT.get(folder.name)
        valid += not issues
        faults += [f"{folder.name}: {issue}" for issue in issues if known is None or known not in issue]
        if known is not None and not any(known in issue for issue in issues):
            faults.append(f"{folder.name}: is listed in BEYOND_THE_FORMAT, but the validator does not report it")
    exempt = len(BEYOND_THE_FORMAT)
    return Outcome(valid, len(folders) - exempt, tuple(faults), exempt)


async def issues_of(folders: Iterable[Path], place: Place) -> dict[str, list[str]]:
    """Return the faults that the reference validator finds in each folder.

    Raises:
        CheckError: It printed no JSON.
    """
    found: dict[str, list[str]] = await _json_of("format_validator.py", *map(str, folders), place=place)
    return found


async def _json_of(script: str, *words: str, place: Place) -> Any:  # noqa: ANN401 - any JSON
    finished = await run([str(PYTHON), str(HERE / script), *words], place)
    try:
        return json.loads(finished.out)
    except ValueError as error:
        raise CheckError(f"{script} ended with {finished.code}: {tail(finished.err)}") from error
