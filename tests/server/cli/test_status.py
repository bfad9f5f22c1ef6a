"""`skillserve status`: states, reasons, sources, filters and the availability of runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.hosting.status import StatusFilter, StatusFilterError
from skills_core import Environment, Library, Reason, Scope, State, explicit_sources
from tests.conftest import MakeSkill, write_skill
from tests.server.sessions import REPOSITORY, server_environment

posix = pytest.mark.skipif(os.name == "nt", reason="homes are elsewhere there")


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "server", *map(str, arguments)],
        cwd=REPOSITORY,
        env=server_environment(**environment),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def status(*arguments: object, **environment: str) -> dict[str, Any]:
    done = run("status", "--json", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def credential(name: str) -> str:
    return f"metadata: {{jdai: {{skillKey: the-key, primaryEnv: {name}}}}}"


@pytest.fixture
def four_states(tmp_path: Path, skills: Path, make_skill: MakeSkill) -> tuple[Path, Path]:
    """Skills in all states, from two sources; the first has the higher precedence."""
    make_skill("fine")
    make_skill("taken")
    make_skill("gated", fields="when:\n  requires:\n    env: [SKILLSERVE_NO_SUCH_VARIABLE]")
    make_skill("elsewhere", fields="when: {os: plan9}")
    make_skill("broken", description="''")
    higher = tmp_path / "higher"
    write_skill(higher, "taken")
    return higher, skills


def test_status_has_the_source_key_credential_and_invocability_of_a_skill(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("plain")
    make_skill("for-users", fields=f"disable-model-invocation: true\n{credential('SOME_TOKEN')}")
    make_skill("for-models", fields="user-invocable: false")
    described = {
        skill["name"]: [
            skill[field] for field in ("skill_key", "primary_credential", "model_invocable", "user_invocable")
        ]
        for skill in status(skills, SOME_TOKEN="")["skills"]
    }
    assert described == {
        "plain": ["plain", None, True, True],
        "for-users": ["the-key", {"name": "SOME_TOKEN", "set": False}, False, True],
        "for-models": ["for-models", None, True, False],
    }
    assert {skill["source"] for skill in status(skills)["skills"]} == {str(skills.resolve())}


def test_a_skill_is_filtered_by_its_skill_key_too(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("plain")
    make_skill("keyed", fields=credential("SOME_TOKEN"))
    assert [skill["name"] for skill in status(skills, "--name", "the-*")["skills"]] == ["keyed"]


def test_filters_do_not_hide_sources(four_states: tuple[Path, Path]) -> None:
    higher, skills = four_states
    fields = {"scope": "explicit", "strictness": "lenient", "trusted": True, "exists": True}
    assert status(*four_states, "--name", "nothing")["sources"] == [
        {"root": str(higher.resolve()), **fields, "skills": 1},
        {"root": str(skills.resolve()), **fields, "skills": 5},
    ]


@posix
def test_missing_and_untrusted_sources_are_reported(tmp_path: Path) -> None:
    project = tmp_path.resolve() / "project"
    write_skill(project / ".agents" / "skills", "theirs")
    done = subprocess.run(
        [sys.executable, "-m", "server", "status", "--json"],
        cwd=project,
        env=server_environment(HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / "config")),
        capture_output=True,
        timeout=60,
        check=True,
    )
    found = {
        (source["root"], source["scope"]): (source["exists"], source["trusted"], source["skills"])
        for source in json.loads(done.stdout)["sources"]
    }
    assert found[str(project / ".agents" / "skills"), "workspace"] == (True, False, 1)
    assert found[str(project / ".skills"), "workspace"] == (False, False, 0)
    assert found[str(tmp_path.resolve() / ".agents" / "skills"), "managed"] == (False, True, 0)


FILTERS: dict[str, tuple[list[str], list[str]]] = {
    "none": ([], ["broken", "elsewhere", "fine", "gated", "taken", "taken"]),
    "a state": (["--state", "excluded"], ["elsewhere", "gated"]),
    "two states": (["--state", "invalid", "--state", "shadowed"], ["broken", "taken"]),
    "a reason": (["--reason", "missing_env"], ["gated"]),
    "a scope": (["--scope", "explicit"], ["broken", "elsewhere", "fine", "gated", "taken", "taken"]),
    "another scope": (["--scope", "managed"], []),
    "a name": (["--name", "gated"], ["gated"]),
    "patterns": (["--name", "*a*", "--name", "f???"], ["fine", "gated", "taken", "taken"]),
    "a pattern in another case": (["--name", "GATED"], []),
    "two kinds": (["--state", "excluded", "--state", "active", "--name", "ta*"], ["taken"]),
    "kinds that exclude one another": (["--state", "active", "--reason", "missing_env"], []),
}


@pytest.mark.parametrize(("flags", "names"), FILTERS.values(), ids=FILTERS)
def test_values_of_one_filter_add_up_and_filters_narrow_each_other(
    flags: list[str], names: list[str], four_states: tuple[Path, Path]
) -> None:
    assert [skill["name"] for skill in status(*four_states, *flags)["skills"]] == names


@pytest.mark.parametrize(
    ("flag", "value"), [("--state", "on"), ("--reason", "bad_weather"), ("--scope", "mars"), ("--state", "")]
)
def test_a_filter_with_an_unknown_value_is_a_usage_error(flag: str, value: str, skills: Path) -> None:
    done = run("status", skills, flag, value)
    assert done.returncode == 2
    assert flag in done.stderr


def test_piped_output_has_one_line_per_skill_with_scope_and_credential(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("with-one", fields=credential("SOME_TOKEN"))
    make_skill("without")
    lines = run("status", skills, SOME_TOKEN="x").stdout.splitlines()  # noqa: S106 - not a real secret
    assert lines[0].split() == ["skill", "state", "scope", "credential", "folder"]
    assert lines[1].split()[:6] == ["with-one", "active", "explicit", "SOME_TOKEN", "is", "set"]
    assert lines[2].split()[:3] == ["without", "active", "explicit"]


def test_lists_show_the_version_where_a_skill_has_one(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("field", fields="version: 1.4.0")
    make_skill("long", fields=f"version: {'9' * 5000}.0.0")
    make_skill("metadata", fields="metadata: {version: '[1.0]'}")
    make_skill("none")
    found = {skill["name"]: skill["version"] for skill in status(skills)["skills"]}
    assert found == {"field": "1.4.0", "long": f"{'9' * 5000}.0.0", "metadata": "[1.0]", "none": None}
    rows = [line.split() for line in run("status", skills).stdout.splitlines()[:5]]
    assert rows[0][:3] == ["skill", "version", "state"]
    assert [rows[1][:3], rows[3][:3], rows[4][:2]] == [
        ["field", "1.4.0", "active"],
        ["metadata", "[1.0]", "active"],
        ["none", "active"],
    ]
    assert len(rows[2][1]) <= 40


def test_what_makes_a_skill_invalid_in_a_strict_source_is_an_error(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("unknown", fields="when: {requiers: {bins: [x]}}\ndanger_patterns: ['a\\sb']")
    for flags, severity, state in ([], "warning", "excluded"), (["--strict"], "error", "invalid"):
        (skill,) = status(skills, *flags)["skills"]
        assert skill["state"] == state
        assert {each["code"]: each["severity"] for each in skill["diagnostics"]} == {
            "unknown_field": severity,
            "decoded_pattern": "warning",
        }
        assert f"{severity}[unknown_field]: unknown field 'when.requiers', so" in run("status", skills, *flags).stdout


def test_the_table_counts_shown_and_all_skills(four_states: tuple[Path, Path]) -> None:
    done = run("status", *four_states, "--state", "excluded")
    assert "2 of 6 skills: 0 active, 2 excluded, 0 shadowed, 0 invalid" in done.stdout
    assert "missing_description" not in done.stdout


NO_MODEL = "no model is set; name one with --model"
NO_TOOL = "the tool {0} is not switched on; do so with --tool {0}"
GONE = "--workflow names files or folders that do not exist: /nowhere/at/all"
NO_WORKFLOW = "no workflow is named; name a file or a folder with --workflow"
MODEL = "http://127.0.0.1:9/v1#m"


@pytest.mark.parametrize(
    ("settings", "reason", "workflow_reason"),
    [
        ({}, NO_MODEL, NO_MODEL),
        ({"TOOLS": "run_skill,run_workflow", "WORKFLOWS": "docs/workflows"}, NO_MODEL, NO_MODEL),
        ({"MODEL": MODEL}, NO_TOOL.format("run_skill"), NO_TOOL.format("run_workflow")),
        ({"MODEL": MODEL, "TOOLS": "run_skill"}, None, NO_TOOL.format("run_workflow")),
        ({"MODEL": MODEL, "TOOLS": "run_skill,run_workflow"}, None, NO_WORKFLOW),
        (
            {"MODEL": MODEL, "TOOLS": "run_workflow", "WORKFLOWS": "docs/workflows"},
            NO_TOOL.format("run_skill"),
            None,
        ),
        ({"MODEL": MODEL, "TOOLS": "run_skill,run_workflow", "WORKFLOWS": "docs/workflows"}, None, None),
        ({"MODEL": MODEL, "TOOLS": "run_skill,run_workflow", "WORKFLOWS": "/nowhere/at/all"}, None, GONE),
    ],
)
def test_status_gives_the_reason_for_each_unavailable_run_tool(
    skills: Path, make_skill: MakeSkill, settings: dict[str, str], reason: str | None, workflow_reason: str | None
) -> None:
    make_skill("fine")
    environment = {f"SKILLSERVE_{name}": value for name, value in settings.items()}
    runs_status = status(skills, **environment)["runs"]
    model = runs_status.pop("model")
    assert runs_status.pop("missing_workflows") == (["/nowhere/at/all"] if workflow_reason == GONE else [])
    assert runs_status == {
        "run_skill": reason is None,
        "reason": reason,
        "run_workflow": workflow_reason is None,
        "workflow_reason": workflow_reason,
    }
    (line,) = [line for line in run("status", skills, **environment).stdout.splitlines() if line.startswith("runs: ")]
    assert all(each in line for each in (reason, workflow_reason, model) if each)
    assert ("clients cannot run skills or workflows" in line) == (None not in (reason, workflow_reason))


def test_missing_workflow_paths_are_named(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("fine")
    given = {"MODEL": MODEL, "TOOLS": "run_workflow", "WORKFLOWS": "docs/workflows,/nowhere/at/all"}
    environment = {f"SKILLSERVE_{name}": value for name, value in given.items()}
    runs_status = status(skills, **environment)["runs"]
    assert (runs_status["run_workflow"], runs_status["missing_workflows"]) == (True, ["/nowhere/at/all"])
    (line,) = [line for line in run("status", skills, **environment).stdout.splitlines() if line.startswith("runs: ")]
    assert "clients can call run_workflow" in line
    assert GONE in line


@pytest.mark.parametrize(("model", "key"), [("openai:x", "OPENAI_API_KEY"), ("anthropic:x", "ANTHROPIC_API_KEY")])
def test_a_model_without_its_api_key_is_unavailable_and_the_key_is_named(
    skills: Path, make_skill: MakeSkill, model: str, key: str
) -> None:
    make_skill("fine")
    given = {"SKILLSERVE_MODEL": model, "SKILLSERVE_TOOLS": "run_skill", "OPENAI_BASE_URL": ""}
    without = status(skills, **given, **{key: ""})["runs"]
    assert (without["run_skill"], without["model"]) == (False, None)
    assert without["reason"] == f"The model {model} cannot be used: {key} is not set."
    assert status(skills, **given, **{key: "sk-1"})["runs"]["run_skill"]


def test_an_openai_model_at_another_address_needs_no_key(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("fine")
    given = {"SKILLSERVE_TOOLS": "run_skill", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert status(skills, SKILLSERVE_MODEL="openai-chat:x", **given)["runs"]["run_skill"]


@posix
def test_rows_are_grouped_by_source_and_fit_a_terminal_of_eighty_columns(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("a-name-of-some-length", fields=credential("A_TOKEN_WITH_A_LONG_NAME"))
    make_skill("gated", fields="when:\n  requires:\n    env: [SKILLSERVE_NO_SUCH_VARIABLE]")
    make_skill("deep/below/named", fields="license: MIT")
    ours, theirs = pytest.importorskip("pty").openpty()
    command = [sys.executable, "-m", "server", "status", str(skills)]
    environment = server_environment(COLUMNS="80", TERM="dumb", NO_COLOR="1")
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        assert process.wait() == 0
    os.close(ours)
    heading, *rows = shown.decode().replace("\r", "").splitlines()
    assert heading == f"explicit {skills.resolve()}"
    assert max(map(len, rows)) <= 80
    words = shown.decode().split()
    assert "a-name-of-some-length active credential A_TOKEN_WITH_A_LONG_NAME is missing" in " ".join(words)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so when the other end is closed
        return b""


def chosen_names(choice: StatusFilter, library: Library) -> list[str]:
    return [skill.name for skill in library.catalog.skills if choice.admits(skill)]


def test_tool_arguments_filter_like_command_line_options(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("a/refunds")
    make_skill("b/refunds")
    make_skill("broken", description="''")
    library = Library(explicit_sources([skills]), lambda: Environment(os="linux", has_bin=lambda _: True))
    parse = StatusFilter.parse
    assert chosen_names(parse({}), library) == ["broken", "refunds", "refunds"]
    assert chosen_names(parse({"state": "invalid"}), library) == ["broken"]
    assert chosen_names(parse({"reason": ["missing_description"], "scope": ["explicit"]}), library) == ["broken"]
    assert chosen_names(parse({"name": ["a/*"], "state": None}), library) == ["refunds"]
    everything = {"state": [*State], "reason": [*Reason], "scope": [*Scope], "name": ["*"]}
    parse({key: [str(each) for each in values][:50] for key, values in everything.items()})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"state": ["on"]}, "active, excluded, shadowed, invalid"),
        ({"reason": ["missing_envs"]}, "'missing_env'"),
        ({"scope": "mars"}, "explicit, workspace"),
        ({"state": 1}, "state must be a list of strings"),
        ({"name": ["x", 2]}, "name must be a list of strings"),
        ({"name": ["x" * 1000]}, "name may have"),
        ({"name": ["x"] * 1000}, "name may have"),
        ({"names": ["x"]}, "unknown argument 'names'"),
    ],
)
def test_invalid_tool_arguments_are_rejected_with_the_expected_values(
    arguments: dict[str, object], expected: str
) -> None:
    with pytest.raises(StatusFilterError, match=expected):
        StatusFilter.parse(arguments)


@given(st.dictionaries(st.text(), st.none() | st.text() | st.lists(st.text() | st.integers())))
def test_arbitrary_tool_arguments_are_accepted_or_rejected(arguments: dict[str, object]) -> None:
    with suppress(StatusFilterError):
        StatusFilter.parse(arguments)
