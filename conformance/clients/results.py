"""The measured results: kept in results.json, compared with the ones before, and printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.clients.checks import Column, Finding, Verdict
from conformance.clients.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.clients.dialects.messages import Json

__all__ = ["RESULTS", "fallen", "keep", "kept"]

RESULTS = Path(__file__).resolve().parent / "results.json"

RANKS = (Verdict.NO, Verdict.PARTLY, Verdict.YES)


def kept(path: Path = RESULTS) -> dict[str, Measurement]:
    """Return the results that were kept last, by their keys."""
    if not path.exists():
        return {}
    return {key: _measurement(key, raw) for key, raw in json.loads(path.read_text(encoding="utf-8")).items()}


def keep(measurements: Mapping[str, Measurement], path: Path = RESULTS) -> None:
    """Write results by their keys; those of clients that were not measured remain."""
    found = {key: _raw(each) for key, each in sorted({**kept(path), **measurements}.items())}
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def fallen(before: Measurement, after: Measurement) -> Iterator[str]:
    """Yield the columns whose verdict is worse than before."""
    for column, finding in after.findings.items():
        old = before.findings.get(column)
        if old and RANKS.index(finding.verdict) < RANKS.index(old.verdict):
            yield f"{column}: {old.verdict} before, {finding.verdict} now: {finding.reason or finding.measured}"


def _measurement(key: str, raw: Json) -> Measurement:
    return Measurement(
        key.partition(" ")[0],
        str(raw["version"]),
        str(raw["day"]),
        {
            Column(column): Finding(Verdict(found["verdict"]), found.get("measured", ""), found.get("reason", ""))
            for column, found in raw["findings"].items()
        },
        {int(size): tokens for size, tokens in raw.get("tokens", {}).items()},
        raw.get("before", ""),
    )


def _raw(measurement: Measurement) -> Json:
    findings = {
        column: {
            key: value
            for key, value in (
                ("verdict", found.verdict.value),
                ("measured", found.measured),
                ("reason", found.reason),
            )
            if value
        }
        for column, found in measurement.findings.items()
    }
    raw: Json = {"version": measurement.version, "day": measurement.day}
    if measurement.before:
        raw["before"] = measurement.before
    return {**raw, "findings": findings, "tokens": {str(size): count for size, count in measurement.tokens.items()}}
