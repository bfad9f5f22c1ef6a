"""What a script sees in the sandbox, as arguments of bubblewrap: a system to read, a skill, and a place for its files.

The sandbox has what is named here and nothing else: no home, no other skill, no other process, and no network unless it
is given. Where root runs the server, root owns the script's processes too, so that file modes protect nothing: every
mount but the script's own folders is read-only, `/proc` and, for root, the devices of the host included.
"""

from __future__ import annotations

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
"""Most that a script writes to the folders that are removed after it: they are in memory."""

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
# Parts of /usr where administrators and container images put configuration and applications.

_NETWORK = ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf")

_MASKED = ("/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags")
_MASKED_TOO = ("/proc/latency_stats", "/proc/sched_debug", "/proc/sysrq-trigger", "/proc/timer_list")
# What the kernel tells of the whole machine and of the user's keyrings. `--proc` mounts all of it.

DEVICES = tuple(f"/dev/{name}" for name in ("full", "null", "random", "tty", "urandom", "zero"))
"""What `--dev` binds from the host. A device on a read-only mount can be written to, its mode and owner cannot."""

_READ_ONLY_DEVICES = (
    'm=$1; shift; while [ "$1" != -- ]; do "$m" -o bind,ro "$1" "$1" || exit 125; shift; done; shift; exec "$@"',
    "read-only-devices",
)


def sandbox_arguments(
    shown: Iterable[Path] = (), *, skill: Path | None = None, workspace: Path | None = None, network: bool = False
) -> list[str]:
    """Return the arguments that make a sandbox.

    `shown` are files and folders that are seen where they are, as is the `workspace`, which can be written to and is
    the working directory. `skill` is the folder that is seen as `SKILL`.
    """
    places = [path for path in map(Path, _HIDDEN) if path.is_dir() and not path.is_symlink()]
    redact = [str(path) for path in places if workspace is None or not path.is_relative_to(workspace)]
    arguments = [*_system(network=network), *(word for path in redact for word in ("--tmpfs", path))]
    arguments += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp", "--dir", str(SCRATCH)]  # noqa: S108
    if workspace is not None:
        arguments += ["--bind", str(workspace), str(workspace)]
    for path in shown:
        arguments += ["--ro-bind", str(path), str(path)]
    if skill is not None:
        arguments += ["--ro-bind", str(skill), str(SKILL)]
    for mount in ("/proc", "/dev", *redact, "/"):
        arguments += ["--remount-ro", mount]
    return [*arguments, "--chdir", str(workspace or SCRATCH)]


def _system(*, network: bool) -> list[str]:
    """Return the arguments for namespaces without rights, and for the parts of the system that are in them."""
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
    """Yield ways to start bubblewrap, as what stands before it, so that the devices in the sandbox are read-only.

    Root may change the modes of devices even without capabilities, since root owns them, and bubblewrap cannot bind a
    device read-only. So it is started where they are read-only already: in another mount namespace, made by root's
    rights, or, where a container has taken these away, by those in another user namespace.
    """
    for ways in (("--mount", "--propagation", "private"), ("--user", "--map-current-user", "--mount")):
        yield (str(unshare), *ways, "/bin/sh", "-c", *_READ_ONLY_DEVICES, str(mount), *DEVICES, "--")


def in_system_mounts(path: Path) -> bool:
    """Tell whether a program is part of the system that every sandbox has."""
    return any(path.is_relative_to(place) for place in (*_SYSTEM, *_ALIASES)) and not any(
        path.is_relative_to(place) for place in _HIDDEN
    )
