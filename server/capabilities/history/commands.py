"""The commands `history` and `rollback`: what changed in skills, when and why, and the way back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands.options import AsJson, Directories
from server.cli.completion import skill_names
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.help_pages import CommandLine, group_with_default
from server.config.machine import state_home
from server.config.values import home_path
from skills_core.diagnostics import Severity, one_line, printable
from skills_core.errors import HistoryError

if TYPE_CHECKING:
    from server.capabilities.history.histories import ForgottenIn, Histories
    from skills_core.catalog.catalog import Catalog
    from skills_core.history.history import History
    from skills_core.history.versions import HistoryCommit

_DEFAULT = "log"
_SHOWN = 10


history = CommandLine(
    cls=group_with_default(_DEFAULT),
    help="Show the history of skills; `history NAME` is for `log NAME`.",
    subcommand_metavar="[NAME | COMMAND] [ARGS]...",
)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The skill's name, or its path in its source.", autocompletion=skill_names),
]
Revision = Annotated[
    str | None,
    typer.Argument(
        metavar="REV",
        help="A commit that `history` lists, by its first digits (at least 4). A folder counts as the first DIR.",
        show_default="the one before the newest change",
    ),
]


@history.command(_DEFAULT)
def log(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The skill's name. A path that begins with . or / counts as the first DIR.",
            show_default="all skills",
            autocompletion=skill_names,
        ),
    ] = None,
    directories: Directories = None,
    *,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show the newest N commits.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the commits of a skill, or of all skills, newest first.

    What was edited by hand since the last commit is recorded first. The exit code is 1 if there is no history.
    """
    if name is not None and _is_folder(name):
        directories = [home_path(name), *(directories or ())]
        name = None
    with _denials():
        histories, catalog = _open(directories)
        commits: list[tuple[Path, HistoryCommit]] = []
        for root, place in _places(histories, catalog, name):
            with _opened(histories, root, catalog, writes=False) as opened:
                commits += [(root, commit) for commit in opened.commits(place, limit)]
    commits = sorted(commits, key=lambda pair: datetime.fromisoformat(pair[1].when), reverse=True)[:limit]
    if as_json:
        print_json({"commits": [{**commit.to_json(), "source": str(root)} for root, commit in commits]})
        return
    is_one_source = len({root for root, _ in commits}) == 1
    for root, commit in commits:
        print_text(_line(commit) + ("" if is_one_source else f"  {printable(str(root))}"))


@history.command()
def diff(name: Name, rev: Revision = None, directories: Directories = None, *, as_json: AsJson = False) -> None:
    """Show what differs from a commit to the files now.

    That is what `rollback` with the same arguments takes back.
    """
    rev, directories = _rev_and_directories(rev, directories)
    with _denials():
        histories, catalog = _open(directories)
        root, place = _find(histories, catalog, name)
        with _opened(histories, root, catalog, writes=False) as opened:
            text = opened.diff(place, rev)
    if as_json:
        print_json({"diff": text})
    else:
        print_text(text.removesuffix("\n") or "nothing differs")


@history.command()
def move(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The folder that the source had.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The folder that the source has now.")],
) -> None:
    """Continue the history of a source that you have moved."""
    from skills_core.history.store import move_history

    with _denials():
        move_history(old, new, state_home())


@history.command()
def forget(directories: Directories = None, *, as_json: AsJson = False) -> None:
    """Remove a secret that slipped in from all histories.

    The secret is read from standard input, so that it is in no list of processes or commands. It is removed from all
    versions, messages and names; the ids of commits change. DIR chooses the sources. The exit code is 1 if a file that
    is there now still has it, or a history cannot be changed.
    """
    forget_secret(directories, lambda _: (), as_json=as_json)


