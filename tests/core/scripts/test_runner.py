"""Running a script of a skill: which file runs, what it sees, and what it leaves.

Where a script starts: relative paths in a skill's body mean the skill's folder.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from skills_core.disk.replacement import remove_tree
from skills_core.errors import ScriptRefusedError, SkillChangedError, UnknownFileError
from skills_core.scripts import private_copy
from skills_core.scripts import runner as runner_module
from skills_core.scripts.environment import WorkingDirectory
from skills_core.scripts.isolation import Isolation
from skills_core.scripts.private_copy import PrivateCopy
from skills_core.scripts.process import ProcessEnding, ProcessLimits
from skills_core.scripts.programs import Interpreter, ProgramFinder, find_interpreter
from skills_core.scripts.runner import READ_ONLY_HINT
from skills_core.skills.skill import Skill, State
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


WHERE = """
import json, os
folders = {name: os.environ.get(name) for name in ("SKILL_DIR", "SCRATCH_DIR", "WORKSPACE_DIR")}
print(json.dumps({"cwd": os.getcwd(), "here": sorted(os.listdir()), **folders}))
"""

FOLDERS = {WorkingDirectory.SKILL: "SKILL_DIR", WorkingDirectory.SCRATCH: "SCRATCH_DIR"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def test_script_execution_paths_are_relative_to_the_skill_directory_root(
    make_runner: MakeRunner, skills: Path
) -> None:
    code = "import sys; print(open('assets/template.txt').read(), open(sys.argv[1]).read())"
    skill = with_files(skills, {"scripts/process.py": code, "assets/template.txt": "template", "data/in.txt": "in"})
    result = await make_runner().run(skill, "scripts/process.py", ["data/in.txt"])
    assert result.finished.stdout.split() == [b"template", b"in"], result.finished


@POSIX
async def test_a_command_of_the_body_runs_from_the_root(make_runner: MakeRunner, skills: Path) -> None:
    script = 'sh scripts/validate.sh "$1"'
    skill = with_files(skills, {"scripts/all.sh": script, "scripts/validate.sh": 'echo "valid: $1"'})
    result = await make_runner().run(skill, "scripts/all.sh", ["a b"])
    assert result.finished.stdout == b"valid: a b\n", result.finished


async def test_the_root_is_the_verified_copy_and_not_the_installed_skill(make_runner: MakeRunner, skills: Path) -> None:
    skill = with_files(skills, {"scripts/a.py": WHERE})
    (skills / "a" / "later.txt").write_text("not verified")
    about = printed(await make_runner().run(skill, "scripts/a.py"))
    assert about["here"] == ["SKILL.md", "scripts"]
    assert Path(about["cwd"]) != skills / "a"


@pytest.mark.parametrize("directory", FOLDERS)
async def test_a_setting_chooses_the_folder_and_variables_name_the_others(
    make_runner: MakeRunner, skills: Path, workspace: Path, directory: WorkingDirectory
) -> None:
    skill = with_files(skills, {"a.py": WHERE})
    for more in ({}, {"workspace": workspace}):
        about = printed(await make_runner(cwd=directory, **more).run(skill, "a.py"))
        assert os.path.realpath(about[FOLDERS[directory]]) == os.path.realpath(about["cwd"])
        assert about["here"] == ([] if directory is WorkingDirectory.SCRATCH else ["SKILL.md", "a.py"])
        assert about["WORKSPACE_DIR"] == (str(workspace) if more else None)
        assert len({about["SKILL_DIR"], about["SCRATCH_DIR"], about["WORKSPACE_DIR"]}) == 3


@pytest.mark.parametrize("directory", [None, WorkingDirectory.WORKSPACE])
async def test_with_a_workspace_a_script_starts_there_and_can_write(
    make_runner: MakeRunner, skills: Path, workspace: Path, directory: WorkingDirectory | None
) -> None:
    (workspace / "in.txt").write_text("in")
    skill = with_files(skills, {"a.py": "open('out.txt', 'w').write(open('in.txt').read())"})
    result = await make_runner(workspace=workspace, cwd=directory).run(skill, "a.py")
    assert result.finished.exit_code == 0, result.finished
    assert (workspace / "out.txt").read_text() == "in"


async def test_from_the_skills_folder_a_script_writes_to_the_workspace_by_its_variable(
    make_runner: MakeRunner, skills: Path, workspace: Path
) -> None:
    code = "import os; open(os.path.join(os.environ['WORKSPACE_DIR'], 'out.csv'), 'w').write(open('data.txt').read())"
    skill = with_files(skills, {"a.py": code, "data.txt": "x"})
    result = await make_runner(workspace=workspace, cwd=WorkingDirectory.SKILL).run(skill, "a.py")
    assert result.finished.exit_code == 0, result.finished
    assert (workspace / "out.csv").read_text() == "x"


async def test_the_scratch_folder_is_writable_empty_and_new_for_each_call(
    make_runner: MakeRunner, skills: Path
) -> None:
    code = "import os; os.chdir(os.environ['SCRATCH_DIR']); print(os.listdir()); open('out.csv', 'w').write('x')"
    skill, runner = with_files(skills, {"a.py": code}), make_runner()
    for _ in range(2):
        result = await runner.run(skill, "a.py")
        assert (result.finished.exit_code, result.finished.stdout.split()) == (0, [b"[]"]), result.finished


@POSIX
async def test_relative_output_is_refused_with_an_error_that_names_the_writable_folder(
    make_runner: MakeRunner, skills: Path, isolation: Isolation
) -> None:
    if isolation.sandbox is None and os.geteuid() == 0:
        pytest.skip("file modes do not restrict root")
    result = await make_runner().run(with_files(skills, {"a.py": "open('out.csv', 'w')"}), "a.py")
    assert result.finished.exit_code == 1
    assert os.strerror(errno.EROFS if isolation.sandbox else errno.EACCES) in result.finished.stderr.decode()
    assert result.note == READ_ONLY_HINT


async def test_the_hint_is_only_for_scripts_that_failed_to_write_from_the_skills_folder(
    make_runner: MakeRunner, skills: Path
) -> None:
    code = "import sys; print(sys.argv[1], file=sys.stderr); sys.exit(int(sys.argv[2]))"
    skill = with_files(skills, {"a.py": code})
    notes = {
        (text, code, directory): (await make_runner(cwd=directory).run(skill, "a.py", [text, code])).note
        for text in ("EACCES: permission denied, open 'x'", "no such city")
        for code in ("0", "3")
        for directory in FOLDERS
    }
    assert [key for key, note in notes.items() if note] == [
        ("EACCES: permission denied, open 'x'", "3", WorkingDirectory.SKILL)
    ]


async def test_what_a_script_does_to_its_copy_reaches_neither_the_skill_nor_a_later_call(
    make_runner: MakeRunner, skills: Path
) -> None:
    code = """
