"""Print a visibility report for people: a sentence for each client, or the table with all figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from server.capabilities.visibility.clashes import NameClashKind
from server.capabilities.visibility.report import advice, summarized
from server.capabilities.visibility.served_listing import EntryState, Obstacle, Sight, tokens
from server.hosting.catalog_log import nothing_found
from skills_core.diagnostics import counted, one_line
from skills_core.rendering.catalog import utf16_length

if TYPE_CHECKING:
    from rich.console import Console

    from server.capabilities.visibility.clashes import NameClash, SimilarDescriptions
    from server.capabilities.visibility.report import ClientVisibility, VisibilityReport
    from server.capabilities.visibility.served_listing import VisibleText
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill

_MAX_CLASHES = 20
"""Maximum number of printed clashes of a kind; the JSON has all."""

_PRINTED_ELSEWHERE = frozenset({Obstacle.NOT_FOR_MODELS, Obstacle.NOT_FOR_USERS, Obstacle.NO_PROMPTS})
# What a skill declares itself is printed once for all clients; prompts have a column.

_KINDS = {
    NameClashKind.SHADOWED: "several sources have the name, one is served",
    NameClashKind.SHARED: "served under their paths",
    NameClashKind.ALIKE: "differ only by case, separators or a plural",
    NameClashKind.COMMAND: "a command of",
}


_LEGEND = {
    "described": "skills that the model sees with their whole entry from the start",
    "named": "skills that it sees from the start by name only",
    "tool search": "skills that it sees once it has used the client's own search for tools",
    "find_skills": "skills that only the tool find_skills finds",
    "cut": "entries that the client cuts",
    "enum": "names that the schema of activate_skill lists",
    "prompts": "skills that users can start as commands; ? if that is not known",
    "description": "characters of the description of activate_skill that it sees from the start",
    "instructions": "characters of the server's instructions that it sees from the start",
    "at once": "tokens of all texts from the start, four characters each",
    "if it reads the folders": "what the client would list if it read the folders itself; ? if that is not known",
}
# The columns of the table behind the client, in their order.

_SEEN = {
    Sight.NAMED: "by name only",
    Sight.TOOL_SEARCH: "after a search for tools",
    Sight.FIND_SKILLS: "hidden until the model calls find_skills",
}
_BECAUSE = {
    Obstacle.DEFERRED: "the client loads tools only when its model searches for them",
    Obstacle.BEYOND_BUDGET: "there is no room for their descriptions in {budget:,} characters",
    Obstacle.CUT_ENTRY: "the client cuts the text there",
    Obstacle.LONG_ANSWER: "the client shows too little of what its search for tools finds",
}


def print_sentences(console: Console, report: VisibilityReport) -> None:
    """Print one sentence for each client, and what else there is to see in the table."""
    active, offered = report.catalog.active, report.catalog.offered
    if not active:
        console.print(escape("\n".join(_none_served(report.catalog))), soft_wrap=True)
        return
    if not offered:
        console.print(
            f"None of the {counted(len(active), 'skill')} is for models, so no client lists any to its model."
        )
        return
    others = len(active) - len(offered)
    rest = f" {counted(others, 'other is', 'others are')} not for models." if others else ""
    console.print(
        f"What models see of {counted(len(offered), 'skill')} when a conversation begins.{rest}\n", soft_wrap=True
    )
    for visibility in report.clients:
        console.print(escape(sentence(visibility)), soft_wrap=True)
    console.print()
    found = {"name clashes": len(report.name_clashes), "descriptions that compete": len(report.similar.pairs)}
    more = ", ".join(f"{what} ({count:,})" for what, count in found.items() if count)
    console.print(f"--table has all figures, what would show more{f', {more}' if more else ''}.", soft_wrap=True)


def sentence(visibility: ClientVisibility) -> str:
    """Return in one sentence how many skills a client shows, what becomes of the others, and why."""
    shown = [each for each in visibility.served.skills if each.sight is not None]
    sights = Counter(each.sight for each in shown)
    title = f"{visibility.client.title} {visibility.version}" if visibility.version else visibility.client.title
    described, total = sights[Sight.DESCRIBED], len(shown)
    if described == total:
        return one_line(f"{title}: shows all {total:,}." if total > 1 else f"{title}: shows it.")
    parts = [f"{sights[sight]:,} {words}" for sight, words in _SEEN.items() if sights[sight]]
    why = Counter(
        obstacle
        for each in shown
        if each.sight is not Sight.DESCRIBED
        for obstacle in each.obstacles
        if obstacle in _BECAUSE
    )
    budget = visibility.served.budget
    because = " and ".join(_BECAUSE[obstacle].format(budget=budget) for obstacle, _ in why.most_common(2))
    hidden = summarized((each.skill.key for each in shown if each.sight is Sight.FIND_SKILLS), 3)
    named = f" ({hidden})" if hidden else ""
    reason = f", because {because}" if because else ""
    return one_line(
        f"{title}: shows {f'{described:,}' if described else 'none'} of {total:,}; {', '.join(parts)}{named}{reason}."
    )


def _none_served(catalog: Catalog) -> list[str]:
    if catalog.skills:
        count = counted(len(catalog.skills), "skill")
        return [f"None of the {count} found is served; `skillserve status` says why."]
    return nothing_found(catalog)


def print_report(console: Console, report: VisibilityReport) -> None:
    """Print a table of the clients, then hidden skills with reasons, possible changes, and clashes."""
    active = report.catalog.active
    users = sum(skill.user_invocable for skill in active)
    others = [skill.key for skill in active if not skill.model_invocable]
    console.print(f"{len(active):,} active skills, {len(active) - len(others):,} for models, {users:,} for users")
    if others:
        console.print(f"Not for models: {escape(summarized(others))}", soft_wrap=True)
    console.print(f"A token is four characters, a model's context {report.window:,} tokens.\n")
    console.print(_clients(report.clients))
    console.print()
    for heading, meaning in _LEGEND.items():
        console.print(f"  {heading:<23}  {meaning}", soft_wrap=True)
    _print_groups(console, report.clients, "\n[bold]Not shown completely[/]", _hidden)
    _print_groups(
        console, report.clients, "\n[bold]What would change that[/]", lambda visibility: tuple(advice(visibility))
    )
    _print_names(console, report.name_clashes)
    _print_meaning(console, report.similar)


def _clients(clients: Iterable[ClientVisibility]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("client", *_LEGEND):
        table.add_column(heading, overflow="fold")
    for visibility in clients:
        served = visibility.served
        sights = Counter(shown.sight for shown in served.skills)
        hidden = sights[Sight.FIND_SKILLS]
        prompts = sum(bool(shown.prompt) for shown in served.skills)
        known = visibility.client.prompts is not None
        at_once = sum(utf16_length(text.at_once) for text in served.texts.all)
        table.add_row(
            escape(one_line(visibility.label)),
            *(f"{sights[sight]:,}" for sight in (Sight.DESCRIBED, Sight.NAMED, Sight.TOOL_SEARCH)),
            f"[yellow]{hidden:,}[/]" if hidden else "0",
            str(sum(shown.entry is EntryState.CUT for shown in served.skills)),
            f"{sum(shown.in_enum for shown in served.skills):,}",
            f"{prompts:,}" if known else "?",
            _extent(served.texts.description),
            _extent(served.texts.instructions),
            f"{tokens(at_once):,} tokens",
            _native(visibility),
        )
    return table


def _extent(text: VisibleText) -> str:
    """Return how much of a text the model sees from the start."""
    at_once, length = utf16_length(text.at_once), utf16_length(text.text)
    return f"{length:,}" if at_once == length else f"{at_once:,} of {length:,}"


def _native(visibility: ClientVisibility) -> str:
    if visibility.native is None:
        return "?"
    counts = Counter(entry for _, entry in visibility.native.skills)
    words = {EntryState.WHOLE: "whole", EntryState.CUT: "cut", EntryState.NAME: "by name", EntryState.MISSING: "hidden"}
    return ", ".join(f"{counts[entry]:,} {word}" for entry, word in words.items() if counts[entry]) or "0"


def _hidden(visibility: ClientVisibility) -> tuple[str, ...]:
    """Return a line for each reason why skills are not shown completely."""
    because: dict[Obstacle, list[str]] = defaultdict(list)
    for shown in visibility.served.skills:
        for obstacle in shown.obstacles:
            if obstacle not in _PRINTED_ELSEWHERE:
                because[obstacle].append(shown.skill.key)
    return tuple(f"{obstacle.value} ({len(keys):,}): {summarized(keys)}" for obstacle, keys in because.items())


def _print_groups(
    console: Console,
    clients: Iterable[ClientVisibility],
    heading: str,
    lines_of: Callable[[ClientVisibility], tuple[str, ...]],
) -> None:
    """Print the lines of each client, once for all clients with the same lines."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for visibility in clients:
        groups[lines_of(visibility)].append(one_line(visibility.label))
    groups.pop((), None)
    if groups:
        console.print(heading)
    for lines, keys in groups.items():
        console.print(escape(", ".join(keys)))
        for line in lines:
            console.print(f"  {escape(line)}", soft_wrap=True)


