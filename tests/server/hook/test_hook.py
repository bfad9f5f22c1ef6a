"""`skillserve guard`, the hook of a host: its answers over real pipes, and that nothing makes it let a call pass."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from server.cli.app import app
from server.hook.call import HookCall, OtherEventError, UnreadableCallError, read_call
from server.hook.options import _SWITCHES, _WITH_VALUE, HookOptions, plain_options
from server.hook.run import SECONDS
from tests.conftest import write_skill
from tests.server.sessions import REPOSITORY

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such thing")

DENYING = "danger_patterns: ['rm -rf']\nconfirm_patterns: ['git push']"


def call(command: str = "ls", tool: str = "Bash", **fields: Any) -> str:
    """What a host writes for a call of its shell."""
    common = {"session_id": "s", "transcript_path": "/t", "hook_event_name": "PreToolUse", "tool_use_id": "toolu_1"}
    return json.dumps({**common, "tool_name": tool, "tool_input": {"command": command}, **fields})


class Hook:
    """Runs the hook as a host would, for a user of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.own = home / "config" / "skillserve" / "skillserve.toml"
        self.own.parent.mkdir(parents=True)

    def environment(self, **settings: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
        places = {"HOME": str(self.home), "USERPROFILE": str(self.home), "APPDATA": str(self.home / "config")}
        config = {"XDG_CONFIG_HOME": str(self.home / "config"), "PYTHONPATH": str(REPOSITORY)}
        return {**inherited, **places, **config, **settings}

    def run(
        self, said: str | bytes, *words: str | Path, cwd: Path | None = None, **settings: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "server", "guard", *map(str, words)],
            input=said.encode() if isinstance(said, str) else said,
            capture_output=True,
            cwd=cwd or self.home,
            env=self.environment(**settings),
            timeout=60,
            check=False,
        )

    def ask(
        self, said: str | bytes, *words: str | Path, cwd: Path | None = None, **settings: str
    ) -> tuple[str, str] | None:
        """Return decision and reason, None where the call is left to the host."""
        done = self.run(said, *words, cwd=cwd, **settings)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        if not done.stdout:
            return None
        answer: Mapping[str, Any] = json.loads(done.stdout)
        assert answer.keys() == {"hookSpecificOutput"}
        output = answer["hookSpecificOutput"]
        assert output.keys() == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
        assert output["hookEventName"] == "PreToolUse"
        assert output["permissionDecisionReason"]
        return output["permissionDecision"], output["permissionDecisionReason"]


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    home = tmp_path / "home"
    home.mkdir()
    return Hook(home)


def decision(answer: tuple[str, str] | None) -> str | None:
    return answer[0] if answer else None


