"""Keeps agents under test from what would tell them the answers: the skill's evals, the results, other copies.

An agent that finds `evals.json` can copy the expected output; then its run says nothing about the skill. Where
bubblewrap works, an agent has a file system of its own: the system's folders and its program, which it can only read,
and the folder of its run. It keeps the network, its user and its environment. This is not a jail for hostile programs:
it hides answers. Where bubblewrap does not work, nothing is hidden, and people are told so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.evals.agents.agent import temporary_root
from server.capabilities.evals.agents.reach import SYSTEM, Reach, protected_places, server_places
from server.config.machine import current_places
from skills_core.diagnostics import one_line
from skills_core.scripts.sandbox import alias_arguments

if TYPE_CHECKING:
    from server.capabilities.evals.agents.agent import RunFolder


_EMPTY: Final = ("/tmp", "/var/tmp", "/usr/src", "/usr/local/src")  # noqa: S108 - of the sandbox's own
# In the last two, container images keep applications, and people their projects.

_RESOLVER: Final = Path("/etc/resolv.conf")
_PROBE_SECONDS: Final = 10.0


class AgentIsolationKind(StrEnum):
    """How agents are kept from the rest of this disk."""

    BUBBLEWRAP = "bubblewrap"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenPlaces:
    """What no agent may read: nothing in `sealed`, and in `repositories` only programs."""

    sealed: tuple[Path, ...] = ()
    repositories: tuple[Path, ...] = ()

    @property
    def all(self) -> tuple[Path, ...]:
        """All places."""
        return (*self.sealed, *self.repositories)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIsolation:
    """How agents run: by `program`, bubblewrap, with what is `shown` of this disk; without it, for the reason `why`."""

    program: Path | None = None
    why: str = ""
    hidden: HiddenPlaces = HiddenPlaces()
    shown: tuple[Path, ...] = ()

    @property
    def kind(self) -> AgentIsolationKind:
        """How agents are isolated."""
        return AgentIsolationKind.NONE if self.program is None else AgentIsolationKind.BUBBLEWRAP

    @property
    def statement(self) -> str:
        """What agents can reach, as a sentence for people."""
        if self.program is None:
            return f"Agents can read this whole disk, also the evals and other results: {self.why}."
        return (
            "Agents run in a sandbox (bubblewrap): of this disk they can read the system and their own program, and "
            "neither the skill's folder nor results."
        )

    def confined(self, words: Sequence[str], folder: RunFolder) -> tuple[str, ...]:
        """Return the command line that runs `words` in the folder of a run, and can read nothing that is hidden."""
        if self.program is None:
            return tuple(words)
        mounts = list(_mounts(self.shown, self.hidden))
        place = str(folder.root)
        own = ["--bind", place, place, "--chdir", str(folder.work)]
        return (str(self.program), *_beginning(), *_base(), *mounts, *own, "--", *words)


NOT_ISOLATED: Final = AgentIsolation(why="it is turned off by --no-isolation")

_BEGINNING: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    # The file system stays as it is made here: without capabilities, nothing is mounted or unmounted.
    *("--cap-drop", "ALL", "--die-with-parent"),
)


def _beginning() -> tuple[str, ...]:
    """Return the arguments for namespaces, in which an agent can still make some for a sandbox of its own.

    Mounts are locked in those. For root, making them takes a capability; with one, bubblewrap refuses other users.
    """
    is_root = sys.platform != "win32" and os.geteuid() == 0
    return (*_BEGINNING, *(("--cap-add", "CAP_SETFCAP") if is_root else ()))


def _base() -> list[str]:
    """Return the arguments for the system: what is only read, devices and processes of its own, empty folders."""
    arguments = [word for path in SYSTEM for word in ("--ro-bind-try", path, path)]
    if _RESOLVER.is_symlink():
        target = str(_RESOLVER.resolve())
        arguments += ["--ro-bind-try", target, target]
    arguments += [*alias_arguments(), "--proc", "/proc", "--dev", "/dev"]
    empty = [path for path in _EMPTY if not path.startswith("/usr") or Path(path).is_dir()]
    return [*arguments, *(word for path in empty for word in ("--tmpfs", path))]


def _is_own(place: Path) -> bool:
    """Tell whether a sandbox has its own in a place; the host's would hide it, and its devices cannot be used there."""
    return any(map(place.is_relative_to, ("/dev", "/proc"))) and not place.is_relative_to("/dev/shm")  # noqa: S108