import os, sys
for attempt in (
    lambda: os.chmod('.', 0o700),
    lambda: os.chmod('data.txt', 0o600),
    lambda: open('data.txt', 'w').write('other'),
    lambda: os.replace('data.txt', 'moved.txt'),
    lambda: os.symlink('/etc/passwd', 'data.txt'),
    lambda: open('new.txt', 'w').write('new'),
):
    try:
        attempt()
    except OSError:
        pass
"""
    skill = with_files(skills, {"a.py": code, "b.py": WHERE + "print(open('data.txt').read())", "data.txt": "served"})
    runner = make_runner()
    assert (await runner.run(skill, "a.py")).finished.exit_code == 0
    after = (await runner.run(skill, "b.py")).finished
    assert json.loads(after.stdout.splitlines()[0])["here"] == ["SKILL.md", "a.py", "b.py", "data.txt"]
    assert after.stdout.split()[-1] == b"served"
    assert {each.name for each in (skills / "a").iterdir()} == {"SKILL.md", "a.py", "b.py", "data.txt"}
    assert load(skills).digest == skill.digest


class _RemovedCopy(PrivateCopy):
    """A copy that a cleaner of temporary files removes at once."""

    def __init__(self, skill: Skill, **options: Any) -> None:
        super().__init__(skill, **options)
        self.remove()


async def test_a_copy_that_is_removed_before_its_script_is_read_runs_nothing(
    make_runner: MakeRunner, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "PrivateCopy", _RemovedCopy)
    with pytest.raises(ScriptRefusedError, match="its copy cannot be read"):
        await make_runner().run(with_files(skills, {"a.py": "print('ran')"}), "a.py")


async def test_a_copy_that_is_removed_before_the_start_runs_nothing_and_the_result_says_why(
    make_runner: MakeRunner, skills: Path, monkeypatch: pytest.MonkeyPatch, isolation: Isolation, temporary: Path
) -> None:
    def find_and_remove(path: str, raw: bytes, programs: ProgramFinder) -> Interpreter:
        for folder in temporary.iterdir():
            remove_tree(folder)
        return find_interpreter(path, raw, programs)

    monkeypatch.setattr(runner_module, "find_interpreter", find_and_remove)
    result = await make_runner().run(with_files(skills, {"a.py": "print('ran')"}), "a.py")
    assert result.finished.stdout == b""
    if isolation.sandbox is None:
        assert result.finished.ending is ProcessEnding.NOT_STARTED
    else:
        assert result.finished.exit_code != 0
        assert "was removed from the temporary folder" in result.note


async def test_a_workspace_with_the_copies_of_other_calls_in_it_is_refused_in_a_sandbox(
    make_runner: MakeRunner, skills: Path, tmp_path: Path, isolation: Isolation
) -> None:
    runner, skill = make_runner(workspace=tmp_path), with_files(skills, {"a.py": "print('ran')"})
    if isolation.sandbox is None:
        assert (await runner.run(skill, "a.py")).finished.exit_code == 0
        return
    with pytest.raises(ScriptRefusedError, match="set TMPDIR to a folder outside of it"):
        await runner.run(skill, "a.py")
