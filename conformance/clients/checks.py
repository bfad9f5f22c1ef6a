"""Judge a client by its recordings: each check reads what was sent to the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from conformance.clients import catalogs
from conformance.clients.host_tools import offered
from conformance.clients.names import described_in, mentions, names_in
from conformance.clients.read_on import read_on
from conformance.clients.scenarios import ACTIVATE, FIND, READ, ScenarioName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from conformance.clients.dialects.messages import Request
    from conformance.clients.recording import Recording

__all__ = ["CHECKS", "Check", "Column", "Finding", "Verdict"]


PATH = re.compile(r"(?:/[\w.-]+){2,}")
TIME = re.compile(r"Wall time: [\d.]+ seconds ")


class Verdict(StrEnum):
    """The answer of a check."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with the number that was measured, and the reason if it is not `yes`."""

    verdict: Verdict
    measured: str = ""
    reason: str = ""


class Column(StrEnum):
    """The columns of the table."""

    SEEN_10 = "sees of 10"
    SEEN_100 = "of 100"
    SEEN_1000 = "of 1,000"
    NAMED_10 = "named of 10"
    NAMED_100 = "named of 100"
    NAMED_1000 = "named of 1,000"
    ACTIVATES = "activates"
    FINDS_100 = "finds in 100"
    FINDS_1000 = "in 1,000"
    ADDED = "news: added"
    EDITED = "news: edited"
    LONG_BODY = "30 KB body"


@dataclass(frozen=True, slots=True)
class Check:
    """A column, the scenario that is recorded for it, and the judgement."""

    column: Column
    scenario: ScenarioName
    judge: Callable[[Recording, Mapping[str, str]], Finding]
    """Receives the recording and the descriptions of the catalog by name."""


def _seen(recording: Recording, skills: Mapping[str, str]) -> Finding:
    """Count the skills that the first request describes."""
    return _counted(recording, skills, described_in)


def _named(recording: Recording, skills: Mapping[str, str]) -> Finding:
    """Count the skills that the first request names."""
    return _counted(recording, skills, names_in)


def _counted(
    recording: Recording, skills: Mapping[str, str], among: Callable[[Request, Mapping[str, str]], set[str]]
) -> Finding:
    if not recording.exchanges:
        return Finding(Verdict.NO, "0", "the client sent no request to the model")
    first = recording.exchanges[0].request
    count = len(among(first, skills))
    verdict = Verdict.YES if count == len(skills) else Verdict.PARTLY if count else Verdict.NO
    if verdict is Verdict.YES or offered(ACTIVATE, first.tools):
        return Finding(verdict, f"{count:,}")
    deferred = "the tools of the server are behind a search of the client"
    return Finding(verdict, f"{count:,}", deferred if recording.used_the_server else _unreached(recording))


def _activates(recording: Recording, _skills: Mapping[str, str]) -> Finding:
    """Judge whether the first activation brings the body."""
    return _activation(recording, recording.steps(ACTIVATE, name=catalogs.LOADED)[:1], catalogs.LOADED)


def _finds(recording: Recording, _skills: Mapping[str, str]) -> Finding:
    """Judge whether a skill that the first request does not name is found and loaded."""
    searches, activations = recording.steps(FIND), recording.steps(ACTIVATE)
    step = recording.exchanges[activations[-1]].step if activations else None
    if not searches or not step:
        return Finding(Verdict.NO, reason=_unreached(recording))
    hidden = str(step.arguments["name"])
    found = mentions(recording.results_after(searches[-1]), [hidden])
    loaded = _activation(recording, activations, hidden)
    if found:
        return loaded if loaded.verdict is Verdict.YES else Finding(Verdict.PARTLY, "found", loaded.reason)
    reason = f"no result of the search has {hidden}"
    return Finding(Verdict.PARTLY if loaded.verdict is Verdict.YES else Verdict.NO, reason=reason)


def _activation(recording: Recording, places: Sequence[int], name: str) -> Finding:
    """Judge whether the last of these activations brought the body of the skill."""
    if not places:
        return Finding(Verdict.NO, reason=_unreached(recording))
    result = recording.results_after(places[-1])
    if catalogs.body_mark(name) in result:
        return Finding(Verdict.YES)
    return Finding(Verdict.NO, reason=f"the activation of {name} brought {_shortened(result)}")


