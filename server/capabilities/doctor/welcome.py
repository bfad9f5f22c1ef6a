"""The screen of `skillserve` alone at a terminal: which skills and clients are there, and what to do next.

It starts nothing and changes nothing. The working directory may belong to a stranger, so it prints no names of skills.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from server import __version__
from server.capabilities.connect.changes import connected
from server.capabilities.connect.clients import known_clients
from server.cli.console import wrapped
from server.config.bootstrap import open_catalog, settings_in_project, user_settings
from server.config.machine import Machine, current_places
from server.logs.text_logs import has_colours
from skills_core.diagnostics import counted, one_line
from skills_core.disk.sources import ScanBounds, Scope, SkillKind, Source, project_of, real_path
from skills_core.loading.discovery import find_skill_files
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.disk.sources import Places

_FOLDERS_AT_HOME: Final = (
    "skills",
    ".codex/skills",
    ".copilot/skills",
    ".cursor/skills",
    ".gemini/skills",
    ".qwen/skills",
    ".kiro/skills",
    ".continue/skills",
    ".codeium/windsurf/skills",
    ".config/opencode/skills",
    ".config/goose/skills",
    ".config/crush/skills",
)
_FOLDERS_OF_PROJECTS: Final = ("skills", ".github/skills", ".codex/skills", ".cursor/skills", ".gemini/skills")
# Where skills of other tools are, which are served only if they are named (`docs/agents.md` of npm `skills` 1.7.4).

_BOUNDS: Final = ScanBounds(depth=3, folders=300, entries=2000)
_MAX_CLIENTS: Final = 3
# Clients that one sentence names.


class FoundFolder(NamedTuple):
    """A folder with skills."""

    place: Path
    skills: int
    broken: int = 0
    trusted: bool = True


class FoundClient(NamedTuple):
    """A client that is installed; whether it has this server is None if its file cannot be read."""

    title: str
    has_server: bool | None


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found: folders that are served without an argument, others, and clients."""

    served: Sequence[FoundFolder] = ()
    others: Sequence[FoundFolder] = ()
    clients: Sequence[FoundClient] = ()


class Step(NamedTuple):
    """A command line, and what it does."""

    command: str
    purpose: str


def greet() -> None:
    """Print the screen."""
    machine = Machine(current_places())
    settings, _ = settings_in_project(machine, user_settings(machine, {}), {})
    catalog = open_catalog(None, settings, machine)
    found = Findings([*_served(catalog)], [*_others(catalog, machine.places)], [*_clients(machine.places.home)])
    text = screen(found, machine.places)
    print(_with_headings(text) if has_colours(os.environ) else text)  # noqa: T201 - for a person at a terminal


def _served(catalog: Catalog) -> Iterator[FoundFolder]:
    broken = Counter(skill.source.root for skill in catalog.skills if skill.state is State.INVALID)
    for found in catalog.sources:
        if found.skills and found.source.scope is not Scope.BUNDLED:
            root = found.source.root
            yield FoundFolder(root, found.skills, broken[root] if found.trusted else 0, found.trusted)


def _others(catalog: Catalog, places: Places) -> Iterator[FoundFolder]:
    known = {found.source.root for found in catalog.sources}
    project = project_of(places.working_directory, places.home)
    inside = [places.working_directory / each for each in _FOLDERS_OF_PROJECTS]
    if project != places.working_directory:
        inside += [project / each for each in _FOLDERS_OF_PROJECTS]
    at_home = [places.home / each for each in _FOLDERS_AT_HOME]
    for folder in dict.fromkeys([*at_home, *inside]):
        root = real_path(folder)
        # A link out of a project may lead anywhere.
        is_ours = folder in at_home or root.is_relative_to(real_path(project))
        if is_ours and root not in known and root.is_dir():
            known.add(root)
            number = sum(1 for _ in find_skill_files(Source(root, bounds=_BOUNDS, kinds=frozenset({SkillKind.FOLDER}))))
            if number:
                yield FoundFolder(folder, number, trusted=folder in at_home)


def _clients(home: Path) -> Iterator[FoundClient]:
    for client in known_clients().values():
        if client.is_installed(home, os.environ):
            found = connected(client, home)
            yield FoundClient(client.title, None if isinstance(found, str) else bool(found))


