"""`triggers` without an agent: rank a skill by the search of the server, or draft queries with a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from server.capabilities.evals.agents.metered import bounds_of, counted_model
from server.capabilities.evals.report.ci import CiGate, GateOutcome
from server.capabilities.evals.report.model import Results, ShownVerdict, Tone, TriggerSet
from server.capabilities.evals.report.writing import write_ci_files
from server.capabilities.evals.workspace import open_workspace
from server.capabilities.runs.offered import command_unavailable_reason, open_configured
from server.capabilities.runs.settings import RunSettings
from server.capabilities.visibility.served_listing import EntryState, Sight, served_skills
from server.cli.client_lists import chosen_clients, served_lists
from server.cli.console import EXIT_BOUND, EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.config.bootstrap import open_in_front, settings_of
from server.config.machine import Machine, current_places
from server.hosting.searches import reranker_of
from server.transport.signals import until_signalled
from skills_core.diagnostics import counted, one_line, printable, shortened
from skills_core.evals.triggers.drafting import EACH, draft_queries, drafting_prompt
from skills_core.evals.triggers.queries import chosen_queries, drafts_document, require_no_queries, write_drafts
from skills_core.evals.triggers.ranks import LimitVerdict, RankLimits, rank_queries, summarize
from skills_core.evals.triggers.results import QueryResult, Rate, SetResult
from skills_core.runs.models import connected
from skills_core.runs.spending import BoundReachedError
from skills_core.runs.structured_answers import NoAnswerError
from skills_core.selection.policy import SelectionPolicy
from skills_core.selection.ranking import SkillSearch
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from server.capabilities.evals.triggers import TriggerFlags
    from server.clients.profile import ClientProfile
    from server.config.settings.model import Settings
    from server.listing.snapshot import Snapshot
    from skills_core.evals.triggers.queries import Query
    from skills_core.evals.triggers.ranks import Confusion, QuerySummary, RankedQuery
    from skills_core.live.library import Library
    from skills_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class ClientSight:
    """What one client shows of the skill in its catalog, at the `position` from 1 of its order.

    `described` counts the skills whose whole entries the model sees from the start, among all `offered` ones.
    """

    client: ClientProfile
    version: str | None
    sight: Sight
    entry: EntryState
    position: int
    described: int
    offered: int

    @property
    def shown(self) -> bool:
        """Whether the model sees the skill's whole entry from the start."""
        return self.sight is Sight.DESCRIBED

    @property
    def label(self) -> str:
        """The client's key, with the version that was asked about."""
        return f"{self.client.key}@{self.version}" if self.version else self.client.key


@dataclass(frozen=True, slots=True)
class RankedTriggers:
    """The ranks of a skill for the queries in `file`, among the skills that a server would offer to models."""

    skill: Skill
    file: str
    ranked: tuple[RankedQuery, ...]
    clients: tuple[ClientSight, ...]
    skills: int
    unknown: tuple[str, ...]
    """Skills that queries name as expected, but that the catalog does not offer."""
    summary: QuerySummary

    @property
    def shown(self) -> bool:
        """Whether all chosen clients show the skill's entry."""
        return all(sight.shown for sight in self.clients)


def rank_triggers(
    snapshot: Snapshot,
    skill: Skill,
    queries: Sequence[Query],
    file: str,
    clients: Sequence[tuple[ClientProfile, str | None]],
    limits: RankLimits,
) -> RankedTriggers:
    """Rank `skill`, which the catalog offers, with the search and the settings that `serve` uses.

    Raises:
        ConfigurationError: the reranker of the settings cannot be loaded.
    """
    offered = snapshot.catalog.offered
    search = SkillSearch(reranker_of(snapshot.settings, wait=True))
    ranked = rank_queries(partial(search.select, offered), skill, queries)
    sights = tuple(_sight(snapshot, skill, client, version) for client, version in clients)
    known = {name for each in offered for name in (each.key, each.name)}
    named = dict.fromkeys(query.expected_skill for query in queries if query.expected_skill is not None)
    unknown = tuple(name for name in named if name not in known)
    return RankedTriggers(skill, file, ranked, sights, len(offered), unknown, summarize(ranked, len(offered), limits))


def _sight(snapshot: Snapshot, skill: Skill, client: ClientProfile, version: str | None) -> ClientSight:
    profile = client.of_version(version)
    listed = [shown for shown in served_skills(snapshot, profile).skills if shown.sight is not None]
    positions = (number for number, shown in enumerate(listed, 1) if shown.skill.path == skill.path)
    position = next(positions)
    found = listed[position - 1]
    described = sum(shown.sight is Sight.DESCRIBED for shown in listed)
    return ClientSight(
        profile, version, found.sight or Sight.FIND_SKILLS, found.entry, position, described, len(listed)
    )


