"""What the runs of schedules may use: the rights that their creators had and chose, and budgets for each day.

The spending is one file beside the schedules, read and written under their lock by all processes. What a run may use is
set aside when it begins, and what it has used is counted when it ends; both are known by the ID of the run, so that a
process which is killed in between counts nothing twice. A schedule that is removed leaves its spending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Struct, structs

from server.capabilities.runs.offered import trace_store
from server.capabilities.runs.settings import RunSettings
from server.capabilities.schedules.settings import ScheduleSettings
from server.capabilities.scripts.settings import RUN_SKILL_SCRIPT
from server.config.machine import local_zone
from server.config.values import home_path
from skills_core.disk.writing import JsonFile
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.runs.models import ModelUnavailableError, Price, is_paid, parse_model, price_of_model
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.trace import UnknownTraceError, UnreadableTraceError
from skills_core.schedules.cron import in_zone, to_utc, zone_named
from skills_core.schedules.when import next_firings

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.yaml12 import JsonValue
    from skills_core.schedules.when import When


class ScheduleError(SkillsError):
    """A schedule cannot be made, changed or run as it was asked; the message says what to do."""


class UnknownScheduleError(ScheduleError):
    """There is no schedule of this name."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        others = f" There are: {', '.join(known[:20])}." if known else " There is none."
        super().__init__(f"There is no schedule {name[:100]!r}.{others}")


class DamagedScheduleError(ScheduleError):
    """The file of a schedule cannot be read. It stays as it is, and never fires."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"The schedule {name} is damaged, so it never fires: {why[:500]}. Repair its schedule.json, or "
            f"remove it with `skillserve schedule remove {name}`."
        )
        self.why = why


class RunRights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may use besides the model: tools for a workspace, MCP servers, and programs of skills.

    `skills` are the keys of the skills that the creator saw, None if that were all.
    """

    run_tools: tuple[str, ...] = ()
    workspace: str | None = None
    mcp_servers: str | None = None
    skill_tools: tuple[str, ...] = ()
    scripts: bool = False
    skills: tuple[str, ...] | None = None


def rights_of(settings: Settings) -> RunRights:
    """Return the rights that settings give."""
    runs = settings.section(RunSettings)
    return RunRights(
        run_tools=tuple(each.value for each in runs.tools),
        workspace=_absolute(runs.workspace),
        mcp_servers=_absolute(runs.mcp_servers),
        skill_tools=settings.tools.declared,
        scripts=RUN_SKILL_SCRIPT in settings.tools.enabled,
    )


def limited_settings(settings: Settings, rights: RunRights, model: str | None, *, is_confined: bool = True) -> Settings:
    """Return the settings of a run: what they allow now, no more than `rights`, and `model` if there is one.

    Where programs are not confined, the run starts none unless the settings say so: they could make schedules, and
    change the rights of this one.

    Raises:
        ScheduleError: `model` is at an address that the settings do not name.
    """
    may_start = is_confined or settings.section(ScheduleSettings).unsandboxed
    runs, enabled = settings.section(RunSettings), settings.tools.enabled
    allowed = {each for each in rights.run_tools if may_start or each != WorkspaceTool.RUN_COMMAND}
    same_folder = rights.workspace is not None and rights.workspace == _absolute(runs.workspace)
    same_servers = rights.mcp_servers is not None and rights.mcp_servers == _absolute(runs.mcp_servers)
    limited = structs.replace(
        runs,
        model=checked_model(model, runs.model),
        tools=tuple(each for each in runs.tools if same_folder and each.value in allowed),
        workspace=runs.workspace if same_folder else None,
        mcp_servers=runs.mcp_servers if same_servers else None,
    )
    if not (rights.scripts and may_start):
        enabled = tuple(each for each in enabled if each != RUN_SKILL_SCRIPT)
    declared = dict.fromkeys(_common(settings.tools.declared, rights.skill_tools) if may_start else ())
    tools = structs.replace(settings.tools, enabled=enabled, declared=tuple(declared))
    return settings.with_sections(limited, tools)


def no_programs_reason(fault: str) -> str:
    """Return why the runs of schedules start no programs; `fault` is what the sandbox lacks."""
    return (
        f"no sandbox works here ({fault}), and without one a program has all rights of the user. "
        "schedules.unsandboxed = true allows it"
    )


