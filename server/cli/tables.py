"""Print skills and search results as tables; a separate module, so that only these commands import `rich`.

Into a pipe, each skill goes on one line with all columns. On a terminal, skills are grouped by source to save width.
Empty columns are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from server.cli.console import print_notice
from server.hosting.catalog_log import command_for, nothing_found
from server.hosting.status import count_states, display_path
from skills_core.diagnostics import Severity, agreeing, counted, one_line, shortened
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.hosting.status import StatusFilter
    from skills_core.catalog.catalog import Catalog
    from skills_core.selection.drift import FoundBefore, QueryDrift
    from skills_core.selection.policy import Match
    from skills_core.skills.skill import Skill


_WIDE = 10_000
_INDENT = 2
_MIN_TEXT = 20
# Columns of a description that `list` prints at least.

_MAX_VERSION = 40
# Characters of a version in a table; any text may stand there.

_COLOURS = {"active": "green", "excluded": "yellow", "shadowed": "yellow", "invalid": "red"}


def print_status(catalog: Catalog, choice: StatusFilter, lines: Iterable[str]) -> None:
    """Print the chosen skills, their diagnostics, and the `lines` that capabilities add."""
    chosen = [skill for skill in catalog.skills if choice.admits(skill)]
    console = Console(highlight=False)
    if not chosen:
        _print_none(console, catalog)
        for line in lines:
            console.print(escape(line), soft_wrap=True)
        return
    if console.is_terminal:
        _print_by_source(console, catalog, chosen)
    else:
        console = Console(highlight=False, width=_WIDE)
        cells = {
            "skill": _key,
            "version": _version,
            "state": _state,
            "scope": _scope,
            "credential": _credential,
            "why": _why,
            "folder": _place,
        }
        console.print(_table(chosen, cells))
    counts = ", ".join(f"{count} {state}" for state, count in count_states(chosen).items())
    among = "" if len(chosen) == len(catalog.skills) else f" of {len(catalog.skills)}"
    console.print(f"\n{len(chosen)}{among} {agreeing(len(catalog.skills), 'skill', 'skills')}: {counts}")
    found = [diagnostic for skill in chosen for diagnostic in skill.diagnostics]
    for diagnostic in (*catalog.problems, *found):
        if diagnostic.severity is not Severity.INFO:
            console.print(escape(str(diagnostic)), soft_wrap=True)
    for line in lines:
        console.print(escape(line))


def _print_none(console: Console, catalog: Catalog) -> None:
    """Print why `status` lists no skill: there are none, or none is chosen."""
    none = ["None of the skills is chosen; without --state, --reason, --scope and --name all are listed."]
    for line in none if catalog.skills else nothing_found(catalog):
        console.print(escape(line), soft_wrap=True)
    for problem in catalog.problems:
        if problem.severity is not Severity.INFO:
            console.print(escape(str(problem)), soft_wrap=True)


def print_list(catalog: Catalog) -> None:
    """Print the name and the description of each skill that is served, on a terminal on one line of its width."""
    console = console_for_people()
    if not catalog.skills:
        console.print(escape("\n".join(nothing_found(catalog))), soft_wrap=True)
        return
    names = [one_line(skill.key) for skill in catalog.active]
    column = max(map(cell_len, names), default=0) + _INDENT
    room = max(console.width - column, _MIN_TEXT)
    for name, skill in zip(names, catalog.active, strict=True):
        text = one_line(skill.description)
        text = text if cell_len(text) <= room else f"{set_cell_size(text, room - 1).rstrip()}…"
        console.print(f"[bold]{escape(name)}[/]{' ' * (column - cell_len(name))}{escape(text)}", soft_wrap=True)
    others = [skill for skill in catalog.skills if skill.state is not State.ACTIVE]
    counts = ", ".join(f"{count} {state}" for state, count in count_states(others).items() if count)
    how = command_for(catalog, "status")
    rest = f"{len(others):,} {agreeing(len(others), 'is', 'are')} not served ({counts}): {how} says why"
    if console.is_terminal:
        served = f"\n{counted(len(catalog.active), 'skill')} served"
        console.print(f"{served}; {rest}" if others else served, soft_wrap=True)
    elif others:
        # A program that reads the names is not disturbed.
        print_notice(rest)


def print_matches(matches: Sequence[Match], catalog: Catalog) -> None:
    """Print one row for each match in a catalog, best first: score, band, matched words and description."""
    console = console_for_people()
    if not catalog.skills:
        console.print(escape("\n".join(nothing_found(catalog))), soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("skill", "score", "band", "why", "description"):
        table.add_column(heading, overflow="fold")
    for match in matches:
        band = f"{match.band.value}, weak" if match.weak else match.band.value
        why = "; ".join(f"{field}: {' '.join(words)}" for field, words in match.why)
        cells = (_key(match.skill), f"{match.score:.2f}", band, escape(why), escape(one_line(match.skill.description)))
        table.add_row(*cells)
    console.print(
        table if matches else "No skill matches. Describe the task, technology or file format in other words."
    )


def print_drift(found: Sequence[QueryDrift]) -> None:
    """Print each query whose matches moved, with one line for each of these."""
    console = console_for_people()
    for each in found:
        if each.moved or each.is_new:
            console.print(f"[bold]{escape(one_line(each.query.query)) or '(no words)'}[/]")
        if each.is_new:
            console.print("  no result is kept; --update keeps one")
        for drift in each.moved:
            name, moves = escape(one_line(drift.name)), ", ".join(drift.moves)
            before, now = _ranked(drift.before), _ranked(drift.now)
            edited = "; its text was edited" if drift.edited else ""
            console.print(f"  {name}: {before} → {now} ({moves}{edited})", soft_wrap=True)
    moved = sum(bool(each.moved) for each in found)
    console.print(f"{moved} of {len(found)} queries moved.")


def _ranked(found: FoundBefore | None) -> str:
    return f"{found.rank}. ({found.score:.2f}, {found.band.value})" if found else "not found"


def console_for_people(*, plain: bool = False) -> Console:
    """Return a console of the terminal's width; without a terminal, or `plain`, of unlimited width."""
    console = Console(highlight=False)
    if plain:
        return Console(highlight=False, width=_WIDE, color_system=None)
    return console if console.is_terminal else Console(highlight=False, width=_WIDE)


