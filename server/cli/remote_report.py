"""What `verify` and `fetch` print. Any text may come from another server, so all of it goes through `one_line`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.hosting.status import diagnostic_object
from server.remote.fetch import REFUSED, Fetched
from skills_core.diagnostics import one_line
from skills_core.remote.entries import shown

if TYPE_CHECKING:
    from server.remote.operations import RemoteOutcome, Result
    from server.remote.verification import RemoteSkill
    from skills_core.diagnostics import Diagnostic

__all__ = ["outcome_object", "result_lines", "summary"]


def result_lines(result: Result) -> list[str]:
    """Return what to tell people of one skill: one line, and one for each diagnostic."""
    skill, diagnostics = _parts(result)
    count, size = _extent(skill)
    name = shown(skill.name or skill.uri or "a skill without a name")
    if isinstance(result, Fetched):
        line = f"{result.state} {name}"
        good = result.state != REFUSED
        place = f" to {one_line(result.folder)}" if result.folder else ""
    else:
        line, good, place = f"{'ok' if skill.sound else 'failed'} {name}", skill.sound, ""
    extent = f" ({count} file{'' if count == 1 else 's'}, {size} bytes)" if good else ""
    return [f"{line}{place}{extent}", *(f"  {diagnostic}" for diagnostic in diagnostics)]


def summary(outcome: RemoteOutcome) -> str:
    """Return the last line for people."""
    count = len(outcome.results)
    skills = f"{count} skill{'' if count == 1 else 's'} of {outcome.server}"
    fetched = [result for result in outcome.results if isinstance(result, Fetched)]
    verified = sum(_parts(result)[0].sound for result in outcome.results)
    if fetched:
        refused = sum(result.state == REFUSED for result in fetched)
        return f"{skills}: {verified} verified, {count - refused} fetched, {refused} refused"
    return f"{skills}: {verified} verified, {count - verified} failed"


def outcome_object(outcome: RemoteOutcome) -> dict[str, Any]:
    """Return what `--json` prints."""
    described: dict[str, Any] = {
        "server": outcome.server,
        "protocol": outcome.protocol,
        "skills": [_result_object(result) for result in outcome.results],
        "diagnostics": [diagnostic_object(diagnostic) for diagnostic in outcome.diagnostics],
    }
    safe: dict[str, Any] = _safe(described)
    return safe


def _result_object(result: Result) -> dict[str, Any]:
    skill, diagnostics = _parts(result)
    count, size = _extent(skill)
    described = {
        # What breaks a rule may be of any length.
        "uri": skill.uri if skill.entry else shown(skill.uri),
        "name": skill.name if skill.entry else shown(skill.name),
        "verified": skill.sound,
        "files": count,
        "bytes": size,
        "diagnostics": [diagnostic_object(diagnostic) for diagnostic in diagnostics],
    }
    if isinstance(result, Fetched):
        described |= {"state": str(result.state), "folder": result.folder}
    return described


def _parts(result: Result) -> tuple[RemoteSkill, tuple[Diagnostic, ...]]:
    """Return the skill, and all there is to tell of it."""
    if isinstance(result, Fetched):
        return result.skill, (*result.skill.diagnostics, *result.faults)
    return result, result.diagnostics


def _extent(skill: RemoteSkill) -> tuple[int, int]:
    return (len(skill.entry.files), skill.entry.size) if skill.entry else (0, 0)


def _safe(value: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON leaves some of what terminals obey as it is."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {key: _safe(each) for key, each in value.items()}
    return [_safe(each) for each in value] if isinstance(value, list) else value
