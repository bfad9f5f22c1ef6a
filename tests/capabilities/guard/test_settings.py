"""The settings and sources of the hook: no fault in them removes a pattern."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capabilities.guard.helpers import DENYING, OWN, Hook, call, decision, posix, trust
from tests.conftest import write_skill


@pytest.mark.parametrize(
    "text",
    ["guard.danger_patterns = ['(?=x)']", "guard.danger_patterns = [", "no_such = 1", "discovery.scan_depth = 'deep'"],
)
def test_invalid_settings_ask_the_user(hook: Hook, text: str) -> None:
    hook.own.write_text(text, encoding="utf-8")
    answer = hook.ask(call())
    assert answer is not None
    assert answer[0] == "ask"
    assert "skillserve.toml" in answer[1]
    assert decision(hook.ask(call(permission_mode="bypassPermissions"))) == "deny"


def test_unreadable_sources_ask_the_user(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    for missing, why in ((skills / "nowhere", "no such directory"), (skills / "care" / "SKILL.md", "this is a file")):
        answer = hook.ask(call(), skills, missing)
        assert answer is not None
        assert answer[0] == "ask"
        assert why in answer[1]


def test_a_missing_directory_removes_no_pattern(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields="danger_patterns: ['rm -rf']")
    write_skill(hook.home / ".agents" / "skills", "usual", fields="danger_patterns: [ls]")
    hook.own.write_text(OWN, encoding="utf-8")
    for directories in ((skills, skills / "nowhere"), (skills / "care" / "SKILL.md", skills)):
        assert decision(hook.ask(call("DROP TABLE x"), *directories)) == "deny"
        assert decision(hook.ask(call("rm -rf /"), *directories)) == "deny"
        assert decision(hook.ask(call("ls"), *directories)) == "ask"
    # Where none is there, the usual places are not looked at in their stead.
    assert decision(hook.ask(call("DROP TABLE x"), skills / "nowhere")) == "deny"
    answer = hook.ask(call("ls"), skills / "nowhere", skills / "gone")
    assert answer is not None
    assert answer[0] == "ask"
    assert "(and 1 more)" in answer[1]


@pytest.mark.parametrize(
    "text",
    [
        "guard.danger_patterns = ['x']",
        "danger_patterns = ['x']",
        "garbage[",
        "discovery.scan_depth = 'deep'",
        "x = " + "[" * 9000,
    ],
)
def test_invalid_project_settings_remove_no_pattern(hook: Hook, project: Path, text: str) -> None:
    trust(hook, project)
    write_skill(hook.home / ".agents" / "skills", "mine", fields="danger_patterns: [mkfs]")
    hook.own.write_text(OWN, encoding="utf-8")
    (project / "skillserve.toml").write_text(text, encoding="utf-8")
    for command in ("DROP TABLE x", "mkfs", "rm -rf /"):
        assert decision(hook.ask(call(command, cwd=str(project)))) == "deny", command
    answer = hook.ask(call("ls", cwd=str(project)))
    assert answer is not None
    assert answer[0] == "ask"
    assert str(project.resolve() / "skillserve.toml") in answer[1]


def test_a_missing_named_project_removes_no_pattern(hook: Hook, tmp_path: Path) -> None:
    write_skill(hook.home / ".agents" / "skills", "mine", fields=DENYING)
    hook.own.write_text(OWN, encoding="utf-8")
    for command in ("DROP TABLE x", "rm -rf /"):
        assert decision(hook.ask(call(command), "--project", tmp_path / "nowhere")) == "deny"
    assert decision(hook.ask(call("ls"), "--project", tmp_path / "nowhere")) == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "no_such = 1",
        "discovery.scan_depth = 'deep'",
        "discovery.sources = 3",
        "discovery.trust_workspace = 'maybe'",
        "tools.enabled = ['x']",
        "tools = ['x']",
    ],
)
def test_an_invalid_user_setting_removes_no_pattern(hook: Hook, skills: Path, text: str) -> None:
    write_skill(skills, "care", fields="danger_patterns: ['rm -rf']")
    hook.own.write_text(OWN + text, encoding="utf-8")
    for command in ("DROP TABLE x", "rm -rf /"):
        assert decision(hook.ask(call(command), skills)) == "deny"
    answer = hook.ask(call("ls"), skills)
    assert answer is not None
    assert answer[0] == "ask"
    assert "skillserve.toml" in answer[1]
    assert "more)" not in answer[1]


def test_patterns_outside_of_their_section_still_deny_and_other_calls_ask(
    hook: Hook,
) -> None:
    hook.own.write_text(OWN.replace("guard.", ""), encoding="utf-8")
    assert decision(hook.ask(call("DROP TABLE x"))) == "deny"
    answer = hook.ask(call("ls"))
    assert answer is not None
    assert answer[0] == "ask"
    assert "write danger_patterns under [guard]" in answer[1]


@pytest.mark.parametrize("odd", ["'(?=x)'", "3", "[]"])
def test_an_invalid_pattern_removes_no_other_pattern(hook: Hook, odd: str) -> None:
    hook.own.write_text(f"guard.danger_patterns = ['DROP TABLE', {odd}]\n", encoding="utf-8")
    assert decision(hook.ask(call("DROP TABLE x"))) == "deny"
    assert decision(hook.ask(call("ls"))) == "ask"


@pytest.mark.parametrize(
    "text", ["guard.danger_patterns = [", "guard.danger_patterns = 3", "[guard.danger_patterns]\na = 1", "guard = 1"]
)
def test_with_unreadable_settings_the_skills_patterns_apply(hook: Hook, text: str) -> None:
    write_skill(hook.home / ".agents" / "skills", "mine", fields=DENYING)
    hook.own.write_text(text, encoding="utf-8")
    assert decision(hook.ask(call("rm -rf /"))) == "deny"
    assert decision(hook.ask(call("ls"))) == "ask"


def test_with_an_invalid_variable_the_users_file_applies(hook: Hook, tmp_path: Path) -> None:
    write_skill(tmp_path / "more", "care", fields="danger_patterns: ['rm -rf']")
    hook.own.write_text(f"{OWN}discovery.sources = [{json.dumps(str(tmp_path / 'more'))}]\n", encoding="utf-8")
    for command in ("DROP TABLE x", "rm -rf /"):
        assert decision(hook.ask(call(command), SKILLSERVE_PORT="x")) == "deny"
    answer = hook.ask(call("ls"), SKILLSERVE_PORT="x")
    assert answer is not None
    assert answer[0] == "ask"
    assert "SKILLSERVE_PORT" in answer[1]


def test_a_truncated_scan_asks_the_user(hook: Hook) -> None:
    write_skill(hook.home / ".agents" / "skills" / "a" / "b", "care", fields=DENYING)
    answer = hook.ask(call(), SKILLSERVE_SCAN_DEPTH="1")
    assert answer is not None
    assert answer[0] == "ask"
    assert "was not scanned" in answer[1]


def test_an_unreadable_list_of_trusted_folders_asks_the_user(hook: Hook) -> None:
    (hook.own.parent / "trusted.json").write_text("{", encoding="utf-8")
    answer = hook.ask(call())
    assert answer is not None
    assert answer[0] == "ask"
    assert "list of trusted folders" in answer[1]


def test_the_calls_project_applies_while_it_is_trusted(hook: Hook, project: Path) -> None:
    dangerous = call("rm -rf /", cwd=str(project / "src"))
    assert hook.ask(dangerous) is None
    assert decision(hook.ask(dangerous, "--trust-workspace")) == "deny"
    trust(hook, project)
    assert decision(hook.ask(dangerous)) == "deny"
    # The directory of the process counts where the host names none.
    assert hook.ask(call("rm -rf /", cwd=str(hook.home)), cwd=project) is None
    assert decision(hook.ask(call("rm -rf /"), cwd=project)) == "deny"


def test_a_named_project_applies_in_every_directory(hook: Hook, project: Path) -> None:
    trust(hook, project)
    elsewhere = call("rm -rf /", cwd=str(hook.home))
    assert decision(hook.ask(elsewhere, "--project", project)) == "deny"
    answer = hook.ask(elsewhere, "--project", project / "nowhere")
    assert answer is not None
    assert answer[0] == "ask"
    assert "is not a directory" in answer[1]


def test_trust_depends_on_the_resolved_directory(hook: Hook, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    write_skill(other / ".agents" / "skills", "strange", fields="danger_patterns: [ls]")
    trust(hook, project)
    assert hook.ask(call(cwd=str(project / ".." / "other"))) is None
    assert decision(hook.ask(call("rm -rf /", cwd=str(other / ".." / "project")))) == "deny"


@posix
def test_a_link_to_a_trusted_project_is_trusted(hook: Hook, project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    trust(hook, project)
    assert decision(hook.ask(call("rm -rf /", cwd=str(tmp_path / "link" / "src")))) == "deny"


def test_an_untrusted_project_disables_no_skill_of_the_user(hook: Hook, project: Path) -> None:
    write_skill(hook.home / ".agents" / "skills", "mine", fields="danger_patterns: [ls]")
    (project / "skillserve.toml").write_text("catalog.disabled = ['mine']\n", encoding="utf-8")
    (project / ".jdai").mkdir()
    entries = {"skills": {"entries": {"mine": {"enabled": False}}}}
    (project / ".jdai" / "skills.json").write_text(json.dumps(entries), encoding="utf-8")
    assert decision(hook.ask(call(cwd=str(project)))) == "deny"
    trust(hook, project)
    assert hook.ask(call(cwd=str(project))) is None


ENDLESS: dict[str, Callable[[Path], None]] = {
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a FIFO": lambda path: os.mkfifo(path),  # noqa: PLW0108 - Windows has no such function
    "a directory": Path.mkdir,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
}


@posix
@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("name", ["skillserve.toml", ".jdai/config.json", ".jdai/skills.json"])
def test_a_settings_path_that_is_no_file_removes_no_pattern_and_is_reported_if_trusted(
    hook: Hook, project: Path, name: str, kind: str
) -> None:
    write_skill(hook.home / ".agents" / "skills", "mine", fields="danger_patterns: [mkfs]")
    (project / ".jdai").mkdir()
    ENDLESS[kind](project / name)
    assert decision(hook.ask(call("mkfs", cwd=str(project)))) == "deny"
    assert hook.ask(call("ls", cwd=str(project))) is None
    trust(hook, project)
    assert decision(hook.ask(call("mkfs", cwd=str(project)))) == "deny"
    answer = hook.ask(call("ls", cwd=str(project)))
    assert answer is not None
    assert answer[0] == "ask"
    assert name in answer[1]


@posix
@pytest.mark.parametrize("kind", ENDLESS)
def test_user_files_that_are_no_regular_files_ask_the_user(hook: Hook, kind: str) -> None:
    for file in (hook.own, hook.own.parent / "trusted.json"):
        ENDLESS[kind](file)
        answer = hook.ask(call())
        assert answer is not None
        assert answer[0] == "ask"
        assert file.name in answer[1]
        file.rmdir() if kind == "a directory" else file.unlink()


def test_settings_that_projects_may_not_make_remove_no_pattern(hook: Hook, project: Path) -> None:
    trust(hook, project)
    (project / "skillserve.toml").write_text(
        "http.port = 1\nhttp.host = '::'\ncatalog.disabled = ['care']\n", encoding="utf-8"
    )
    assert decision(hook.ask(call("rm -rf /", cwd=str(project)))) == "deny"
    assert hook.ask(call("ls", cwd=str(project))) is None


def test_a_missing_working_directory_removes_no_pattern(hook: Hook, tmp_path: Path) -> None:
    write_skill(hook.home / ".agents" / "skills", "mine", fields=DENYING)
    assert decision(hook.ask(call("rm -rf /", cwd=str(tmp_path / "gone")))) == "deny"
    assert hook.ask(call(cwd=str(tmp_path / "gone"))) is None
    answer = hook.ask(call(cwd=str(tmp_path / ("x" * 5000))))
    assert answer is None or answer[0] == "ask"
