"""The folders, the environment and the command of a run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from server.capabilities.evals.agents.agent import RunFolder, RunFolders, agent_environment
from server.capabilities.evals.agents.cli_agent import fill
from server.capabilities.evals.workspace import EvalError
from skills_core.disk.files import Location


def test_placeholders_are_replaced_once_and_other_braces_stay() -> None:
    values = {"prompt": shlex.quote("say {skill} ${files}"), "skill": "/s", "files": "a b"}
    assert fill("x {prompt} {skill} {other} ${files} {files}", values) == (
        "x 'say {skill} ${files}' /s {other} ${files} a b"
    )


def test_an_environment_leads_to_no_settings_but_those_of_the_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    host = {"PATH": "/bin", "ANTHROPIC_API_KEY": "key", "HOME": "/me", "OLDPWD": "/me", "XDG_RUNTIME_DIR": "/run"}
    host |= {"CLAUDE_CONFIG_DIR": "/me", "CODEX_HOME": "/me", "OPENCODE_CONFIG": "/me", "SKILLSERVE_MODEL_KEY": "key"}
    found = agent_environment(folder, host)
    assert (found["PATH"], found["ANTHROPIC_API_KEY"], found["HOME"]) == ("/bin", "key", str(folder.home))
    assert not {"CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_CONFIG", "SKILLSERVE_MODEL_KEY", "OLDPWD"} & set(found)
    assert not [value for value in found.values() if value.startswith(("/me", "/run"))]


def test_a_folder_is_fresh_and_has_the_inputs_and_a_copy_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    home = tmp_path / "home"
    home.mkdir()
    (home / "login").write_text("x")
    folder = RunFolder(tmp_path / "run")
    folder.work.mkdir(parents=True)
    (folder.work / "left").write_text("of an interrupted attempt")
    folder.create({"data/a.txt": Location(tmp_path, "a.txt")}, home)
    files = sorted(path.relative_to(folder.root).as_posix() for path in folder.root.rglob("*") if path.is_file())
    assert files == ["home/login", "work/data/a.txt"]
    with pytest.raises(EvalError):
        folder.create({"b.txt": Location(tmp_path, "b.txt")})


def test_a_recorded_folder_is_used_again_only_if_it_is_ours(tmp_path: Path) -> None:
    folders = RunFolders.open()
    try:
        assert RunFolders.open(str(folders.root)).root == folders.root
        assert folders.of("case", 1) == RunFolders(folders.root).of("case", 1) != folders.of("case", 2)
        link = tmp_path / folders.root.name
        link.symlink_to(folders.root)
        others = [RunFolders.open(known) for known in (str(link), str(tmp_path), 5, "\0", None)]
        assert folders.root not in {each.root for each in others}
        for each in others:
            each.remove()
    finally:
        folders.remove()
    assert not folders.root.exists()
