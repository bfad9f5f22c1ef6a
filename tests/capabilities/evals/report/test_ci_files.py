"""JUnit XML and the Markdown summary."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from server.capabilities.evals.report.ci import ci_gates, junit, markdown
from server.capabilities.evals.report.workspace import read_workspace
from tests.capabilities.evals.report.workspaces import (
    full_workspace,
    grading,
    hostile_workspace,
    query,
    write_case,
    write_iteration,
    write_run,
    write_triggers,
)

ATTRIBUTES = {
    "testsuites": {"name", "tests", "failures", "errors", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
}
"""What the schema that Jenkins checks reports with allows, as far as we use it."""


def parsed(root: Path) -> ET.Element:
    """Parse the XML of a workspace, after a check of its shape and its counts."""
    document = ET.fromstring(junit(read_workspace(root)))  # noqa: S314 - our own
    for element in document.iter():
        assert set(element.attrib) == ATTRIBUTES[element.tag]
    for suite in document:
        for kind, counted in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[counted]) == len(suite.findall(f"testcase/{kind}"))
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    for counted in ("tests", "failures", "errors"):
        assert int(document.attrib[counted]) == sum(int(suite.attrib[counted]) for suite in document)
    return document


def kinds(suite: ET.Element) -> list[tuple[str, str]]:
    return [(test.attrib["name"], next((each.tag for each in test), "passed")) for test in suite]


def test_each_assertion_is_a_test_in_each_arm(tmp_path: Path) -> None:
    write_iteration(tmp_path / "iteration-1", {"a": ((True, False), (False, True))})
    ours, theirs = parsed(tmp_path)
    assert ours.attrib["name"] == "iteration-1.with_skill"
    assert kinds(ours) == [("assertion 1", "passed"), ("assertion 2", "failure")]
    # A build must not fail because the skill is needed.
    assert kinds(theirs) == [("assertion 1", "skipped"), ("assertion 2", "passed")]
    failure = ours[1][0]
    assert failure.attrib["message"] == "passed in 0 of 1 graded run"
    assert failure.text == "run 1: evidence of assertion 2"


def test_an_error_is_an_error_and_no_failure(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "a", assertions=["The output is valid JSON"])
    write_run(folder / "with_skill", None, outcome={"status": "timeout", "error": "no answer after 300 s"})
    (suite,) = parsed(tmp_path)
    assert kinds(suite) == [("The output is valid JSON", "error")]
    assert suite[0][0].attrib["message"] == "run 1 ended in timeout: no answer after 300 s"


def test_an_error_beside_graded_runs_is_a_test_of_its_own(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "iteration-1", "a")
    write_run(folder / "with_skill/run-1", grading(True))
    write_run(folder / "with_skill/run-2", None, outcome={"status": "error", "error": "no quota"})
    (suite,) = parsed(tmp_path)
    assert kinds(suite) == [("assertion 1", "passed"), ("run 2", "error")]


def test_each_query_is_a_test(tmp_path: Path) -> None:
    results = [
        query("chart my csv", should=True, triggers=3),
        query("what is csv?", should=False, triggers=2),
        query("broken", should=True, triggers=0, runs=3, errors=3, outcomes=["error"] * 3),
    ]
    write_triggers(tmp_path / "triggers-1", results)
    (suite,) = parsed(tmp_path)
    assert kinds(suite) == [("chart my csv", "passed"), ("what is csv?", "failure"), ("broken", "error")]
    assert suite[1][0].attrib["message"] == "should not load the skill; loaded in 2 of 3 runs that count"


def test_only_the_newest_results_count(tmp_path: Path) -> None:
    assert [suite.attrib["name"] for suite in parsed(full_workspace(tmp_path))] == [
        "iteration-3.with_skill",
        "iteration-3.without_skill",
        "triggers-1",
    ]


def test_hostile_texts_stay_texts_in_xml(tmp_path: Path) -> None:
    document = parsed(hostile_workspace(tmp_path / "workspace"))
    assert any("</script>" in test.attrib["name"] for test in document.iter("testcase"))


def test_the_summary_has_verdict_rates_and_gates(tmp_path: Path) -> None:
    found = read_workspace(full_workspace(tmp_path / "csv-analyzer-workspace"))
    text = markdown(found, ci_gates(found, min_pass_rate=0.8))
    assert "- ✅ **passed**: pass rate of iteration-3 at least 0.80 — measured 0.96" in text
    assert "- ❌ **failed**: pass rate of triggers-1 at least 0.80" in text
    assert "**No verdict:** +82 points on average over 5 cases" in text
    assert "- With failed and repeated runs as 0: +84\u00a0points" in text
    assert re.search(r"\| with skill \| 96\s% ± 12\s% \| 96\s% \(95\s%: 0.52 to 1.00\) \|", text)
    assert "| convert this PDF to text | no | 67\u00a0% |" in text


def test_hostile_texts_stay_texts_in_markdown(tmp_path: Path) -> None:
    folder = write_case(
        tmp_path / "iteration-1", "a", eval_name="[x](http://e.vil) `a|b` <img src=x>\n# head www.e.vil"
    )
    write_run(folder / "with_skill", grading(False, texts=["| a | b |\n</details> ![i](http://e.vil) @team $x$"]))
    text = markdown(read_workspace(tmp_path))
    (row,) = [line for line in text.splitlines() if "details" in line]
    assert row == (
        r"| \[x\](http:&#8203;//e.vil) \`a\|b\` \<img src=x\> # head www.&#8203;e.vil | "
        r"\| a \| b \| \</details\> !\[i\](http:&#8203;//e.vil) @&#8203;team \$x\$ | 0 of 1 |"
    )