def test_patterns_deny_or_ask_and_nothing_is_said_of_other_calls(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    answer = hook.ask(call("rm -rf /"), skills)
    assert answer is not None
    assert answer[0] == "deny"
    assert "the skill care calls dangerous" in answer[1]
    assert decision(hook.ask(call("git push"), skills)) == "ask"
    assert hook.ask(call("ls"), skills) is None


def test_a_decision_is_logged_with_the_digest_and_stdout_has_the_answer_alone(hook: Hook, skills: Path) -> None:
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


def test_the_usual_places_count_where_no_directory_is_named(hook: Hook) -> None:
    write_skill(hook.home / ".agents" / "skills", "care", fields=DENYING)
    assert decision(hook.ask(call("rm -rf /"))) == "deny"
    assert hook.ask(call("rm -rf /"), SKILLSERVE_DISABLED="care") is None


def test_patterns_of_the_users_settings_count_whatever_skills_do(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    write_skill(skills, "other", fields="danger_patterns: [ls]")
    hook.own.write_text("guard.danger_patterns = ['DROP TABLE']\n", encoding="utf-8")
    for words in ([skills], [skills, "--skill", "care"], ["--no-skills"]):
        assert decision(hook.ask(call("DROP TABLE x"), *words)) == "deny"
    assert decision(hook.ask(call("rm -rf /"), skills, "--skill", "care")) == "deny"
    assert hook.ask(call("ls"), skills, "--skill", "care") is None
    assert hook.ask(call("rm -rf /"), "--no-skills") is None


def test_a_skill_that_is_named_and_not_there_leaves_the_call_to_the_user(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    write_skill(skills, "gated", fields="danger_patterns: [ls]\nwhen: {requires: {env: [NO_SUCH_VARIABLE]}}")
    answer = hook.ask(call(), skills, "--skill", "cares", "--skill", "care")
    assert answer is not None
    assert answer[0] == "ask"
    assert "there is no skill cares among the 2" in answer[1]
    assert decision(hook.ask(call("rm -rf /"), skills, "--skill", "cares", "--skill", "care")) == "deny"
    assert hook.ask(call(), skills, "--skill", "gated") is None


@pytest.mark.parametrize("mode", ["bypassPermissions", "auto", "dontAsk", "one of next year"])
def test_where_nobody_can_be_asked_the_call_is_denied(hook: Hook, skills: Path, mode: str) -> None:
    write_skill(skills, "care", fields=DENYING)
    answer = hook.ask(call("git push", permission_mode=mode), skills)
    assert answer is not None
    assert answer[0] == "deny"
    assert f"Nobody can be asked (the permission mode {mode})" in answer[1]
    assert hook.ask(call(permission_mode=mode), skills) is None


@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits"])
def test_a_host_whose_hooks_cannot_ask_denies_instead(hook: Hook, skills: Path, mode: str) -> None:
    write_skill(skills, "care", fields=DENYING)
    said = call("git push", permission_mode=mode)
    assert decision(hook.ask(said, skills)) == "ask"
    assert decision(hook.ask(said, skills, "--never-ask")) == "deny"


HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "nothing came"),
    "blanks": (b" \n\t ", "nothing came"),
    "a word": (b"ls", "not one JSON document"),
    "half a document": (b'{"tool_name": "Bash", "tool_inp', "not one JSON document"),
    "two documents": ((call() + call()).encode(), "not one JSON document: Extra data"),
    "two lines": ((call() + "\n" + call()).encode(), "not one JSON document: Extra data"),
    "a list": (b"[]", "no JSON object"),
    "null": (b"null", "no JSON object"),
    "NaN": (b'{"tool_name": "Bash", "tool_input": {"n": NaN}}', "NaN is no JSON"),
    "Infinity": (b'{"tool_name": "Bash", "tool_input": {"n": -Infinity}}', "-Infinity is no JSON"),
    "deep lists": (b'{"tool_name": "Bash", "tool_input": {"a": ' + b"[" * 100_000, "nested too deep"),
    "deep objects": (b'{"tool_name": "Bash", "tool_input": ' + b'{"a":' * 100_000, "nested too deep"),
    "a long number": (
        b'{"tool_name": "Bash", "tool_input": {"n": ' + b"9" * 5000 + b"}}",
        "more than 4300 digits",
    ),
    "latin-1": (b'{"tool_name": "Bash", "tool_input": {"command": "caf\xe9"}}', "no UTF-8, from byte 52 on"),
    "utf-16": (call().encode("utf-16"), "no UTF-8"),
    "overlong": (b'{"tool_name": "Bash", "tool_input": {"command": "\xc0\xaf"}}', "no UTF-8"),
    "encoded half": (b'{"tool_name": "Bash", "tool_input": {"command": "\xed\xa0\x80"}}', "no UTF-8"),
    "half a character": (b'{"tool_name": "Bash", "tool_input": {"command": "\\ud83d"}}', "half of a character"),
    "half in a key": (b'{"tool_name": "Bash", "tool_input": {"\\ude00": 1}}', "half of a character"),
    "a control character": (b'{"tool_name": "Bash", "tool_input": {"command": "a\nb"}}', "Invalid control character"),
    "a repeated tool": (b'{"tool_name": "Read", "tool_name": "Bash", "tool_input": {}}', "the name tool_name twice"),
    "a repeated argument": (
        b'{"tool_name": "Bash", "tool_input": {"command": "ls", "\\u0063ommand": "rm -rf /"}}',
        "the name command twice",
    ),
    "no tool": (b'{"tool_input": {}}', "no tool_name"),
    "an empty tool": (b'{"tool_name": "", "tool_input": {}}', "no tool_name"),
    "a tool that is a number": (b'{"tool_name": 1, "tool_input": {}}', "no tool_name"),
    "no arguments": (b'{"tool_name": "Bash"}', "no tool_input"),
    "arguments as text": (b'{"tool_name": "Bash", "tool_input": "rm -rf /"}', "no tool_input"),
    "arguments as a list": (b'{"tool_name": "Bash", "tool_input": ["rm", "-rf"]}', "no tool_input"),
    "null for arguments": (b'{"tool_name": "Bash", "tool_input": null}', "no tool_input"),
    "a relative cwd": (b'{"tool_name": "Bash", "tool_input": {}, "cwd": "."}', "cwd is not the absolute path"),
    "an empty cwd": (b'{"tool_name": "Bash", "tool_input": {}, "cwd": ""}', "cwd is not the absolute path"),
    "a cwd with NUL": (b'{"tool_name": "Bash", "tool_input": {}, "cwd": "/a\\u0000b"}', "cwd is not the absolute"),
    "a cwd that is a list": (b'{"tool_name": "Bash", "tool_input": {}, "cwd": []}', "cwd is not the absolute path"),
    "a mode that is a list": (b'{"tool_name": "Bash", "tool_input": {}, "permission_mode": []}', "permission_mode"),
}


@pytest.mark.parametrize("said, why", HOSTILE.values(), ids=HOSTILE.keys())  # noqa: PT006 - pairs of a table
def test_what_cannot_be_read_is_denied_and_told_why(hook: Hook, said: bytes, why: str) -> None:
    answer = hook.ask(said, "--no-skills")
    assert answer is not None
    assert answer[0] == "deny"
    assert "cannot be judged" in answer[1]
    assert why in answer[1]


@given(st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps).map(str.encode))
def test_any_bytes_are_a_call_or_refused(said: bytes) -> None:
    with suppress(UnreadableCallError, OtherEventError):
        assert isinstance(read_call(said), HookCall)


