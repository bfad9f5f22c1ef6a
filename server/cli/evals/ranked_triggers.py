"""`triggers --no-model`: rank a skill for its queries by the search of the server, and print the result."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from server.cli.client_lists import chosen_clients, served_lists
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json
from server.cli.evals.ranked_files import results_of
from server.config.bootstrap import open_in_front, settings_of
from server.config.machine import Machine, current_places
from server.evals.triggers.query_file import queries_in, queries_of_skill
from server.evals.triggers.ranked_triggers import rank_triggers, triggers_object
from skills_core.evals.triggers.queries import QUERY_FILES
from skills_core.evals.triggers.query_summary import Limits, Verdict
from skills_core.skill import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.cli.evals.report_files import ReportFiles
    from server.clients import ClientProfile
    from server.config.settings import Settings
    from skills_core.evals.triggers.queries import Query
    from skills_core.library import Library
    from skills_core.skill import Skill

__all__ = ["RankingOptions", "open_skill", "require_folder", "triggers_without_model"]

ALL_CLIENTS = "all"


class RankingOptions(NamedTuple):
    """The options of the command that concern the ranking."""

    queries: Path | None = None
    catalog: Sequence[Path] | None = None
    clients: tuple[str, ...] = ()
    min_recall: float | None = None
    max_false: float | None = None


def triggers_without_model(
    folder: Path, options: RankingOptions, files: ReportFiles, *, plain: bool, as_json: bool, **flags: object
) -> None:
    """Rank the skill in `folder` and print the result; exit with 1 if a limit is exceeded or cannot be judged."""
    require_folder(folder)
    clients = _clients(options.clients)
    limits = Limits(options.min_recall, options.max_false)
    file, queries = _queries(folder, options.queries)
    library, settings, skill = open_skill(folder, options.catalog, **flags)
    snapshot = served_lists(library.catalog, settings)
    found = rank_triggers(snapshot, skill, queries, file, clients, limits)
    files.write(*results_of(found))
    if as_json:
        print_json(triggers_object(found))
    else:
        from server.cli.evals.trigger_table import print_triggers
        from server.cli.tables import console_for_people

        print_triggers(console_for_people(plain=plain), found)
    if limits != Limits() and found.summary.verdict is not Verdict.PASS:
        raise SystemExit(EXIT_NO)


def require_folder(path: Path) -> None:
    """Exit with a message if there is no folder at `path`."""
    if not os.path.isdir(path):  # noqa: PTH112 - `Path` raises for paths that cannot be accessed
        what = "this is no folder; name the folder of the skill" if os.path.lexists(path) else "there is no such folder"
        fail(f"{path}: {what}", EXIT_USAGE)


def open_skill(folder: Path, catalog: Sequence[Path] | None, **flags: object) -> tuple[Library, Settings, Skill]:
    """Load the skill in `folder` among those of `catalog`; exit with a message if models are not offered it."""
    machine = Machine(current_places())
    settings = settings_of(machine, flags)
    library, skill = open_in_front(folder, catalog, settings, machine)
    if skill is None:
        fail(f"{folder}: there is no SKILL.md in this folder; name the folder of one skill", EXIT_USAGE)
    if skill.state is not State.ACTIVE:
        why = f"{skill.reason.value}: {skill.detail}" if skill.reason else ""
        why = why if skill.state is not State.INVALID else f"{why}; `skillserve validate` explains it"
        fail(f"{folder}: the skill is {skill.state.value}, so that no client sees it ({why})", EXIT_USAGE)
    if not skill.is_offered:
        fail(f"{folder}: the skill declares that models may not activate it, so that nothing triggers it", EXIT_USAGE)
    return library, settings, skill


def _queries(folder: Path, file: Path | None) -> tuple[str, tuple[Query, ...]]:
    if file is not None:
        return str(file), queries_in(file)
    found = queries_of_skill(folder)
    if found is None:
        fail(
            f"{folder}: there are no queries; expected {' or '.join(QUERY_FILES)}, or a file named with --queries",
            EXIT_USAGE,
        )
    return found


def _clients(chosen: Sequence[str]) -> list[tuple[ClientProfile, str | None]]:
    from server.clients import KNOWN_CLIENTS, UNKNOWN

    named = chosen_clients(each for each in chosen if each != ALL_CLIENTS)
    if ALL_CLIENTS not in chosen:
        return named or [(UNKNOWN, None)]
    keys = {client.key for client, version in named if version is None}
    return [*named, *((client, None) for client in (*KNOWN_CLIENTS, UNKNOWN) if client.key not in keys)]