def triggers_object(triggers: RankedTriggers) -> dict[str, Any]:
    """Return the object of `triggers --no-model --json`; docs/guides/test-triggers.md documents it."""
    return {
        "skill": printable(triggers.skill.key),
        "file": printable(triggers.file),
        "catalog": {"skills": triggers.skills},
        "clients": [_client(sight) for sight in triggers.clients],
        "queries": [_query(ranked, shown=triggers.shown) for ranked in triggers.ranked],
        "summary": _summary(triggers),
    }


def _client(sight: ClientSight) -> dict[str, Any]:
    return {
        "client": sight.client.key,
        "version": sight.version,
        "shown": sight.shown,
        "sight": sight.sight.value,
        "entry": sight.entry.value,
        "position": sight.position,
        "described": sight.described,
        "offered": sight.offered,
    }


def _query(ranked: RankedQuery, *, shown: bool) -> dict[str, Any]:
    query, match = ranked.query, ranked.match
    return {
        "id": query.id,
        "query": query.text,
        "should_trigger": query.should_trigger,
        "rank": ranked.rank,
        "shown": shown,
        "pass": ranked.is_right,
        "weak": match.weak if match else None,
        "relative": round(match.relative, 4) if match else None,
        "above": [printable(key) for key in ranked.above],
        "expected_skill": query.expected_skill,
        "expected_rank": ranked.expected_rank,
        "split": query.split,
    }


def _summary(triggers: RankedTriggers) -> dict[str, Any]:
    summary = triggers.summary
    return {
        "recall_at_1": _rate(summary.recall_at_1),
        "recall_at_5": _rate(summary.recall_at_5),
        "false_triggers": _rate(summary.false_triggers),
        "first_of_near_misses": _rate(summary.first_of_near_misses),
        "expected_first": _rate(summary.expected_first),
        "shown": triggers.shown,
        "confusions": [
            {"rival": printable(each.rival), "above": list(each.above), "displaced": list(each.displaced)}
            for each in summary.confusions
        ],
        "unknown_skills": [printable(name) for name in triggers.unknown],
        "verdict": summary.verdict.value if summary.verdict else None,
        "reasons": list(summary.reasons),
    }


def _rate(rate: Rate) -> dict[str, Any]:
    """Return a rate with its interval; the share is null without queries."""
    low, high = rate.interval
    share = None if rate.value is None else round(rate.value, 4)
    return {"hits": rate.count, "total": rate.total, "rate": share, "interval": [round(low, 4), round(high, 4)]}


_OUTCOMES: Final = {
    LimitVerdict.PASS: GateOutcome.PASSED,
    LimitVerdict.FAIL: GateOutcome.FAILED,
    LimitVerdict.NONE: GateOutcome.NO_VERDICT,
}

_MAX_QUERY = 70
_MAX_CONFUSIONS = 20
_COLOURS = {LimitVerdict.PASS: "green", LimitVerdict.FAIL: "red", LimitVerdict.NONE: "yellow"}

ALL_CLIENTS = "all"

_RIVALS = SelectionPolicy(top_k=31, min_score=0.0)
# The skill itself and thirty that match its description best.

_CHARACTERS_A_TOKEN = 4


def results_of(found: RankedTriggers) -> tuple[Results, tuple[CiGate, ...]]:
    """Return the ranks as a workspace with one set of queries, and the gate of the limits."""
    verdict, reasons = found.summary.verdict, "; ".join(found.summary.reasons)
    shown = ShownVerdict(Tone.NONE, "No verdict", reasons) if verdict is LimitVerdict.NONE else None
    results = SetResult(tuple(map(_query_result, found.ranked)))
    triggers = TriggerSet(0, "ranked", found.skill.key, results=results, verdict=shown, ranked=True)
    gates = () if verdict is None else (CiGate("limits of the ranks", _OUTCOMES[verdict], reasons or "kept"),)
    return Results(found.skill.key, triggers=(triggers,)), gates


def _query_result(ranked: RankedQuery) -> QueryResult:
    # A query is asked once; as it finds the skill first or not, it triggers or not.
    query, triggered = ranked.query, ranked.is_right is ranked.query.should_trigger
    seen = "not found" if ranked.rank is None else f"rank {ranked.rank}"
    if ranked.above and query.should_trigger:
        seen = f"{seen}, below {', '.join(ranked.above)}"
    return QueryResult(query, Rate(int(triggered), 1), passed=ranked.is_right, seen=seen)


