"""`skillserve eval` with an agent by its command: files, isolation, errors, checks and the printed object."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.capabilities.evals.conftest import HELLO, IN_NEW_SESSION, Lab
from tests.processes import becomes, sleepers, unique_seconds

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")


def test_each_case_is_run_with_and_without_the_skill_and_the_files_are_those_of_the_guide(lab: Lab) -> None:
    report = lab.report()
    place = lab.workspace / "iteration-1" / "eval-1"
    for arm, content in (("with_skill", "hello\n"), ("without_skill", "plain\n")):
        assert (place / arm / "run-1" / "outputs" / "out.txt").read_text() == content
        assert lab.file(f"eval-1/{arm}/run-1/timing.json").keys() >= {"total_tokens", "duration_ms"}
        assert lab.file(f"eval-1/{arm}/run-1/eval_metadata.json")["arm"] == arm
    passed = lab.file("eval-1/with_skill/run-1/grading.json")
    assert passed["assertion_results"] == [{"text": "says hello", "passed": True, "evidence": "hello"}]
    assert passed["expectations"] == passed["assertion_results"]
    assert passed["summary"] == {"passed": 1, "failed": 0, "total": 1, "pass_rate": 1.0}
    failed = lab.file("eval-1/without_skill/run-1/grading.json")["assertion_results"][0]
    assert (failed["passed"], failed["evidence"]) == (False, "exit code 1.")
    assert lab.file("eval-1/eval_metadata.json")["assertions"] == [HELLO]
    benchmark = lab.file("benchmark.json")
    assert benchmark["run_summary"]["delta"]["pass_rate"] == 1.0
    assert benchmark["run_summary"]["with_skill"]["tokens"]["mean"] is None
    assert report["run_summary"] == benchmark["run_summary"]
    assert (report["iteration"], report["errors"], report["dry_run"]) == (1, 0, False)
    assert report["plan"]["runs"] == 4
    assert lab.left_over() == []


def test_several_runs_have_a_folder_each(lab: Lab) -> None:
    report = lab.report("--runs", 3)
    assert len(lab.logged()) == 12
    assert lab.file("eval-2/without_skill/run-3/grading.json")["summary"]["failed"] == 1
    assert len(report["runs"]) == 12
    assert lab.file("benchmark.json")["metadata"]["runs_per_configuration"] == 3


def test_values_in_the_command_are_quoted_and_everything_else_is_left_to_the_shell(lab: Lab) -> None:
    hostile = 'it\'s "x"; touch pwned; $(touch pwned) `touch pwned` {skill} \\ \n*'
    lab.write_evals({"prompt": hostile, "files": ["evals/files/a b.csv"]}, **{"a b.csv": b"1,2"})
    copied = 'N={nothing}; f={files}; cat "$f" > {outputs}/copy; echo ${N} ${files} >> {outputs}/copy'
    template = copied + "; printf %s {prompt} > {outputs}/p"
    assert lab.run(agent=template).returncode == 0
    outputs = lab.workspace / "iteration-1" / "eval-1" / "with_skill" / "run-1" / "outputs"
    assert (outputs / "p").read_text() == hostile
    assert (outputs / "copy").read_text() == "1,2{nothing}\n"
    assert not list(lab.folder.rglob("pwned"))


def test_each_run_has_a_workspace_and_a_home_of_its_own_and_no_eval_files(lab: Lab) -> None:
    lab.write_evals({"prompt": "sum up data/x.csv", "files": ["evals/files/x.csv"]}, {}, **{"x.csv": b"1,2"})
    script = """
    echo "$PWD" >> {log}
    env > "$3/env"; ls -A > "$3/listed"; ls -A "$HOME" > "$3/home"; ls -A "${2:-.}" > "$3/skill"
    [ ! -e data/x.csv ] || cp data/x.csv "$3"
    touch "$HOME/left" left "${2:-.}/left"
    """
    assert lab.run(agent=lab.agent(script)).returncode == 0
    assert len(set(lab.logged())) == 4
    for folder in lab.logged():
        assert not {"with_skill", "without_skill", "greeter"} & set(Path(folder).parts)
    outputs = lab.workspace / "iteration-1" / "eval-1" / "with_skill" / "run-1" / "outputs"
    assert (outputs / "listed").read_text().split() == ["data", "outputs"]
    assert (outputs / "x.csv").read_text() == "1,2"
    assert (outputs / "home").read_text() == ""
    assert (outputs / "skill").read_text().split() == ["SKILL.md", "assets"]
    variables = (outputs / "env").read_text()
    assert f"HOME={os.environ['HOME']}\n" not in variables
    assert "\nXDG_CONFIG_HOME=" in f"\n{variables}"
    assert lab.file("eval-1/with_skill/run-1/outcome.json")["notes"] == ["files outside of outputs: left"]
    assert not (lab.skill / "left").exists()


def test_an_agent_that_fails_is_an_error_and_not_a_fail_and_only_its_runs_are_repeated(lab: Lab) -> None:
    fails = lab.agent(f"echo x >> {lab.log}\n[ -z \"$2\" ] || exit 0\necho 'no quota' >&2; exit 3")
    done = lab.run("--json", agent=fails)
    assert done.returncode == 1
    assert "2 of 4 runs have no grading; the same command runs them again" in done.stderr
    outcome = lab.file("eval-1/without_skill/run-1/outcome.json")
    assert (outcome["status"], outcome["exit_code"]) == ("error", 3)
    assert outcome["error"] == "the agent's command ended with exit code 3: no quota"
    assert not (lab.workspace / "iteration-1/eval-1/without_skill/run-1/grading.json").exists()
    benchmark = lab.file("benchmark.json")
    assert benchmark["run_summary"]["without_skill"]["pass_rate"]["mean"] is None
    assert benchmark["run_summary"]["delta"]["pass_rate"] is None
    assert len(lab.logged()) == 4
    lab.agent()  # the same command, which works now
    report = lab.report()
    assert (report["iteration"], report["resumed"], report["errors"]) == (1, True, 0)
    assert len(lab.logged()) == 6
    assert lab.file("eval-1/without_skill/run-1/outcome.json")["attempt"] == 2


async def test_a_slow_agent_is_a_timeout_and_ends_with_everything_that_it_started(lab: Lab) -> None:
    lab.write_evals({"assertions": [HELLO]})
    seconds = unique_seconds()
    hangs = f"echo begun; ({IN_NEW_SESSION} sleep {seconds} &) ; exec sleep {seconds}"
    script = f'if [ -z "$2" ]; then {hangs}; fi\necho hello > "$3/out.txt"'
    done = lab.run("--timeout", 2, agent=lab.agent(script))
    assert done.returncode == 1
    assert lab.file("eval-1/without_skill/run-1/outcome.json")["status"] == "timeout"
    transcript = (lab.workspace / "iteration-1/eval-1/without_skill/run-1/transcript.jsonl").read_text()
    assert transcript == '{"text": "begun"}\n'
    assert await becomes(lambda: not sleepers(seconds))


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("no-such-program out.txt", "exit code 127"),
        ("./out.txt", "exit code 126"),
        ("kill -9 $$", "SIGKILL"),
    ],
)
def test_a_check_that_cannot_decide_is_an_error_and_not_a_fail(lab: Lab, check: str, says: str) -> None:
    lab.write_evals({"assertions": [{"text": "x", "check": check}]})
    done = lab.run("--json")
    assert done.returncode == 1
    outcome = lab.file("eval-1/with_skill/run-1/outcome.json")
    assert outcome["status"] == "done"
    assert says in outcome["grading_error"]
    assert lab.file("benchmark.json")["runs"][0]["result"]["errors"] == 1


def test_a_graded_run_is_not_performed_again_when_only_its_grading_failed(lab: Lab) -> None:
    tool = lab.folder / "tool"
    lab.write_evals({"assertions": [{"text": "x", "check": str(tool)}]})
    assert lab.run().returncode == 1
    tool.write_text("#!/bin/sh\necho decided\n")
    tool.chmod(0o755)
    report = lab.report()
    assert (report["iteration"], report["plan"]["runs_to_do"], len(lab.logged())) == (1, 0, 2)
    assert lab.file("eval-1/with_skill/run-1/grading.json")["assertion_results"][0]["evidence"] == "decided"


def test_a_check_finds_the_answer_the_transcript_and_the_eval_files(lab: Lab) -> None:
    check = """
    test "$PWD" = "$OUTPUTS" || exit 1
    case "$(cat "$TRANSCRIPT")" in *result*) ;; *) exit 1 ;; esac
    printf '%s\\n' "$(cat "$ANSWER")"
    cat "$EVALS/files/want"
    """
    lab.write_evals({"assertions": [{"text": "x", "check": check}]}, want=b"wanted")
    report = lab.report(agent='echo \'{"type":"result"}\'')
    evidence = report["runs"][0]["expectations"][0]["evidence"]
    assert evidence == '{"type":"result"}\nwanted'
    assert "both arms are the same: this measures the noise" in " ".join(report["notes"])


def test_links_and_pipes_in_the_outputs_are_left_out(lab: Lab) -> None:
    secret = lab.folder / "secret"
    secret.write_text("secret")
    script = f'ln -s {secret} "$3/link"; ln -s {lab.folder} "$3/folder"; mkfifo "$3/pipe"; echo hello > "$3/out.txt"'
    assert lab.run(agent=lab.agent(script)).returncode == 0
    outputs = lab.workspace / "iteration-1" / "eval-1" / "with_skill" / "run-1" / "outputs"
    assert [path.name for path in outputs.iterdir()] == ["out.txt"]


def test_outputs_that_are_a_link_themselves_are_an_error(lab: Lab) -> None:
    script = f'rmdir "$3" && ln -s {lab.folder} "$3"'
    assert lab.run(agent=lab.agent(script)).returncode == 1
    assert "the outputs cannot be copied" in lab.file("eval-1/with_skill/run-1/outcome.json")["error"]
    assert not any((lab.workspace / "iteration-1" / "eval-1" / "with_skill" / "run-1" / "outputs").iterdir())


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ('open("huge", "wb").truncate(2 << 30)', "the limit is"),
        ('import os; os.makedirs("/".join("d" * 70))', "64 levels deep"),
        ('for n in range(10001): open(str(n), "wb").close()', "more than 10000 files"),
    ],
)
def test_outputs_without_bounds_are_an_error(lab: Lab, program: str, says: str) -> None:
    lab.write_evals({})
    assert lab.run(agent=lab.agent(f"cd \"$3\" && python3 -c '{program}'")).returncode == 1
    assert says in lab.file("eval-1/with_skill/run-1/outcome.json")["error"]


def test_a_baseline_that_names_the_skills_folder_is_an_error(lab: Lab) -> None:
    script = f'echo hello > "$3/out.txt"; [ -n "$2" ] || cat {lab.skill}/SKILL.md; echo {lab.skill}/SKILL.md'
    assert lab.run(agent=lab.agent(script)).returncode == 1
    assert lab.file("eval-1/with_skill/run-1/outcome.json")["status"] == "done"
    assert "the baseline is not without the skill" in lab.file("eval-1/without_skill/run-1/outcome.json")["error"]


def test_a_baseline_that_prints_the_instructions_is_an_error_unless_they_were_given(lab: Lab) -> None:
    line = "Open with the name of the person, then copy the template, and close with a warm word."
    text = (lab.skill / "SKILL.md").read_text()
    (lab.skill / "SKILL.md").write_text(f"{text}\n{line}\n")
    lab.write_evals({"prompt": "greet"}, {"prompt": f"greet. {line}"})
    assert lab.run(agent=lab.agent(f"echo hello {line}")).returncode == 1
    assert "a line of the instructions" in lab.file("eval-1/without_skill/run-1/outcome.json")["error"]
    assert lab.file("eval-2/without_skill/run-1/outcome.json")["status"] == "done"


CLAUDE = """
[ -z "$2" ] && used="{used}" || used=greeter
echo '{"type":"system","subtype":"init","skills":["greeter"]}'
echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Skill","input":{"skill":"'$used'"}}],"usage":{"input_tokens":9}}}'
echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}'
echo '{"type":"result","subtype":"success","is_error":{failed},"result":"hello Ada","usage":{"input_tokens":30,"output_tokens":5}}'
"""  # noqa: E501 - lines as the agent prints them


def claude(lab: Lab, used: str = "other", failed: str = "false") -> str:
    return lab.agent(CLAUDE.replace("{used}", used).replace("{failed}", failed))


def test_the_output_of_a_known_agent_tells_tokens_calls_and_the_answer(lab: Lab) -> None:
    lab.write_evals({"assertions": [{"text": "x", "check": 'cat "$ANSWER"'}]})
    report = lab.report(agent=claude(lab))
    assert report["errors"] == 0
    assert lab.file("eval-1/with_skill/run-1/timing.json")["total_tokens"] == 35
    assert report["run_summary"]["delta"]["tokens"] == 0.0
    assert report["runs"][0]["result"]["tool_calls"] == 1
    assert report["runs"][0]["expectations"][0]["evidence"] == "hello Ada"


def test_a_baseline_in_which_the_agent_loads_the_skill_is_an_error(lab: Lab) -> None:
    assert lab.report(agent=claude(lab, used="greeter"))["errors"] == 2
    assert "the agent loaded greeter" in lab.file("eval-1/without_skill/run-1/outcome.json")["error"]


def test_an_agent_that_reports_an_error_is_an_error_whatever_its_exit_code(lab: Lab) -> None:
    assert lab.report(agent=claude(lab, failed="true"))["errors"] == 4
    assert lab.file("eval-1/with_skill/run-1/outcome.json")["error"] == "the agent reports: hello Ada"


def test_what_the_agent_prints_is_one_json_value_a_line(lab: Lab) -> None:
    script = 'echo \'{"type": "tool_use", "n": [1]}\'; echo plain; printf \'\\377\\n{broken\\n\'; echo oops >&2'
    assert lab.run(agent=lab.agent(script + '\necho hello > "$3/out.txt"')).returncode == 0
    lines = (lab.workspace / "iteration-1/eval-1/with_skill/run-1/transcript.jsonl").read_text().splitlines()
    assert lines == [
        '{"type": "tool_use", "n": [1]}',
        '{"text": "plain"}',
        '{"text": "�"}',
        '{"text": "{broken"}',
        '{"text": "oops", "stream": "stderr"}',
    ]