def _print_by_source(console: Console, catalog: Catalog, chosen: Iterable[Skill]) -> None:
    by_source: dict[object, list[Skill]] = {}
    for skill in chosen:
        by_source.setdefault(skill.source.root, []).append(skill)
    width = max((len(_key(skill)) for skills in by_source.values() for skill in skills), default=0)
    for found in catalog.sources:
        skills = by_source.get(found.source.root, [])
        if skills:
            trust = "" if found.trusted else " [yellow](not trusted)[/]"
            root = escape(one_line(str(found.source.root)))
            console.print(f"[bold]{found.source.scope.value}[/] {root}{trust}", soft_wrap=True)
            cells = {"skill": _key, "version": _version, "state": _state, "place": _deviating_place, "notes": _notes}
            console.print(Padding(_table(skills, cells, width), (0, 0, 1, _INDENT)))


def _table(skills: Sequence[Skill], cells: Mapping[str, Callable[[Skill], str]], width: int = 0) -> Table:
    """Return a table of the non-empty columns of `cells`; the first is at least `width` wide."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = {heading: [cell(skill) for skill in skills] for heading, cell in cells.items()}
    columns = {heading: column for heading, column in columns.items() if any(column) or heading in {"skill", "state"}}
    for number, heading in enumerate(columns):
        table.add_column(heading, overflow="fold", min_width=None if number else width)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _key(skill: Skill) -> str:
    return escape(one_line(skill.key))


def _version(skill: Skill) -> str:
    return escape(shortened(skill.frontmatter.version or "", _MAX_VERSION))


def _state(skill: Skill) -> str:
    return f"[{_COLOURS[skill.state.value]}]{skill.state.value}[/]"


def _scope(skill: Skill) -> str:
    return skill.source.scope.value


def _credential(skill: Skill) -> str:
    if skill.credential is None:
        return ""
    return f"{escape(one_line(skill.credential.name))} {'is set' if skill.credential.is_set else '[red]is missing[/]'}"


def _why(skill: Skill) -> str:
    return escape(one_line(f"{skill.reason.value}: {skill.detail}")) if skill.reason else ""


def _notes(skill: Skill) -> str:
    credential = _credential(skill)
    return "; ".join(note for note in (_why(skill), credential and f"credential {credential}") if note)


def _place(skill: Skill) -> str:
    return escape(one_line(display_path(skill)))


def _deviating_place(skill: Skill) -> str:
    """Return the skill's place within its source, or nothing if the key already names it."""
    return "" if skill.content.place in {skill.key, skill.path} else escape(one_line(skill.content.place or "."))
