"""Where a script starts: relative paths in a skill's body mean the skill's folder."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_core.disk.replacement import remove_tree
from skills_core.errors import ScriptRefusedError
from skills_core.scripts import runner as runner_module
from skills_core.scripts.environment import WorkingDirectory
from skills_core.scripts.isolation import Isolation
from skills_core.scripts.process import ProcessEnding
from skills_core.scripts.programs import Interpreter, ProgramFinder, find_interpreter
from skills_core.scripts.runner import READ_ONLY_HINT, PrivateCopy
from skills_core.skills.skill import Skill
from tests.core.scripts.running import MakeRunner, load, printed, with_files

pytestmark = pytest.mark.usefixtures("temporary")

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="these programs are those of POSIX")

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