def test_deep_arguments_are_denied_where_there_is_a_pattern(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    deep: Any = "ls"
    for _ in range(300):
        deep = [deep]
    answer = hook.ask(call(tool_input={"a": deep}), skills)
    assert answer is not None
    assert answer[0] == "deny"
    assert "deeper than 200 levels" in answer[1]


def test_a_mark_of_byte_order_is_passed_over(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    assert decision(hook.ask(b"\xef\xbb\xbf" + call("rm -rf /").encode(), skills)) == "deny"
    assert hook.ask(b"\xef\xbb\xbf" + call().encode() + b"\r\n", skills) is None


@pytest.mark.parametrize("event", ["PostToolUse", "PermissionRequest", "BeforeTool", 1, None])
def test_at_another_event_it_blocks_and_says_so(hook: Hook, event: object) -> None:
    done = hook.run(call(hook_event_name=event))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"this is a hook for PreToolUse alone" in done.stderr


def test_ten_megabytes_are_looked_through(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    text = "é" * 5_000_000
    assert decision(hook.ask(call(text + " rm -rf /", tool="Write"), skills)) == "deny"
    assert hook.ask(call(text, tool="Write"), skills) is None


def test_more_than_a_bound_is_denied(hook: Hook) -> None:
    answer = hook.ask(b" " * (32 * 1024 * 1024 + 1), "--no-skills")
    assert answer is not None
    assert "more than 33554432 bytes" in answer[1]


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
def test_an_invalid_skill_with_patterns_leaves_every_call_to_the_user(hook: Hook, skills: Path, text: str) -> None:
    write_skill(skills, "fine", fields=DENYING)
    (skills / "care").mkdir()
    (skills / "care" / "SKILL.md").write_text(text, encoding="utf-8")
    answer = hook.ask(call(), skills)
    assert answer is not None
    assert answer[0] == "ask"
    assert "the patterns of the skill care do not count, as it is invalid" in answer[1]
    assert decision(hook.ask(call("rm -rf /"), skills)) == "deny"
    assert hook.ask(call(), skills, "--skill", "fine") is None


def test_an_invalid_skill_without_patterns_is_nobodys_business_here(hook: Hook, skills: Path) -> None:
    (skills / "note").mkdir()
    (skills / "note" / "SKILL.md").write_text("# No frontmatter\n", encoding="utf-8")
    assert hook.ask(call(), skills) is None


@pytest.mark.parametrize(
    "text",
    ["guard.danger_patterns = ['(?=x)']", "guard.danger_patterns = [", "no_such = 1", "discovery.scan_depth = 'deep'"],
)
def test_settings_that_cannot_be_used_leave_the_call_to_the_user(hook: Hook, text: str) -> None:
    hook.own.write_text(text, encoding="utf-8")
    answer = hook.ask(call())
    assert answer is not None
    assert answer[0] == "ask"
    assert "skillserve.toml" in answer[1]
    assert decision(hook.ask(call(permission_mode="bypassPermissions"))) == "deny"


def test_sources_that_cannot_be_read_leave_the_call_to_the_user(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    for missing, why in ((skills / "nowhere", "no such directory"), (skills / "care" / "SKILL.md", "this is a file")):
        answer = hook.ask(call(), skills, missing)
        assert answer is not None
        assert answer[0] == "ask"
        assert why in answer[1]


OWN = "guard.danger_patterns = ['DROP TABLE']\nguard.confirm_patterns = ['git push']\n"


def test_a_directory_that_is_missing_takes_no_pattern_away(hook: Hook, skills: Path) -> None:
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
def test_faulty_settings_of_a_project_take_no_pattern_away(hook: Hook, project: Path, text: str) -> None:
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


def test_a_named_project_that_is_not_there_takes_no_pattern_away(hook: Hook, tmp_path: Path) -> None:
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
def test_a_fault_elsewhere_in_the_users_settings_takes_no_pattern_away(hook: Hook, skills: Path, text: str) -> None:
    write_skill(skills, "care", fields="danger_patterns: ['rm -rf']")
    hook.own.write_text(OWN + text, encoding="utf-8")
    for command in ("DROP TABLE x", "rm -rf /"):
        assert decision(hook.ask(call(command), skills)) == "deny"
    answer = hook.ask(call("ls"), skills)
    assert answer is not None
    assert answer[0] == "ask"
    assert "skillserve.toml" in answer[1]
    assert "more)" not in answer[1]


def test_patterns_that_stand_outside_of_their_section_still_deny_and_leave_every_other_call_to_the_user(
    hook: Hook,
) -> None:
    hook.own.write_text(OWN.replace("guard.", ""), encoding="utf-8")
    assert decision(hook.ask(call("DROP TABLE x"))) == "deny"
    answer = hook.ask(call("ls"))
    assert answer is not None
    assert answer[0] == "ask"
    assert "write danger_patterns under [guard]" in answer[1]


@pytest.mark.parametrize("odd", ["'(?=x)'", "3", "[]"])
def test_a_pattern_that_cannot_be_used_takes_no_other_away(hook: Hook, odd: str) -> None:
    hook.own.write_text(f"guard.danger_patterns = ['DROP TABLE', {odd}]\n", encoding="utf-8")
    assert decision(hook.ask(call("DROP TABLE x"))) == "deny"
    assert decision(hook.ask(call("ls"))) == "ask"


@pytest.mark.parametrize(
    "text", ["guard.danger_patterns = [", "guard.danger_patterns = 3", "[guard.danger_patterns]\na = 1", "guard = 1"]
)
def test_settings_of_which_nothing_can_be_read_leave_the_skills_their_say(hook: Hook, text: str) -> None:
    write_skill(hook.home / ".agents" / "skills", "mine", fields=DENYING)
    hook.own.write_text(text, encoding="utf-8")
    assert decision(hook.ask(call("rm -rf /"))) == "deny"
    assert decision(hook.ask(call("ls"))) == "ask"


def test_a_faulty_variable_leaves_the_users_file_its_say(hook: Hook, tmp_path: Path) -> None:
    write_skill(tmp_path / "more", "care", fields="danger_patterns: ['rm -rf']")
    hook.own.write_text(f"{OWN}discovery.sources = [{json.dumps(str(tmp_path / 'more'))}]\n", encoding="utf-8")
    for command in ("DROP TABLE x", "rm -rf /"):
        assert decision(hook.ask(call(command), SKILLSERVE_PORT="x")) == "deny"
    answer = hook.ask(call("ls"), SKILLSERVE_PORT="x")
    assert answer is not None
    assert answer[0] == "ask"
    assert "SKILLSERVE_PORT" in answer[1]


def test_a_scan_that_was_cut_short_leaves_the_call_to_the_user(hook: Hook) -> None:
    write_skill(hook.home / ".agents" / "skills" / "a" / "b", "care", fields=DENYING)
    answer = hook.ask(call(), SKILLSERVE_SCAN_DEPTH="1")
    assert answer is not None
    assert answer[0] == "ask"
    assert "was not scanned" in answer[1]


def test_an_unreadable_list_of_trusted_folders_leaves_the_call_to_the_user(hook: Hook) -> None:
    (hook.own.parent / "trusted.json").write_text("{", encoding="utf-8")
    answer = hook.ask(call())
    assert answer is not None
    assert answer[0] == "ask"
    assert "list of trusted folders" in answer[1]


def trust(hook: Hook, *folders: Path) -> None:
    text = json.dumps({"version": 1, "trusted": [str(folder.resolve()) for folder in folders]})
    (hook.own.parent / "trusted.json").write_text(text, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a skill that denies and settings of its own."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "src").mkdir()
    write_skill(root / ".agents" / "skills", "care", fields=DENYING)
    return root


def test_the_project_is_where_the_call_is_made_and_counts_while_it_is_trusted(hook: Hook, project: Path) -> None:
    dangerous = call("rm -rf /", cwd=str(project / "src"))
    assert hook.ask(dangerous) is None
    assert decision(hook.ask(dangerous, "--trust-workspace")) == "deny"
    trust(hook, project)
    assert decision(hook.ask(dangerous)) == "deny"
    # The directory of the process counts where the host names none.
    assert hook.ask(call("rm -rf /", cwd=str(hook.home)), cwd=project) is None
    assert decision(hook.ask(call("rm -rf /"), cwd=project)) == "deny"


def test_a_project_that_is_named_stays_the_project_wherever_the_host_goes(hook: Hook, project: Path) -> None:
    trust(hook, project)
    elsewhere = call("rm -rf /", cwd=str(hook.home))
    assert decision(hook.ask(elsewhere, "--project", project)) == "deny"
    answer = hook.ask(elsewhere, "--project", project / "nowhere")
    assert answer is not None
    assert answer[0] == "ask"
    assert "is no directory" in answer[1]


def test_a_directory_is_trusted_for_where_it_is_and_not_for_how_it_is_spelt(
    hook: Hook, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    write_skill(other / ".agents" / "skills", "strange", fields="danger_patterns: [ls]")
    trust(hook, project)
    assert hook.ask(call(cwd=str(project / ".." / "other"))) is None
    assert decision(hook.ask(call("rm -rf /", cwd=str(other / ".." / "project")))) == "deny"


@posix
def test_a_link_to_a_trusted_project_leads_there(hook: Hook, project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    trust(hook, project)
    assert decision(hook.ask(call("rm -rf /", cwd=str(tmp_path / "link" / "src")))) == "deny"


def test_a_project_that_is_not_trusted_switches_no_skill_of_the_user_off(hook: Hook, project: Path) -> None:
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
def test_a_file_of_settings_that_is_none_takes_no_pattern_away_and_is_told_where_it_counts(
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
def test_settings_and_a_list_of_trust_that_are_no_files_leave_the_call_to_the_user(hook: Hook, kind: str) -> None:
    for file in (hook.own, hook.own.parent / "trusted.json"):
        ENDLESS[kind](file)
        answer = hook.ask(call())
        assert answer is not None
        assert answer[0] == "ask"
        assert file.name in answer[1]
        file.rmdir() if kind == "a directory" else file.unlink()


def test_settings_that_no_project_makes_take_no_pattern_away(hook: Hook, project: Path) -> None:
    trust(hook, project)
    (project / "skillserve.toml").write_text(
        "http.port = 1\nhttp.host = '::'\ncatalog.disabled = ['care']\n", encoding="utf-8"
    )
    assert decision(hook.ask(call("rm -rf /", cwd=str(project)))) == "deny"
    assert hook.ask(call("ls", cwd=str(project))) is None


def test_a_directory_that_is_gone_has_no_say_and_all_else_has(hook: Hook, tmp_path: Path) -> None:
    write_skill(hook.home / ".agents" / "skills", "mine", fields=DENYING)
    assert decision(hook.ask(call("rm -rf /", cwd=str(tmp_path / "gone")))) == "deny"
    assert hook.ask(call(cwd=str(tmp_path / "gone"))) is None
    answer = hook.ask(call(cwd=str(tmp_path / ("x" * 5000))))
    assert answer is None or answer[0] == "ask"


@posix
@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-"])
def test_an_answer_that_nobody_can_read_blocks_the_call(hook: Hook, skills: Path, closing: str) -> None:
    write_skill(skills, "care", fields=DENYING)
    words = f"exec {sys.executable} -m server guard {skills} {closing}"
    for command, code in (("rm -rf /", 2 if ">&-" in closing.split() else 0), ("ls", 0)):
        done = subprocess.run(
            ["sh", "-c", words],
            input=call(command).encode(),
            capture_output=True,
            cwd=hook.home,
            env=hook.environment(),
            check=False,
        )
        assert done.returncode == code
        assert b"Traceback" not in done.stderr


@posix
def test_a_pipe_that_was_closed_at_the_other_end_blocks_the_call(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "server", "guard", str(skills)],
            input=call("rm -rf /").encode(),
            stdout=writing,
            stderr=subprocess.PIPE,
            cwd=hook.home,
            env=hook.environment(),
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == 2
    assert b"calls dangerous" in done.stderr


@posix
def test_a_closed_input_is_denied(hook: Hook) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m server guard <&-"],
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert done.returncode == 0
    assert b'"deny"' in done.stdout


def test_a_host_that_never_ends_its_input_gets_its_answer_all_the_same(hook: Hook) -> None:
    code = (
        "import server.hook.run as run; from server.hook.options import HookOptions\n"
        "run.SECONDS = 0.2\n"
        "run.answer_call(HookOptions())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=hook.home,
        env=hook.environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(call().encode())
        process.stdin.flush()
        output = json.loads(process.stdout.read())["hookSpecificOutput"]
        assert process.wait(30) == 0
    assert output["permissionDecision"] == "deny"
    assert "no decision within 0.2 seconds" in output["permissionDecisionReason"]


BROKEN = {
    "while it decides": "import server.hook.decide as m; m.find_skills = None",
    "of memory": "import server.hook.run as m; m.judge = lambda *_: bytearray(1 << 62)",
}


@pytest.mark.parametrize("code", BROKEN.values(), ids=BROKEN.keys())
def test_a_fault_of_our_own_denies_the_call(hook: Hook, code: str) -> None:
    start = "\nimport sys; from server.__main__ import main; sys.argv[1:] = ['guard']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code + start],
        input=call().encode(),
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert done.returncode == 0
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    assert "the guard failed" in output["permissionDecisionReason"]
    assert b"Traceback" not in done.stderr


def test_a_broken_installation_blocks_the_call(hook: Hook) -> None:
    code = "import sys; sys.modules['yaml'] = None\nfrom server.__main__ import main; sys.argv[1:] = ['guard']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=call().encode(),
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the guard failed (ModuleNotFoundError" in done.stderr
    assert b"Traceback" not in done.stderr


EACH_MODULE = """
import os, subprocess, sys
work, skills, said = sys.argv[1:]
def answer(without):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        if without:
            sys.modules[without] = None
        os.dup2(os.open(said, os.O_RDONLY), 0)
        os.dup2(writing, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.argv[1:] = ["guard", skills]
        if without is None:
            leave = os._exit
            def tell(code):
                names = [name for name in sys.modules if name.partition(".")[0] in OURS]
                os.write(1, "\\n".join(["", *names]).encode())
                leave(code)
            os._exit = tell
        from server.__main__ import main
        main()
    os.close(writing)
    told = b""
    while part := os.read(reading, 65536):
        told += part
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told
OURS = {"server", "skills_core", "yaml", "re2", "msgspec", "json", "threading", "signal", "logging"}
code, told = answer(None)
assert code == 0 and b'"deny"' in told, (code, told)
modules = [name for name in told.decode().splitlines()[1:] if name and name not in {"server", "server.__main__", "_"}]
assert len(modules) > 40, modules
wrong = {name: got for name in modules if not ((got := answer(name))[0] == 2 or got[0] == 0 and b'"deny"' in got[1])}
print(len(modules), wrong)
"""


@posix
@pytest.mark.slow
def test_no_module_that_cannot_be_imported_lets_a_call_pass(hook: Hook, skills: Path, tmp_path: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    said = tmp_path / "said"
    said.write_text(call("rm -rf /"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", EACH_MODULE, tmp_path, skills, said],
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(b" {}\n"), done.stdout


@posix
@pytest.mark.parametrize("words", [["skills"], ["skills", "--skill=care"]], ids=["plain", "long"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGALRM"])
def test_a_signal_that_ends_the_guard_blocks_the_call(hook: Hook, skills: Path, name: str, words: list[str]) -> None:
    write_skill(skills, "care", fields=DENYING)
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=skills.parent,
        env=hook.environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"it waits\n"
        process.send_signal(getattr(signal, name))
        assert process.wait(30) == 2
        assert b"ended by signal" in process.stderr.read()


WAITING = """
import os, sys
import server.hook.run as run
read_call = run.read_call
class Waiting:
    buffer = property(lambda self: self)
    def read(self, _):
        os.write(1, b"it waits\\n")
        return os.read(0, 1)
sys.stdin = Waiting()
sys.argv[1:] = ["guard", *sys.argv[1:]]
from server.__main__ import main
main()
"""


FAILING = {
    "no thread": "import threading; threading.Thread.start = lambda _: 1 / 0",
    "no memory for the answer": "import json; json.dumps = lambda *_, **__: bytearray(1 << 62)\n"
    "import server.hook.run as m; m.judge = None",
    "no memory for the reason": "import server.hook.run as m; m.one_line = m.judge = lambda *_: bytearray(1 << 62)",
    "an end from within": "import server.hook.run as m; m.judge = lambda *_: sys.exit(0)",
    "an interruption": "import server.hook.run as m\ndef judge(*_): raise KeyboardInterrupt\nm.judge = judge",
    "options that cannot be read": "import server.hook.options as m; m.plain_options = None",
    "a command line that fails": "import server.hook.options as m; m.plain_options = lambda _: None\n"
    "import server.cli.app; server.cli.app.app = None",
    "a command line that cannot be imported": "import server.hook.options as m; m.plain_options = lambda _: None\n"
    "sys.modules['typer'] = None",
    "a command line that ends otherwise": "import server.hook.options as m; m.plain_options = lambda _: None\n"
    "import server.cli.app; server.cli.app.main = lambda: sys.exit(1)",
}


@pytest.mark.parametrize("closed", [False, True], ids=["", "stderr closed"])
@pytest.mark.parametrize("code", FAILING.values(), ids=FAILING.keys())
def test_whatever_fails_the_call_is_blocked(hook: Hook, code: str, *, closed: bool) -> None:
    closing = "\nimport os; os.close(2)" if closed else ""
    start = "\nfrom server.__main__ import main; sys.argv[1:] = ['guard']; main()"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}{closing}{start}"],
        input=call().encode(),
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert done.returncode == 2
    assert closed or b"so the call is denied" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [["--no-such-flag"], ["--skill"], ["--no-skills", "--skill", "x"], ["--no-skills", "."], ["--conventions", "x"]],
)
def test_wrong_use_blocks_the_call_as_every_command_refuses_it(hook: Hook, words: list[str]) -> None:
    done = hook.run(call(), *words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr


PLAIN: dict[str, HookOptions | None] = {
    "": HookOptions(),
    "a b": HookOptions((Path("a"), Path("b"))),
    "a --skill x --skill y --strict": HookOptions((Path("a"),), ("x", "y"), strict=True),
    "--no-skills --never-ask": HookOptions(no_skills=True, never_ask=True),
    "--project p --gitignore": HookOptions(project=Path("p"), gitignore=True),
    "--skill=x": None,
    "--skill": None,
    "--skill --strict": None,
    "--conventions all": None,
    "--help": None,
    "-- a": None,
    "-": None,
    "--no-skills a": None,
}


@pytest.mark.parametrize("words", PLAIN)
def test_a_command_line_is_plain_or_left_to_the_long_way(words: str) -> None:
    assert plain_options(words.split()) == PLAIN[words]


def test_the_short_way_knows_every_option_of_the_command() -> None:
    guard = get_command(app).commands["guard"]  # type: ignore[attr-defined]
    switches = {option for each in guard.params for option in each.opts if getattr(each, "is_flag", False)}
    with_value = {option for each in guard.params for option in each.opts} - switches - {"directories"}
    assert switches == set(_SWITCHES)
    assert with_value == set(_WITH_VALUE)


def test_both_ways_to_the_options_lead_to_the_same_answer(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    write_skill(skills, "other", fields="danger_patterns: [ls]")
    for command in ("ls", "rm -rf /", "git push"):
        plain = hook.ask(call(command), skills, "--skill", "care")
        assert hook.ask(call(command), skills, "--skill=care") == plain


def test_a_call_is_answered_without_what_takes_long_to_import(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    hook.own.write_text("guard.danger_patterns = ['DROP TABLE']\n", encoding="utf-8")
    code = (
        "import os, sys\n"
        "late = ('anyio', 'asyncio', 'click', 'httpx2', 'mcp', 'pathspec', 'pydantic', 'rich', 'skills_core.context',\n"
        "    'skills_core.rendering', 'skills_core.selection', 'sqlite3', 'tempfile', 'typer', 'watchfiles')\n"
        "os._exit = lambda code: sys.exit(f'{code} {[name for name in late if name in sys.modules]}')\n"
        "from server.__main__ import main; sys.argv[1:] = ['guard', sys.argv[1]]; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(skills)],
        input=call("rm -rf /").encode(),
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert b'"deny"' in done.stdout
    assert done.stderr.decode().splitlines()[-1] == "0 []"


def test_the_lines_for_the_settings_of_the_host_are_json_with_a_command_that_is_understood() -> None:
    text = (REPOSITORY / "docs" / "guides" / "guard-tool-calls.md").read_text(encoding="utf-8")
    settings = json.loads(text.partition("```json\n")[2].partition("```")[0])
    (group,) = settings["hooks"]["PreToolUse"]
    (entry,) = group["hooks"]
    plain, _, otherwise = entry["command"].partition(" || ")
    assert otherwise == "exit 2"
    program, command, *words = shlex.split(plain)
    assert (program, command, plain_options(words)) == (
        "skillserve",
        "guard",
        HookOptions(project=Path("$CLAUDE_PROJECT_DIR")),
    )
    assert (entry["onFailure"], entry["timeout"] > SECONDS) == ("block", True)
    assert all(f"`{option}" in text for option in (*_SWITCHES, *_WITH_VALUE))
