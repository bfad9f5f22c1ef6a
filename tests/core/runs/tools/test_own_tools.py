"""`ask_user`, and `read_skill_file` over a skill that was really loaded.

`run_skill_script` in a run, with real scripts: results, and reading on in long outputs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from skills_core.guard import Rule, Verdict
from skills_core.guard.tool import CallDecision
from skills_core.interaction import NoUser
from skills_core.runs.run_skills import RunSkills
from skills_core.runs.tools.own_tools import ask_user_tool, read_skill_file_tool, run_skill_script_tool
from skills_core.scripts.runner import ScriptRunner


async def test_the_user_is_asked_and_the_answer_reaches_the_model(make_gate: Any, person: Any) -> None:
    user = person(answer="blue")
    call = await make_gate(ask_user_tool(), user=user).call(
        "ask_user", {"question": "Which?", "choices": ["a", "b"]}, 1
    )
    assert (call.decision, call.text, user.asked) == (CallDecision.DONE, "blue", ["Which? ['a', 'b']"])


async def test_a_question_without_an_answer_is_no_failure_and_no_consent(make_gate: Any) -> None:
    class Gone(NoUser):
        async def ask(self, question: str, choices: Any = ()) -> str | None:
            raise ConnectionError(f"{question} {choices}")

    for user in (NoUser(), Gone()):
        call = await make_gate(ask_user_tool(), user=user).call("ask_user", {"question": "Which?"}, 1)
        assert call.decision is CallDecision.NOBODY_TO_ASK
        assert "No user answers. That is not consent" in call.text


@pytest.mark.parametrize(
    ("allowed", "offered"),
    [(None, True), (["ask_user"], True), (["AskUserQuestion"], True), (["Read"], False), ([], False)],
)
def test_a_skill_with_allowed_tools_asks_only_if_they_name_ask_user(
    make_gate: Any, allowed: Any, *, offered: bool
) -> None:
    assert bool(make_gate(ask_user_tool(), allowed=allowed).offered) is offered


async def test_a_person_may_take_longer_than_a_tool(make_gate: Any) -> None:
    class Slow(NoUser):
        async def ask(self, question: str, choices: Any = ()) -> str | None:
            await anyio.sleep(0.2)
            return f"{question} {choices}"

    call = await make_gate(ask_user_tool(), user=Slow(), seconds=0.01).call("ask_user", {"question": "Which?"}, 1)
    assert (call.decision, call.text) == (CallDecision.DONE, "Which? []")


@pytest.fixture
def skill(tmp_path: Path, write_skill: Any, load: Any, only: Any) -> Any:
    write_skill(tmp_path, "pdf", files={"references/forms.md": "# Forms\n", "logo.png": b"\x89\0"})
    return only(load(tmp_path))


async def test_a_skill_reads_its_own_files_by_path_or_uri(skill: Any, make_gate: Any) -> None:
    gate = make_gate(read_skill_file_tool(RunSkills(skill)), allowed=["Bash(git:*)"])
    for path in ("references/forms.md", "./references/forms.md", f"{skill.root_uri}references/forms.md"):
        assert (await gate.call("read_skill_file", {"path": path}, 1)).text == "# Forms\n"
    assert (await gate.call("read_skill_file", {"path": "References/FORMS.md"}, 1)).text == "# Forms\n"
    call = await gate.call("read_skill_file", {"path": "references/form.md"}, 1)
    assert call.text == "The skill has no file 'references/form.md'. Did you mean 'references/forms.md'?"
    assert "not UTF-8 text" in (await gate.call("read_skill_file", {"path": "logo.png"}, 1)).text


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "", "references", "references/../../secret"])
async def test_a_skill_reads_nothing_else(path: str, skill: Any, make_gate: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    call = await make_gate(read_skill_file_tool(RunSkills(skill))).call("read_skill_file", {"path": path}, 1)
    assert call.text.startswith("The skill has no file")


async def test_the_guard_judges_a_path_as_it_is_spelled_on_disk(skill: Any, make_gate: Any) -> None:
    rule = Rule("references/forms", Verdict.DENY)
    gate = make_gate(read_skill_file_tool(RunSkills(skill)), rules=[rule])
    for path in ("references/forms.md", "References/FORMS.md", f"{skill.root_uri}REFERENCES/forms.md"):
        call = await gate.call("read_skill_file", {"path": path}, 1)
        assert call.decision is CallDecision.DENIED


async def test_a_file_that_does_not_match_its_digest_is_not_read(skill: Any, make_gate: Any, tmp_path: Path) -> None:
    (tmp_path / "pdf" / "references" / "forms.md").write_text("other")
    gate = make_gate(read_skill_file_tool(RunSkills(skill)))
    call = await gate.call("read_skill_file", {"path": "references/forms.md"}, 1)
    assert (call.decision, "has changed since" in call.text) == (CallDecision.FAILED, True)


async def test_a_skill_reads_its_own_instructions_but_not_enclosed_ones_that_only_users_may_call(
    tmp_path: Path, write_skill: Any, load: Any, make_gate: Any
) -> None:
    for_users = "disable-model-invocation: true"
    write_skill(tmp_path, "outer", fields=for_users)
    write_skill(tmp_path, "outer/hidden", fields=for_users)
    write_skill(tmp_path, "outer/open")
    gate = make_gate(read_skill_file_tool(RunSkills(load(tmp_path).catalog.skill("outer"))))
    decisions = {
        path: (await gate.call("read_skill_file", {"path": path}, 1)).decision
        for path in ("SKILL.md", "open/SKILL.md", "hidden/SKILL.md")
    }
    assert decisions == {
        "SKILL.md": CallDecision.DONE,
        "open/SKILL.md": CallDecision.DONE,
        "hidden/SKILL.md": CallDecision.FAILED,
    }


@pytest.mark.parametrize("path", ["evals/evals.json", "./evals/evals.json", "inner/evals/x.json", "Evals/y.json"])
async def test_a_run_reads_no_eval_file_and_no_hint_names_one(
    path: str, tmp_path: Path, write_skill: Any, load: Any, make_gate: Any
) -> None:
    write_skill(tmp_path, "outer", files={"evals/evals.json": "answer", "Evals/y.json": "answer"})
    write_skill(tmp_path, "outer/inner", files={"evals/x.json": "answer"})
    skill = load(tmp_path).catalog.skill("outer")
    gate = make_gate(read_skill_file_tool(RunSkills(skill)))
    for given in (path, f"{skill.root_uri}{path.removeprefix('./')}"):
        call = await gate.call("read_skill_file", {"path": given}, 1)
        assert call.decision is CallDecision.FAILED
        assert "belongs to its tests and may hold the expected answers" in call.text
    call = await gate.call("read_skill_file", {"path": f"{path}x"}, 1)
    assert call.text == f"The skill has no file {path.removeprefix('./') + 'x'!r}."


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
