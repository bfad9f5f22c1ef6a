"""Output, streams and exit codes of the command line, and the precedence of settings."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from server.config.files import ConfigurationError
from server.config.settings.layers import load_settings
from tests.conftest import MakeSkill
from tests.permissions import CAN_BE_BOUND
from tests.server.sessions import server_environment
from tests.server.settings import make_settings

REPOSITORY = Path(__file__).parents[3]

DIAGNOSTIC = {
    "type": "object",
    "required": ["severity", "code", "message", "path", "line"],
    "properties": {"severity": {"enum": ["error", "warning", "info"]}, "line": {"type": ["integer", "null"]}},
}
STATUS = {
    "type": "object",
    "required": ["skills"],
    "properties": {
        "skills": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "state", "reason", "scope", "path", "digest", "diagnostics"],
                "properties": {
                    "state": {"enum": ["active", "excluded", "shadowed", "invalid"]},
                    "digest": {"type": ["string", "null"], "pattern": "^sha256:[0-9a-f]{64}$"},
                    "diagnostics": {"type": "array", "items": DIAGNOSTIC},
                },
            },
        }
    },
}


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    return subprocess.run(
        [sys.executable, "-m", "server", *map(str, arguments)],
        cwd=REPOSITORY,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


BOUND = "from tests.permissions import *; be_bound_by_permissions(); from server.__main__ import main; main()"


def run_bound_by_permissions(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command as an unprivileged user: file permissions do not apply to root."""
    return subprocess.run(
        [sys.executable, "-c", BOUND, *map(str, arguments)],
        cwd=REPOSITORY,
        env=server_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_status_prints_the_documented_object_with_every_state(
    tmp_path: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("fine")
    make_skill("shadowed-one")
    make_skill("gated", fields="when:\n  requires:\n    env: [SKILLSERVE_NO_SUCH_VARIABLE]")
    make_skill("broken", description="''")
    higher = tmp_path / "higher"
    (higher / "shadowed-one").mkdir(parents=True)
    (higher / "shadowed-one" / "SKILL.md").write_bytes((skills / "shadowed-one" / "SKILL.md").read_bytes())
    done = run("status", higher, skills, "--json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    Draft202012Validator(STATUS).validate(answer)
    states = sorted((skill["name"], skill["state"], skill["reason"]) for skill in answer["skills"])
    assert states == [
        ("broken", "invalid", "missing_description"),
        ("fine", "active", None),
        ("gated", "excluded", "missing_env"),
        ("shadowed-one", "active", None),
        ("shadowed-one", "shadowed", "shadowed"),
    ]


def test_the_status_table_names_each_skill_with_state_and_reason(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("fine")
    make_skill("broken", description="''")
    done = run("status", skills)
    assert done.returncode == 0
    assert "missing_description" in done.stdout
    assert "2 skills: 1 active, 0 excluded, 0 shadowed, 1 invalid" in done.stdout


def test_validate_exits_with_1_and_prints_diagnostics_like_a_compiler(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("fine")
    folder = make_skill("broken", description="''")
    done = run("validate", skills)
    assert done.returncode == 1
    assert f"{folder / 'SKILL.md'}:3: error[missing_description]:" in done.stdout
    assert "2 checked: 1 valid, 1 invalid" in done.stdout
    assert run("validate", skills / "fine").returncode == 0
    assert run("validate", skills / "fine" / "SKILL.md").returncode == 0


def test_strict_validation_turns_warnings_into_errors(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("fine", fields="colour: red")
    assert run("validate", skills).returncode == 0
    done = run("validate", skills, "--strict", "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)["results"][0]
    assert result["valid"] is False
    assert [diagnostic["code"] for diagnostic in result["diagnostics"]] == ["unknown_field"]
    assert "did you mean 'color'" in result["diagnostics"][0]["message"]


def test_a_folder_without_skills_is_reported_as_missing_skill_file(tmp_path: Path) -> None:
    done = run("validate", tmp_path, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["results"][0]["diagnostics"][0]["code"] == "missing_skill_file"


def test_show_prints_files_with_digests(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("fine", files={"a.md": b"a"})
    done = run("show", "fine", skills, "--json")
    files = json.loads(done.stdout)["skills"][0]["files"]
    assert [file["path"] for file in files] == ["SKILL.md", "a.md"]
    assert "a.md" in run("show", "fine", skills).stdout


@pytest.mark.parametrize("command", ["show", "activate"])
def test_an_unknown_name_exits_with_1_and_suggests_a_similar_name(
    command: str, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("fine")
    done = run(command, "fien", skills)
    assert done.returncode == 1
    assert "'fine'" in done.stderr
    assert done.stdout == ""


def test_a_missing_directory_is_a_usage_error_that_names_it(tmp_path: Path) -> None:
    done = run("serve", tmp_path / "nowhere", "--transport", "http", "--port", "0")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "no such directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_in_place_of_a_directory_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "file.md"
    file.write_text("x")
    done = run("serve", file, "--transport", "http", "--port", "0")
    assert done.returncode == 2
    assert "this is a file" in done.stderr


def test_a_port_in_use_is_a_usage_error_that_suggests_another_port(skills: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", skills, "--transport", "http", "--port", port)
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["init"], ["serve", ".", "--port", "many"], ["activate", "x", ".", "--param", "x"]]
)
def test_usage_errors_exit_with_2(arguments: list[str]) -> None:
    assert run(*arguments).returncode == 2


def test_an_invalid_setting_is_reported_with_its_origin(skills: Path) -> None:
    done = run("serve", skills, SKILLSERVE_WATCH_DEBOUNCE_MS="soon")
    assert done.returncode == 2
    assert "SKILLSERVE_WATCH_DEBOUNCE_MS" in done.stderr


def test_invalid_files_get_diagnostics_and_do_not_affect_other_skills(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("fine")
    bad = {
        "empty": b"",
        "latin": b"---\nname: latin\ndescription: caf\xe9\n---\n",
        "huge": b"---\nname: huge\ndescription: d\n---\n" + b"x" * (1024 * 1024),
        "malformed": b"---\n{name: [\n---\n",
        "unclosed": b"---\nname: unclosed\n",
        "plain": b"# No frontmatter\n",
    }
    for name, content in bad.items():
        (skills / name).mkdir()
        (skills / name / "SKILL.md").write_bytes(content)
    answer = json.loads(run("status", skills, "--json").stdout)
    reasons = {skill["name"]: skill["reason"] for skill in answer["skills"]}
    assert reasons == {
        "empty": "empty",
        "fine": None,
        "huge": "too_large",
        "latin": "not_utf8",
        "malformed": "invalid_yaml",
        "plain": "missing_frontmatter",
        "unclosed": "unclosed_frontmatter",
    }


@pytest.mark.skipif(not CAN_BE_BOUND, reason="needs a user whom permissions bind")
def test_an_unreadable_skill_gets_a_diagnostic_and_does_not_affect_other_skills(
    skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("fine")
    (make_skill("secret") / "SKILL.md").chmod(0)
    done = run_bound_by_permissions("status", skills, "--json")
    found = [(skill["name"], skill["state"], skill["reason"]) for skill in json.loads(done.stdout)["skills"]]
    assert sorted(found) == [("fine", "active", None), ("secret", "invalid", "permission_denied")]


def test_options_override_the_environment_which_overrides_files_and_defaults(tmp_path: Path) -> None:
    own = tmp_path / "config" / "skillserve" / "skillserve.toml"
    own.parent.mkdir(parents=True)
    own.write_text('server.page_size = 7\n[http]\nport = 1\nhost = "file"\nallowed_hosts = ["a", "b"]\n')
    environment = {"SKILLSERVE_PORT": "2", "SKILLSERVE_HOST": "environment", "SKILLSERVE_ALLOWED_ORIGINS": "c, d"}
    settings = load_settings({"port": 3, "host": None}, environment, tmp_path / "config")
    assert settings == make_settings(
        port=3, host="environment", page_size=7, allowed_hosts=("a", "b"), allowed_origins=("c", "d")
    )


@pytest.mark.parametrize("text", ["no_such = 1", "http.port = 'x'", "http.port = ", "http.port = 70000"])
def test_an_error_in_a_settings_file_names_the_file(tmp_path: Path, text: str) -> None:
    own = tmp_path / "config" / "skillserve" / "skillserve.toml"
    own.parent.mkdir(parents=True)
    own.write_text(text)
    with pytest.raises(ConfigurationError, match=r"skillserve\.toml"):
        load_settings({}, {}, tmp_path / "config")