def forget_secret(
    directories: list[Path] | None,
    forget_in_proposals: Callable[[Callable[[bytes], bool]], Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """Remove a secret from histories, and print where it was and where it still is.

    `forget_in_proposals` removes texts that contain it from the proposed changes of skills, and returns their ids.
    """
    from server.capabilities.history.histories import files_with, forget_in_histories
    from skills_core.history.store import is_available, no_extra

    with _denials():
        if not is_available():
            raise HistoryError(no_extra())
        from skills_core.history.maintenance import Secret

        secret = Secret(_read_secret())
    done = forget_in_histories(secret, directories or ())
    dropped = forget_in_proposals(secret.is_in)
    left = [printable(str(file)) for file in files_with(secret)]
    if as_json:
        histories = [each.to_json() for each in done]
        print_json({"histories": histories, "improvements": dropped, "elsewhere": left})
    else:
        for line in _forgotten_lines(done, dropped, left):
            print_text(line)
    for each in done:
        if each.fault:
            print_notice(each.fault)
    print_notice(
        "backups, snapshots and copies of the state directory may still have it, and so may whoever has read it: "
        "replace the secret where it is valid"
    )
    if any(each.fault for each in done):
        raise SystemExit(EXIT_NO)


def _forgotten_lines(done: Sequence[ForgottenIn], dropped: Sequence[str], left: Sequence[str]) -> Iterator[str]:
    for each in done:
        if each.commits:
            files = ", ".join(map(one_line, each.files)) or "names and messages"
            yield f"{printable(str(each.source))}: removed from {each.commits} commits ({files})"
    if not any(each.commits or each.fault for each in done):
        yield "no history has it"
    yield from (f"improvement {number}: its texts are removed" for number in dropped)
    yield from (f"{file}: still has it, and is not part of a history" for file in left)


def _read_secret() -> str:
    """Return the secret from standard input, without the line end after it."""
    if sys.stdin.isatty():
        return str(typer.prompt("The secret", hide_input=True, err=True))
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def rollback(name: Name, rev: Revision = None, directories: Directories = None, *, as_json: AsJson = False) -> None:
    """Restore an earlier version of a skill, as a new commit.

    What was edited by hand since the last commit is recorded first, so nothing is lost. Without REV, the newest change
    is taken back; the next rollback takes back this one.
    """
    rev, directories = _rev_and_directories(rev, directories)
    with _denials():
        histories, catalog = _open(directories)
        root, place = _find(histories, catalog, name)
        with _opened(histories, root, catalog, writes=True) as opened:
            commit = opened.rollback(place, rev)
    if as_json:
        print_json({"commit": None if commit is None else commit.to_json()})
    elif commit is None:
        print_notice("nothing to do: the skill is as it was then")
    else:
        print_text(_line(commit))
        if (fault := _fault_of(root / place, directories)) is not None:
            print_notice(f"the restored version is not valid: {fault}")


def _fault_of(restored: Path, directories: list[Path] | None) -> str | None:
    """Return why the skill cannot be used as it is on disk now; None if it can."""
    from skills_core.skills.skill import State

    _, catalog = _open(directories)
    invalid = [skill for skill in catalog.skills if skill.state is State.INVALID]
    same = [skill for skill in invalid if skill.source.root / skill.content.place == restored]
    return next((str(each) for skill in same for each in skill.diagnostics if each.severity is Severity.ERROR), None)


@contextmanager
def _denials() -> Iterator[None]:
    """Exit with 1 on an error of histories."""
    try:
        yield
    except HistoryError as error:
        fail(str(error), EXIT_NO)


def _open(directories: list[Path] | None) -> tuple[Histories, Catalog]:
    from server.capabilities.history.histories import Histories
    from server.config.bootstrap import open_with_settings

    library, settings = open_with_settings(directories)
    return Histories.of(settings), library.catalog


def _places(histories: Histories, catalog: Catalog, name: str | None) -> list[tuple[Path, str | None]]:
    """Return the histories to list: of the source of one skill, or of all sources and the scheduler skills.

    Raises:
        HistoryError: there is none.
    """
    from server.capabilities.history.histories import scheduler_root
    from skills_core.history.store import has_history

    if name is not None:
        return [_find(histories, catalog, name)]
    kept = [*histories.kept(catalog), *([scheduler_root()] if has_history(scheduler_root(), state_home()) else [])]
    if not kept:
        raise HistoryError("no history is kept of any of these sources yet; see the setting history.sources")
    return [(root, None) for root in kept]


def _find(histories: Histories, catalog: Catalog, name: str) -> tuple[Path, str]:
    """Return the root of the history of a skill, and its path there; scheduler skills, which no catalog has, come last.

    Raises:
        HistoryError: there is none.
    """
    from server.capabilities.history.histories import scheduler_root
    from skills_core.history.store import has_history, open_history

    try:
        found = histories.find(name, catalog)
    except HistoryError:
        if has_history(scheduler_root(), state_home()):
            with suppress(HistoryError), open_history(scheduler_root(), state_home(), work_trees=True) as history:
                return scheduler_root(), history.find(name)
        raise
    return found.root, found.name


def _opened(histories: Histories, root: Path, catalog: Catalog, *, writes: bool) -> History:
    """Open a history; record edits by hand first if the settings cover its source."""
    from server.capabilities.history.histories import record_scheduler_skills, scheduler_root
    from skills_core.history.store import open_history

    if root == scheduler_root():
        record_scheduler_skills()
    if any(each.source.root == root and histories.covers(each.source) for each in catalog.sources):
        opened = histories.open(root)
        opened.record_manual_edits()
        return opened
    # It has a history from before the settings were changed.
    return histories.open(root) if writes else open_history(root, state_home(), work_trees=True)


def _is_folder(name: str) -> bool:
    return name in {".", ".."} or name.startswith(("./", "../", ".\\", "..\\")) or home_path(name).is_absolute()


def _rev_and_directories(rev: str | None, directories: list[Path] | None) -> tuple[str | None, list[Path] | None]:
    """Return the arguments as they were meant: REV may be left out before folders."""
    if rev is None or re.fullmatch("[0-9A-Fa-f]{4,40}", rev):
        return rev, directories
    if not rev or not home_path(rev).is_dir():
        fail(f"{rev[:200]!r}: expected a commit, by at least 4 of its digits, or a folder of skills", EXIT_USAGE)
    return None, [home_path(rev), *(directories or ())]


def _line(commit: HistoryCommit) -> str:
    skills = ", ".join(map(one_line, commit.skills[:_SHOWN])) + (" …" if len(commit.skills) > _SHOWN else "")
    trace = f"  trace {one_line(commit.trace_id)}" if commit.trace_id else ""
    why = f"{one_line(commit.cause):<12}  {one_line(commit.message)}"
    return f"{commit.rev[:10]}  {commit.when}  {why}  [{skills}]{trace}"
