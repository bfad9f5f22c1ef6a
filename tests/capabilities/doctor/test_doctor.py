from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.conftest import MakeSkill
from tests.permissions import CAN_BE_BOUND
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, http_server, server_environment

PLACES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def doctor(home: Path, *words: str | Path, **variables: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    usual = {"HOME": str(home), "PATH": os.defpath, "SKILLSERVE_PORT": "0", **dict.fromkeys(PLACES, "")}
    done = run("doctor", *words, "--json", **{**usual, **variables})
    report = json.loads(done.stdout)
    assert report["ok"] == (done.returncode == 0)
    return done.returncode, report["examinations"]


def bad(found: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str]]:
    return [(title, each["message"]) for title, all_of in found.items() for each in all_of if each["health"] == "bad"]


def test_nothing_is_bad_where_all_works(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    code, found = doctor(home, skills)
    assert (code, bad(found)) == (0, [])
    assert any("1 active" in each["message"] for each in found["Skills"])
    assert found["Installation"][0]["message"].startswith("skillserve ")


def test_a_broken_skill_is_named_with_its_fault(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    folder = skills / "broken"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: broken\n---\n", encoding="utf-8")
    code, found = doctor(home, skills)
    assert code == 1
    ((title, message),) = bad(found)
    assert (title, "broken is not served" in message) == ("Skills", True)


def test_an_empty_folder_is_told_with_where_was_looked(home: Path, skills: Path) -> None:
    code, found = doctor(home, skills)
    assert code == 1
    assert bad(found) == [("Skills", f"no skill is served; looked in {skills}")]
    assert found["Skills"][-1]["advice"] == "run: skillserve init NAME"


def test_a_folder_of_an_unknown_user_is_a_missing_one(home: Path) -> None:
    _, found = doctor(home, "~no-such-user/skills")
    assert [each["kind"] for each in found["Skills"]] == ["no-such-folder", "no-skill"]


def test_a_wrong_setting_is_told_with_its_file(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    code, found = doctor(home, skills, SKILLSERVE_MODEL="nonsense")
    assert code in {0, 1}
    assert any("model" in each["message"] for each in found["Settings"])


def test_a_client_whose_command_does_not_start_is_told(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    entry = {"command": "/nowhere/skillserve", "args": ["serve", str(skills)]}
    file.write_text(json.dumps({"mcpServers": {"skills": entry, "other": {"command": "x"}}}), encoding="utf-8")
    code, found = doctor(home, skills)
    assert code == 1
    ((title, message),) = bad(found)
    assert title == "Clients"
    assert message == "Cursor: skills: /nowhere/skillserve does not exist, or cannot be executed"
    file.write_text("{", encoding="utf-8")
    assert "this is not valid JSON" in bad(doctor(home, skills)[1])[0][1]


def everything_below(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.lstat().st_mtime_ns, content_of(path))
        for path in folder.rglob("*")
    }


def content_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def test_nothing_is_changed_by_an_examination(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    entry = {"command": sys.executable, "args": ["-m", "server", "serve", str(skills)]}
    file.write_text(json.dumps({"mcpServers": {"skills": entry}}), encoding="utf-8")
    before = everything_below(home.parent)
    code, found = doctor(home, skills, PYTHONPATH=str(REPOSITORY), PYTHONDONTWRITEBYTECODE="1")
    assert (code, bad(found)) == (0, [])
    assert any("skills answers" in each["message"] for each in found["Clients"])
    assert everything_below(home.parent) == before


def test_each_setting_is_told_with_its_origin_and_no_secret_is_shown(
    home: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    file = home / ".config" / "skillserve" / "skillserve.toml"
    file.parent.mkdir(parents=True)
    text = """
[http]
path = "/skills"
[admin]
token = "hidden-hidden-hidden"
[runs]
model = "https://user:hidden@model.example.com/v1?key=hidden#x"
store = "postgresql://user:hidden@db/runs"
"""
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    secret = home / "secret"
    secret.write_text("hidden-in-a-file", encoding="utf-8")
    _, found = doctor(home, skills, SKILLSERVE_MODEL_KEY_FILE=str(secret), SKILLSERVE_LOG_LEVEL="debug")
    lines = [each["message"] for each in found["Settings"]]
    assert f'http.path = "/skills", from {file}' in lines
    assert f"admin.token = (secret), from {file}" in lines
    assert 'logging.level = "debug", from the environment variable SKILLSERVE_LOG_LEVEL' in lines
    assert f"runs.store = (secret), from {file}" in lines
    assert f'runs.model = "https://…@model.example.com/v1?…#x", from {file}' in lines
    assert "hidden" not in json.dumps(found)


def test_a_settings_file_that_cannot_be_read_does_not_end_the_examination(
    home: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    file = home / ".config" / "skillserve" / "skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[", encoding="utf-8")
    code, found = doctor(home, skills)
    assert code == 1
    ((title, message),) = bad(found)
    assert title == "Settings"
    assert message.startswith(f"{file}: ")
    assert [each["kind"] for each in found["Settings"] if each["health"] == "bad"] == ["setting-invalid"]
    assert any("1 active" in each["message"] for each in found["Skills"])


# The process drops the capabilities of root.
BOUND = """
from tests.permissions import be_bound_by_permissions
be_bound_by_permissions()
from server.__main__ import main
main()
"""


@pytest.mark.skipif(not CAN_BE_BOUND, reason="permissions cannot apply here")
@pytest.mark.parametrize("shut", [".cursor", ".cursor/mcp.json", ".config", "."])
def test_what_may_not_be_read_is_told_and_all_else_examined(shut: str, home: Path, skills: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".config" / "skillserve").mkdir(parents=True)
    (home / ".cursor" / "mcp.json").write_text("{}", encoding="utf-8")
    mode = (home / shut).stat().st_mode
    (home / shut).chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, "-c", BOUND, "doctor", str(skills), "--json"],
            cwd=REPOSITORY,
            env={**server_environment(), "HOME": str(home), "PATH": os.defpath, **dict.fromkeys(PLACES, "")},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        (home / shut).chmod(mode)
    assert "Traceback" not in done.stderr
    found = json.loads(done.stdout)["examinations"]
    assert [*found] == ["Installation", "Runs and scripts", "Settings", "Skills", "Address", "Clients"]
    told = [each["message"] for symptoms in found.values() for each in symptoms]
    assert any(str(home / shut) in message for message in told)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["http://h/mcp", "folder"], "expected the URL of one server, or folders"),
        (["--header", "A: b"], "--header is for a server"),
        (["http://h/mcp", "--header", "A b"], "expected 'Name: value'"),
        (["localhost:8000/mcp"], "for a server, write http://localhost:8000/mcp"),
        (["ftp://h/mcp"], "expected the URL of an MCP server"),
        (["http://[::1/mcp"], "expected the URL of an MCP server"),
    ],
)
def test_words_that_make_no_sense_are_refused(words: list[str], why: str) -> None:
    done = run("doctor", *words)
    assert done.returncode == 2
    assert why in done.stderr


async def test_a_running_server_is_examined_with_its_login_and_its_names(
    home: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    places = {"HOME": str(home), **dict.fromkeys(PLACES, "")}
    token = run("token", "add", "anna", **places).stdout.strip()
    settings = {**places, "SKILLSERVE_LOGIN_TOKENS": "true"}

    async def asked(*words: str) -> tuple[list[str | None], str]:
        done = await anyio.to_thread.run_sync(lambda: run("doctor", "--json", *words, **places))
        report = json.loads(done.stdout)["examinations"]["Server"]
        assert token not in done.stdout + done.stderr
        return [each["kind"] for each in report if each["kind"]], json.dumps(report)

    async with http_server(skills, **settings) as url:
        assert (await asked(url))[0] == ["url-login"]
        assert (await asked(url, "--header", "Authorization: Bearer sks_x"))[0] == ["url-token-refused"]
        kinds, report = await asked(url, "--header", f"Authorization: Bearer {token}")
        assert kinds == []
        assert "clients have to log in, and the header is accepted" in report
        assert report.count("it offers activate_skill, read_skill_file, find_skills") == 2
    async with http_server(skills, **places) as url:
        kinds, report = await asked(url)
        assert kinds == []
        assert "clients need no login" in report
        assert (await asked(url, "--header", "Host: skills.example.com"))[0] == ["url-host-not-allowed"]
        assert (await asked(url, "--header", "Origin: https://example.com"))[0] == ["url-forbidden"]
        assert (await asked(f"{url}x"))[0] == ["url-wrong-path"]


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is of Linux")
def test_a_full_disk_ends_with_one_line(home: Path, skills: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "server", "doctor", str(skills)],
            cwd=REPOSITORY,
            env={**server_environment(), "HOME": str(home)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "skillserve: the result cannot be written: no space left on device\n")


def test_the_settings_of_a_trusted_project_are_told(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    project = home.parent / "project"
    (project / ".git").mkdir(parents=True)
    (project / "skillserve.toml").write_text("[discovery]\nscan_depth = 3\n", encoding="utf-8")
    places = {"HOME": str(home), **dict.fromkeys(PLACES, "")}
    environment = {**server_environment(), **places}

    def run_in_project(*words: str) -> str:
        command = [sys.executable, "-m", "server", *words]
        return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True).stdout

    run_in_project("trust", ".")
    report = json.loads(run_in_project("doctor", "--json", str(skills)))
    messages = [each["message"] for each in report["examinations"]["Settings"]]
    assert f"discovery.scan_depth = 3, for this project, from {project / 'skillserve.toml'}" in messages
