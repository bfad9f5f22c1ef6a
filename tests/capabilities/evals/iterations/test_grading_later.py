"""Outputs that exist are graded by assertions that come later; feedback and comparisons belong to the outputs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities.evals.conftest import AGENT, HELLO, SAYS_HELLO, Lab
from tests.capabilities.evals.report.test_page import parts_of
from tests.model_endpoint import ModelEndpoint

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")

PLAIN = {"text": "is plain", "check": SAYS_HELLO.replace("*hello*", "*plain*")}

JUDGE = """
if [ -f question.md ]; then text=$(cat question.md); else text=$1; fi
printf '%s\\n' "$(wc -c < "${0}") $1" >> {log}.judged
case "$text" in
*"score both"*|*"result-A"*) case "$text" in
  *hello*plain*) echo '{"rubric": [{"criterion": "c", "A": 5, "B": 2}], "winner": "A", "reasoning": "r"}' ;;
  *) echo '{"rubric": [{"criterion": "c", "A": 2, "B": 5}], "winner": "B", "reasoning": "r"}' ;; esac ;;
*hello*) echo 'I looked. {"results": [{"passed": true, "quote": "hello", "reason": "it is there"}]}' ;;
*) echo '{"results": [{"passed": false, "quote": "", "reason": "no greeting"}]}' ;;
esac
"""
"""An agent that answers questions of a judge: what greets passes, and wins."""


def judge_of(lab: Lab) -> str:
    file = lab.folder / "judge.sh"
    file.write_text(JUDGE.replace("{log}", str(lab.log)))
    return f"sh {file} {{prompt}}"


def rates(report: dict[str, Any]) -> tuple[float | None, float | None]:
    summary = report["run_summary"]
    return summary["with_skill"]["pass_rate"]["mean"], summary["without_skill"]["pass_rate"]["mean"]


def test_assertions_that_are_added_later_grade_the_outputs_that_exist(lab: Lab) -> None:
    lab.write_evals({}, {"prompt": "greet again"})
    first = lab.report()
    assert (first["errors"], rates(first), len(lab.logged())) == (0, (None, None), 4)
    lab.write_evals({"assertions": [HELLO]}, {"prompt": "greet again", "assertions": [PLAIN]})
    done = lab.run("--grade", agent="")
    assert done.returncode == 0, done.stderr
    assert "no run: the outputs that exist are used" in done.stderr
    assert lab.file("benchmark.json")["run_summary"]["with_skill"]["pass_rate"]["mean"] == 0.5
    assert lab.file("eval-1/eval_metadata.json")["assertions"] == [HELLO]
    assert len(lab.logged()) == 4
    # The iteration says who made the outputs, although nobody was named now.
    assert "agent.sh" in lab.file("benchmark.json")["metadata"]["model"]


def test_the_same_eval_grades_again_when_assertions_change_and_runs_no_agent(lab: Lab) -> None:
    assert rates(lab.report()) == (1.0, 0.0)
    lab.write_evals({"assertions": [PLAIN]}, {"assertions": [HELLO, PLAIN]})
    report = lab.report()
    assert (report["iteration"], report["resumed"], report["plan"]["runs_to_do"]) == (1, True, 0)
    assert (rates(report), len(lab.logged())) == ((0.25, 0.75), 4)
    # Another command under the same text is another assertion.
    lab.write_evals({"assertions": [{**PLAIN, "check": "true"}]}, {"assertions": [HELLO, PLAIN]})
    assert rates(lab.report()) == (0.75, 0.75)
    assert lab.report()["iteration"] == 2


def test_a_changed_skill_does_not_change_what_is_graded(lab: Lab) -> None:
    lab.report()
    digest = lab.report("--dry-run", "--grade", agent="")["skill"]["digest"]
    (lab.skill / "assets" / "template.txt").write_text("changed")
    lab.write_evals({"assertions": [PLAIN]}, {"assertions": [HELLO]})
    report = lab.report("--grade", agent="")
    assert (report["iteration"], rates(report), report["skill"]["digest"]) == (1, (0.5, 0.5), digest)


def test_outputs_of_another_prompt_are_not_graded_and_the_report_says_so(lab: Lab) -> None:
    lab.write_evals({"assertions": [HELLO]}, {"files": ["evals/files/x"]}, {"assertions": [HELLO]}, x=b"1")
    lab.report()
    lab.write_evals(
        {"prompt": "other"}, {"files": ["evals/files/x"]}, {"assertions": [HELLO]}, {"prompt": "new"}, x=b"2"
    )
    report = lab.report("--grade", agent="")
    assert [each.split(" ")[0] for each in report["plan"]["left_out"]] == ["eval-1", "eval-2", "eval-4"]
    assert {run["eval_id"] for run in report["runs"]} == {3}
    assert any("Not graded: eval-1 has another prompt" in note for note in report["notes"])
    lab.write_evals({"prompt": "other"})
    done = lab.run("--grade", agent="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing can be graded: eval-1 has another prompt" in done.stderr


def test_there_must_be_outputs_to_grade_and_flags_that_run_agents_are_refused(lab: Lab) -> None:
    done = lab.run("--grade", agent="")
    assert done.returncode == 2
    assert "there are no outputs of `skillserve eval` to grade" in done.stderr
    for flags in (["--new"], ["--no-grade"], ["--baseline", "HEAD"]):
        refused = lab.run("--grade", *flags, agent="")
        assert refused.returncode == 2
        assert f"leave out {flags[0]}" in refused.stderr
    assert not lab.workspace.exists()


def test_a_run_without_grading_keeps_outputs_time_and_tokens_and_needs_no_judge(lab: Lab) -> None:
    lab.write_evals({"assertions": ["it greets", {"text": "never", "check": f"touch {lab.folder}/checked"}]})
    done = lab.run("--no-grade")
    assert done.returncode == 0, done.stderr
    assert "The outputs are not graded." in done.stdout
    assert "--grade`" in done.stdout
    benchmark = lab.file("benchmark.json")
    assert benchmark["run_summary"]["with_skill"]["time_seconds"]["mean"] is not None
    assert [run["result"]["errors"] for run in benchmark["runs"]] == [0, 0]
    assert not (lab.workspace / "iteration-1/eval-1/with_skill/run-1/grading.json").exists()
    assert not (lab.folder / "checked").exists()
    assert len(lab.logged()) == 2
    lab.write_evals({"assertions": [HELLO]})
    report = lab.report()
    assert (report["iteration"], rates(report), len(lab.logged())) == (1, (1.0, 0.0), 2)
    # A later call without grading forgets no grade.
    assert lab.run("--no-grade").returncode == 0
    assert lab.file("eval-1/with_skill/run-1/grading.json")["summary"]["passed"] == 1


def test_an_agent_grades_instead_of_a_model(lab: Lab) -> None:
    lab.write_evals({"assertions": ["it greets", HELLO]})
    report = lab.report("--judge-command", judge_of(lab))
    assert (rates(report), report["errors"]) == ((1.0, 0.0), 0)
    evidence = lab.file("eval-1/with_skill/run-1/grading.json")["assertion_results"][0]["evidence"]
    assert evidence.startswith('"hello" (outputs/out.txt)')
    assert "judge.sh" in lab.file("benchmark.json")["metadata"]["analyzer_model"]
    assert lab.left_over() == []
    # Another judge grades again, and nothing is run.
    lab.write_evals({"assertions": ["it greets", HELLO]})
    again = lab.report("--grade", "--judge-command", f"{judge_of(lab)} again", agent="")
    assert (again["plan"]["judge_requests"], again["iteration"], len(lab.logged())) == (2, 1, 2)


def test_a_question_that_no_argument_can_hold_is_a_file_in_the_folder_of_the_judge(lab: Lab) -> None:
    lab.write_evals({"assertions": ["it greets"]})
    long = AGENT + 'i=0; while [ $i -lt 3000 ]; do echo "line $i of a long report"; i=$((i+1)); done >> "$3/out.txt"\n'
    report = lab.report("--judge-command", judge_of(lab), agent=lab.agent(long))
    assert (rates(report), report["errors"]) == ((1.0, 0.0), 0)
    assert "stands in the file question.md" in Path(f"{lab.log}.judged").read_text()


def test_a_judge_that_fails_leaves_runs_ungraded_and_they_are_graded_later(lab: Lab) -> None:
    lab.write_evals({"assertions": ["it greets"]})
    done = lab.run("--judge-command", "echo broken >&2; exit 3")
    assert done.returncode == 1
    assert "the agent's command ended with exit code 3: broken" in done.stdout
    report = lab.report("--judge-command", judge_of(lab))
    assert (report["iteration"], rates(report), len(lab.logged())) == (1, (1.0, 0.0), 2)
    # The judge is another command than the agent.
    fresh = lab.report("--new", "--judge-command", judge_of(lab))
    assert not any("judges itself" in note for note in fresh["notes"])


def test_the_agent_under_test_judges_where_no_model_is_configured(lab: Lab) -> None:
    lab.write_evals({"assertions": ["it greets"]})
    program = lab.folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, pathlib, sys\n"
        "if sys.argv[1:] == ['--version']: print('1.0'); raise SystemExit\n"
        "skill = pathlib.Path('.claude/skills/greeter').is_dir()\n"
        "asked = sys.argv[-1]\n"
        "said = 'hello' if skill else 'good day'\n"
        "print(json.dumps({'type': 'system', 'subtype': 'init', 'skills': ['greeter'] if skill else []}))\n"
        "if 'You grade the work' in asked:\n"
        "    assert not skill and 'Write' not in sys.argv[sys.argv.index('--allowedTools') + 1]\n"
        "    found = 'hello' in asked.split('assertions:')[0].split('<material-')[1]\n"
        "    said = json.dumps({'results': [{'passed': found, 'quote': 'hello' if found else ''}]})\n"
        "print(json.dumps({'type': 'result', 'subtype': 'success', 'is_error': False, 'result': said}))\n"
    )
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = lab.run("--agent", "claude", "--json", agent="", PATH=path)
    report = json.loads(done.stdout)
    assert (rates(report), report["errors"]) == ((1.0, 0.0), 0), report["notes"]
    assert any("judges itself" in note for note in report["notes"])
    assert lab.file("benchmark.json")["metadata"]["analyzer_model"] == "Claude Code 1.0"
    # --grade runs nothing, so --agent names the judge.
    lab.write_evals({"assertions": ["it greets warmly"]})
    again = json.loads(lab.run("--grade", "--agent", "claude", "--json", agent="", PATH=path).stdout)
    assert (again["iteration"], rates(again), again["errors"]) == (1, (1.0, 0.0), 0)


def test_there_is_one_judge(lab: Lab) -> None:
    done = lab.run("--judge-model", "openai:x", "--judge-agent", "claude")
    assert done.returncode == 2
    assert "not both" in done.stderr
    done = lab.run("--judge-agent", "skillserve")
    assert done.returncode == 2
    assert "--judge-model" in done.stderr


def test_blind_comparisons_are_in_the_benchmark_and_in_what_is_printed(lab: Lab) -> None:
    done = lab.run("--compare", "--judge-command", judge_of(lab))
    assert done.returncode == 0, done.stderr
    assert "Blind comparison of 2 cases by " in done.stdout
    assert "with_skill better in 2, without_skill better in 0, 0 ties." in done.stdout
    assert "eval-1: blind comparison: with_skill is better; the result of with_skill is " in done.stdout
    comparison = lab.file("benchmark.json")["comparison"]
    assert (comparison["wins"], comparison["ties"]) == ({"with_skill": 2, "without_skill": 0}, 0)
    assert [case["winner"] for case in comparison["cases"]] == ["with_skill", "with_skill"]
    # It stays known when outputs are graded again.
    assert lab.report("--grade", agent="")["comparison"] == comparison


def test_a_comparison_of_replaced_outputs_is_made_again(lab: Lab) -> None:
    judge = judge_of(lab)
    changes = lab.agent(f'{AGENT}\n[ -e {lab.folder}/more ] && echo more >> "$3/out.txt" || true')
    lab.run("--compare", "--judge-command", judge, agent=changes)
    before = lab.file("eval-1/comparison.json")["outputs_digest"]
    (lab.workspace / "iteration-1/eval-1/with_skill/run-1/outcome.json").unlink()
    (lab.folder / "more").touch()
    # Without --compare, what is known of the old outputs is not shown as known of the new.
    report = lab.report(agent=changes)
    assert (report["iteration"], [case["case"] for case in report["comparison"]["cases"]]) == (1, ["eval-2"])
    report = lab.report("--compare", "--judge-command", judge, agent=changes)
    assert (report["iteration"], len(report["comparison"]["cases"])) == (1, 2)
    assert lab.file("eval-1/comparison.json")["outputs_digest"] != before


def test_feedback_stays_with_the_outputs_that_it_was_given_for(lab: Lab, endpoint: ModelEndpoint) -> None:
    changes = lab.agent(f'{AGENT}\n[ -e {lab.folder}/more ] && echo more >> "$3/out.txt"; [ -e {lab.folder}/go ]')
    assert lab.run(agent=changes).returncode == 1
    place = lab.workspace / "iteration-1"
    (place / "feedback.json").write_text(json.dumps({"eval-1": "too short", "eval-2": ""}))
    for name in ("more", "go"):
        (lab.folder / name).touch()
    assert lab.report(agent=changes)["iteration"] == 1
    given = lab.file("feedback.json")
    assert (given["eval-1"], given["eval-2"], set(given["outputs"])) == ("too short", "", {"eval-1", "eval-2"})
    parts = parts_of((lab.workspace / "report.html").read_text(encoding="utf-8"))
    assert [(each["replaced"], each["feedback"]) for each in parts.values()] == [("too short", None), ("", None)]
    # Nor does a model hear of it as feedback on the new outputs.
    endpoint.script = ['{"summary": "none", "changes": []}']
    lab.run("--propose", "--model", endpoint.model, agent="")
    assert endpoint.requests
    assert "too short" not in json.dumps(endpoint.requests)


def test_a_new_iteration_begins_without_feedback_on_the_old_one(lab: Lab) -> None:
    lab.report()
    given = {"eval-1": "too short", "eval-2": ""}
    (lab.workspace / "iteration-1" / "feedback.json").write_text(json.dumps(given))
    assert lab.report()["feedback"].endswith("iteration-2/feedback.json")
    assert (lab.file("feedback.json"), lab.file("feedback.json", 2)) == (given, {})
    parts = parts_of((lab.workspace / "report.html").read_text(encoding="utf-8"))
    assert sorted(each["earlier"] for each in parts.values()) == ["", "too short"]


def test_feedback_that_cannot_be_read_is_not_replaced(lab: Lab) -> None:
    assert lab.run(agent=lab.agent("exit 1")).returncode == 1
    (lab.workspace / "iteration-1" / "feedback.json").write_text("{broken")
    assert lab.report("--timeout", 900, agent=lab.agent())["errors"] == 0
    assert (lab.workspace / "iteration-1" / "feedback.json").read_text() == "{broken"
