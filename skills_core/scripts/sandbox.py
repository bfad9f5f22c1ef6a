"""What the sandbox contains and what it refuses: mounts, as arguments of bubblewrap, and a filter of system calls.

The sandbox contains only what is listed here: no home, no other skill, no other process, and no network unless it is
enabled. If root runs the server, root owns the script's processes too, and file modes protect nothing. So every mount
except the script's own folders is read-only, including `/proc` and, for root, the devices of the host.

Namespaces and mounts limit what a program sees. The seccomp filter, in classic BPF, refuses calls that bypass both:
keyrings of the user, io_uring (whose operations no filter sees), other processes' memory, and kernel interfaces that no
script needs. It is a short deny list, so it is assembled here from a table of call numbers. All maintained libraries
wrap libseccomp, which minimal systems lack although bubblewrap works there.
"""

from __future__ import annotations

import platform
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
    arguments += [*alias_arguments(), "--proc", "/proc", "--dev", "/dev"]
    arguments += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
    for masked in (*_MASKED, *_MASKED_TOO):
        if Path(masked).exists():
            arguments += ["--ro-bind", "/dev/null", masked]
    return [*arguments, "--share-net"] if network else arguments


def alias_arguments() -> list[str]:
    """Return the arguments for the folders beside /usr that most systems have as links into it."""
    return [
        word
        for alias in map(Path, _ALIASES)
        for word in (
            ("--symlink", str(alias.readlink()), str(alias))
            if alias.is_symlink()
            else ("--ro-bind-try", str(alias), str(alias))
        )
    ]


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


# Call numbers: x86_64, then the generic table of newer architectures; None if the call does not exist.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}

_FAMILIES = (1, 2, 10, 16)
# Allowed socket families: unix, IPv4, IPv6, netlink. A vsock reaches the host of a virtual machine past every network
# namespace.


@dataclass(frozen=True, slots=True)
class _Architecture:
    """An architecture: its audit constant, its column in the table, and the first number of a foreign ABI."""

    audit: int
    column: int
    socket: int
    foreign_from: int | None = None


_GENERIC_SOCKET = 198
_ARCHITECTURES = {
    # From 0x40000000 on are the calls of x32, an alternative to every call.
    "x86_64": _Architecture(0xC000003E, 0, 41, 0x40000000),
    "aarch64": _Architecture(0xC00000B7, 1, _GENERIC_SOCKET),
    "riscv64": _Architecture(0xC00000F3, 1, _GENERIC_SOCKET),
    "loongarch64": _Architecture(0xC0000102, 1, _GENERIC_SOCKET),
}

_LOAD, _IS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _AUDIT, _FIRST_ARGUMENT = 0, 4, 16  # offsets in `struct seccomp_data`; the low half of an argument comes first
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_ENOSYS, _EAFNOSUPPORT = 38, 97  # Linux numbers, also when assembled on another system


def seccomp_filter(machine: str | None = None) -> bytes:
    """Return the filter for this machine, or for `machine`; empty if the table lacks its call numbers.

    Refused calls fail with ENOSYS, as on a kernel without the call, so that programs use a fallback. Calls with another
    architecture's numbers, such as those of 32-bit programs, fail too.
    """
    if sys.platform != "linux" and machine is None:
        return b""
    architecture = _ARCHITECTURES.get(machine or platform.machine())
    if architecture is None:
        return b""
    numbers = sorted(each for row in _DENIED.values() if (each := row[architecture.column]) is not None)
    refuse = _ERROR | _ENOSYS
    program = [
        _statement(_LOAD, _AUDIT),
        _jump(_IS, architecture.audit, 1, 0),
        _statement(_RETURN, refuse),
        _statement(_LOAD, _NUMBER),
    ]
    checks = [(_IS, number) for number in numbers]
    if architecture.foreign_from is not None:
        checks.append((_AT_LEAST, architecture.foreign_from))
    for operation, number in checks:
        program += [_jump(operation, number, 0, 1), _statement(_RETURN, refuse)]
    program += [_jump(_IS, architecture.socket, 1, 0), _statement(_RETURN, _ALLOW), _statement(_LOAD, _FIRST_ARGUMENT)]
    for family in _FAMILIES:
        program += [_jump(_IS, family, 0, 1), _statement(_RETURN, _ALLOW)]
    program.append(_statement(_RETURN, _ERROR | _EAFNOSUPPORT))
    return b"".join(program)


def _statement(code: int, value: int) -> bytes:
    return struct.pack("<HBBI", code, 0, 0, value)


def _jump(operation: int, value: int, if_true: int, if_false: int) -> bytes:
    """Compare the loaded value with `value`, and skip so many statements."""
    return struct.pack("<HBBI", operation, if_true, if_false, value)