def checked_model(model: str | None, own: str | None) -> str | None:
    """Return the model of a schedule, or that of the settings, `own`, if it has none.

    A schedule names no address of its own: the API key and the texts of the user go to those of the settings alone.

    Raises:
        ScheduleError: it does.
        ModelUnavailableError: a name is not that of a model.
    """
    if model is None:
        return own
    address = parse_model(model).address
    if address is not None and (own is None or parse_model(own).address != address):
        raise ScheduleError(
            f"The schedule names a model at {address}, an address that the settings of this process do not name. If it "
            f"is yours, name the model in them: `--model {model}`, SKILLSERVE_MODEL or runs.model."
        )
    return model


def visible_to(rights: RunRights, catalog: Catalog) -> Catalog:
    """Return the part of the catalog that the creator of a schedule saw."""
    if rights.skills is None:
        return catalog
    seen = frozenset(rights.skills)
    return catalog.restricted(lambda skill: skill.key in seen)


def _common(ours: Iterable[str], theirs: tuple[str, ...]) -> Iterator[str]:
    """Yield what two lists of `SKILL/TOOL` and `SKILL/*` both allow."""
    for one in ours:
        skill, _, tool = one.rpartition("/")
        for other in theirs:
            other_skill, _, other_tool = other.rpartition("/")
            if skill == other_skill and "*" in {tool, other_tool}:
                yield other if tool == "*" else one
            elif one == other:
                yield one


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(home_path(path).resolve())


SPENDING_FILE: Final = "spending.json"

_VERSION: Final = 1
_MAX_BYTES: Final = 20_000_000
_MAX_DAYS: Final = 62
# Days to keep, in the order in which they began: a clock that was ahead begins days that are still to come.

_LOOKED_AT: Final = 50
# Firings of a new schedule whose distance is checked.

_Count = Annotated[int, Meta(ge=0)]
_Dollars = Annotated[float, Meta(ge=0)]


class SpentAmounts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What runs have used; `unpriced` of their tokens have no known price, so `dollars` lack these.

    `requests` are those to the model, and `seconds` those from the start of a run to its end.
    """

    runs: _Count = 0
    tokens: _Count = 0
    requests: _Count = 0
    seconds: _Count = 0
    dollars: _Dollars = 0.0
    unpriced: _Count = 0

    def __add__(self, other: SpentAmounts) -> SpentAmounts:
        """Return the sum of both."""
        return SpentAmounts(
            runs=self.runs + other.runs,
            tokens=self.tokens + other.tokens,
            requests=self.requests + other.requests,
            seconds=self.seconds + other.seconds,
            dollars=self.dollars + other.dollars,
            unpriced=self.unpriced + other.unpriced,
        )


class _Begun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that has begun: what it may use, what its tokens cost at most, and its price if that is known."""

    schedule: str
    day: str
    tokens: _Count
    requests: _Count = 0
    seconds: _Count = 0
    dollars: _Dollars = 0.0
    price: tuple[_Dollars, _Dollars] | None = None


class _Ledger(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, Meta(ge=_VERSION, le=_VERSION)] = _VERSION
    days: dict[str, dict[str, SpentAmounts]] = msgspec.field(default_factory=dict)
    begun: dict[str, _Begun] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DayLimits:
    """The most of a day; None means no limit."""

    runs: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    requests: int | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a run may use: tokens, requests to its model, and seconds."""

    tokens: int
    requests: int
    seconds: int

    def within(self, other: Allowance) -> Allowance:
        """Return what both allow."""
        return Allowance(
            min(self.tokens, other.tokens), min(self.requests, other.requests), min(self.seconds, other.seconds)
        )


@dataclass(frozen=True, slots=True)
class RunUse:
    """What a run has used; the tokens of input and output are None if they are unknown, and so may be the requests."""

    tokens: tuple[int, int] | None = None
    requests: int | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What counts for a run of a schedule: the day, the limits of all schedules and of each, and its model.

    `run` is the most that a run may use without a budget. Without a `price`, that of the model is unknown.
    `shortest` is the shortest time in seconds between two firings of a model that costs money.
    """

    day: str
    run: Allowance
    together: DayLimits = field(default_factory=DayLimits)
    each: DayLimits = field(default_factory=DayLimits)
    model: str = ""
    price: Price | None = None
    shortest: int = 0

    def interval_fault(self, earlier: datetime, later: datetime) -> str:
        """Return why a schedule may not fire at two times, empty if it may."""
        seconds = (later - earlier).total_seconds()
        if not 0 <= seconds < self.shortest:
            return ""
        return (
            f"{earlier.isoformat()} and {later.isoformat()} are {seconds:g} seconds apart; a model that costs money "
            f"({self.model}) runs at most every {self.shortest} seconds (schedules.paid_interval_seconds)"
        )