def print_triggers(console: Console, triggers: RankedTriggers) -> None:
    """Print a row for each query, what each client shows, and the summary."""
    from rich.markup import escape

    head = f"{triggers.skill.key} among {counted(triggers.skills, 'skill')}, queries of {triggers.file}"
    console.print(escape(one_line(head)), soft_wrap=True)
    console.print(_table(triggers))
    console.print()
    for sight in triggers.clients:
        console.print(escape(_sight_line(sight)), soft_wrap=True)
    for line in _summary_lines(triggers):
        console.print(escape(one_line(line)), soft_wrap=True)
    verdict = triggers.summary.verdict
    if verdict is not None:
        why = escape(one_line("; ".join(triggers.summary.reasons)))
        console.print(f"[{_COLOURS[verdict]}]{verdict.value}[/]{f': {why}' if why else ''}", soft_wrap=True)


def _table(triggers: RankedTriggers) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("id", "should", "rank", "", "query", "above it"):
        table.add_column(heading, overflow="fold")
    for ranked in triggers.ranked:
        query = ranked.query
        table.add_row(
            escape(shortened(query.id, 20)),
            "yes" if query.should_trigger else "no",
            _rank(ranked),
            "" if ranked.is_right else "[red]wrong[/]",
            escape(shortened(query.text, _MAX_QUERY)),
            escape(one_line(_better(ranked))),
        )
    return table


def _rank(ranked: RankedQuery) -> str:
    if ranked.rank is None:
        return "-"
    return f"{ranked.rank} (weak)" if ranked.match is not None and ranked.match.weak else str(ranked.rank)


def _better(ranked: RankedQuery) -> str:
    """Return which skills rank above, if the skill should be the first, and where an expected skill ranks if not."""
    if ranked.query.should_trigger:
        return ", ".join(ranked.above)
    expected = ranked.query.expected_skill
    if expected is None or ranked.expected_rank == 1:
        return ""
    return f"{expected} has rank {ranked.expected_rank}" if ranked.expected_rank else f"{expected} is not found"


def _sight_line(sight: ClientSight) -> str:
    state = "the entry is in sight" if sight.shown else f"the entry is not in sight ({sight.sight}, {sight.entry})"
    shows = counted(sight.described, "entry", "entries")
    place = f"number {sight.position:,} of {sight.offered:,} in its order, which shows {shows}"
    return f"{one_line(sight.label)}: {state}; {place}"


def _summary_lines(triggers: RankedTriggers) -> Iterator[str]:
    summary = triggers.summary
    yield f"found first (recall@1)        {_share(summary.recall_at_1)}"
    yield f"in the first five (recall@5)  {_share(summary.recall_at_5)}"
    yield f"near-misses that trigger      {_share(summary.false_triggers)}"
    yield f"the same with weak matches    {_share(summary.first_of_near_misses)}"
    if summary.expected_first.total:
        yield f"expected skill first          {_share(summary.expected_first)}"
    yield from map(_confusion_line, summary.confusions[:_MAX_CONFUSIONS])
    if (more := len(summary.confusions) - _MAX_CONFUSIONS) > 0:
        yield f"and {counted(more, 'more rival')}, which --json lists"
    for name in triggers.unknown:
        yield f"expected_skill {name[:200]!r} is not a skill of the catalog; name its folder with --catalog"


def _confusion_line(confusion: Confusion) -> str:
    above = f"ranks above it for {', '.join(confusion.above)}" if confusion.above else ""
    displaced = f"is displaced for {', '.join(confusion.displaced)}" if confusion.displaced else ""
    return f"confused with {confusion.rival}, which {' and '.join(filter(None, (above, displaced)))}"


def _share(rate: Rate) -> str:
    if rate.value is None:
        return "no such queries"
    low, high = rate.interval
    return f"{rate.count} of {rate.total} = {rate.value:.2f} (95 %: {low:.2f} to {high:.2f})"


def triggers_without_model(options: TriggerFlags) -> None:
    """Rank the skill and print the result; exit with 1 if a limit is exceeded or cannot be judged."""
    require_folder(options.skill_dir)
    clients = _chosen_clients(options.client or ())
    limits = RankLimits(options.min_recall, options.max_false)
    file, queries = chosen_queries(options.skill_dir, options.queries, print_notice)
    library, settings, skill = open_skill(options)
    snapshot = served_lists(library.catalog, settings)
    found = rank_triggers(snapshot, skill, queries, file, clients, limits)
    write_ci_files(options.junit, options.markdown, *results_of(found))
    if options.as_json:
        print_json(triggers_object(found))
    else:
        from server.cli.tables import console_for_people

        print_triggers(console_for_people(plain=options.ci), found)
    if limits != RankLimits() and found.summary.verdict is not LimitVerdict.PASS:
        raise SystemExit(EXIT_NO)


