"""What `visibility` prints for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from server.visibility.advice import advice, listed
from server.visibility.entry_state import Entry, Obstacle, tokens
from server.visibility.name_clashes import NameClashKind
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console

    from server.visibility.name_clashes import NameClash
    from server.visibility.report import ClientView, Overview
    from server.visibility.similar_descriptions import MeaningClashes
    from skills_core.skill import Skill

__all__ = ["print_overview"]

_MOST = 20
"""Most clashes of a kind that people are shown; the JSON has all."""

_FROM_THE_CATALOG = frozenset({Obstacle.BEYOND_BUDGET, Obstacle.CUT_ENTRY, Obstacle.BEYOND_ENUM})
# What a skill says of itself is told once, not for each client.

_KINDS = {
    NameClashKind.SHADOWED: "several sources have the name, one is served",
    NameClashKind.SHARED: "served under their paths",
    NameClashKind.ALIKE: "differ by case, separators or a plural alone",
    NameClashKind.COMMAND: "a command of",
}


def print_overview(console: Console, overview: Overview) -> None:
    """Print a row for each client, then what is hidden and why, what would change it, and what clashes."""
    active = overview.catalog.active
    users = sum(skill.user_invocable for skill in active)
    others = [skill.key for skill in active if not skill.model_invocable]
    console.print(f"{len(active):,} active skills, {len(active) - len(others):,} for models, {users:,} for users")
    if others:
        console.print(f"Not for models: {escape(listed(others))}", soft_wrap=True)
    console.print(f"A token is four characters, a model's context {overview.window:,} tokens.\n")
    console.print(_clients(overview.views))
    _print_groups(console, overview.views, "\n[bold]Not wholly in the catalog[/]", _hidden)
    _print_groups(console, overview.views, "\n[bold]What would change that[/]", lambda view: tuple(advice(view)))
    _print_names(console, overview.names)
    _print_meaning(console, overview.meaning)


def _clients(views: Iterable[ClientView]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("client", "catalog", "cut", "hidden", "enum", "prompts", "description", "if it reads the folders"):
        table.add_column(heading, overflow="fold")
    for view in views:
        served = view.served
        counts = Counter(shown.entry for shown in served.skills if shown.skill.model_invocable)
        prompts = sum(bool(shown.prompt) for shown in served.skills)
        known = view.client.prompts is not None
        hidden = counts[Entry.MISSING]
        table.add_row(
            escape(view.client.key),
            f"{counts[Entry.WHOLE]:,}",
            str(counts[Entry.CUT]),
            f"[yellow]{hidden:,}[/]" if hidden else "0",
            f"{sum(shown.in_enum for shown in served.skills):,}",
            f"{prompts:,}" if known else "?",
            f"{served.seen:,} characters, {tokens(served.seen):,} tokens",
            _native(view),
        )
    return table


def _native(view: ClientView) -> str:
    if view.native is None:
        return "?"
    counts = Counter(entry for _, entry in view.native.skills)
    words = {Entry.WHOLE: "whole", Entry.CUT: "cut", Entry.NAME: "by name", Entry.MISSING: "hidden"}
    return ", ".join(f"{counts[entry]:,} {word}" for entry, word in words.items() if counts[entry]) or "0"


def _hidden(view: ClientView) -> tuple[str, ...]:
    """Return a line for each reason why skills are not wholly in the catalog."""
    because: dict[Obstacle, list[str]] = defaultdict(list)
    for shown in view.served.skills:
        for obstacle in shown.obstacles:
            if obstacle in _FROM_THE_CATALOG:
                because[obstacle].append(shown.skill.key)
    return tuple(f"{obstacle.value} ({len(keys):,}): {listed(keys)}" for obstacle, keys in because.items())


def _print_groups(
    console: Console, views: Iterable[ClientView], heading: str, lines_of: Callable[[ClientView], tuple[str, ...]]
) -> None:
    """Print lines under the clients that they are true of, each set of lines once."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for view in views:
        groups[lines_of(view)].append(view.client.key)
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
    for clash in clashes[:_MOST]:
        names = ", ".join(dict.fromkeys(_called(skill, clash.kind) for skill in clash.skills))
        clients = f" {', '.join(client.key for client in clash.clients)}" if clash.clients else ""
        console.print(f"  {escape(names)}: {_KINDS[clash.kind]}{clients}", soft_wrap=True)
    _print_rest(console, len(clashes))


def _print_meaning(console: Console, clashes: MeaningClashes) -> None:
    if clashes.pairs:
        console.print("\n[bold]Descriptions that compete[/] (a request in the words of the first finds the second too)")
    for pair in clashes.pairs[:_MOST]:
        console.print(
            f"  {pair.share:.2f} {escape(one_line(pair.skill.key))} / {escape(one_line(pair.rival.key))}: "
            f"{escape(listed(pair.words, 8))}",
            soft_wrap=True,
        )
    _print_rest(console, len(clashes.pairs))
    if clashes.left_out:
        console.print(
            f"  {clashes.compared:,} descriptions were compared with all skills, {clashes.left_out:,} were not"
        )


def _print_rest(console: Console, count: int) -> None:
    if count > _MOST:
        console.print(f"  and {count - _MOST:,} more: --json has all")


def _called(skill: Skill, kind: NameClashKind) -> str:
    if kind is NameClashKind.SHADOWED:
        return one_line(f"{skill.name} in {skill.source.root} ({skill.state.value})")
    return one_line(skill.name if kind is NameClashKind.COMMAND else skill.key)