@dataclass(frozen=True, slots=True)
class Refused:
    """A run must not begin: `reason`. With `waits`, it may begin once runs that last have ended."""

    reason: str
    waits: bool = False


def terms_of(settings: Settings, model: str | None, now: datetime) -> Terms:
    """Return the terms of a run with `model`, or with that of the settings if there is none."""
    runs, wanted = settings.section(RunSettings), settings.section(ScheduleSettings)
    chosen = model or runs.model
    try:
        spec = parse_model(chosen or "")
    except ModelUnavailableError:
        spec = None  # its run fails
    price = None if spec is None else price_of_model(spec, runs.prices)
    paid = spec is not None and is_paid(spec, price)
    return Terms(
        day=in_zone(to_utc(now), zone_named(local_zone())).date().isoformat(),
        run=Allowance(runs.tokens, runs.turns, runs.seconds),
        together=DayLimits(
            wanted.runs_per_day,
            wanted.tokens_per_day,
            wanted.dollars_per_day,
            wanted.requests_per_day,
            wanted.seconds_per_day,
        ),
        each=DayLimits(
            wanted.each_runs_per_day,
            wanted.each_tokens_per_day,
            wanted.each_dollars_per_day,
            wanted.each_requests_per_day,
            wanted.each_seconds_per_day,
        ),
        model=chosen or "no model",
        price=price,
        shortest=wanted.paid_interval_seconds if paid else 0,
    )


def check_interval(when: When, terms: Terms, now: datetime) -> None:
    """Check that a schedule does not fire more often than its model may run.

    Raises:
        ScheduleError: it does.
    """
    for earlier, later in pairwise(next_firings(when, now, _LOOKED_AT)):
        if fault := terms.interval_fault(earlier, later):
            raise ScheduleError(f"The schedule would fire too often: {fault}. Give it a longer interval.")


def used_by_run(run_id: str, outcome: Mapping[str, JsonValue], seconds: float) -> RunUse:
    """Return what a run has used, by its outcome or its trace, and by the `seconds` from its start to its end."""
    lasted = max(round(seconds), 0)
    found = outcome.get("usage")
    if not isinstance(found, dict):
        try:
            found = trace_store().read(run_id).get("usage")
        except (UnknownTraceError, UnreadableTraceError):
            return RunUse(seconds=lasted)
    match found:
        case {"input_tokens": int(given), "output_tokens": int(made), "requests": int(requests)}:
            return RunUse((given, made), requests, lasted)
        case {"input_tokens": int(given), "output_tokens": int(made)}:
            return RunUse((given, made), seconds=lasted)
    return RunUse(seconds=lasted)