def require_folder(path: Path) -> None:
    """Exit with a message if there is no folder at `path`."""
    if not os.path.isdir(path):  # noqa: PTH112 - `Path` raises for paths that cannot be accessed
        what = (
            "this is not a folder; name the folder of the skill" if os.path.lexists(path) else "there is no such folder"
        )
        fail(f"{path}: {what}", EXIT_USAGE)


def open_skill(options: TriggerFlags) -> tuple[Library, Settings, Skill]:
    """Load the skill among those of the catalog; exit with a message if models are not offered it."""
    machine, folder = Machine(current_places()), options.skill_dir
    flags: dict[str, object] = {"follow_symlinks": options.follow_symlinks, "trust_workspace": options.trust_workspace}
    if options.write_queries:
        flags["model"] = options.model
        for name in ("max_cost", "max_requests", "max_seconds"):
            flags[f"eval_{name}"] = getattr(options, name)
    settings = settings_of(machine, flags)
    library, skill = open_in_front(folder, options.catalog, settings, machine)
    if skill is None:
        fail(f"{folder}: there is no SKILL.md in this folder; name the folder of one skill", EXIT_USAGE)
    if skill.state is not State.ACTIVE:
        why = f"{skill.reason.value}: {skill.detail}" if skill.reason else ""
        why = why if skill.state is not State.INVALID else f"{why}; `skillserve validate` explains it"
        fail(f"{folder}: the skill is {skill.state.value}, so that no client sees it ({why})", EXIT_USAGE)
    if not skill.is_offered:
        fail(f"{folder}: the skill declares that models may not activate it, so that nothing triggers it", EXIT_USAGE)
    return library, settings, skill


def _chosen_clients(chosen: Sequence[str]) -> list[tuple[ClientProfile, str | None]]:
    from server.clients.known import KNOWN_CLIENTS
    from server.clients.profile import UNKNOWN

    named = chosen_clients(each for each in chosen if each != ALL_CLIENTS)
    if ALL_CLIENTS not in chosen:
        return named or [(UNKNOWN, None)]
    keys = {client.key for client, version in named if version is None}
    return [*named, *((client, None) for client in (*KNOWN_CLIENTS, UNKNOWN) if client.key not in keys)]


def draft_into(options: TriggerFlags) -> None:
    """Draft queries for the skill and write them to its file; exit with 1 if the model drafts none."""
    folder = options.skill_dir
    require_folder(folder)
    require_no_queries(folder)
    library, settings, skill = open_skill(options)
    runs = settings.section(RunSettings)
    if reason := command_unavailable_reason(runs):
        fail(reason, EXIT_USAGE)
    rivals = _rivals(skill, library.catalog.offered)
    tokens = len(drafting_prompt(skill, rivals)) // _CHARACTERS_A_TOKEN
    print_notice(f"asks {runs.model} once, with some {tokens:,} tokens; twice more if the answer is unusable")
    try:
        workspace = options.workspace or folder.resolve().parent / f"{skill.name}-workspace"
        queries = until_signalled(lambda: _draft(settings, workspace, skill, rivals))
    except BoundReachedError as error:
        fail(f"stopped at the bound: {error}", EXIT_BOUND)
    except NoAnswerError as error:
        fail(f"no queries were drafted: {error}; requests made: {error.usage.requests}", EXIT_NO)
    file = write_drafts(folder, queries)
    if options.as_json:
        print_json({"file": str(file), "queries": drafts_document(queries)})
    else:
        print_text(f"wrote {EACH} queries that should trigger and {EACH} near-misses to {file}")
        print_text("They are a draft: read each one, correct its label, and replace what no user of yours would say.")


def _rivals(skill: Skill, offered: tuple[Skill, ...]) -> list[Skill]:
    """Return the skills that match the description best, which near-misses may need."""
    matches = SkillSearch().select(offered, skill.description, _RIVALS)
    return [match.skill for match in matches if match.skill.path != skill.path]


async def _draft(settings: Settings, workspace: Path, skill: Skill, rivals: Sequence[Skill]) -> tuple[Query, ...]:
    # Without bounds, nothing but the file of queries is written.
    if not bounds_of(settings):
        model = open_configured(settings.section(RunSettings))
        async with connected(model):
            return await draft_queries(model, skill, rivals)
    await anyio.to_thread.run_sync(open_workspace, workspace)
    async with counted_model(settings, workspace, "draft") as counted_one:
        return await draft_queries(counted_one, skill, rivals)
