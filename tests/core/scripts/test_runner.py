"""Running a script of a skill: which file runs, what it sees, and what it leaves."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from skills_core.disk.replacement import remove_tree
from skills_core.errors import ScriptRefusedError, SkillChangedError, UnknownFileError
from skills_core.scripts import runner as private_copy
from skills_core.scripts.isolation import Isolation
from skills_core.scripts.process import ProcessEnding, ProcessLimits
from skills_core.skills.skill import State
from tests.core.scripts.running import PROGRAMS, MakeRunner, load, printed, with_files

pytestmark = pytest.mark.usefixtures("temporary")

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="these programs are those of POSIX")

ABOUT = """
import json, os
print(json.dumps({"env": dict(os.environ)}))
"""


async def test_a_script_finds_its_siblings_and_the_skills_other_files(make_runner: MakeRunner, skills: Path) -> None:
    code = "import os, pathlib, other; print(other.X, pathlib.Path(os.environ['SKILL_DIR'], 'data/x.txt').read_text())"
    skill = with_files(skills, {"scripts/main.py": code, "scripts/other.py": "X = 5", "data/x.txt": "text"})
    result = await make_runner().run(skill, "scripts/main.py")
    assert result.finished.stdout.split() == [b"5", b"text"], result.finished


async def test_arguments_and_stdin_are_passed_literally(make_runner: MakeRunner, skills: Path) -> None:
    skill = with_files(skills, {"a.py": "import sys; print(sys.argv[1:], sys.stdin.read())"})
    arguments = ["--help", "-c", "a b", "$(id)", "`id`", ";id", "é", ""]
    result = await make_runner().run(skill, "a.py", arguments, stdin=b"given")
    assert result.finished.stdout.decode().strip() == f"{arguments} given"


async def test_the_home_and_the_temporary_folder_are_the_scratch_folder(make_runner: MakeRunner, skills: Path) -> None:
    environment = printed(await make_runner().run(with_files(skills, {"a.py": ABOUT}), "a.py"))["env"]
    assert environment["HOME"] == environment["TMPDIR"] == environment["SCRATCH_DIR"]


async def test_the_environment_is_a_stated_list_and_what_was_named(make_runner: MakeRunner, skills: Path) -> None:
    host = {
        **({"SYSTEMROOT": os.environ["SYSTEMROOT"]} if sys.platform == "win32" else {}),
        "PATH": os.environ["PATH"],
        "LANG": "de_DE.UTF-8",
        "OPENAI_API_KEY": "secret",
        "SKILLSERVE_ADMIN_TOKEN": "secret",
        "WANTED": "yes",
    }
    skill = with_files(skills, {"a.py": ABOUT})
    runner = make_runner(host=host, passed=("WANTED", "MISSING", "SKILLSERVE_ADMIN_TOKEN"))
    variables = {"OF_THE_SKILL": "1", "Skillserve_Tools": "x"}
    environment = printed(await runner.run(skill, "a.py", variables=variables))["env"]
    stated = {"LANG", "PATH", "HOME", "USERPROFILE", "TEMP", "TMP", "TMPDIR", "NO_COLOR", "SCRATCH_DIR", "SKILL_DIR"}
    stated |= {"PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED", "PYTHONUTF8"}
    # Python, the shell and bubblewrap set these by themselves.
    assert environment.keys() - {"PWD", "LC_CTYPE", "SYSTEMROOT"} == stated | {"WANTED", "OF_THE_SKILL"}
    assert environment["LANG"] == "de_DE.UTF-8"


async def test_the_result_says_how_a_script_ended(make_runner: MakeRunner, skills: Path) -> None:
    skill = with_files(skills, {"a.py": "import sys; sys.exit(3)", "b.py": "import time; time.sleep(600)"})
    assert (await make_runner().run(skill, "a.py")).finished.exit_code == 3
    ended = await make_runner(limits=ProcessLimits(1, 1000)).run(skill, "b.py")
    assert ended.finished.ending is ProcessEnding.TIMED_OUT


@POSIX
async def test_shells_and_programs_without_an_ending_run_too(make_runner: MakeRunner, skills: Path) -> None:
    files = {"a.sh": 'echo "$1"; . "$SKILL_DIR/lib.sh"', "lib.sh": "echo lib", "b": "#!/usr/bin/env -S sh -e\necho b\n"}
    skill = with_files(skills, {**files, "c.sh": 'exec "$SKILL_DIR/b"'})
    runner = make_runner()
    assert (await runner.run(skill, "a.sh", ["one two"])).finished.stdout == b"one two\nlib\n"
    assert (await runner.run(skill, "b")).finished.stdout == b"b\n"
    assert (await runner.run(skill, "c.sh")).finished.stdout == b"b\n"


@POSIX
async def test_a_program_that_is_a_file_of_the_skill_runs(make_runner: MakeRunner, skills: Path) -> None:
    true = PROGRAMS.find("true")
    assert true is not None
    skill = with_files(skills, {"bin/true": true.read_bytes()})
    found = (await make_runner().run(skill, "bin/true")).finished
    if sys.platform == "linux":
        assert (found.ending, found.exit_code) == (ProcessEnding.EXITED, 0), found


PATHS = ["../a/a.py", "/etc/passwd", "a.py\0", "x/../a.py", ".//a.py", "a.py/", "", ".", "later.py", "link.py"]


@pytest.mark.parametrize("path", PATHS)
async def test_only_a_file_of_the_manifest_runs(make_runner: MakeRunner, skills: Path, path: str) -> None:
    with_files(skills, {"a.py": "print('ran')"})
    if sys.platform != "win32":
        (skills / "a" / "link.py").symlink_to("a.py")
    skill = load(skills)
    (skills / "a" / "later.py").write_text("print('ran')")
    with pytest.raises(UnknownFileError):
        await make_runner().run(skill, path)


async def test_a_path_in_another_case_runs_the_only_file_that_it_can_mean(
    make_runner: MakeRunner, skills: Path
) -> None:
    skill = with_files(skills, {"a.py": "print('ran')", "b.py": "print('b')", "B.py": "print('B')"})
    assert (await make_runner().run(skill, "A.PY")).finished.stdout == b"ran\n"
    if len([path for path in skill.content.files if path.casefold() == "b.py"]) > 1:
        with pytest.raises(UnknownFileError):
            await make_runner().run(skill, "B.PY")


@pytest.mark.parametrize("change", ["other bytes", "gone", "a link"])
@pytest.mark.parametrize("path", ["a.py", "b.py"])
async def test_a_changed_file_is_not_run(
    make_runner: MakeRunner, skills: Path, tmp_path: Path, path: str, change: str
) -> None:
    skill = with_files(skills, {"a.py": "print('ran')", "b.py": ""})
    file = skills / "a" / path
    same = tmp_path / "same"
    file.replace(same)
    if change == "other bytes":
        file.write_text("print('other')")
    elif change == "a link":
        if sys.platform == "win32":
            pytest.skip("links take rights there")
        file.symlink_to(same)
    with pytest.raises(SkillChangedError) as caught:
        await make_runner().run(skill, "a.py")
    assert caught.value.paths == (file,)


async def test_a_change_during_a_call_does_not_reach_the_private_copy(
    make_runner: MakeRunner, skills: Path, tmp_path: Path
) -> None:
    code = """
