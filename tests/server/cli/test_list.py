"""`skillserve list`, what `--as` shows of it and of `status`, and what commands say when there is nothing to list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.access import Principal, PrincipalKind
from server.config.machine import current_environment
from server.hosting.views import UnknownRoleError, role_rule, roles_of, seen_by
from skills_core import Library, explicit_sources
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run
from tests.server.settings import make_settings

ROLES = {"reader": ("csv-*",), "writer": ("tag:docs",)}


def with_roles(tmp_path: Path, text: str = "") -> dict[str, str]:
    """Return the environment of a user whose settings have roles."""
    file = tmp_path / "config/skillserve/skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text or "[access.roles]\nreader = ['csv-*']\nwriter = ['tag:docs']\n")
    file.chmod(0o600)
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def three(skills: Path, make_skill: MakeSkill) -> Path:
    make_skill("csv-report")
    make_skill("guide", fields="tags: [docs]")
    make_skill("other", description="Does [bold]other[/] things.\n  On two lines.")
    return skills


def test_each_served_skill_is_one_line_with_its_description(three: Path) -> None:
    done = run("list", three)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["csv-report", "guide", "other"]
    assert "other       Does [bold]other[/] things." in done.stdout


def test_skills_that_are_not_served_are_counted_on_stderr(three: Path, make_skill: MakeSkill) -> None:
    make_skill("broken", description="''")
    done = run("list", three)
    assert "broken" not in done.stdout
    assert "1 is not served (1 invalid)" in done.stderr


def test_the_object_has_names_and_descriptions(three: Path) -> None:
    found = json.loads(run("list", three, "--json").stdout)
    assert [each["name"] for each in found["skills"]] == ["csv-report", "guide", "other"]
    assert all(each["description"] for each in found["skills"])
    assert found.keys() == {"skills"}


@pytest.mark.parametrize("command", ["list", "status", "search", "visibility"])
def test_an_empty_folder_is_named_with_what_to_do(command: str, skills: Path) -> None:
    words = [command, "query", skills] if command == "search" else [command, skills]
    done = run(*words)
    assert f"  {skills}" in done.stdout
    assert "skillserve init NAME" in done.stdout


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["list", "DIR"], "skills"),
        (["status", "DIR"], "skills"),
        (["runs", "list"], "runs"),
        (["plugin", "list"], "plugins"),
        (["token", "list"], "tokens"),
        (["schedule", "list"], "schedules"),
        (["schedule", "overview"], "schedules"),
        (["history", "propose"], "improvements"),
        (["audit-log", "list"], "records"),
    ],
)
def test_an_empty_list_is_a_sentence_for_people_and_an_empty_list_as_json(
    words: list[str], key: str, skills: Path, tmp_path: Path
) -> None:
    own = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path / "home")}
    given = [str(skills) if word == "DIR" else word for word in words]
    as_json = run(*given, "--json", **own)
    assert json.loads(as_json.stdout)[key] == []
    done = run(*given, **own)
    assert done.returncode == 0
    assert "o " in done.stdout + done.stderr
    assert "skillserve" in done.stdout + done.stderr


def test_no_trusted_project_is_said(tmp_path: Path) -> None:
    done = run("trust", "--list", XDG_CONFIG_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "")
    assert "no project is trusted" in done.stderr


@pytest.mark.parametrize("command", ["list", "status"])
def test_as_shows_what_a_role_sees_and_how_much_of_all(command: str, three: Path, tmp_path: Path) -> None:
    done = run(command, three, "--as", "reader", **with_roles(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("A caller with the role reader sees 1 of 3 served skills. Optional tools: none.")
    assert "csv-report" in done.stdout
    assert "guide" not in done.stdout
    assert "not served" not in done.stderr


@pytest.mark.parametrize("command", ["list", "status"])
def test_as_may_be_repeated_and_the_object_says_for_whom_it_is(command: str, three: Path, tmp_path: Path) -> None:
    done = run(command, three, "--as", "reader", "--as", "writer", "--json", **with_roles(tmp_path))
    found = json.loads(done.stdout)
    assert [each["name"] for each in found["skills"]] == ["csv-report", "guide"]
    assert found["as"] == {"roles": ["reader", "writer"], "tools": []}


def test_an_unknown_role_is_wrong_use_and_the_roles_are_named(three: Path, tmp_path: Path) -> None:
    done = run("list", three, "--as", "raeder", **with_roles(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "the settings have reader, writer; did you mean 'reader'?" in done.stderr


def test_without_roles_none_can_be_asked_for(three: Path) -> None:
    done = run("status", three, "--as", "reader")
    assert done.returncode == 2
    assert "access.roles is not set" in done.stderr


@pytest.mark.parametrize("asked", [("reader",), ("writer",), ("reader", "writer")])
@pytest.mark.parametrize("default", [(), ("writer",)])
def test_the_command_sees_what_the_server_shows_a_principal_with_the_roles(
    asked: tuple[str, ...], default: tuple[str, ...], three: Path
) -> None:
    settings = make_settings(access_roles=ROLES, access_default_roles=default)
    catalog = Library(explicit_sources([three]), current_environment).catalog
    rule = role_rule(settings.access)
    assert rule is not None
    name = roles_of(settings.access).of(Principal("somebody", PrincipalKind.TOKEN, frozenset(asked)))
    seen = seen_by(asked, catalog, settings)
    assert [*seen.catalog.skills] == [skill for skill in catalog.skills if rule.shows(name, skill)]
    assert {*seen.roles} == {*asked, *default}


def test_the_tools_are_those_that_the_role_may_use_and_a_schedule_is_nobodys(three: Path) -> None:
    settings = make_settings(
        access_roles={"reader": ("*",)},
        access_tools={"reader": ("run_*", "*_schedule*")},
        tools=("run_skill", "check_tool_call", "list_schedules"),
    )
    catalog = Library(explicit_sources([three]), current_environment).catalog
    assert seen_by(["reader"], catalog, settings).tools == ("run_skill",)


def test_an_error_about_a_role_quotes_no_more_than_a_line() -> None:
    with pytest.raises(UnknownRoleError) as error:
        seen_by(["x" * 500], Library([], current_environment).catalog, make_settings(access_roles=ROLES))
    assert len(str(error.value)) < 200


def test_the_hint_of_list_and_of_an_empty_folder_name_the_folder(three: Path, make_skill: MakeSkill) -> None:
    make_skill("broken", description="''")
    assert f"skillserve status {three} says why" in run("list", three).stderr
    empty = three.parent / "empty"
    empty.mkdir()
    assert f"init NAME --to {empty}." in run("status", empty).stdout


def test_one_skill_is_counted_as_one(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("alone")
    assert "\n1 skill: 1 active" in run("status", skills).stdout


def test_a_role_that_sees_nothing_is_not_told_to_write_a_skill(three: Path, tmp_path: Path) -> None:
    done = run("status", three, "--as", "reader", **with_roles(tmp_path, "[access.roles]\nreader = ['none']\n"))
    assert "sees 0 of 3 served skills" in done.stdout
    assert "No skills found" not in done.stdout