def screen(found: Findings, places: Places) -> str:
    """Return the text of the screen."""
    lines = [f"skillserve {__version__}: Agent Skills for every MCP client", "", "Skills"]
    folders = [_folder_row(each, places) for each in found.served]
    folders += [_folder_row(each, places, ", not served by default") for each in found.others]
    lines += _table(folders) or ["  none in the usual folders"]
    lines += ["", "Clients"]
    clients = _table([(each.title, _STATES[each.has_server]) for each in found.clients])
    lines += clients or ["  none that is known is installed"]
    lines += ["", "Next"]
    # Each on two lines, because command lines with paths are long.
    lines += [
        line
        for step in next_steps(found, places)
        for line in (f"  {step.command}", wrapped(f"      {step.purpose}", " " * 6))
    ]
    return "\n".join(lines)


_STATES: Final = {True: "connected", False: "not connected", None: "its file cannot be read"}


def next_steps(found: Findings, places: Places) -> Iterator[Step]:
    """Yield what a person may do next, the most useful first."""
    ready = [each for each in found.served if each.trusted and each.skills > each.broken]
    missing = [each.title for each in found.clients if each.has_server is False]
    if ready:
        yield from _steps_with_skills(found, missing)
    elif own := next((each for each in found.others if each.trusted), None):
        place = _argument(own.place, places)
        if missing:
            yield Step(f"skillserve connect {place}", f"give the skills there to {_listed(missing)}")
        yield Step(f"skillserve serve {place} --transport http", "serve them over HTTP")
    else:
        yield Step("skillserve init my-skill --to ~/.agents/skills", "write a first skill")
    yield from _steps_of_project(found, places)
    if any(each.broken for each in found.served):
        yield Step("skillserve status", "see what is wrong with the broken skills")
    if any(each.has_server is None for each in found.clients):
        yield Step("skillserve doctor", "see what is wrong with the files of clients")
    yield Step("skillserve --help", "see all commands")


def _steps_with_skills(found: Findings, missing: Sequence[str]) -> Iterator[Step]:
    if missing:
        yield Step("skillserve connect", f"give your skills to {_listed(missing)}")
    elif found.clients and all(each.has_server for each in found.clients):
        yield Step("skillserve status", "list your skills, which your clients have")
        yield Step("skillserve doctor", "try each connection")
    if not found.clients:
        yield Step("skillserve serve --transport http", "serve your skills over HTTP to any client")


def _steps_of_project(found: Findings, places: Places) -> Iterator[Step]:
    if any(not each.trusted for each in found.served):
        yield Step("skillserve trust", "serve the skills of this project; look at them first")
    if other := next((each for each in found.others if not each.trusted), None):
        place = _argument(other.place, places)
        yield Step(f"skillserve status {place}", "look at skills of this project, not served by default")


def _folder_row(found: FoundFolder, places: Places, more: str = "") -> tuple[str, str]:
    broken = f", {found.broken} broken" if found.broken else ""
    trust = "" if found.trusted or more else ", project not trusted"
    return _shown(found.place, places), f"{counted(found.skills, 'skill')}{broken}{trust}{more}"


def _shown(place: Path, places: Places) -> str:
    """Return a path as people write it: relative to the working directory or to their home."""
    here, home = (places.working_directory, "."), (places.home, "~")
    for folder, short in (home, here) if places.home.is_relative_to(places.working_directory) else (here, home):
        if place.is_relative_to(folder) and folder != Path(folder.anchor):
            return one_line(f"{short}/{place.relative_to(folder).as_posix()}")
    return one_line(str(place))


def _argument(place: Path, places: Places) -> str:
    """Return a path as an argument; a shell must find the `~` outside of quotes."""
    shown = _shown(place, places)
    return f"~/{shlex.quote(shown.removeprefix('~/'))}" if shown.startswith("~/") else shlex.quote(shown)


def _listed(titles: Sequence[str]) -> str:
    if len(titles) > _MAX_CLIENTS:
        return f"{', '.join(titles[:_MAX_CLIENTS])} and {len(titles) - _MAX_CLIENTS} more"
    return " and ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(first) for first, _ in rows), default=0)
    return [f"  {first:<{width}}  {second}" for first, second in rows]


def _with_headings(text: str) -> str:
    """Return the text with its headings, which are lines of one word, in bold."""
    return "\n".join(f"\x1b[1m{line}\x1b[0m" if line.isalpha() else line for line in text.split("\n"))
