"""The system calls that a sandbox refuses, as a seccomp filter in classic BPF; bubblewrap loads it for the program.

The filter is a short deny list, so it is assembled here from a table of call numbers. All maintained libraries wrap
libseccomp, which minimal systems lack although bubblewrap works there.

Namespaces and mounts limit what a program sees. This filter refuses calls that bypass both: keyrings of the user,
io_uring (whose operations no filter sees), other processes' memory, and kernel interfaces that no script needs.
"""

from __future__ import annotations

import platform
import struct
import sys
from dataclasses import dataclass

__all__ = ["seccomp_filter"]

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
