"""A run that gets at the evals or at other results does not count: it is kept from them, or it is an error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from server.capabilities.evals.agents.isolation import find_isolation
from tests.capabilities.evals.conftest import Lab

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agent is a script of sh")

needs_sandbox = pytest.mark.skipif(find_isolation().program is None, reason="bubblewrap does not work here")

LOOKS = """
echo nothing > "$3/out.txt"
for found in {below}/*/evals/evals.json {below}/*/*/evals/evals.json; do
    if [ -f "$found" ]; then cat "$found"; cp "$found" "$3/out.txt"; fi
done
"""
"""An agent that looks for the evals in place of solving its task, and copies them."""

OF_OTHERS = """
cat {below}/skills/greeter-workspace/*/*/eval_metadata.json {below}/skills/greeter-workspace/*/*/*/*/eval_metadata.json
echo hi > "$3/out.txt"
"""
NAMES_THEM = 'ls {below}/skills/greeter/evals/evals.json 2>&1; echo hi > "$3/out.txt"\n'
HONEST = 'cat "$2/assets/template.txt" > "$3/out.txt" 2>/dev/null || echo plain > "$3/out.txt"\n'

ANSWER = {"text": "greets as the house does it", "check": "grep -q grepable-answer out.txt"}
ARMS = ("with_skill", "without_skill")


def agent(lab: Lab, script: str) -> str:
    return lab.agent(script.replace("{below}", str(lab.folder)))


def outcomes(lab: Lab, iteration: int = 1) -> list[dict[str, Any]]:
    found = [lab.workspace / f"iteration-{iteration}/eval-1" / arm for arm in ARMS]
    return [json.loads(next(place.rglob("outcome.json")).read_text()) for place in found]


def said(lab: Lab) -> list[str]:
    found = [lab.workspace / "iteration-1/eval-1" / arm for arm in ARMS]
    return [next(place.rglob("out.txt")).read_text() for place in found]


@pytest.fixture
def cheats(lab: Lab) -> Lab:
    lab.write_evals({"assertions": [ANSWER], "expected_output": "A greeting."})
    return lab


@needs_sandbox
def test_an_isolated_agent_finds_neither_the_evals_nor_other_results(cheats: Lab) -> None:
    cheats.isolates = True
    report = cheats.report(agent=agent(cheats, LOOKS))
    assert [each["status"] for each in outcomes(cheats)] == ["done", "done"]
    assert said(cheats) == ["nothing\n", "nothing\n"]
    assert report["errors"] == 0
    assert not any("isolated" in note for note in report["notes"])
    assert report["plan"]["isolation"] == "bubblewrap"


@needs_sandbox
def test_an_isolated_agent_has_its_skill_its_inputs_and_its_outputs(cheats: Lab) -> None:
    cheats.isolates = True
    cheats.write_evals({"assertions": [ANSWER], "files": ["evals/files/a.txt"]}, **{"a.txt": b"of the case\n"})
    script = 'cat "$4" > "$3/out.txt"; [ -z "$2" ] || cat "$2/assets/template.txt" >> "$3/out.txt"; touch ~/x /tmp/x\n'
    report = cheats.report(agent=agent(cheats, script))
    assert report["errors"] == 0, report["notes"]
    assert said(cheats) == ["of the case\nhello\n", "of the case\n"]


@needs_sandbox
def test_devices_and_processes_that_a_command_names_are_those_of_the_sandbox(cheats: Lab) -> None:
    cheats.isolates = True
    random = "head -c 5 /dev/urandom 2>/dev/null | wc -c"
    own = f"test -e /proc/{os.getpid()}/environ && echo seen || echo hidden; ls /dev/mem /dev/kmsg 2>/dev/null"
    cheats.report(agent=f"({random}; {own}; cat /proc/version >/dev/null && echo read) > {{outputs}}/out.txt")
    assert [each.split() for each in said(cheats)] == [["5", "hidden", "read"]] * 2


@needs_sandbox
def test_the_rest_of_the_disk_is_not_there_unless_it_is_named(cheats: Lab) -> None:
    cheats.isolates = True
    (cheats.folder / "library").mkdir()
    (cheats.folder / "library/words.txt").write_text("words\n")
    program = cheats.folder / "bin/reads.py"
    program.parent.mkdir()
    words = str(cheats.folder / "library/words.txt")
    program.write_text(f"import pathlib\nprint(pathlib.Path({words!r}).exists())\n")
    command = f"{sys.executable} {program} > {{outputs}}/out.txt"
    cheats.report(agent=command)
    assert said(cheats) == ["False\n", "False\n"]
    cheats.report("--new", "--readable", cheats.folder / "library", agent=command)
    found = [next((cheats.workspace / f"iteration-2/eval-1/{arm}").rglob("out.txt")).read_text() for arm in ARMS]
    assert found == ["True\n", "True\n"]


@needs_sandbox
def test_an_agent_in_the_skills_own_repository_is_found_and_the_rest_of_that_is_not(cheats: Lab) -> None:
    cheats.isolates = True
    repository = cheats.skill.parent
    subprocess.run(["git", "init", "--quiet", repository], check=True)
    shutil.copytree(cheats.skill, repository / "copies/greeter")
    program = repository / "tools/agent.py"
    program.parent.mkdir()
    program.write_text(
        "import pathlib, sys\n"
        f"found = [str(each) for each in pathlib.Path({str(repository)!r}).rglob('*') if each.is_file()]\n"
        "pathlib.Path(sys.argv[1], 'out.txt').write_text(' '.join(found))\n"
    )
    report = cheats.report(agent=f"{sys.executable} {program} {{outputs}}")
    assert report["errors"] == 0, report["notes"]
    assert said(cheats) == [str(program), str(program)]


@pytest.mark.parametrize(
    ("script", "reason"),
    [(LOOKS, "expected_text_copied"), (NAMES_THEM, "evals_path_named")],
    ids=["copies", "names"],
)
def test_without_isolation_a_run_that_had_the_evals_is_an_error_in_both_arms(
    cheats: Lab, script: str, reason: str
) -> None:
    report = cheats.report(agent=agent(cheats, script))
    assert [(each["status"], each["reason"]) for each in outcomes(cheats)] == [("error", reason)] * 2
    assert report["errors"] == 2
    assert all("this run does not count: " in each["error"] for each in outcomes(cheats))
    assert any("The agent was not isolated (it is turned off by --no-isolation)" in note for note in report["notes"])


def test_without_isolation_a_run_that_read_other_results_has_their_canary(cheats: Lab) -> None:
    cheats.report(agent=agent(cheats, HONEST))
    assert [each["reason"] for each in outcomes(cheats)] == [None, None]
    cheats.report("--new", agent=agent(cheats, OF_OTHERS))
    assert [each["reason"] for each in outcomes(cheats, 2)] == ["canary_seen", "canary_seen"]
    canaries = [cheats.file("config.json", number)["canary"] for number in (1, 2)]
    assert canaries[0] != canaries[1]


def test_that_nothing_is_isolated_is_said_before_and_after(cheats: Lab) -> None:
    done = cheats.run("--dry-run")
    assert "Agents can read this whole disk" in done.stdout
    done = cheats.run(PATH="/nowhere:/usr/bin:/bin")
    assert "Agents can read this whole disk" in done.stderr
    assert "The agent was not isolated" in done.stdout


def test_a_search_is_claimed_only_for_an_iteration_that_had_one(cheats: Lab) -> None:
    cheats.report(agent=agent(cheats, HONEST))
    assert any("it wrote was searched" in note for note in cheats.report("--grade")["notes"])
    config = cheats.file("config.json")
    del config["canary"]
    del config["identity"]["agent"]["isolation"]
    (cheats.workspace / "iteration-1/config.json").write_text(json.dumps(config))
    assert any("it wrote was not searched" in note for note in cheats.report("--grade")["notes"])
