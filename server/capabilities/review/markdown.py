"""A review as Markdown for a comment on GitHub or the summary of a job.

GitHub refuses a comment of more than 65,536 characters. What the report leaves out it counts, and JSON has it. Texts of
skills are the words of whoever opened the pull request: they stay words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from server.capabilities.evals.report.scores import points, points_interval
from server.capabilities.review.changes import ChangeState
from server.capabilities.review.gates import place_of
from server.html.github import inline_markdown
from server.html.words import UNKNOWN, amount, dollars
from skills_core.audit.findings import Severity
from skills_core.diagnostics import Severity as Level
from skills_core.diagnostics import counted

if TYPE_CHECKING:
    from server.capabilities.review.effects import Effect
    from server.capabilities.review.gates import GateFailure
    from server.capabilities.review.report import ReviewedSkill, SkillReview
    from server.capabilities.review.triggers import QueryChange, TriggerEffect
    from skills_core.evals.triggers.results import Rate

MARKER: Final = "<!-- skillserve-review -->"
"""The first line of a report, by which a later one finds the comment that it replaces."""

MAX_BYTES: Final = 60_000
"""The size of a report in UTF-8, with room for what a workflow adds."""

_RESERVED: Final = 1_000
# Bytes for the end of a report.

_MAX_SKILLS: Final = 50
_MAX_ROWS: Final = 10
# Of each table in the part about a skill.

_MARKS: Final = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.NOTE: "💡"}
_COMMIT: Final = 12
_SHORT: Final = 60


def review_markdown(review: SkillReview, failed: Sequence[GateFailure]) -> str:
    """Return the report, which has at most `MAX_BYTES` bytes."""
    # What fails stays in sight where not everything does.
    names = {each.skill for each in failed}
    skills = sorted(review.skills, key=lambda each: each.change.name not in names)
    parts = [*_head(skills, failed)]
    left = MAX_BYTES - _RESERVED - _size(parts)
    omitted = 0
    for part in (*map(_skill_part, skills), _others_part(review.others)):
        lines = [*part]
        if lines and _size(lines) <= left:
            left -= _size(lines)
            parts += lines
        elif lines:
            omitted += 1
    if omitted:
        parts += [f"… and {counted(omitted, 'more part')}, which the JSON report has.", ""]
    parts += _foot(review)
    return "\n".join(parts).rstrip() + "\n"


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _head(skills: Sequence[ReviewedSkill], failed: Sequence[GateFailure]) -> Iterator[str]:
    yield from (MARKER, "## Skills in this change", "")
    counts = {state: sum(each.change.state is state for each in skills) for state in ChangeState}
    said = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    if skills:
        yield f"{'❌' if failed else '✅'} {counted(len(skills), 'skill')}: {said}."
    else:
        yield f"{'❌ ' if failed else ''}No skill differs."
    yield ""
    if failed:
        rows = [f"- **{inline_markdown(each.skill, _SHORT)}**: {inline_markdown(each.words)}" for each in failed]
        yield from (*_limited(rows, "reason"), "")
    if not skills:
        return
    yield "| Skill | Change | Version | Tokens: description, body | Audit | Valid | Triggers by rank |"
    yield "|---|---|---|---|---|---|---|"
    yield from _limited([_row(each) for each in skills], "skill", most=_MAX_SKILLS)
    yield ""


def _limited(rows: Sequence[str], noun: str, *, most: int = _MAX_ROWS) -> Iterator[str]:
    """Yield the first rows, and how many there are more as a row, so that a table or a list goes on."""
    yield from rows[:most]
    if (more := len(rows) - most) > 0:
        said = f"… and {counted(more, f'more {noun}')}"
        yield f"| {said} |" if rows[0].startswith("|") else f"- {said}"


def _row(skill: ReviewedSkill) -> str:
    change = skill.change
    cells = [
        f"`{_code(change.place or '.')}`" if change.name == change.place.rpartition("/")[2] else _named(skill),
        _state(skill),
        _arrow(*skill.versions, lambda text: inline_markdown(text, _SHORT)),
        _sizes(skill),
        _audit_cell(skill),
        _valid_cell(skill),
        _effect_cell(skill.triggers),
    ]
    return f"| {' | '.join(cells)} |"


def _code(path: str) -> str:
    """Return a path for a code span in a table, where a backslash is itself and a bar ends the cell."""
    kept = "".join(each if each.isprintable() and each not in "`|" else "?" for each in path).replace("##[", "#?[")
    return kept if len(kept) <= _SHORT else f"…{kept[-_SHORT + 1 :]}"


def _named(skill: ReviewedSkill) -> str:
    return f"{inline_markdown(skill.change.name, _SHORT)} in `{_code(skill.change.place or '.')}`"


def _state(skill: ReviewedSkill) -> str:
    change = skill.change
    if change.old_place is not None:
        return f"{change.state} from `{_code(change.old_place)}`"
    if change.old_name is not None:
        return f"{change.state}, was {inline_markdown(change.old_name, _SHORT)}"
    return (
        f"{change.state} (evals only)"
        if change.only_evals and change.state is ChangeState.CHANGED
        else str(change.state)
    )


def _arrow(before: str | None, after: str | None, show: Callable[[str], str] = str) -> str:
    """Return both values if they differ."""
    shown = [UNKNOWN if each is None else show(each) for each in (before, after)]
    if before is None or before == after:
        return shown[1]
    return shown[0] if after is None else f"{shown[0]} → {shown[1]}"


def _sizes(skill: ReviewedSkill) -> str:
    before, after = skill.tokens
    return ", ".join(_arrow(_number(before, index), _number(after, index)) for index in range(2))


def _number(tokens: tuple[int, int] | None, index: int) -> str | None:
    return None if tokens is None else f"{tokens[index]:,}"


def _audit_cell(skill: ReviewedSkill) -> str:
    if skill.change.after is None:
        return UNKNOWN
    counts = [(severity, len(skill.findings.new_of(severity))) for severity in reversed(Severity)]
    said = [f"{_MARKS[severity]} {counted(number, f'new {severity}')}" for severity, number in counts if number]
    said += [f"{len(skill.findings.suppressed)} suppressed"] if skill.findings.suppressed else []
    gone = sum(each.severity is not Severity.NOTE for each in skill.findings.gone)
    said += [f"{gone} gone"] if gone else []
    return ", ".join(said) or "nothing new"


def _valid_cell(skill: ReviewedSkill) -> str:
    before, after = skill.diagnostics.valid
    if after is None:
        return UNKNOWN
    warnings = len(skill.diagnostics.new_of(Level.WARNING))
    more = f", {counted(warnings, 'new warning')}" if warnings else ""
    if not after:
        return f"❌ no{', as before' if before is False else ''}{more}"
    return f"yes{', was not' if before is False else ''}{more}"


def _effect_cell(found: TriggerEffect) -> str:
    if not found.queries:
        return inline_markdown(found.note, _SHORT)
    if found.effect is None:
        return f"recall {_rate(found.recall(before=False))}"
    return f"{points(found.effect.mean)}, {found.effect.verdict}"


def _skill_part(skill: ReviewedSkill) -> Iterator[str]:
    """Yield what there is to say of a skill beside its row."""
    parts = [*_findings(skill), *_diagnostics(skill)]
    if skill.triggers.queries:
        parts += _triggers("Triggers by rank, without a model", skill.triggers)
    if skill.agent is not None:
        parts += _agent(skill)
    if parts:
        yield from (f"### {inline_markdown(skill.change.name, _SHORT)}", "", *parts)


def _findings(skill: ReviewedSkill) -> Iterator[str]:
    shown = [*skill.findings.new_of(Severity.ERROR), *skill.findings.new_of(Severity.WARNING)]
    if rows := [
        f"| {_MARKS[each.severity]} {each.rule} | {inline_markdown(place_of(each), _SHORT)} | "
        f"{inline_markdown(each.message)} | {inline_markdown(each.fix)} |"
        for each in shown
    ]:
        yield from ("| New finding | Where | What | Fix |", "|---|---|---|---|", *_limited(rows, "finding"), "")
    if rows := [
        f"- {_MARKS[each.severity]} suppressed in this version: {each.rule} in "
        f"{inline_markdown(place_of(each), _SHORT)}, with the reason “{inline_markdown(each.justification or '')}”"
        for each in skill.findings.suppressed
    ]:
        yield from (*_limited(rows, "suppression"), "")


def _diagnostics(skill: ReviewedSkill) -> Iterator[str]:
    rows = [
        f"- {'❌' if each.severity is Level.ERROR else '⚠️'} {each.code}: {inline_markdown(each.message)}"
        for each in sorted(skill.diagnostics.new, key=lambda each: each.severity is not Level.ERROR)
    ]
    if rows:
        yield from (*_limited(rows, "message of validation"), "")


def _triggers(title: str, found: TriggerEffect) -> Iterator[str]:
    yield f"**{title}:** {_effect(found.effect) if found.effect is not None else inline_markdown(found.note)}"
    yield ""
    yield f"- recall: {_rates(found.recall(before=True), found.recall(before=False))}"
    yield f"- false alarms: {_rates(found.false_alarms(before=True), found.false_alarms(before=False))}"
    yield ""
    if rows := [_query_row(each) for each in found.differing]:
        yield from ("| Query | Should trigger | Before | Now |", "|---|---|---|---|", *_limited(rows, "query"), "")


def _query_row(each: QueryChange) -> str:
    should = "yes" if each.query.should_trigger else "no"
    mark = "✅" if (each.after or 0) > (each.before or 0) else "❌"
    return f"| {inline_markdown(each.query.text)} | {should} | {each.shown_before} | {mark} {each.shown_after} |"


def _effect(effect: Effect) -> str:
    interval = f" {points_interval(effect.interval)}" if effect.interval is not None else ""
    return f"{points(effect.mean)}{interval}, **{effect.verdict}**: {inline_markdown(effect.reason)}"


def _rate(rate: Rate | None) -> str:
    return UNKNOWN if rate is None or not rate.total else f"{rate.count} of {rate.total}"


def _rates(before: Rate | None, after: Rate | None) -> str:
    return _arrow(None if before is None else _rate(before), _rate(after))


def _agent(skill: ReviewedSkill) -> Iterator[str]:
    agent = skill.agent
    assert agent is not None  # noqa: S101 - the caller has looked
    task = agent.task
    if task.effect is not None:
        yield f"**Tasks with the agent, compared with {task.baseline}:** {_task_effect(task.effect)}"
        yield ""
        for arm, found in (task.effect.get("arms") or {}).items():
            seconds, tokens = (_mean(task.summary, arm, metric) for metric in ("time_seconds", "tokens"))
            scored = UNKNOWN if found.get("mean") is None else f"{found['mean']:.2f}"
            runs = f"{counted(found['runs'], 'run')}, {counted(found['errors'], 'error')}"
            words = inline_markdown(str(arm).replace("_", " "))
            yield f"- {words}: score {scored}, {runs}, {amount(seconds)} seconds, {amount(tokens)} tokens"
    else:
        note = task.note or "`eval` reported no effect"
        yield f"**Tasks with the agent:** not measured: {inline_markdown(note)}"
    yield ""
    if agent.triggers.queries:
        yield from _triggers("Triggers with the agent", agent.triggers)
    else:
        yield from (f"**Triggers with the agent:** not measured: {inline_markdown(agent.triggers.note)}", "")
    costs = [cost for cost in (task.cost_usd, agent.trigger_cost) if cost is not None]
    yield from (f"Cost: {dollars(sum(costs)) if costs else 'not known'}", "")


def _task_effect(effect: object) -> str:
    if not isinstance(effect, dict) or effect.get("mean") is None:
        return "no effect was measured"
    return f"**{effect['verdict']}**: {inline_markdown(str(effect['reason']))}"


def _mean(summary: object, arm: object, metric: str) -> float | None:
    found = summary.get(arm, {}).get(metric, {}) if isinstance(summary, dict) else {}
    return found.get("mean")


def _others_part(others: Sequence[TriggerEffect]) -> Iterator[str]:
    if not others:
        return
    yield from (
        "### Effect on other skills",
        "",
        "Their own files do not differ, but their queries rank otherwise now.",
        "",
    )
    yield "| Skill | Recall | False alarms | Difference |"
    yield "|---|---|---|---|"
    rows = [
        f"| {inline_markdown(each.name, _SHORT)} | {_rates(each.recall(before=True), each.recall(before=False))} | "
        f"{_rates(each.false_alarms(before=True), each.false_alarms(before=False))} | "
        f"{_effect(each.effect) if each.effect else UNKNOWN} |"
        for each in others
    ]
    yield from (*_limited(rows, "skill"), "")


def _foot(review: SkillReview) -> Iterator[str]:
    base = f"`{review.base[:_COMMIT]}`, where the branch left `{_code(review.named)}`"
    if review.skills and not review.agent:
        yield (
            "Not measured: what the skills change in the work of an agent, and whether it loads them; this needs an "
            "agent (`--agent`). Ranks are those of the server's search, without a model."
        )
        yield ""
    agent = f" The agent was {inline_markdown(review.agent, _SHORT)}." if review.agent else ""
    yield f"Compared with {base}.{agent} Texts in this report are quoted from the change."
