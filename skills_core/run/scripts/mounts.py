"""What a script sees in the sandbox, as arguments of bubblewrap: a system to read, a skill, and a place for its files.

Nothing is there that is not named here. No home, no other skill, no other process, and no network unless it is given.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "SCRATCH",
    "SCRATCH_BYTES",
    "SKILL",
    "as_seen",
    "base_arguments",
    "needed_for",
    "sandbox_arguments",
    "seen",
]

SKILL = Path("/skill")
SCRATCH = Path("/tmp/scratch")  # noqa: S108 - in a file system of the script's own
SCRATCH_BYTES = 256 * 1024**2
"""Most that a script writes to the folders that are removed after it: they are in memory."""

_SHARED_MEMORY_BYTES = 64 * 1024**2

_SYSTEM = (
    "/usr",
    "/etc/alternatives",
    "/etc/ca-certificates/extracted",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/nix/store",
)
# No file of these is anybody's own. /etc/ssl has private keys beside the certificates.

_ALIASES = ("/bin", "/lib", "/lib32", "/lib64", "/sbin")
# Links into /usr on most systems, folders on others.

_MAX_HOPS = 20

_NETWORK = ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf")


def base_arguments(*, network: bool = False) -> list[str]:
    """Return what makes a sandbox with a system in it, and nothing else."""
    arguments = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    arguments += ["--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]
    for path in (*_SYSTEM, *(_NETWORK if network else ())):
        arguments += ["--ro-bind-try", path, path]
    for alias in map(Path, _ALIASES):
        if alias.is_symlink():
            arguments += ["--symlink", str(alias.readlink()), str(alias)]
        else:
            arguments += ["--ro-bind-try", str(alias), str(alias)]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    arguments += ["--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
    arguments += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp", "--dir", str(SCRATCH)]  # noqa: S108
    if network:
        arguments.append("--share-net")
    return arguments


def sandbox_arguments(
    skill: Path, programs: Iterable[Path], workspace: Path | None = None, *, network: bool = False
) -> list[str]:
    """Return what makes the sandbox for one call.

    `skill` is the folder that is seen as `SKILL`, `programs` are files and folders that are seen where they are, as is
    the `workspace`, which can be written to.
    """
    arguments = base_arguments(network=network)
    if workspace is not None:
        arguments += ["--bind", str(workspace), str(workspace)]
    for path in programs:
        arguments += ["--ro-bind", str(path), str(path)]
    arguments += ["--ro-bind", str(skill), str(SKILL), "--remount-ro", "/"]
    return [*arguments, "--chdir", str(workspace or SCRATCH)]


def seen(path: Path) -> bool:
    """Tell whether a program is part of the system that every sandbox has."""
    return any(path.is_relative_to(place) for place in (*_SYSTEM, *_ALIASES))


def as_seen(program: Path) -> Path:
    """Return the program to start for `program`: what a link leads to, unless it is one of a virtual environment."""
    is_virtual = (program.parent.parent / "pyvenv.cfg").exists()
    return program if seen(program) or is_virtual else program.resolve()


def needed_for(program: Path, home: Path) -> list[Path]:
    """Return what must be seen so that `program` runs: where it and what it is a link to are installed.

    Of an installation all is shown, as it has its libraries there, but never the user's `home` or what holds it.
    """
    private = {home, home / ".local", *home.parents}
    return list(dict.fromkeys(place for path in _hops(program) for place in _installation(path, private)))


def _hops(program: Path) -> Iterator[Path]:
    """Yield a program and all that it leads to, link by link: each of them must be seen."""
    for _ in range(_MAX_HOPS):
        yield program
        if not program.is_symlink():
            break
        program = Path(os.path.normpath(program.parent / program.readlink()))
    yield program.resolve()


def _installation(program: Path, private: set[Path]) -> Iterator[Path]:
    if seen(program):
        return
    root = program.parent.parent
    yield root if program.parent.name == "bin" and root not in private else program
