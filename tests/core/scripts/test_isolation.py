"""Missing parts of a sandbox are found from inside, reported, and refused if a complete one is required."""

from __future__ import annotations

import json
import platform
import re
import shutil
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.errors import ScriptRefusedError
from skills_core.scripts import isolation as module
from skills_core.scripts.isolation import Isolation, find_isolation
from skills_core.scripts.programs import ProgramFinder
from skills_core.scripts.sandbox import seccomp_filter
from tests.core.scripts.running import FOUND, PLAIN, PROGRAMS, MakeRunner, with_files

in_sandbox = pytest.mark.skipif(FOUND.sandbox is None, reason=FOUND.why or "-")

REPORT = """22 1 0:21 / / ro,nosuid - tmpfs tmpfs rw
23 22 0:22 / /proc ro,nosuid - proc proc rw
24 22 0:23 / /tmp rw,nosuid - tmpfs tmpfs rw
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t0000000000000000
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
"""
WHOLE = Isolation(Path("/usr/bin/bwrap"), Path("/usr/bin/prlimit"), seccomp_filter=b"filter", unprivileged=False)


def lacks(report: str, isolation: Isolation = WHOLE) -> list[str]:
    return list(module._missing_parts(isolation, report))


def test_a_complete_sandbox_lacks_nothing() -> None:
    assert lacks(REPORT) == []
    assert replace(WHOLE, lacks=()).fault == WHOLE.warning == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("/proc ro,", "/proc rw,", "/proc"),
        ("/ / ro,", "/ / rw,", "writable: /"),
        ("/ /tmp rw,", "/ /dev/null rw,", "/dev/null"),
        ("CapEff:\t0000000000000000", "CapEff:\t0000000000200000", "capabilities"),
        ("CapBnd:\t0000000000000000\n", "", "capabilities"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "setuid"),
        ("Seccomp:\t2", "Seccomp:\t0", "system call"),
        (REPORT, "", "writable: unknown"),
    ],
)
def test_missing_parts_are_reported(before: str, after: str, said: str) -> None:
    assert said in "; ".join(lacks(REPORT.replace(before, after)))


def test_devices_matter_to_root_alone() -> None:
    devices = REPORT.replace("/ /tmp rw,", "/ /dev/null rw,")
    assert lacks(devices)
    assert lacks(devices, replace(WHOLE, unprivileged=True)) == []


@pytest.mark.parametrize(("unprivileged", "why"), [(True, "prlimit"), (False, "root")])
def test_the_statement_says_why_processes_are_not_counted(*, unprivileged: bool, why: str) -> None:
    without = replace(WHOLE, limiter=None if unprivileged else WHOLE.limiter, unprivileged=unprivileged)
    assert re.findall(r"number of their processes is not limited: .*(prlimit|root)", without.statement()) == [why]


@pytest.mark.skipif(sys.platform == "win32", reason="programs have other names there")
@pytest.mark.parametrize("workspace", [".", "sub"])
def test_a_sandbox_program_in_a_workspace_is_never_started(tmp_path: Path, workspace: str) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "bwrap").write_bytes(b"\x7fELF")
    (folder / "bwrap").chmod(0o755)
    found = find_isolation(ProgramFinder((folder,), PROGRAMS.python, (tmp_path / workspace,)))
    assert found.sandbox is None
    assert "not installed outside of the workspace" in found.why


@in_sandbox
def test_this_machine_has_a_complete_sandbox() -> None:
    assert FOUND.lacks == ()


@in_sandbox
async def test_an_incomplete_sandbox_is_reported_and_refused_if_one_is_required(
    make_runner: MakeRunner, skills: Path, tmp_path: Path
) -> None:
    assert FOUND.sandbox is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bwrap").symlink_to(FOUND.sandbox)
    found = find_isolation(ProgramFinder((tmp_path / "bin",), PROGRAMS.python), unprivileged=FOUND.unprivileged)
    assert found.sandbox is not None
    assert "prlimit" in found.fault
    assert found.fault in found.warning
    assert found.fault in found.statement()
    skill = with_files(skills, {"a.py": "print('ran')"})
    assert (await make_runner(isolation=found).run(skill, "a.py")).finished.stdout == b"ran\n"
    with pytest.raises(ScriptRefusedError, match=r"a sandbox is required here: .*prlimit"):
        await make_runner(isolation=found, require_sandbox=True).run(skill, "a.py")


@in_sandbox
def test_a_sandbox_without_a_filter_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "seccomp_filter", lambda: b"")
    found = find_isolation(PROGRAMS, unprivileged=FOUND.unprivileged)
    assert found.sandbox is not None
    assert "seccomp filter" in found.fault


@in_sandbox
def test_a_filter_that_the_kernel_rejects_costs_the_filter_and_not_the_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "seccomp_filter", lambda: b"no filter at all")
    found = find_isolation(PROGRAMS, unprivileged=FOUND.unprivileged)
    assert found.sandbox is not None
    assert "seccomp filter" in found.fault


def test_unlimited_memory_is_reported() -> None:
    whole = replace(WHOLE, no_cgroups_reason="there is no such place")
    assert "memory of all their processes together is not limited: there is no such place" in whole.statement()
    assert PLAIN.warning.startswith("no sandbox")


@in_sandbox
async def test_configuration_and_applications_in_usr_are_hidden(make_runner: MakeRunner, skills: Path) -> None:
    places = ["/usr/src", "/usr/local/src", "/usr/local/etc", "/usr/local/var"]
    code = f"import json, os; print(json.dumps([n for p in {places} if os.path.isdir(p) for n in os.listdir(p)]))"
    result = await make_runner(isolation=FOUND).run(with_files(skills, {"a.py": code}), "a.py")
    assert json.loads(result.finished.stdout) == []


@in_sandbox
@pytest.mark.parametrize("has_workspace", [True, False])
async def test_an_interpreter_made_by_a_script_mounts_nothing_of_the_home(
    make_runner: MakeRunner, skills: Path, tmp_path: Path, *, has_workspace: bool
) -> None:
    work = tmp_path / "home" / "work"
    (work / "x" / "bin").mkdir(parents=True)
    (work / "x" / "conda-meta").mkdir()
    (tmp_path / "home" / "private").write_text("the secret")
    shutil.copy("/bin/sh", work / "x" / "bin" / "prog")
    (work / "x" / "lib").symlink_to("../..")
    line = (
        f"#!{work}/x/bin/prog\nfor file in {tmp_path}/home/private {work}/x/lib/private; do cat $file; done; exit 0\n"
    )
    runner = make_runner(isolation=FOUND, workspace=work if has_workspace else None)
    result = await runner.run(with_files(skills, {"a": line}), "a")
    assert (result.finished.exit_code, result.finished.stdout) == (0, b""), result


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