def _added(recording: Recording, _skills: Mapping[str, str]) -> Finding:
    """Judge whether the model hears of a skill that is added, before it loads it, and whether it can load it."""
    changed = recording.steps(ACTIVATE, name=catalogs.OTHER)
    after = recording.request_after(changed[-1]) if changed else None
    if after is None:
        return Finding(Verdict.NO, reason=_unreached(recording))
    heard = mentions("\n".join(after.results), [catalogs.ADDED]) | names_in(after, [catalogs.ADDED])
    loaded = _activation(recording, recording.steps(ACTIVATE, name=catalogs.ADDED), catalogs.ADDED)
    if heard and (reads := recording.steps(READ, skill=catalogs.ADDED)):
        read = _activation(recording, reads, catalogs.ADDED)
        if read.verdict is Verdict.YES:
            return Finding(Verdict.YES, f"by {READ}")
    return _both(bool(heard), loaded, "no text names the new skill before the model loads it")


def _edited(recording: Recording, _skills: Mapping[str, str]) -> Finding:
    """Judge whether a result says that a loaded skill changed, and whether loading it again brings the new text."""
    changed = recording.steps(ACTIVATE, name=catalogs.OTHER)
    loads = recording.steps(ACTIVATE, name=catalogs.LOADED)
    if not changed or loads[-1] < changed[-1]:
        return Finding(Verdict.NO, reason=_unreached(recording))
    heard = mentions(recording.results_after(changed[-1]), [catalogs.LOADED])
    result = recording.results_after(loads[-1])
    new = catalogs.EDITED_MARK in result
    loaded = Finding(Verdict.YES if new else Verdict.NO, reason=f"loading it again brought {_shortened(result)}")
    return _both(bool(heard), loaded, "no result says that the loaded skill changed")


def _both(heard: bool, loaded: Finding, silent: str) -> Finding:  # noqa: FBT001 - a fact, not an option
    if heard and loaded.verdict is Verdict.YES:
        return Finding(Verdict.YES)
    if heard:
        return Finding(Verdict.PARTLY, "heard of", loaded.reason)
    if loaded.verdict is Verdict.YES:
        return Finding(Verdict.PARTLY, "can be loaded", silent)
    return Finding(Verdict.NO, reason=f"{silent}; {loaded.reason}")


def _long_body(recording: Recording, _skills: Mapping[str, str]) -> Finding:
    """Count the lines of the long body that reach the model."""
    if not recording.used_the_server:
        return Finding(Verdict.NO, reason=_unreached(recording))
    results = recording.exchanges[-1].request.results
    whole, steps = len(catalogs.LINES), recording.calls_of_the_server()
    arrived = catalogs.lines_in("\n".join(results))
    if len(arrived) == whole:
        return Finding(Verdict.YES, "whole" if steps == 1 else f"{steps} parts")
    missing = next(line for line in catalogs.LINES if line not in arrived)
    on = (
        "" if results and read_on(results[-1], catalogs.LONG) else ", and the newest result does not say how to read on"
    )
    reason = f"the line at {int(missing[1:7]):,} does not reach the model{on}"
    return Finding(Verdict.NO, f"{len(arrived)} of {whole} lines", reason)


def _unreached(recording: Recording) -> str:
    if not recording.exchanges:
        return "the client sent no request to the model"
    return "the client ended before this step" if recording.used_the_server else "the model has no tool of the server"


def _shortened(result: str, length: int = 160) -> str:
    """Return the start of a result as Markdown code, without the folders and the times of this run."""
    line = PATH.sub("/…", TIME.sub("", " ".join(result.split()))).replace("`", "'")
    if not line:
        return "nothing"
    return f"`{line}`" if len(line) <= length else f"`{line[:length]}…`"


CHECKS = (
    Check(Column.SEEN_10, ScenarioName.NEWS, _seen),
    Check(Column.SEEN_100, ScenarioName.HUNDRED, _seen),
    Check(Column.SEEN_1000, ScenarioName.THOUSAND, _seen),
    Check(Column.NAMED_10, ScenarioName.NEWS, _named),
    Check(Column.NAMED_100, ScenarioName.HUNDRED, _named),
    Check(Column.NAMED_1000, ScenarioName.THOUSAND, _named),
    Check(Column.ACTIVATES, ScenarioName.NEWS, _activates),
    Check(Column.FINDS_100, ScenarioName.HUNDRED, _finds),
    Check(Column.FINDS_1000, ScenarioName.THOUSAND, _finds),
    Check(Column.ADDED, ScenarioName.NEWS, _added),
    Check(Column.EDITED, ScenarioName.NEWS, _edited),
    Check(Column.LONG_BODY, ScenarioName.LONG_BODY, _long_body),
)