import pathlib, sys, time
before = pathlib.Path(sys.argv[0]).read_text()
pathlib.Path("started").touch()
while not pathlib.Path("changed").exists():
    time.sleep(0.02)
print(before == pathlib.Path(sys.argv[0]).read_text())
"""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    skill = with_files(skills, {"a.py": code})

    async def change() -> None:
        while not (workspace / "started").exists():  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.02)
        (skills / "a" / "a.py").write_text("print('other')")
        (workspace / "changed").touch()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(change)
        result = await make_runner(workspace=workspace).run(skill, "a.py")
    assert result.finished.stdout.strip() == b"True"


async def test_a_skill_that_is_not_active_runs_nothing(make_runner: MakeRunner, skills: Path) -> None:
    skill = with_files(skills, {"a.py": "print('ran')"})
    with pytest.raises(ScriptRefusedError, match="is excluded"):
        await make_runner().run(replace(skill, state=State.EXCLUDED), "a.py")


async def test_without_a_required_sandbox_no_script_runs(make_runner: MakeRunner, skills: Path) -> None:
    skill = with_files(skills, {"a.py": "print('ran')"})
    runner = make_runner(isolation=Isolation(why="no kernel for it"), require_sandbox=True)
    with pytest.raises(ScriptRefusedError, match="a sandbox is required here: no kernel for it"):
        await runner.run(skill, "a.py")
    assert "None is run" in runner.setup.statement


async def test_a_script_that_cannot_be_started_is_an_error(make_runner: MakeRunner, skills: Path) -> None:
    skill = with_files(skills, {"a.py": "", "README.md": "text"})
    ended = (await make_runner().run(skill, "a.py", ["a\0b"])).finished
    assert (ended.ending, bool(ended.fault)) == (ProcessEnding.NOT_STARTED, True)
    with pytest.raises(ScriptRefusedError, match="nothing tells how to run it"):
        await make_runner().run(skill, "README.md")


@POSIX
async def test_folders_that_a_script_locked_are_removed(make_runner: MakeRunner, skills: Path) -> None:
    code = """
