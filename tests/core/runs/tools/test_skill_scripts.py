"""`run_skill_script` in a run, with real scripts: results, and reading on in long outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from skills_core.guard.tool import CallDecision
from skills_core.runs.run_skills import RunSkills
from skills_core.runs.tools.own_tools import run_skill_script_tool
from skills_core.scripts.runner import ScriptRunner

LONG = "import sys\nprint(*range(int(sys.argv[1])))"
FAILS = "import sys\nprint(*range(5))\nprint('from here', *range(4000), file=sys.stderr)\nsys.exit(3)"

MORE = re.compile(
    r"\n\[characters (\d+) to (\d+) of (\d+)\.(?: For more of stdout, call run_skill_script with (.+)\.)?\]"
)


@pytest.fixture
def tool(tmp_path: Path, write_skill: Any, load: Any, only: Any, runner: ScriptRunner) -> Any:
    write_skill(tmp_path / "skills", "numbers", files={"long.py": LONG, "fails.py": FAILS})
    return run_skill_script_tool(RunSkills(only(load(tmp_path / "skills"))), runner, {})


def further(words: str) -> dict[str, Any]:
    """Return the arguments that a hint to read on names."""
    found = re.fullmatch(r'output: "([\w-]+)", stream: "(stdout|stderr)", offset: (\d+)', words)
    assert found is not None
    return {"output": found[1], "stream": found[2], "offset": int(found[3])}


async def test_output_that_fits_is_returned_whole_without_a_note(tool: Any, make_gate: Any) -> None:
    call = await make_gate(tool).call("run_skill_script", {"path": "long.py", "args": ["3"]}, 1)
    assert (call.decision, call.text) == (CallDecision.DONE, "0 1 2")


@pytest.mark.parametrize("characters", [50_000, 2_000])
async def test_longer_output_is_read_by_offset_to_its_end(tool: Any, make_gate: Any, characters: int) -> None:
    gate = make_gate(tool, characters=characters)
    count = characters // 2
    arguments: dict[str, Any] = {"path": "long.py", "args": [str(count)]}
    read, number = "", 0
    while arguments:
        number += 1
        call = await gate.call("run_skill_script", arguments, number)
        assert call.decision is CallDecision.DONE
        assert len(call.text) <= characters
        assert "are not shown" not in call.text
        found = MORE.search(call.text)
        assert found is not None
        assert int(found[1]) == len(read)
        read += call.text[: found.start()]
        assert int(found[2]) == len(read)
        arguments = further(found[4]) if found[4] else {}
    assert read == " ".join(map(str, range(count)))
    assert number > 1


async def test_the_rest_of_a_failed_scripts_output_is_read_by_offset_too(tool: Any, make_gate: Any) -> None:
    gate = make_gate(tool)
    call = await gate.call("run_skill_script", {"path": "fails.py"}, 1)
    assert call.decision is CallDecision.FAILED
    assert "3999\n" in call.text
    out, err = (further(words) for words in re.findall(r"call run_skill_script with (.+)\.", call.text))
    assert (await gate.call("run_skill_script", out, 2)).text == "0 1 2 3 4"
    assert (await gate.call("run_skill_script", err, 3)).text.startswith("from here 0 1 2 ")


async def test_a_failure_with_complete_output_has_no_hint(tool: Any, make_gate: Any) -> None:
    call = await make_gate(tool).call("run_skill_script", {"path": "long.py", "args": ["x"]}, 1)
    assert (call.decision, "ValueError" in call.text) == (CallDecision.FAILED, True)
    assert "output:" not in call.text


async def test_no_part_of_a_secret_is_left_at_the_end_of_a_part(tool: Any, make_gate: Any) -> None:
    secret = " ".join(map(str, range(2000)))
    gate = make_gate(tool, secrets={"KEY": secret}, characters=1_000)
    call = await gate.call("run_skill_script", {"path": "long.py", "args": ["3000"]}, 1)
    assert call.text.startswith("[secret KEY] 2000 2001 ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"output": "none"}, "The output 'none' has expired; run the script again."),
        ({}, "path: name the script to run"),
        ({"args": ["1"]}, "path: name the script to run"),
    ],
)
async def test_a_call_that_names_neither_script_nor_output_says_so(
    tool: Any, make_gate: Any, arguments: Any, said: str
) -> None:
    call = await make_gate(tool).call("run_skill_script", arguments, 1)
    assert (call.decision, said in call.text) == (CallDecision.FAILED, True)


async def test_beyond_the_end_there_is_nothing(tool: Any, make_gate: Any) -> None:
    gate = make_gate(tool, characters=1_000)
    call = await gate.call("run_skill_script", {"path": "long.py", "args": ["500"]}, 1)
    found = MORE.search(call.text)
    assert found is not None
    call = await gate.call("run_skill_script", {**further(found[4]), "offset": 9_999}, 2)
    assert (call.decision, call.text) == (CallDecision.DONE, "[stdout has 1889 characters, none from 9999 on]")


async def test_a_model_runs_no_script_of_the_evals(
    tmp_path: Path, write_skill: Any, load: Any, only: Any, runner: ScriptRunner, make_gate: Any
) -> None:
    write_skill(tmp_path / "skills", "a", files={"evals/check.py": "print('answer')"})
    gate = make_gate(run_skill_script_tool(RunSkills(only(load(tmp_path / "skills"))), runner, {}))
    for path in ("evals/check.py", "./evals/check.py"):
        call = await gate.call("run_skill_script", {"path": path}, 1)
        assert (call.decision, "belongs to its tests" in call.text) == (CallDecision.FAILED, True)