def _print_names(console: Console, clashes: tuple[NameClash, ...]) -> None:
    if clashes:
        console.print("\n[bold]Names that clash[/]")
    for clash in clashes[:_MAX_CLASHES]:
        names = ", ".join(dict.fromkeys(_called(skill, clash.kind) for skill in clash.skills))
        clients = f" {', '.join(client.key for client in clash.clients)}" if clash.clients else ""
        console.print(f"  {escape(names)}: {_KINDS[clash.kind]}{clients}", soft_wrap=True)
    _print_rest(console, len(clashes))


def _print_meaning(console: Console, clashes: SimilarDescriptions) -> None:
    if clashes.pairs:
        console.print("\n[bold]Descriptions that compete[/] (a request in the words of the first finds the second too)")
    for pair in clashes.pairs[:_MAX_CLASHES]:
        console.print(
            f"  {pair.share:.2f} {escape(one_line(pair.skill.key))} / {escape(one_line(pair.rival.key))}: "
            f"{escape(summarized(pair.words, 8))}",
            soft_wrap=True,
        )
    _print_rest(console, len(clashes.pairs))
    if clashes.left_out:
        console.print(
            f"  {clashes.compared:,} descriptions were compared with all skills, {clashes.left_out:,} were not"
        )


def _print_rest(console: Console, count: int) -> None:
    if count > _MAX_CLASHES:
        console.print(f"  and {count - _MAX_CLASHES:,} more: --json has all")


def _called(skill: Skill, kind: NameClashKind) -> str:
    if kind is NameClashKind.SHADOWED:
        return one_line(f"{skill.name} in {skill.source.root} ({skill.state.value})")
    return one_line(skill.name if kind is NameClashKind.COMMAND else skill.key)
