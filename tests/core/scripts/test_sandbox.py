from __future__ import annotations

import platform
import re
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.scripts.sandbox import seccomp_filter

ALLOW, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x00050000 | 38, 0x00050000 | 97
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3, "loongarch64": 0xC0000102}
SOCKET = {"x86_64": 41, "aarch64": 198, "riscv64": 198, "loongarch64": 198}
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219}

MACHINES = st.sampled_from(sorted(AUDIT))
NUMBERS = st.integers(0, 2**32 - 1)

HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "generic": ("/usr/include/asm-generic/unistd.h",),
}


def decide(machine: str, number: int, first: int = 0, audit: int | None = None) -> int:
    """Return what the kernel would do with a call."""
    raw = seccomp_filter(machine)
    program = [struct.unpack_from("<HBBI", raw, at) for at in range(0, len(raw), 8)]
    data = struct.pack("<IIQ6Q", number, AUDIT[machine] if audit is None else audit, 0, first, *[0] * 5)
    loaded, at = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
        elif code in {0x15, 0x35}:
            at += if_true if (loaded == value if code == 0x15 else loaded >= value) else if_false
        else:
            assert code == 0x06
            return int(value)


@given(MACHINES, NUMBERS, NUMBERS)
def test_calls_by_the_numbers_of_another_architecture_are_refused(machine: str, number: int, audit: int) -> None:
    if audit != AUDIT[machine]:
        assert decide(machine, number, audit=audit) == ENOSYS


@given(MACHINES, st.integers(0, 2**64 - 1))
def test_only_socket_families_confined_by_namespaces_are_allowed(machine: str, family: int) -> None:
    allowed = family % 2**32 in {1, 2, 10, 16}
    assert decide(machine, SOCKET[machine], family) == (ALLOW if allowed else EAFNOSUPPORT)


@given(st.integers(0x40000000, 2**32 - 1))
def test_x32_calls_are_refused(number: int) -> None:
    assert decide("x86_64", number) == ENOSYS


@pytest.mark.parametrize("machine", sorted(AUDIT))
def test_calls_that_bypass_namespaces_are_refused_and_common_ones_are_not(machine: str) -> None:
    assert decide(machine, KEYCTL[machine]) == ENOSYS
    assert {decide(machine, number) for number in (425, 426, 427, 438)} == {ENOSYS}
    # Every way to make and change mounts that all architectures have by the same number.
    assert {decide(machine, number) for number in (428, 429, 430, 431, 432, 433, 442, 467)} == {ENOSYS}
    # clone3, close_range, openat2
    assert {decide(machine, number) for number in (435, 436, 437)} == {ALLOW}


@pytest.mark.parametrize(("machine", "kind"), [("x86_64", "x86_64"), ("aarch64", "generic")])
def test_the_numbers_are_those_of_the_kernels_headers(machine: str, kind: str) -> None:
    from skills_core.scripts.sandbox import _DENIED  # noqa: PLC0415 - the table itself is held against the headers

    header = next((Path(path) for path in HEADERS[kind] if Path(path).exists()), None)
    if header is None:
        pytest.skip("the kernel's headers are not installed")
    text = header.read_text(encoding="utf-8")
    there = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    ours = {name: row[0 if kind == "x86_64" else 1] for name, row in _DENIED.items()}
    newest = max(there.values())
    # Calls that came after these headers have numbers beyond them.
    known = {name: number for name, number in ours.items() if number is not None and number <= newest}
    assert known == {name: there.get(name) for name in known}
    assert there["socket"] == SOCKET[machine]


def test_a_machine_without_a_table_has_no_filter() -> None:
    assert seccomp_filter("pdp11") == b""
    if sys.platform == "linux" and platform.machine() in AUDIT:
        assert seccomp_filter() == seccomp_filter(platform.machine())