def _mounts(shown: Iterable[Path], hidden: HiddenPlaces) -> Iterator[str]:
    """Yield the arguments that show and hide places, the outer ones first, so that the inner ones count."""
    sealed = [each.resolve() for each in hidden.sealed]
    repositories = [each.resolve() for each in hidden.repositories]
    places = dict.fromkeys((*sealed, *repositories), False)
    for each in shown:
        if not _is_own(each) and not any(each.resolve().is_relative_to(place) for place in sealed):
            places.setdefault(each, True)
    done: dict[Path, bool] = {Path(path): True for path in SYSTEM} | {Path(path): False for path in _EMPTY}
    for place, is_shown in sorted(places.items(), key=lambda item: len(item[0].parts)):
        above = next((each for each in place.parents if each in done), None)
        if is_shown == (above is not None and done[above]) or not place.exists():
            continue
        done[place] = is_shown
        if is_shown:
            yield from ("--ro-bind-try", str(place), str(place))
        elif place.is_dir():
            yield from ("--tmpfs", str(place))
        else:
            yield from ("--ro-bind", os.devnull, str(place))


def find_isolation() -> AgentIsolation:
    """Return the isolation that works on this machine, tried by a program that runs in it."""
    if sys.platform != "linux":
        return AgentIsolation(why="there is a sandbox for agents on Linux only")
    program = shutil.which("bwrap", path=os.pathsep.join(map(str, _search_path())))
    if program is None:
        return AgentIsolation(why="bubblewrap (bwrap) is not installed")
    words = (program, *_beginning(), *_base(), "--", "true")
    try:
        done = subprocess.run(  # noqa: S603 - all arguments come from here
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return AgentIsolation(why=f"bubblewrap cannot be started ({one_line(str(error))[:200]})")
    if done.returncode:
        said = one_line(done.stderr.decode("utf-8", "replace").strip())[:200] or f"exit code {done.returncode}"
        return AgentIsolation(why=f"bubblewrap does not work here ({said})")
    return AgentIsolation(program=Path(program))


def _search_path() -> tuple[Path, ...]:
    return tuple(dict.fromkeys(each for each in map(Path, os.get_exec_path()) if each.is_absolute()))


def hidden_places(skill: Path, workspace: Path, others: Iterable[Path] = ()) -> HiddenPlaces:
    """Return what no agent may read in an eval: the skill, its results, `others`, and the repositories of these."""
    sealed = tuple(dict.fromkeys(each.resolve() for each in (skill, workspace, *others)))
    found = (next((each for each in place.parents if (each / ".git").exists()), None) for place in sealed)
    return HiddenPlaces(sealed=sealed, repositories=tuple(dict.fromkeys(filter(None, found))))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNeeds:
    """What starts an agent: its program, or the shell command `template`; its `home`; and if it starts this server.

    `readable` is what a person names besides.
    """

    executable: str = ""
    template: str | None = None
    home: Path | None = None
    starts_server: bool = False
    readable: tuple[Path, ...] = ()


def isolation_for(needs: AgentNeeds, found: AgentIsolation, hidden: HiddenPlaces) -> AgentIsolation:
    """Return the isolation that works as one for an agent, from which places are hidden."""
    if found.program is None:
        return found
    places = current_places()
    reach = Reach(places.home, _search_path(), protected_places(places.home, hidden.all, temporary_root()))
    shown = [*reach.of_search_path(), *reach.of_environment(os.environ)]
    if needs.template is None:
        shown += reach.of_program(Path(needs.executable))
    else:
        shown += reach.of_command(needs.template)
    if needs.home is not None:
        shown += reach.of_home(needs.home)
    if needs.starts_server:
        shown += server_places()
    shown += (place for each in needs.readable for place in (each.absolute(), each.resolve()))
    return replace(found, hidden=hidden, shown=tuple(dict.fromkeys(shown)))
