"""Control groups: those of this machine if this user may create some, and simulated files of other machines."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_core.scripts.isolation import CgroupFactory, find_cgroups
from tests.core.scripts.running import FOUND

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")

real = pytest.mark.skipif(FOUND.cgroups is None, reason=FOUND.no_cgroups_reason or "-")

MEMORY, PROCESSES = 64 << 20, 40

TAKE = """
import mmap
memory = mmap.mmap(-1, 256 << 20)
for offset in range(0, len(memory), 4096):
    memory[offset] = 1
"""
FORK = """
import os, time
for _ in range(200):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
"""


@pytest.fixture
def cgroups() -> CgroupFactory:
    found, why = find_cgroups(MEMORY, PROCESSES)
    assert found is not None, why
    return found


@real
@pytest.mark.parametrize("code", [TAKE, FORK], ids=["memory", "processes"])
def test_a_group_limits_its_processes_together(cgroups: CgroupFactory, code: str) -> None:
    if code is FORK and cgroups.processes is None:
        pytest.skip("processes are not counted here")
    group = cgroups.make()
    try:
        command = group.joining_command((sys.executable, "-c", code))
        assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode not in {0, 126}
    finally:
        assert group.remove()
    assert not any(folder.exists() for folder in group.folders)


@real
def test_removing_a_group_kills_its_processes_in_all_sessions(cgroups: CgroupFactory) -> None:
    group = cgroups.make()
    command = group.joining_command(("sh", "-c", "setsid sleep 600 & echo started; wait"))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert group.remove()
        # The pipe ends when all that have its other end are gone.
        assert process.stdout.read() == b""
    assert group.remove()


@real
def test_arguments_are_passed_literally(cgroups: CgroupFactory) -> None:
    arguments = ["--", "a b", "$(id)", "`id`", ";", "", "é"]
    group = cgroups.make()
    try:
        code = "import sys; print(sys.argv[1:])"
        done = subprocess.run(
            group.joining_command((sys.executable, "-c", code, *arguments)), capture_output=True, check=True
        )
        assert done.stdout.decode().strip() == str(arguments)
    finally:
        assert group.remove()


@real
def test_groups_of_a_server_that_was_killed_are_removed_when_the_next_one_starts(cgroups: CgroupFactory) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    left = [place.folder / f"skillserve-{gone.pid}-0" for place in cgroups.places]
    own = cgroups.make()
    for folder in left:
        folder.mkdir()
    find_cgroups(MEMORY, PROCESSES)
    assert not any(folder.exists() for folder in left)
    assert all(folder.exists() for folder in own.folders)
    assert own.remove()


class TestUsableFolders:
    """Where groups are made, by files as other machines have them. The kernel alone could refuse a write here."""

    @pytest.fixture
    def machine(self, tmp_path: Path) -> Path:
        """A machine with version 2, and this process in `user/session`."""
        top = tmp_path / "cgroup"
        for folder, offered, on in (
            ("", "cpu memory pids", "memory pids"),
            ("user", "memory pids", "memory pids"),
            ("user/session", "memory pids", ""),
        ):
            (top / folder).mkdir(parents=True, exist_ok=True)
            (top / folder / "cgroup.controllers").write_text(offered)
            (top / folder / "cgroup.subtree_control").write_text(on)
            (top / folder / "cgroup.procs").write_text("")
        (tmp_path / "mountinfo").write_text(f"30 20 0:26 / {top} rw - cgroup2 cgroup2 rw\n")
        (tmp_path / "cgroup_of_process").write_text("0::/user/session\n")
        return tmp_path

    def proc(self, machine: Path) -> Path:
        folder = machine / "proc"
        folder.mkdir(exist_ok=True)
        (folder / "mountinfo").write_text((machine / "mountinfo").read_text())
        (folder / "cgroup").write_text((machine / "cgroup_of_process").read_text())
        return folder

    def places(self, machine: Path) -> list[Path]:
        from skills_core.scripts.isolation import _usable_folders  # noqa: PLC0415 - no kernel makes groups in these files

        return [place.folder for place in _usable_folders(self.proc(machine))]

    def test_the_nearest_folder_with_controllers_is_used(self, machine: Path) -> None:
        top = machine / "cgroup"
        # Plain files take any write, so that the group of the process itself can be switched on.
        assert self.places(machine) == [top / "user" / "session"]
        assert (top / "user/session/cgroup.subtree_control").read_text().startswith("+")

    def test_a_folder_whose_controllers_stay_off_is_skipped(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = Path.write_text

        def refuse(path: Path, *arguments: Any) -> int:
            if path.name == "cgroup.subtree_control":
                raise OSError(errno.EBUSY, "Device or resource busy")
            return write(path, *arguments)

        monkeypatch.setattr(Path, "write_text", refuse)
        assert self.places(machine) == [machine / "cgroup" / "user"]

    def test_without_the_memory_controller_no_folder_is_usable(self, machine: Path) -> None:
        for folder in ("", "user", "user/session"):
            (machine / "cgroup" / folder / "cgroup.controllers").write_text("cpu pids")
            (machine / "cgroup" / folder / "cgroup.subtree_control").write_text("")
        assert self.places(machine) == []
        assert find_cgroups(MEMORY, PROCESSES, self.proc(machine))[0] is None

    def test_a_mount_without_this_process_is_not_usable(self, machine: Path) -> None:
        (machine / "mountinfo").write_text(f"30 20 0:26 /other {machine}/cgroup rw - cgroup2 cgroup2 rw\n")
        assert self.places(machine) == []

    @pytest.mark.parametrize("gone", ["mountinfo", "cgroup"])
    def test_unreadable_cgroup_files_are_reported(self, machine: Path, gone: str) -> None:
        proc = self.proc(machine)
        (proc / gone).unlink()
        found, why = find_cgroups(MEMORY, PROCESSES, proc)
        assert found is None
        assert "cannot be read" in why