class Spending:
    """The spending of all schedules in a file; whoever uses it holds the lock of the schedules."""

    def __init__(self, file: Path) -> None:
        """Read the file.

        Raises:
            ScheduleError: it cannot be read; what was spent is then unknown.
        """
        self._file = JsonFile(file, _MAX_BYTES)
        try:
            value = self._file.read()
            self._ledger = _Ledger() if value is None else msgspec.convert(value, _Ledger)
        except (FileRefusedError, msgspec.ValidationError) as error:
            raise ScheduleError(
                f"{file}: the spending of schedules cannot be read, so none fires: {str(error)[:300]}. Repair the "
                "file, or remove it to count anew."
            ) from None
        self._read = self._ledger

    def save(self) -> None:
        """Write the file if something changed.

        Raises:
            FileRefusedError: the disk refuses.
        """
        if self._ledger is not self._read:
            self._file.write(msgspec.to_builtins(self._ledger))
            self._read = self._ledger

    def spent(self, day: str, name: str | None = None) -> SpentAmounts:
        """Return what a schedule, or all of them, used on a day."""
        found = self._ledger.days.get(day, {})
        return sum(found.values(), SpentAmounts()) if name is None else found.get(name, SpentAmounts())

    def begin(self, run_id: str, name: str, terms: Terms) -> Allowance | Refused:
        """Count a run of a schedule, and return the most that it may use, or why it must not begin."""
        if (known := self._ledger.begun.get(run_id)) is not None:
            return Allowance(known.tokens, known.requests or terms.run.requests, known.seconds or terms.run.seconds)
        allowed = self._allowed(name, terms)
        if isinstance(allowed, Refused):
            return allowed
        price = terms.price
        begun = _Begun(
            schedule=name,
            day=terms.day,
            tokens=allowed.tokens,
            requests=allowed.requests,
            seconds=allowed.seconds,
            dollars=0.0 if price is None else allowed.tokens * price.most,
            price=None if price is None else (price.input, price.output),
        )
        self._ledger = structs.replace(self._ledger, begun={**self._ledger.begun, run_id: begun})
        self._add(terms.day, name, SpentAmounts(runs=1))
        return allowed

    def refusal(self, name: str, terms: Terms) -> str | None:
        """Return why no further run of a schedule may begin today, None if one may."""
        allowed = self._allowed(name, terms)
        return allowed.reason if isinstance(allowed, Refused) and not allowed.waits else None

    def _allowed(self, name: str, terms: Terms) -> Allowance | Refused:
        allowed = terms.run
        for limits, of, who in ((terms.together, None, "all schedules"), (terms.each, name, "this schedule")):
            left = self._left(limits, of, terms, who)
            if isinstance(left, Refused):
                return left
            allowed = allowed.within(left)
        return allowed

    def end(self, run_id: str, used: RunUse) -> None:
        """Count what a run has used; what is unknown of it counts as all that it may have used."""
        begun = {**self._ledger.begun}
        if (run := begun.pop(run_id, None)) is None:
            return
        self._ledger = structs.replace(self._ledger, begun=begun)
        known = used.tokens
        tokens = run.tokens if known is None else sum(known)
        dollars = run.dollars if known is None else 0.0 if run.price is None else Price(*run.price).of(*known)
        more = SpentAmounts(
            tokens=tokens,
            requests=run.requests if used.requests is None else used.requests,
            seconds=run.seconds if used.seconds is None else used.seconds,
            dollars=dollars,
            unpriced=tokens if run.price is None else 0,
        )
        self._add(run.day, run.schedule, more)

    def _left(self, limits: DayLimits, name: str | None, terms: Terms, who: str) -> Allowance | Refused:
        """Return how much limits leave to a further run of `name`, or of all schedules."""
        spent, setting = self.spent(terms.day, name), "" if name is None else "each_"
        begun = [
            each for each in self._ledger.begun.values() if each.day == terms.day and name in {None, each.schedule}
        ]
        if limits.runs is not None and spent.runs >= limits.runs:
            return _used_up(who, f"{limits.runs} runs", f"{setting}runs_per_day")
        left = {"tokens": terms.run.tokens, "requests": terms.run.requests, "seconds": terms.run.seconds}
        for what, most in left.items():
            if (limit := getattr(limits, what)) is not None:
                free = limit - getattr(spent, what)
                if free <= 0:
                    return _used_up(who, f"{limit} {what}", f"{setting}{what}_per_day")
                left[what] = min(most, free - sum(getattr(each, what) for each in begun))
        if limits.dollars is not None:
            tokens = self._left_by_price(limits.dollars, spent, begun, terms, who, setting)
            if isinstance(tokens, Refused):
                return tokens
            left["tokens"] = min(left["tokens"], tokens)
        if min(left.values()) <= 0:
            return Refused("what is left of the day's budget is set aside for runs that last", waits=True)
        return Allowance(**left)

    def _left_by_price(
        self, limit: float, spent: SpentAmounts, begun: Sequence[_Begun], terms: Terms, who: str, setting: str
    ) -> int | Refused:
        """Return how many tokens a limit of dollars leaves."""
        if terms.price is None:
            return Refused(
                f"the price of {terms.model} is unknown, and schedules.{setting}dollars_per_day limits what is "
                "spent: give the price in runs.prices"
            )
        left = limit - spent.dollars
        if left <= terms.price.most:
            return _used_up(who, f"{limit:g} dollars", f"{setting}dollars_per_day")
        if not terms.price.most:
            return terms.run.tokens
        free = left - sum(each.dollars for each in begun)
        return int(round(free / terms.price.most, 3))

    def _add(self, day: str, name: str, more: SpentAmounts) -> None:
        of_day = self._ledger.days.get(day, {})
        days = {**self._ledger.days, day: {**of_day, name: of_day.get(name, SpentAmounts()) + more}}
        kept = dict([*days.items()][-_MAX_DAYS:])
        # The end of a run is never found if its schedule was removed.
        begun = {run_id: run for run_id, run in self._ledger.begun.items() if run.day in kept}
        self._ledger = structs.replace(self._ledger, days=kept, begun=begun)


def _used_up(who: str, what: str, setting: str) -> Refused:
    return Refused(f"the budget of {who} for today, {what}, is used up (schedules.{setting})")
