"""The decisions of the guard on tool calls."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skills_core import Library
from skills_core.errors import ToolFailedError
from skills_core.format.yaml12 import JsonObject
from skills_core.guard import Guard, Rule, Verdict, rules_of
from skills_core.guard.arguments import MAX_SEPARATE, argument_texts, json_text
from skills_core.guard.secrets import MIN_SECRET, Secrets
from skills_core.guard.tool import CallContext, CallDecision


def guard(*rules: tuple[str, Verdict]) -> Guard:
    return Guard([Rule(pattern, verdict) for pattern, verdict in rules])


def test_the_text_is_the_tools_name_a_space_and_the_arguments_as_javascript_writes_them() -> None:
    text = r'^run_command {"10":"é","argv":\["a","b"\],"n":1e\+21,"ok":true}$'
    arguments: dict[str, Any] = {"argv": ["a", "b"], "n": 1e21, "ok": True, "10": "é"}
    assert guard((text, Verdict.DENY)).decide("run_command", arguments).verdict is Verdict.DENY
    assert guard((text, Verdict.DENY)).decide("run_commands", arguments).verdict is Verdict.ALLOW


@pytest.mark.parametrize("order", [1, -1])
def test_a_denial_wins_over_a_question(order: int) -> None:
    rules = [("rm", Verdict.CONFIRM), ("rf", Verdict.DENY)][::order]
    decision = guard(*rules).decide("sh", {"c": "rm -rf /"})
    assert decision.verdict is Verdict.DENY
    assert decision.rule is not None
    assert decision.rule.pattern == "rf"
    assert "is denied: it matches `rf`, which the configuration calls dangerous" in decision.reason


def test_a_call_without_a_matching_pattern_is_allowed_without_a_reason() -> None:
    decision = guard(("rm", Verdict.DENY)).decide("sh", {"c": "ls"})
    assert (decision.verdict, decision.reason, decision.rule) == (Verdict.ALLOW, "", None)
    assert Guard([]).decide("sh", {}).verdict is Verdict.ALLOW


def test_arguments_that_nest_too_deeply_are_denied() -> None:
    deep: object = "x"
    for _ in range(1000):
        deep = [deep]
    decision = guard(("never", Verdict.CONFIRM)).decide("sh", {"c": deep})  # type: ignore[dict-item]
    assert decision.verdict is Verdict.DENY
    assert "deep" in decision.reason


def test_a_lone_surrogate_hides_nothing() -> None:
    assert guard(("rm -rf", Verdict.DENY)).decide("\ud800", {"\udc00": "rm -rf"}).verdict is Verdict.DENY


def test_a_skills_rule_names_the_skill(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", fields="danger_patterns: [one, two]\nconfirm_patterns: [three]")
    write_skill(tmp_path, "b")
    rules = rules_of(load(tmp_path).catalog.active)
    assert [(rule.pattern, rule.verdict, rule.origin) for rule in rules] == [
        ("one", Verdict.DENY, "the skill a"),
        ("two", Verdict.DENY, "the skill a"),
        ("three", Verdict.CONFIRM, "the skill a"),
    ]
    reason = Guard(rules).decide("x", {"a": "three"}).reason
    assert reason.startswith("The call of x needs the user's consent: it matches `three`")


def denied(pattern: str, tool: str, arguments: dict[str, Any]) -> bool:
    return guard((pattern, Verdict.DENY)).decide(tool, arguments).verdict is Verdict.DENY


def test_a_rule_of_a_skill_that_the_caller_may_not_see_decides_without_being_named(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "zebra", fields="danger_patterns: [zebra-danger]\nconfirm_patterns: [zebra-confirm]")
    write_skill(tmp_path, "plain", fields="danger_patterns: [plain]")
    whole = Guard([*rules_of(load(tmp_path).catalog.active), Rule("own", Verdict.DENY)])
    seen = whole.disclosing(lambda skill: None if skill.name == "zebra" else skill)
    for command, verdict in (("zebra-danger", Verdict.DENY), ("zebra-confirm", Verdict.CONFIRM)):
        decision = seen.decide("sh", {"c": command})
        assert (decision.verdict, decision.discloses_rule) == (verdict, False)
        assert "zebra" not in decision.reason
        # The log of the server names it all the same.
        assert decision.rule is not None
        assert "zebra" in whole.decide("sh", {"c": command}).reason
    for command in ("plain", "own"):
        assert seen.decide("sh", {"c": command}) == whole.decide("sh", {"c": command})
    assert seen.decide("sh", {"c": "ls"}).verdict is Verdict.ALLOW


@pytest.mark.parametrize("blank", ["\t", "\n", " ", "  ", "\r\n", "\f", "\t \n"])
@pytest.mark.parametrize("pattern", [r"rm\s+-[a-z]*r", r"^Bash .*rm\s+-r", "rm[[:space:]]+-rf /$", r"(?m)^rm\s"])
def test_a_pattern_with_a_blank_class_matches_any_blank(pattern: str, blank: str) -> None:
    for command in (f"rm{blank}-rf /", f"true\nrm{blank}-rf /"):
        for arguments in ({"command": command}, {"argv": ["sh", "-c", command]}, {"deep": [{"er": {"x": [command]}}]}):
            if not (pattern.startswith("(?m)") and command.startswith("rm")):
                assert denied(pattern, "Bash", arguments)
            assert not denied(f"^Other {pattern.removeprefix('^Bash ')}", "Bash", arguments)


@pytest.mark.parametrize(
    ("pattern", "arguments"),
    [
        ('psql -c "DROP', {"command": 'psql -c "DROP TABLE users"'}),
        (r"C:\\Windows", {"path": r"C:\Windows\x"}),
        ("^Bash rm ", {"command": "rm x"}),
        ("/etc/passwd$", {"path": "/etc/passwd"}),
        (r"\x1b\[", {"text": "\x1b[2J"}),
        ("^Bash secret$", {"secret": 1}),
    ],
)
def test_decoded_strings_of_the_arguments_are_matched(pattern: str, arguments: dict[str, Any]) -> None:
    assert denied(pattern, "Bash", arguments)
    assert not denied(pattern, "Bash", {"other": "x"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def strings_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(each for inner in value.values() for each in strings_in(inner))]
    return [each for inner in value for each in strings_in(inner)] if isinstance(value, list) else []


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_each_part_of_the_text_and_each_string_can_be_matched(arguments: dict[str, Any]) -> None:
    whole = f"^{_quoted(f'x {json_text(arguments)}')}$"
    assume(len(whole) <= 2000)  # no longer pattern is taken
    assert denied(whole, "x", arguments)
    for string in strings_in(arguments):
        assert denied(f"^x {_quoted(string)}$", "x", arguments)


def _quoted(text: str) -> str:
    """Quote a text for RE2, which knows no escapes for letters of other scripts."""
    return "".join(f"\\x{{{ord(char):x}}}" for char in text)


def test_strings_beyond_the_first_thousand_are_matched_together() -> None:
    many: dict[str, Any] = {"lines": [f"line {number}" for number in range(200_000)]}
    assert denied(r"line\s199999", "x", many)
    assert len(argument_texts("x", many)) == MAX_SEPARATE + 1


DENY = Rule("rm -rf", Verdict.DENY)
ASK = Rule("push", Verdict.CONFIRM)
PATH: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["path"],
    "additionalProperties": False,
}


async def test_an_admitted_call_is_executed_with_its_own_key(make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool()).call("echo", {"a": 1}, 7)
    assert (call.decision, call.text, call.number) == (CallDecision.DONE, "r1/7 {'a': 1}", 7)
    assert not call.confirmed


async def test_an_unknown_tool_is_answered_with_what_may_have_been_meant(make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool("read_file")).call("read_files", {}, 1)
    assert call.decision is CallDecision.UNKNOWN_TOOL
    assert "Did you mean 'read_file'?" in call.text


async def test_a_tool_that_is_not_permitted_is_neither_offered_nor_executed(make_tool: Any, make_gate: Any) -> None:
    gate = make_gate(make_tool("a"), make_tool("b"), allowed=["b"])
    assert [tool.name for tool in gate.offered] == ["b"]
    assert (await gate.call("a", {}, 1)).decision is CallDecision.NOT_PERMITTED
    assert (await gate.call("b", {}, 2)).decision is CallDecision.DONE


async def test_all_errors_of_the_arguments_are_reported_with_their_locations(make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool(parameters=PATH)).call("echo", {"path": 1, "depth": "x", "y": 0}, 1)
    assert call.decision is CallDecision.INVALID_ARGUMENTS
    assert "arguments.path: 1 is not of type 'string'" in call.text
    assert "arguments.depth: 'x' is not of type 'integer'" in call.text
    assert "arguments: unknown: 'y'; expected 'path', 'depth'" in call.text


@pytest.mark.parametrize("arguments", [None, 3, "text", [], [1], True])
async def test_arguments_that_are_not_an_object_are_invalid(arguments: Any, make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool()).call("echo", arguments, 1)
    assert (call.decision, call.arguments) == (CallDecision.INVALID_ARGUMENTS, {})
    assert "object" in call.text


async def test_a_call_that_matches_a_danger_pattern_is_denied(make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool(), rules=[DENY]).call("echo", {"command": "rm -rf /"}, 1)
    assert call.decision is CallDecision.DENIED
    assert "calls dangerous" in call.text


async def test_the_user_is_asked_if_a_confirm_pattern_matches(make_tool: Any, make_gate: Any, person: Any) -> None:
    agrees, declines, silent = person(agrees=True), person(agrees=False), person()
    arguments = {"command": "git push"}
    call = await make_gate(make_tool(), rules=[ASK], user=agrees).call("echo", arguments, 1)
    assert (call.decision, call.confirmed) == (CallDecision.DONE, True)
    assert '{"command":"git push"}' in agrees.asked[0]
    call = await make_gate(make_tool(), rules=[ASK], user=declines).call("echo", arguments, 1)
    assert (call.decision, call.confirmed) == (CallDecision.DECLINED, False)
    call = await make_gate(make_tool(), rules=[ASK], user=silent).call("echo", arguments, 1)
    assert call.decision is CallDecision.NOBODY_TO_ASK
    assert (await make_gate(make_tool(), rules=[ASK], user=silent).call("echo", {}, 1)).decision is CallDecision.DONE


async def test_a_user_who_cannot_be_reached_has_not_agreed(make_tool: Any, make_gate: Any) -> None:
    class Unreachable:
        async def confirm(self, question: str) -> bool | None:
            raise ConnectionError(question)

        async def ask(self, question: str, choices: Any = ()) -> str | None:
            raise ConnectionError(question, choices)

    call = await make_gate(make_tool(), rules=[ASK], user=Unreachable()).call("echo", {"x": "push"}, 1)
    assert call.decision is CallDecision.NOBODY_TO_ASK


async def test_a_tool_that_takes_too_long_is_cancelled(make_tool: Any, make_gate: Any) -> None:
    ended = []

    async def hang(arguments: JsonObject, context: CallContext) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append((arguments, context.key))
        return ""

    call = await make_gate(make_tool(perform=hang), seconds=0.01).call("echo", {}, 1)
    assert call.decision is CallDecision.TIMED_OUT
    assert "longer than 0.01 seconds" in call.text
    assert ended == [({}, "r1/1")]


@pytest.mark.parametrize("wrapped", [False, True])
async def test_the_text_of_a_tool_failed_error_reaches_the_model(
    make_tool: Any, make_gate: Any, failing: Any, *, wrapped: bool
) -> None:
    error: Exception = ToolFailedError("there is no such file")
    work = failing(ExceptionGroup("of a task group", [error]) if wrapped else error)
    call = await make_gate(make_tool(perform=work)).call("echo", {}, 1)
    assert (call.decision, call.text) == (CallDecision.FAILED, "there is no such file")


@pytest.mark.parametrize(
    "error", [ValueError("token=abc"), TimeoutError(), RecursionError(), ExceptionGroup("g", [KeyError()])]
)
async def test_an_unexpected_error_of_a_tool_is_reported_without_its_text(
    error: Exception, make_tool: Any, make_gate: Any, failing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    call = await make_gate(make_tool(perform=failing(error))).call("echo", {}, 1)
    assert call.decision is CallDecision.FAILED
    assert call.text == "The tool echo failed with an internal error."
    assert "token" not in caplog.text
    assert type(error).__name__ in caplog.text


async def test_cancellation_of_the_run_passes_through_and_ends_the_tool(make_tool: Any, make_gate: Any) -> None:
    started, ended = anyio.Event(), anyio.Event()

    async def hang(arguments: JsonObject, context: CallContext) -> str:
        del arguments, context
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    gate, calls = make_gate(make_tool(perform=hang)), []

    async def run() -> None:
        calls.append(await gate.call("echo", {}, 1))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await started.wait()
        tasks.cancel_scope.cancel()
    assert ended.is_set()
    assert calls == []


async def test_a_reply_that_is_too_long_is_cut_with_a_note_of_how_much_is_missing(
    make_tool: Any, make_gate: Any, saying: Callable[[str], Any]
) -> None:
    gate = make_gate(make_tool(perform=saying("x" * 25)), characters=10)
    assert (await gate.call("echo", {}, 1)).text == "xxxxxxxxxx\n[15 more characters are not shown]"


async def test_a_lone_surrogate_never_reaches_the_model(
    make_tool: Any, make_gate: Any, saying: Callable[[str], Any]
) -> None:
    assert (await make_gate(make_tool(perform=saying("a\ud800b"))).call("echo", {}, 1)).text == "a\ufffdb"


async def test_every_decision_is_logged_with_the_digest(
    make_tool: Any, make_gate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gate = make_gate(make_tool(), make_tool("b"), allowed=["echo"], rules=[DENY])
    await gate.call("echo", {}, 1)
    await gate.call("b", {}, 2)
    await gate.call("echo", {"x": "rm -rf /"}, 3)
    await gate.call("no\nsuch", {}, 4)
    assert [record.getMessage() for record in caplog.records] == [
        "tool call r1/1: done echo of workspace, skill sha256:abc",
        "tool call r1/2: not_permitted b of workspace, skill sha256:abc",
        "tool call r1/3: denied echo of workspace, skill sha256:abc",
        "guard: deny echo by the configuration ",
        "tool call r1/4: unknown_tool no\\nsuch of nowhere, skill sha256:abc",
    ]


async def test_a_tool_whose_schema_cannot_be_used_and_a_second_of_one_name_are_left_out(
    make_tool: Any, make_gate: Any, saying: Any
) -> None:
    gate = make_gate(make_tool("bad", {"type": 3}), make_tool(), make_tool(perform=saying("second")))
    assert [tool.name for tool in gate.offered] == ["echo"]
    assert (await gate.call("bad", {}, 1)).decision is CallDecision.UNKNOWN_TOOL
    assert (await gate.call("echo", {}, 1)).text == "r1/1 {}"


VALUES = st.dictionaries(
    st.text("ABC_", min_size=1, max_size=8), st.text("abcxyz0123.*+", min_size=MIN_SECRET, max_size=20), max_size=5
)


@given(VALUES, st.lists(st.text("abc .", max_size=5), max_size=6))
def test_no_secret_value_is_left_in_a_text(values: dict[str, str], around: list[str]) -> None:
    text = "|".join(piece for pair in zip(values.values(), around, strict=False) for piece in pair)
    redact = Secrets(values).redact(text)
    for value in values.values():
        assert value not in redact


@given(st.text())
def test_where_nothing_is_secret_nothing_changes(text: str) -> None:
    assert Secrets({}).redact(text) == text


def test_strings_in_objects_and_lists_are_redacted() -> None:
    secrets = Secrets({"TOKEN": "s3cr3t-value", "SHORT": "ab"})
    told = secrets.redact_json({"key": ["x s3cr3t-value", {"a": "ab", "n": 1, "t": True, "z": None}]})
    assert told == {"key": ["x [secret TOKEN]", {"a": "ab", "n": 1, "t": True, "z": None}]}


def test_the_keys_of_objects_stay_as_they_are() -> None:
    assert Secrets({"STATE": "status"}).redact_json({"status": "done"}) == {"status": "done"}


@pytest.mark.parametrize("value", ['pa"ss\\word-12', "first line of it\nsecond line of it\n", "é-geheim\u2028"])
def test_a_secret_is_hidden_as_json_writes_it_and_line_by_line(value: str) -> None:
    secrets = Secrets({"TOKEN": value})
    for text in (value, json.dumps({"x": value}), json.dumps({"x": value}, ensure_ascii=False), *value.splitlines()):
        told = secrets.redact(f"<{text}>")
        assert "[secret TOKEN]" in told
        assert not any(line in told for line in value.splitlines())


def test_placeholders_are_recognized() -> None:
    secrets = Secrets({"TOKEN": "s3cr3t-value"})
    assert secrets.has_placeholder({"text": ["mode: [secret TOKEN]"]})
    assert not secrets.has_placeholder({"text": "[secret OTHER] [secret]"})


def test_of_two_secrets_with_a_common_prefix_the_longer_is_redacted_whole() -> None:
    secrets = Secrets({"A": "abcdef", "B": "abcdefghi"})
    assert secrets.redact("abcdefghi abcdef") == "[secret B] [secret A]"
