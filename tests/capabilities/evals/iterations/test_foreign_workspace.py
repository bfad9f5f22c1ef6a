"""A skill, its evals and its workspace may come from a stranger: nothing outside is read, written or run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities.evals.conftest import HELLO, Lab

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "config.json").write_text('{"mine": true}')
    return folder


@pytest.mark.parametrize("name", ["iteration-1", "snapshots"])
def test_a_link_in_the_workspace_leads_nowhere(lab: Lab, outside: Path, name: str) -> None:
    lab.workspace.mkdir()
    (lab.workspace / name).symlink_to(outside)
    done = lab.run()
    assert contents(outside) == {"config.json": b'{"mine": true}'}
    assert "Traceback" not in done.stderr
    if name == "snapshots":
        assert (done.returncode, lab.logged()) == (2, [])
        assert "is a link" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert (lab.workspace / "iteration-2/benchmark.json").is_file()


def test_a_link_in_a_run_leads_nowhere(lab: Lab, outside: Path) -> None:
    """The folder of a run that is repeated is as the agent, or the stranger, left it."""
    lab.run(agent="exit 1")
    for link in ("eval-1/with_skill/run-1/outputs", "eval-2/with_skill"):
        place = lab.workspace / "iteration-1" / link
        shutil.rmtree(place)
        place.symlink_to(outside)
    lab.run(agent="exit 1")
    lab.run("--new")
    assert contents(outside) == {"config.json": b'{"mine": true}'}


@pytest.mark.parametrize(
    "outside",
    [
        ["../secret", "/etc/passwd"],
        ["evals/files/linked", "evals/files/folder/secret", "evals/files/folder", "evals/files"],
    ],
    ids=["paths", "links"],
)
def test_input_files_come_from_the_skill_alone(lab: Lab, outside: list[str]) -> None:
    (lab.skill.parent / "secret").write_text("secret")
    lab.write_evals({"files": outside, "assertions": [HELLO]})
    files = lab.skill / "evals/files"
    (files / "linked").symlink_to(lab.skill.parent / "secret")
    (files / "folder").symlink_to(lab.skill.parent)
    done = lab.run()
    assert (done.returncode, lab.logged()) == (2, [])
    said = " ".join(done.stderr.split())
    assert [each in said for each in outside] == [True] * len(outside)


def test_the_commands_of_checks_are_shown_before_they_are_run(lab: Lab) -> None:
    done = lab.run("--dry-run")
    assert "2 assertions run commands of evals.json on this machine" in done.stdout
    first = HELLO["check"].splitlines()[0]
    assert f"  2 x {first[:30]}" in done.stdout
    assert "2 assertions run commands" in lab.run().stderr
    checks = lab.report("--dry-run", "--new")["plan"]["checks"]
    assert checks == [{"eval": f"eval-{number}", "text": "says hello", "check": HELLO["check"]} for number in (1, 2)]


def test_a_repository_inside_of_the_skill_configures_no_command(lab: Lab) -> None:
    """A folder with HEAD, objects and refs is a repository to git, and its configuration may name programs."""
    work = lab.folder / "work"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(work)]
    work.mkdir()
    subprocess.run([*git, "init", "-q"], check=True)
    (work / "SKILL.md").write_bytes((lab.skill / "SKILL.md").read_bytes())
    (work / ".gitattributes").write_text("* filter=f\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    for name in ("HEAD", "objects", "refs"):
        (work / ".git" / name).replace(lab.skill / name)
    ran = lab.folder / "ran"
    core = "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\n"
    (lab.skill / "config").write_text(f'{core}[filter "f"]\nsmudge = : > {ran}\n')
    done = lab.run("--baseline", "HEAD")
    assert done.returncode == 2
    assert not ran.exists()


@pytest.mark.parametrize("revision", ["--output=out", "HEAD:../.."])
def test_a_baseline_is_no_option_of_git(lab: Lab, revision: str) -> None:
    done = lab.run(f"--baseline={revision}")
    assert (done.returncode, lab.logged()) == (2, [])
    assert "Traceback" not in done.stderr
    assert not (lab.skill / "out").exists()


def test_prepared_results_are_named_and_run_nothing_of_their_own(lab: Lab) -> None:
    """An iteration of a stranger is continued only if it belongs to the same command, and its commands are not run."""
    lab.run()
    config = lab.workspace / "iteration-1/config.json"
    value = json.loads(config.read_text())
    value["identity"]["agent_command"] = "touch pwned {prompt}"
    config.write_text(json.dumps(value))
    (lab.workspace / "iteration-1/benchmark.json").unlink()
    before = len(lab.logged())
    assert not lab.report("--dry-run")["resumed"]
    lab.run()
    assert len(lab.logged()) == 2 * before
