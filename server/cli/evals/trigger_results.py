"""The results of trigger tests with an agent as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["cost_lines", "result_lines"]

_WORDS = {True: "pass", False: "FAIL", None: "none"}
_QUERY = 90


def result_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for the results of a test."""
    for result in found["results"]:
        low, high = result["interval"]
        should = "should trigger" if result["should_trigger"] else "should not"
        yield (
            f"{_WORDS[result['pass']]}  {result['triggers']}/{result['runs']} [{low:.2f}, {high:.2f}]  {should:14}  "
            f"{one_line(result['query'])[:_QUERY]}{_faults(result)}"
        )
    whose = ", with the old description" if len(found["rounds"]) > 1 else ""
    yield _summary(f"{found['skill_name']}{whose}", found["summary"])
    for reason in found["summary"]["reasons"]:
        yield f"  {reason['runs']} x {one_line(str(reason['reason']))[:300]}"
    for each in found["rounds"]:
        train, validation = each["train"], each["validation"]
        yield (
            f"round {each['number']}: training {train['passed']} of {train['total']}, validation "
            f"{validation['passed']} of {validation['total']}: {one_line(each['description'])}"
        )
    yield from _decision(found)
    yield _spent_line(found["costs"])


def _faults(result: Mapping[str, Any]) -> str:
    said = [counted(result["errors"], "error")] * bool(result["errors"])
    said += [f"{result['denied']} denied"] * bool(result["denied"])
    if result["runs_needed"]:
        said.append(f"{counted(result['runs_needed'], 'run')} would tell")
    return f"  ({', '.join(said)})" if said else ""


def _summary(name: str, summary: Mapping[str, Any]) -> str:
    low, high = summary["interval"]
    recall, wrong = summary["recall"], summary["false_positive_rate"]
    line = (
        f"{name}: {summary['passed']} of {summary['total']} queries pass (95 % [{low:.2f}, {high:.2f}]); "
        f"{recall['count']} of {recall['total']} trigger as they should, {wrong['count']} of {wrong['total']} as they "
        "should not"
    )
    return f"{line}; no verdict: {summary['reason']}" if summary["reason"] else line


def _decision(found: Mapping[str, Any]) -> Iterator[str]:
    decision = found.get("decision")
    if decision is not None:
        yield decision["reason"]
        yield from _comparison("sealed test", decision["test"]["comparison"])
    holdout = found.get("holdout") or {}
    for name in ("description", "old", "new"):
        if name in holdout:
            part = holdout[name]
            yield f"fresh queries, {name}: {part['passed']} of {part['total']} pass"
    yield from _comparison("fresh queries", holdout.get("comparison"))


def _comparison(where: str, comparison: Mapping[str, Any] | None) -> Iterator[str]:
    if comparison is None:
        return
    needed = comparison["queries_needed"]
    more = f"; about {counted(needed, 'query', 'queries')} would show such a difference" if needed else ""
    yield (
        f"{where}: only the new one passes {comparison['wins']}, only the old one {comparison['losses']} "
        f"(p = {comparison['p']:.3f}): {comparison['verdict']}{more}"
    )


def cost_lines(costs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for what a test costs at most."""
    yield f"at most {counted(costs['runs'], 'run')} of the agent; fewer where an outcome is clear early"
    for name in ("canary", "queries", "rounds", "sealed_test", "holdout"):
        if costs.get(name):
            yield f"  {name.replace('_', ' ')}: {costs[name]}"
    if costs["model_requests"]:
        yield f"at most {counted(costs['model_requests'], 'request')} to the model that revises the description"
    tokens, cost = costs["tokens"], costs["cost_usd"]
    money = f" (${cost:,.2f})" if cost is not None else ", at a price that is not known"
    yield (
        f"about {counted(tokens, 'token')}{money}, as runs of the last test took"
        if tokens
        else "tokens and money: not known before a first test"
    )


def _spent_line(costs: Mapping[str, Any]) -> str:
    """Return the line for what a test has cost."""
    tokens = counted(costs["total_tokens"], "token") if costs["total_tokens"] else "unknown tokens"
    money = f"${costs['cost_usd']:,.4f}" if costs["cost_usd"] else "unknown price"
    return f"spent: {counted(costs['runs_made'], 'run')}, {tokens}, {money}"
