"""Missing parts of a sandbox are found from inside, reported, and refused if a complete one is required."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from skills_core.errors import ScriptRefusedError
from skills_core.scripts import isolation as module
from skills_core.scripts.isolation import Isolation, find_isolation
from skills_core.scripts.programs import ProgramFinder
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
