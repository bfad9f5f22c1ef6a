"""Declared tools of skills, with real scripts, and the cache for the output of scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skills_core.diagnostics import Reason, Severity
from skills_core.guard.guard import GuardRule, Verdict
from skills_core.guard.tool import CallDecision, Effect
from skills_core.scripts import tools as output
from skills_core.scripts.runner import READ_ONLY_HINT, ScriptRunner
from skills_core.scripts.tools import OutputCache, OutputSlice, OutputText, declared_tools

FIELDS = """tools:
  - name: double
    description: Doubles a number.
    script: scripts/double.py
    parameters:
      type: object
      properties: {n: {type: integer}}
      required: [n]
"""

DOUBLE = """import json, os, sys
given = json.load(sys.stdin)
print(json.dumps({"result": given["n"] * 2, "key": os.environ["IDEMPOTENCY_KEY"], "set": os.environ.get("MINE")}))
"""


@pytest.fixture
def skill(tmp_path: Path, write_skill: Any, load: Any, only: Any) -> Any:
    def make(fields: str = FIELDS, script: str = DOUBLE) -> Any:
        write_skill(tmp_path / "skills", "numbers", fields=fields, files={"scripts/double.py": script})
        return only(load(tmp_path / "skills"))

    return make


async def test_a_declared_tool_runs_its_script(skill: Any, runner: ScriptRunner, make_gate: Any) -> None:
    declared = declared_tools(skill(), runner, {"MINE": "yes"})
    assert declared.problems == ()
    (tool,) = declared.tools
    assert (tool.name, tool.origin, tool.effect) == ("double", "skill numbers", Effect.WRITES)
    gate = make_gate(tool, allowed=["Read"])
    call = await gate.call("double", {"n": 21}, 4)
    assert (call.decision, call.text) == (CallDecision.DONE, '{"result": 42, "key": "r1/4", "set": "yes"}')
    call = await gate.call("double", {"n": "21"}, 5)
    assert (call.decision, "arguments.n" in call.text) == (CallDecision.INVALID_ARGUMENTS, True)


@pytest.mark.parametrize("prefix", ["", "numbers__"])
async def test_patterns_match_a_tool_by_the_name_that_its_skill_declares(
    skill: Any, runner: ScriptRunner, make_gate: Any, prefix: str
) -> None:
    (tool,) = declared_tools(skill(), runner, prefix=prefix).tools
    for verdict, decision in ((Verdict.DENY, CallDecision.DENIED), (Verdict.CONFIRM, CallDecision.NOBODY_TO_ASK)):
        gate = make_gate(tool, rules=[GuardRule(r'^double \{"n":14\}$', verdict)])
        assert (await gate.call(tool.name, {"n": 14}, 1)).decision is decision
        assert (await gate.call(tool.name, {"n": 15}, 2)).decision is CallDecision.DONE


async def test_patterns_match_a_tool_also_by_the_name_that_clients_call(
    skill: Any, runner: ScriptRunner, make_gate: Any
) -> None:
    (tool,) = declared_tools(skill(), runner, prefix="numbers__").tools
    gate = make_gate(tool, rules=[GuardRule("^double ", Verdict.CONFIRM), GuardRule("^numbers__double ", Verdict.DENY)])
    assert (await gate.call(tool.name, {"n": 14}, 1)).decision is CallDecision.DENIED


async def test_arguments_are_never_more_than_json_on_stdin(skill: Any, runner: ScriptRunner, make_gate: Any) -> None:
    echo = "import sys\nprint(sys.argv[1:], sys.stdin.read())"
    fields = FIELDS.replace("required: [n]", "required: []")
    (tool,) = declared_tools(skill(fields, echo), runner).tools
    arguments = {"a": "$(touch x); `id`\n\0--help", "é": "\ud800"}
    call = await make_gate(tool).call("double", arguments, 1)
    assert call.text == '[] {"a": "$(touch x); `id`\\n\\u0000--help", "\\u00e9": "\\ud800"}'


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys\nsys.exit('no such thing')", "exit code 1. It wrote:\nno such thing"),
        ("import sys\nprint('on stdout')\nsys.exit(2)", "exit code 2. It wrote:\non stdout"),
        ("while True: print('x' * 1000)", "wrote too much output"),
        ("raise SystemExit(5)", "The tool failed: its script ended with exit code 5."),
        ("import sys\nsys.exit('EACCES')", f"exit code 1 ({READ_ONLY_HINT}). It wrote:\nEACCES"),
    ],
)
async def test_a_script_that_fails_tells_the_model_why(
    script: str, said: str, skill: Any, runner: ScriptRunner, make_gate: Any
) -> None:
    (tool,) = declared_tools(skill(script=script), runner).tools
    call = await make_gate(tool).call("double", {"n": 1}, 1)
    assert call.decision is CallDecision.FAILED
    assert said in call.text


async def test_no_part_of_a_secret_is_left_where_output_is_cut(
    skill: Any, runner: ScriptRunner, make_gate: Any
) -> None:
    script = "import sys\nsys.exit('hidden-value' + 'x' * 3994)"
    (tool,) = declared_tools(skill(script=script), runner).tools
    call = await make_gate(tool, secrets={"KEY": "hidden-value"}).call("double", {"n": 1}, 1)
    assert "value" not in call.text
    assert call.text.endswith(" KEY]" + "x" * 3994)


async def test_a_script_that_changed_since_it_was_loaded_is_not_run(
    skill: Any, runner: ScriptRunner, make_gate: Any, tmp_path: Path
) -> None:
    (tool,) = declared_tools(skill(), runner).tools
    (tmp_path / "skills" / "numbers" / "scripts" / "double.py").write_text("print('other')")
    call = await make_gate(tool).call("double", {"n": 1}, 1)
    assert (call.decision, "other" in call.text) == (CallDecision.FAILED, False)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("    script: scripts/double.py\n", ""), "it names no script"),
        (("scripts/double.py", "../other.py"), "the skill has no file ../other.py"),
        (("scripts/double.py", "scripts/none.py"), "the skill has no file scripts/none.py"),
        (("name: double", "name: a b"), "'a b' is not a name that model APIs accept"),
        (("type: integer", "type: whole"), "the schema of the arguments cannot be used"),
        (("type: integer", '$ref: "http://x/y"'), "only references within the schema"),
        (("type: integer", 'pattern: "^(?!-)"'), "not checked: the pattern"),
    ],
)
def test_an_unusable_declaration_is_reported(
    change: tuple[str, str], why: str, skill: Any, runner: ScriptRunner
) -> None:
    declared = declared_tools(skill(FIELDS.replace(*change)), runner)
    assert declared.tools == ()
    assert why in declared.problems[0]


def test_a_declaration_without_a_script_is_reported_and_has_no_other_effect(skill: Any) -> None:
    made = skill(FIELDS.replace("    script: scripts/double.py\n", ""))
    (diagnostic,) = made.diagnostics
    assert (diagnostic.severity, diagnostic.code) == (Severity.INFO, Reason.TOOL_WITHOUT_SCRIPT)
    assert made.state == "active"


def test_a_name_that_is_declared_twice_is_a_tool_once(skill: Any, runner: ScriptRunner) -> None:
    twice = FIELDS + FIELDS.removeprefix("tools:\n")
    declared = declared_tools(skill(twice), runner, prefix="numbers__")
    assert [tool.name for tool in declared.tools] == ["numbers__double"]
    assert declared.problems == ("the tool double of numbers: it is declared twice",)


def test_parts_of_a_stream_join_to_the_whole() -> None:
    text = "äöü" * 33
    offset: int | None = 0
    joined = ""
    while offset is not None:
        piece = OutputSlice.of(text, offset, 10)
        joined += piece.text
        offset = piece.next_offset
    assert joined == text


def test_beyond_the_end_there_is_nothing() -> None:
    piece = OutputSlice.of("abc", 100, 10)
    assert (piece.text, piece.total, piece.next_offset) == ("", 3, None)


def test_the_oldest_output_is_evicted_beyond_the_number() -> None:
    kept: OutputCache[OutputText] = OutputCache()
    names = [kept.keep(OutputText(str(number), "")) for number in range(output.MAX_OUTPUTS + 1)]
    assert kept.find(names[0]) is None
    assert kept.find(names[1]) == OutputText("1", "")
    assert len(set(names)) == len(names)


def test_the_oldest_output_is_evicted_beyond_the_size_but_never_the_last() -> None:
    kept: OutputCache[OutputText] = OutputCache()
    large = OutputText("x" * (output.MAX_CHARACTERS // 2 + 1), "")
    first, second = kept.keep(large), kept.keep(large)
    assert kept.find(first) is None
    assert kept.find(second) == large


def test_an_output_expires() -> None:
    now = 0.0
    kept: OutputCache[OutputText] = OutputCache(lambda: now)
    name = kept.keep(OutputText("x", ""))
    now = output.MAX_SECONDS - 1
    assert kept.find(name) == OutputText("x", "")
    now = output.MAX_SECONDS
    assert kept.find(name) is None