import os
os.chdir(os.environ['SCRATCH_DIR'])
os.makedirs('x/y/z')
open('x/y/f', 'w')
os.symlink('/', 'x/l')
os.chmod('x/y', 0)
os.chmod('x', 0)
"""
    result = await make_runner().run(with_files(skills, {"a.py": code}), "a.py")
    assert result.finished.exit_code == 0, result.finished


@POSIX
async def test_folders_nested_1500_deep_are_removed_and_the_output_is_kept(
    make_runner: MakeRunner, skills: Path
) -> None:
    code = """
import os
os.chdir(os.environ['SCRATCH_DIR'])
for _ in range(1500):
    os.mkdir('d')
    os.chdir('d')
print('kept')
"""
    result = await make_runner().run(with_files(skills, {"a.py": code}), "a.py")
    assert (result.finished.exit_code, result.finished.stdout) == (0, b"kept\n"), result.finished


async def test_a_folder_that_cannot_be_removed_is_logged_and_the_output_is_kept(
    make_runner: MakeRunner, skills: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(private_copy, "remove_tree", lambda root: remove_tree(root) or "x: the disk is gone")
    result = await make_runner().run(with_files(skills, {"a.py": "print('kept')"}), "a.py")
    assert result.finished.stdout.split() == [b"kept"]
    assert "cannot be removed" in caplog.text
    assert "x: the disk is gone" in caplog.text


async def test_only_a_script_of_the_evals_sees_the_evals(make_runner: MakeRunner, skills: Path) -> None:
    code = "import os, pathlib; print(*sorted(p.name for p in pathlib.Path(os.environ['SKILL_DIR']).rglob('*')))"
    files: dict[str, str | bytes] = {"look.py": code, "evals/check.py": code, "evals/files/answer.txt": "x"}
    skill = with_files(skills, files)
    (skills / "a" / "evals" / "empty").mkdir()
    skill = load(skills)
    assert (await make_runner().run(skill, "look.py")).finished.stdout.split() == [b"SKILL.md", b"look.py"]
    whole = (await make_runner().run(skill, "evals/check.py")).finished.stdout.split()
    assert whole == [b"SKILL.md", b"answer.txt", b"check.py", b"empty", b"evals", b"files", b"look.py"]


async def test_evals_that_changed_do_not_stop_other_scripts(make_runner: MakeRunner, skills: Path) -> None:
    skill = with_files(skills, {"a.py": "print(1)", "evals/evals.json": "{}"})
    (skills / "a" / "evals" / "evals.json").write_text("[]")
    assert (await make_runner().run(skill, "a.py")).finished.stdout.split() == [b"1"]
