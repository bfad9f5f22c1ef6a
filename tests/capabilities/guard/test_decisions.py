"""The decisions of the hook: which patterns deny a call, ask the user, or leave it to the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capabilities.guard.helpers import DENYING, Hook, call, decision
from tests.conftest import write_skill


def test_patterns_deny_or_ask_and_other_calls_get_no_answer(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    answer = hook.ask(call("rm -rf /"), skills)
    assert answer is not None
    assert answer[0] == "deny"
    assert "the skill care calls dangerous" in answer[1]
    assert decision(hook.ask(call("git push"), skills)) == "ask"
    assert hook.ask(call("ls"), skills) is None


def test_a_decision_is_logged_with_the_digest_and_stdout_has_only_the_answer(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    done = hook.run(call("rm -rf /"), skills)
    assert b"guard: deny Bash by the skill care sha256:" in done.stderr
    assert done.stdout.count(b"\n") == 1
    assert hook.run(call("ls"), skills).stderr == b""


def test_patterns_match_what_javascript_writes_of_the_arguments(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=r"""danger_patterns: ['^Write \{"path":"/etc/.*","n":1e\+21\}$', 'é\\n']""")
    said = call(tool="Write", tool_input={"path": "/etc/x", "n": 1e21})
    assert decision(hook.ask(said, skills)) == "deny"
    assert decision(hook.ask(call("é\n"), skills)) == "deny"


def test_the_pattern_of_the_docs_matches_whatever_blank_is_in_the_command(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=r"danger_patterns: ['rm\s+-[a-z]*r']")
    for command in ("rm -rf /", "rm\t-rf /", "cd /\nrm\n-r x"):
        assert decision(hook.ask(call(command), skills)) == "deny"


def test_without_a_directory_the_default_sources_apply(hook: Hook) -> None:
    write_skill(hook.home / ".agents" / "skills", "care", fields=DENYING)
    assert decision(hook.ask(call("rm -rf /"))) == "deny"
    assert hook.ask(call("rm -rf /"), SKILLSERVE_DISABLED="care") is None


def test_patterns_of_the_users_settings_always_apply(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    write_skill(skills, "other", fields="danger_patterns: [ls]")
    hook.own.write_text("guard.danger_patterns = ['DROP TABLE']\n", encoding="utf-8")
    for words in ([skills], [skills, "--skill", "care"], ["--no-skills"]):
        assert decision(hook.ask(call("DROP TABLE x"), *words)) == "deny"
    assert decision(hook.ask(call("rm -rf /"), skills, "--skill", "care")) == "deny"
    assert hook.ask(call("ls"), skills, "--skill", "care") is None
    assert hook.ask(call("rm -rf /"), "--no-skills") is None


def test_an_unknown_skill_name_asks_the_user(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    write_skill(skills, "gated", fields="danger_patterns: [ls]\nwhen: {requires: {env: [NO_SUCH_VARIABLE]}}")
    answer = hook.ask(call(), skills, "--skill", "cares", "--skill", "care")
    assert answer is not None
    assert answer[0] == "ask"
    assert "there is no skill cares among the 2" in answer[1]
    assert decision(hook.ask(call("rm -rf /"), skills, "--skill", "cares", "--skill", "care")) == "deny"
    assert hook.ask(call(), skills, "--skill", "gated") is None


@pytest.mark.parametrize("mode", ["bypassPermissions", "auto", "dontAsk", "one of next year"])
def test_in_a_mode_that_cannot_ask_the_call_is_denied(hook: Hook, skills: Path, mode: str) -> None:
    write_skill(skills, "care", fields=DENYING)
    answer = hook.ask(call("git push", permission_mode=mode), skills)
    assert answer is not None
    assert answer[0] == "deny"
    assert f"The user cannot be asked (the permission mode {mode})" in answer[1]
    assert hook.ask(call(permission_mode=mode), skills) is None


@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits"])
def test_never_ask_denies_instead_of_asking(hook: Hook, skills: Path, mode: str) -> None:
    write_skill(skills, "care", fields=DENYING)
    said = call("git push", permission_mode=mode)
    assert decision(hook.ask(said, skills)) == "ask"
    assert decision(hook.ask(said, skills, "--never-ask")) == "deny"


def test_a_pattern_that_matches_everything_denies_everything_and_names_its_skill(hook: Hook, skills: Path) -> None:
    write_skill(skills, "greedy", fields="danger_patterns: ['.*']")
    answer = hook.ask(call(), skills)
    assert answer is not None
    assert answer[0] == "deny"
    assert "the skill greedy" in answer[1]


LOST = {
    "a pattern of JavaScript alone": "---\nname: care\ndescription: d\ndanger_patterns: ['\\u0041']\n---\n",
    "broken YAML": "---\nname: care\ndescription: d\ndanger_patterns: ['rm'\n---\n",
    "no description": "---\nname: care\nconfirm_patterns: [rm]\n---\n",
    "too large": "---\nname: care\ndescription: d\ndanger_patterns: [rm]\n---\n" + "x" * (1024 * 1024),
}


@pytest.mark.parametrize("text", LOST.values(), ids=LOST.keys())
def test_an_invalid_skill_with_patterns_asks_the_user_about_every_call(hook: Hook, skills: Path, text: str) -> None:
    write_skill(skills, "fine", fields=DENYING)
    (skills / "care").mkdir()
    (skills / "care" / "SKILL.md").write_text(text, encoding="utf-8")
    answer = hook.ask(call(), skills)
    assert answer is not None
    assert answer[0] == "ask"
    assert "the patterns of the skill care do not count, as it is invalid" in answer[1]
    assert decision(hook.ask(call("rm -rf /"), skills)) == "deny"
    assert hook.ask(call(), skills, "--skill", "fine") is None


def test_an_invalid_skill_without_patterns_has_no_effect(hook: Hook, skills: Path) -> None:
    (skills / "note").mkdir()
    (skills / "note" / "SKILL.md").write_text("# No frontmatter\n", encoding="utf-8")
    assert hook.ask(call(), skills) is None
