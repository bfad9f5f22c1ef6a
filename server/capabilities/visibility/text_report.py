"""Print a visibility report for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from server.capabilities.visibility.clashes import NameClashKind
from server.capabilities.visibility.report import advice, summarized
from server.capabilities.visibility.served_listing import EntryState, Obstacle, Sight, tokens
from skills_core.diagnostics import one_line
from skills_core.rendering.catalog import utf16_length

if TYPE_CHECKING:
    from rich.console import Console

    from server.capabilities.visibility.clashes import NameClash, SimilarDescriptions
    from server.capabilities.visibility.report import ClientVisibility, VisibilityReport
    from server.capabilities.visibility.served_listing import VisibleText
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
    _print_groups(console, report.clients, "\n[bold]Not shown completely[/]", _hidden)
    _print_groups(
        console, report.clients, "\n[bold]What would change that[/]", lambda visibility: tuple(advice(visibility))
    )
    _print_names(console, report.name_clashes)
    _print_meaning(console, report.similar)


def _clients(clients: Iterable[ClientVisibility]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    headings = ("client", "described", "named", "tool search", "find_skills", "cut", "enum", "prompts")
    for heading in (*headings, "description", "instructions", "at once", "if it reads the folders"):
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
