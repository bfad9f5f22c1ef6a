"""Format the results of `verify` and `fetch`; `one_line` escapes control characters in text from the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.hosting.status import diagnostic_object
from server.remote.fetch import REFUSED, Fetched
from skills_core.diagnostics import one_line
from skills_core.remote.entries import shown

if TYPE_CHECKING:
    from server.remote.operations import RemoteOutcome, SkillResult
    from server.remote.skills import RemoteSkill
    from skills_core.diagnostics import Diagnostic

__all__ = ["outcome_object", "result_lines", "sanitized", "summary"]


def result_lines(result: SkillResult) -> list[str]:
    """Return the lines for one skill: its result, then one line for each diagnostic."""
    skill, diagnostics = _skill_and_diagnostics(result)
    count, size = _count_and_size(skill)
    name = shown(skill.name or skill.uri or "a skill without a name")
    if isinstance(result, Fetched):
        line = f"{result.state} {name}"
        good = result.state != REFUSED
        place = f" to {one_line(result.folder)}" if result.folder else ""
    else:
        line, good, place = f"{'ok' if skill.valid else 'failed'} {name}", skill.valid, ""
    extent = f" ({count} file{'' if count == 1 else 's'}, {size} bytes)" if good else ""
    return [f"{line}{place}{extent}", *(f"  {diagnostic}" for diagnostic in diagnostics)]


def summary(outcome: RemoteOutcome) -> str:
    """Return the summary line."""
    count = len(outcome.results)
    skills = f"{count} skill{'' if count == 1 else 's'} of {outcome.server}"
    fetched = [result for result in outcome.results if isinstance(result, Fetched)]
    verified = sum(_skill_and_diagnostics(result)[0].valid for result in outcome.results)
    if fetched:
        refused = sum(result.state == REFUSED for result in fetched)
        return f"{skills}: {verified} verified, {count - refused} fetched, {refused} refused"
    return f"{skills}: {verified} verified, {count - verified} failed"


def outcome_object(outcome: RemoteOutcome) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    document: dict[str, Any] = {
        "server": outcome.server,
        "protocol": outcome.protocol,
        "skills": [_result_object(result) for result in outcome.results],
        "diagnostics": [diagnostic_object(diagnostic) for diagnostic in outcome.diagnostics],
    }
    printed: dict[str, Any] = sanitized(document)
    return printed


def _result_object(result: SkillResult) -> dict[str, Any]:
    skill, diagnostics = _skill_and_diagnostics(result)
    count, size = _count_and_size(skill)
    document = {
        # An invalid URI or name may be of any length.
        "uri": skill.uri if skill.entry else shown(skill.uri),
        "name": skill.name if skill.entry else shown(skill.name),
        "verified": skill.valid,
        "files": count,
        "bytes": size,
        "diagnostics": [diagnostic_object(diagnostic) for diagnostic in diagnostics],
    }
    if isinstance(result, Fetched):
        document |= {"state": str(result.state), "folder": result.folder}
    return document


def _skill_and_diagnostics(result: SkillResult) -> tuple[RemoteSkill, tuple[Diagnostic, ...]]:
    """Return the skill, and all diagnostics of its check and download."""
    if isinstance(result, Fetched):
        return result.skill, (*result.skill.diagnostics, *result.faults)
    return result, result.diagnostics


def _count_and_size(skill: RemoteSkill) -> tuple[int, int]:
    return (len(skill.entry.files), skill.entry.size) if skill.entry else (0, 0)


def sanitized(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Escape the control characters in all strings: JSON leaves some of them unescaped."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {key: sanitized(each) for key, each in value.items()}
    return [sanitized(each) for each in value] if isinstance(value, list) else value
