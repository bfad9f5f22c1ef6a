"""The mounts of the sandbox, as arguments of bubblewrap: the system read-only, a skill, and a scratch folder.

The sandbox contains only what is listed here: no home, no other skill, no other process, and no network unless it is
enabled. If root runs the server, root owns the script's processes too, and file modes protect nothing. So every mount
except the script's own folders is read-only, including `/proc` and, for root, the devices of the host.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "DEVICES",
    "SCRATCH",
    "SCRATCH_BYTES",
    "SHARED_MEMORY_BYTES",
    "SKILL",
    "WRITABLE",
    "in_system_mounts",
    "sandbox_arguments",
    "with_read_only_devices",
]

SKILL = Path("/skill")
SCRATCH = Path("/tmp/scratch")  # noqa: S108 - in a file system of the script's own
SCRATCH_BYTES = 256 * 1024**2
"""Size of the folders that are removed after a script; they are in memory."""

SHARED_MEMORY_BYTES = 64 * 1024**2

WRITABLE = frozenset({"/tmp", "/dev/shm", "/dev/pts"})  # noqa: S108 - file systems of the sandbox's own
"""The mounts of a sandbox that are not read-only."""

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
# None of these holds a user's files. /etc/ssl has private keys beside the certificates.

_ALIASES = ("/bin", "/lib", "/lib32", "/lib64", "/sbin")
# Links into /usr on most systems, folders on others.

_HIDDEN = ("/usr/local/etc", "/usr/local/src", "/usr/local/var", "/usr/src")
# Parts of /usr where administrators and container images keep configuration and applications.

_NETWORK = ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf")

_MASKED = ("/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags")
_MASKED_TOO = ("/proc/latency_stats", "/proc/sched_debug", "/proc/sysrq-trigger", "/proc/timer_list")
# Kernel information about the whole machine and the user's keyrings. `--proc` mounts all of it.

DEVICES = tuple(f"/dev/{name}" for name in ("full", "null", "random", "tty", "urandom", "zero"))
"""The devices that `--dev` binds from the host. A read-only mount protects their mode and owner; writing works."""

_READ_ONLY_DEVICES = (
    'm=$1; shift; while [ "$1" != -- ]; do "$m" -o bind,ro "$1" "$1" || exit 125; shift; done; shift; exec "$@"',
    "read-only-devices",
)


def sandbox_arguments(
    shown: Iterable[Path] = (),
    *,
    skill: Path | None = None,
    workspace: Path | None = None,
    directory: Path = SCRATCH,
    network: bool = False,
    private: Iterable[Path] = (),
    kept: Path | None = None,
) -> list[str]:
    """Return the arguments for a sandbox whose program starts in `directory`, a path inside.

    The files and folders in `shown` are mounted at their own paths, as is the `workspace`, which is writable. The
    folder `skill` is mounted at `SKILL`. What is `private` in the workspace is hidden by an empty folder that cannot be
    written; of it, `kept` can be read.
    """
    places = [path for path in map(Path, _HIDDEN) if path.is_dir() and not path.is_symlink()]
    redact = [str(path) for path in places if workspace is None or not path.is_relative_to(workspace)]
    arguments = [*_system(network=network), *(word for path in redact for word in ("--tmpfs", path))]
    arguments += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp", "--dir", str(SCRATCH)]  # noqa: S108
    hidden: list[str] = []
    if workspace is not None:
        arguments += ["--bind", str(workspace), str(workspace)]
        hiding, hidden = _hiding(workspace, private)
        arguments += hiding
        if kept is not None and any(_is_below(kept, Path(path)) for path in hidden):
            arguments += ["--ro-bind-try", str(kept), str(kept)]
    for path in shown:
        arguments += ["--ro-bind", str(path), str(path)]
    if skill is not None:
        arguments += ["--ro-bind", str(skill), str(SKILL)]
    for mount in ("/proc", "/dev", *redact, *hidden, "/"):
        arguments += ["--remount-ro", mount]
    return [*arguments, "--chdir", str(directory)]


def _hiding(workspace: Path, private: Iterable[Path]) -> tuple[list[str], list[str]]:
    """Return the arguments that hide what is private in a workspace, and the paths inside that become read-only.

    The folders between the workspace and a private one are mounted onto themselves: a mount cannot be renamed, so that
    none of them is put aside and made anew. A private folder that is missing is created, so that no program does.
    """
    real, arguments, hidden = workspace.resolve(), list[str](), list[str]()
    between: dict[str, None] = {}
    for place in sorted(each.resolve() for each in private):
        if place == real or not place.is_relative_to(real):
            continue
        inside = workspace / place.relative_to(real)
        if not place.is_file():
            with suppress(OSError):  # then the sandbox cannot be made
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            hidden.append(str(inside))
        folders = [folder for folder in reversed(inside.parents) if folder.is_relative_to(workspace)]
        between |= dict.fromkeys(str(folder) for folder in folders if folder != workspace)
        arguments += ["--ro-bind", "/dev/null", str(inside)] if place.is_file() else ["--tmpfs", str(inside)]
    return [*(word for folder in between for word in ("--bind", folder, folder)), *arguments], hidden


def _is_below(path: Path, folder: Path) -> bool:
    return path != folder and path.resolve().is_relative_to(folder.resolve())


def _system(*, network: bool) -> list[str]:
    """Return the arguments for namespaces without capabilities, and for the system's mounts in them."""
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
    arguments += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
    for masked in (*_MASKED, *_MASKED_TOO):
        if Path(masked).exists():
            arguments += ["--ro-bind", "/dev/null", masked]
    return [*arguments, "--share-net"] if network else arguments


def with_read_only_devices(unshare: Path, mount: Path) -> Iterator[tuple[str, ...]]:
    """Yield command prefixes for bubblewrap that make the devices in the sandbox read-only.

    Root owns the devices, and so may change their modes even without capabilities; bubblewrap cannot bind a device
    read-only. So it is started in a mount namespace where they are read-only already, made with root's rights, or in a
    container without these, with those of a user namespace.
    """
    for ways in (("--mount", "--propagation", "private"), ("--user", "--map-current-user", "--mount")):
        yield (str(unshare), *ways, "/bin/sh", "-c", *_READ_ONLY_DEVICES, str(mount), *DEVICES, "--")


def in_system_mounts(path: Path) -> bool:
    """Tell whether a program is in the system mounts, which every sandbox has."""
    return any(path.is_relative_to(place) for place in (*_SYSTEM, *_ALIASES)) and not any(
        path.is_relative_to(place) for place in _HIDDEN
    )
