"""The benchmark of an iteration: means and deltas, patterns, and a verdict that the numbers can carry.

Reading `evals/evals.json`: both dialects, and every fault with its place and what is expected.

How a run of an agent counts, and whether the skill had a part in it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.evals.agents.kind import AgentRun, Transcript
from skills_core.evals.grading.benchmark import benchmark_of
from skills_core.evals.grading.cases import Assertion, EvalCase, InvalidEvalSetError, read_eval_cases
from skills_core.evals.grading.results import (
    Arm,
    AssertionResult,
    EvalOutcome,
    EvalRun,
    EvalStatus,
    RunKey,
    absence_fault,
    grading_basis,
    grading_from_json,
    grading_to_json,
    is_grading_of,
    load_fault,
    load_note,
    outcome_from_json,
    status_of,
)
from tests.core.evals.runs import METADATA, run_of

WITH, WITHOUT = Arm.WITH_SKILL, Arm.WITHOUT_SKILL


def benchmark(*runs: EvalRun) -> dict[str, Any]:
    baseline = next((run.key.arm for run in runs if run.key.arm is not WITH), WITHOUT)
    made = benchmark_of(runs, baseline, METADATA)
    return json.loads(json.dumps(made, allow_nan=False))  # type: ignore[no-any-return]


def test_the_delta_is_the_skill_minus_the_baseline_in_numbers() -> None:
    made = benchmark(
        run_of(WITH, [True, True], seconds=45, tokens=3800),
        run_of(WITHOUT, [True, False], seconds=32, tokens=2100),
    )
    assert made["run_summary"]["delta"] == {"pass_rate": 0.5, "time_seconds": 13.0, "tokens": 1700.0}
    assert made["run_summary"]["with_skill"]["pass_rate"] == {"mean": 1.0, "stddev": 0.0, "min": 1.0, "max": 1.0}
    assert made["metadata"]["evals_run"] == ["one"]
    assert made["runs"][1]["result"]["pass_rate"] == 0.5


def test_the_deviation_is_that_of_a_sample() -> None:
    runs = [run_of(WITH, [passed], number=number) for number, passed in enumerate((True, False), 1)]
    assert benchmark(*runs, run_of(WITHOUT))["run_summary"]["with_skill"]["pass_rate"]["stddev"] == 0.7071


def test_the_delta_pairs_cases_so_that_an_error_in_one_arm_does_not_favour_it() -> None:
    """The hard case has an error with the skill; the easy one is equal in both arms, so nothing differs."""
    made = benchmark(
        run_of(WITH, [True], name="easy", seconds=10),
        run_of(WITHOUT, [True], name="easy", seconds=10),
        run_of(WITH, name="hard", error="429"),
        run_of(WITHOUT, [False], name="hard", seconds=90, tokens=9000),
    )
    assert made["run_summary"]["without_skill"]["pass_rate"]["mean"] == 0.5
    assert made["run_summary"]["delta"] == {"pass_rate": 0.0, "time_seconds": 0.0, "tokens": 0.0}
    assert "Only one arm has graded runs of eval-hard: the means of the arms are of different cases" in made["notes"][2]


def test_errors_leave_the_denominator_and_are_named() -> None:
    made = benchmark(
        run_of(WITH), run_of(WITH, number=2, error="boom", seconds=500, tokens=None), run_of(WITHOUT, [False])
    )
    summary = made["run_summary"]["with_skill"]
    assert (summary["pass_rate"]["mean"], summary["time_seconds"]["max"]) == (1.0, 1.0)
    assert made["runs"][1]["result"] | {"errors": 1, "pass_rate": None} == made["runs"][1]["result"]
    assert "eval-one/with_skill/run-2: boom" in made["notes"]
    assert made["effect"]["arms"]["with_skill"]["errors"] == 1
    assert made["effect"]["arms"]["without_skill"]["errors"] == 0


def test_unknown_tokens_are_null_and_not_zero() -> None:
    made = benchmark(run_of(WITH, tokens=None), run_of(WITHOUT, tokens=10))
    assert made["run_summary"]["with_skill"]["tokens"] == {"mean": None, "stddev": None, "min": None, "max": None}
    assert made["run_summary"]["delta"]["tokens"] is None


def test_a_case_without_assertions_has_time_and_tokens_but_no_pass_rate() -> None:
    made = benchmark(run_of(WITH, []), run_of(WITHOUT, []))
    assert made["run_summary"]["delta"] == {"pass_rate": None, "time_seconds": 0.0, "tokens": 0.0}
    assert made["effect"]["reason"] == "No case has assertions that were graded in both arms."


def test_assertions_that_say_nothing_about_the_skill_are_named_and_so_are_those_that_do() -> None:
    made = benchmark(run_of(WITH, [True, False, True, False]), run_of(WITHOUT, [True, False, False, True]))
    named = {name: [each["assertion"] for each in made["patterns"][name]] for name in ("always_pass", "always_fail")}
    assert named == {"always_pass": ["a"], "always_fail": ["b"]}
    assert [made["patterns"][name][0]["assertion"] for name in ("gained", "lost")] == ["c", "d"]
    assert any("'a' passes in both arms" in note for note in made["notes"])
    assert any("'b' fails in both arms" in note for note in made["notes"])


def test_an_assertion_that_passes_with_both_versions_of_a_skill_is_not_to_be_removed() -> None:
    made = benchmark(run_of(WITH, [True, False]), run_of(Arm.OLD_SKILL, [True, True]))
    assert [each["assertion"] for each in made["patterns"]["always_pass"]] == ["a"]
    assert "Assertions that pass with both versions of the skill: 1." in made["notes"]
    assert any("'b' passes with the old version and fails with the skill" in note for note in made["notes"])
    assert not any("remove it" in note for note in made["notes"])


def test_an_assertion_with_mixed_results_in_one_arm_is_flaky_and_not_always_anything() -> None:
    runs = [run_of(WITH, [number != 2], number=number) for number in (1, 2, 3)]
    patterns = benchmark(*runs, run_of(WITHOUT, [True]))["patterns"]
    flaky = {"eval": "eval-one", "assertion": "a", "configuration": "with_skill", "passed": 2, "runs": 3}
    assert patterns["flaky"] == [flaky]
    assert patterns["always_pass"] == patterns["gained"] == []


def test_a_run_of_three_times_the_others_is_an_outlier_with_its_transcript() -> None:
    runs = [run_of(WITH, name=name, seconds=seconds) for name, seconds in (("x", 2), ("y", 2), ("z", 6))]
    made = benchmark(*runs, run_of(WITHOUT, tokens=1000), run_of(WITHOUT, name="x"), run_of(WITHOUT, name="y"))
    found = made["patterns"]["outliers"]
    assert [(each["eval"], each["metric"], each["value"]) for each in found] == [
        ("eval-z", "time", 6.0),
        ("eval-one", "tokens", 1000),
    ]
    assert found[0]["transcript"] == "eval-z/with_skill/run-1/transcript.jsonl"
    assert any("read eval-z/with_skill/run-1/transcript.jsonl" in note for note in made["notes"])


def test_milliseconds_and_two_runs_have_no_outliers() -> None:
    short = [run_of(WITH, name=name, seconds=seconds) for name, seconds in (("x", 0.1), ("y", 0.1), ("z", 0.9))]
    assert benchmark(*short, run_of(WITHOUT))["patterns"]["outliers"] == []
    two = [run_of(WITH, name=name, seconds=seconds) for name, seconds in (("x", 1), ("z", 9))]
    assert benchmark(*two, run_of(WITHOUT))["patterns"]["outliers"] == []


def test_assertions_that_change_are_listed_by_the_size_of_the_change() -> None:
    runs = [run_of(WITH, [number != 2, True, True], number=number) for number in (1, 2)]
    runs += [run_of(WITHOUT, [False, True, False], number=number) for number in (1, 2)]
    changed = benchmark(*runs)["patterns"]["changed"]
    assert [(each["assertion"], each["difference"]) for each in changed] == [("c", 1.0), ("a", 0.5)]
    assert changed[1] == {
        "eval": "eval-one",
        "assertion": "a",
        "difference": 0.5,
        "with_skill": {"passed": 1, "runs": 2},
        "without_skill": {"passed": 0, "runs": 2},
    }


@pytest.mark.parametrize("name", ["assertion_results", "expectations", "assertions"])
def test_gradings_of_all_dialects_are_read(name: str) -> None:
    value = {name: [{"text": "a", "passed": True, "evidence": "e"}, {"text": "b", "passed": False}]}
    assert grading_from_json(value) == (AssertionResult("a", True, "e"), AssertionResult("b", False, ""))


def test_a_grading_is_written_for_both_readers_and_read_back() -> None:
    results = (AssertionResult("a", True, "e"), AssertionResult("b", False, "f"), AssertionResult("c", False, ""))
    case = EvalCase(1, "1", "p", assertions=(Assertion("a"), Assertion("b", "true"), Assertion("c")))
    made = grading_to_json(results, grading_basis(case, "judge"))
    assert made["assertion_results"] == made["expectations"]
    assert made["summary"] == {"passed": 1, "failed": 2, "total": 3, "pass_rate": 0.3333}
    assert grading_from_json(made) == results
    assert is_grading_of(made, results, case, "judge")
    assert is_grading_of(made, results, case, None)
    assert not is_grading_of(made, results, case, "another")


@pytest.mark.parametrize(
    "changed",
    [
        {"assertions": (Assertion("b", "true"), Assertion("a"))},
        {"assertions": (Assertion("a"), Assertion("b", "false"))},
        {"assertions": (Assertion("a"), Assertion("b"))},
        {"assertions": (Assertion("a"),)},
        {"expected_output": "more"},
    ],
)
def test_a_grading_is_one_of_the_assertions_and_expectations_that_made_it(
    changed: dict[str, Any],
) -> None:
    case = EvalCase(1, "1", "p", expected_output="much", assertions=(Assertion("a"), Assertion("b", "true")))
    results = (AssertionResult("a", True, ""), AssertionResult("b", True, ""))
    made = grading_to_json(results, grading_basis(case, "judge"))
    assert is_grading_of(made, results, case, "judge")
    assert not is_grading_of(made, results, replace(case, **changed), "judge")
    # Files of other tools do not say what they rest on.
    assert is_grading_of({"expectations": []}, results, case, "judge")


@pytest.mark.parametrize("value", [None, [], {}, {"expectations": "x"}, {"expectations": [{"text": "a"}]}, 3])
def test_a_damaged_grading_is_none(value: object) -> None:
    assert grading_from_json(value) is None


def test_an_outcome_is_read_back_and_a_damaged_one_is_none() -> None:
    outcome = EvalOutcome(status=EvalStatus.TIMEOUT, error="slow", duration_ms=5, total_tokens=7, attempt=2)
    assert outcome_from_json(outcome.to_json(), outcome.timing()) == outcome
    assert outcome_from_json({"status": "fine"}, {}) is None
    assert outcome_from_json([], None) is None
    assert outcome_from_json({"status": "done", "notes": [3]}, {}) is None
    assert outcome_from_json({"status": "done"}, {"total_tokens": True}) is None


def test_one_run_has_its_files_in_the_arm_and_several_have_folders() -> None:
    key = RunKey("eval-x", WITH, 2)
    assert (str(key), key.flat) == ("eval-x/with_skill/run-2", "eval-x/with_skill")


SEED = {
    "skill_name": "csv-analyzer",
    "evals": [
        {
            "id": 1,
            "prompt": "I have a CSV of monthly sales data in data/sales_2025.csv.",
            "expected_output": "A bar chart image showing the top 3 months by revenue.",
            "files": ["evals/files/sales_2025.csv"],
            "assertions": ["The output includes a bar chart image file", "The chart shows exactly 3 months"],
        },
        {"id": 2, "prompt": "clean customers.csv", "files": ["evals/files/customers.csv"]},
    ],
}


def read(value: Any) -> tuple[EvalCase, ...]:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_eval_cases(raw, "evals/evals.json").cases


def notes_of(value: Any) -> tuple[str, ...]:
    return read_eval_cases(json.dumps(value).encode(), "evals/evals.json").notes


def one(**fields: Any) -> dict[str, Any]:
    return {"skill_name": "a", "evals": [{"id": 1, "prompt": "do it", **fields}]}


def test_the_example_of_the_guide_is_read() -> None:
    first, second = read(SEED)
    assert (first.id, first.folder, first.files) == (1, "eval-1", ("evals/files/sales_2025.csv",))
    assert first.assertions[1] == Assertion("The chart shows exactly 3 months")
    assert (second.assertions, second.expected_output) == ((), "")


def test_expectations_are_assertions_and_those_in_both_lists_count_once() -> None:
    assert read(one(expectations=["x is y"]))[0].assertions == (Assertion("x is y"),)
    both = read(one(assertions=["a", "b"], expectations=["b", "c"]))[0].assertions
    assert [each.text for each in both] == ["a", "b", "c"]


def test_an_assertion_with_a_check_has_a_command() -> None:
    found = read(one(assertions=[{"text": "valid JSON", "check": "jq . out.json"}, {"text": "short"}]))
    assert found[0].assertions == (Assertion("valid JSON", "jq . out.json"), Assertion("short", None))


@pytest.mark.parametrize(
    ("named", "folders"),
    [
        ([{"id": "top-months"}], ["eval-top-months"]),
        ([{"id": 7, "name": "Top 3 months, chart!"}], ["eval-top-3-months-chart"]),
        ([{"id": 1, "name": "A b"}, {"id": 2, "name": "a-b"}, {"id": 3, "name": "a b 2"}], ["a-b", "a-b-2", "a-b-2-2"]),
        ([{"id": "../../etc"}, {"id": "日本"}, {"id": "eval-x"}], ["etc", "case", "x"]),
        ([{"id": 1, "name": "n" * 300}], ["n" * 60]),
    ],
)
def test_folders_are_safe_unique_and_named_by_name_or_id(named: list[dict[str, Any]], folders: list[str]) -> None:
    found = read({"evals": [{"prompt": "p", **each} for each in named]})
    assert [case.folder for case in found] == [f"eval-{name.removeprefix('eval-')}" for name in folders]


@pytest.mark.parametrize(
    ("value", "place", "says"),
    [
        (b"{", "line 1, column 2", "not JSON"),
        (b"\xff", "", "not UTF-8"),
        (b"[" * 200_000, "", "nested too deep"),
        ("text", "", "expected an object"),
        ([], "", "from 1 to 1000 evals, found 0"),
        ({"cases": 3}, "cases", "expected a list of evals, found a number"),
        ({"eval": []}, "evals", "Did you mean 'eval'?"),
        ({"evals": []}, "evals", "from 1 to 1000 evals, found 0"),
        ({"evals": ["x"]}, "evals[0]", "found text"),
        ({"evals": [{"id": 1, "hook": "x"}]}, "evals[0].prompt", "found nothing. The case is left out"),
        (one(id=True), "evals[0].id", "found true or false"),
        (one(prompt=" "), "evals[0].prompt", "the text that a user would type"),
        ({"evals": [{"id": 1, "promt": "x"}]}, "evals[0].prompt", "Did you mean 'promt'?"),
        (one(prompt="a\0b"), "evals[0].prompt", "without NUL"),
        (one(prompt="\ud800"), "evals[0].prompt", "Unicode"),
        (one(files=7), "evals[0].files", "expected a list, found a number"),
        (one(files=[{"name": "a.csv", "content": "a"}]), "evals[0].files[0]", "save the file in evals/files"),
        (one(files=["a", 3]), "evals[0].files[1]", "relative to the skill's folder"),
        (one(files=["../x"]), "evals[0].files[0]", "leaves the skill's folder"),
        (one(files=["/etc/passwd"]), "evals[0].files[0]", "copy the file to evals/files"),
        (one(files=["C:/x"]), "evals[0].files[0]", "leaves"),
        (one(files=["a\\..\\b"]), "evals[0].files[0]", "leaves"),
        (one(files=["./."]), "evals[0].files[0]", "leaves"),
        (one(assertions=True), "evals[0].assertions", "expected a list, found true or false"),
        (one(assertions=[{"description": ""}]), "evals[0].assertions[0].text", "found nothing"),
        (one(assertions=["a", 3]), "evals[0].assertions[1]", "found a number"),
        (one(assertions=[""]), "evals[0].assertions[0]", "expected a text, or an object"),
        (one(assertions=[{"text": "", "check": "true"}]), "evals[0].assertions[0].text", "found nothing"),
        (one(assertions=[{"text": "x", "check": ""}]), "evals[0].assertions[0].check", "expected a command"),
        (one(assertions=[{"text": "x", "check": ["true"]}]), "evals[0].assertions[0].check", "found a list"),
        (one(assertions=["a", "a"]), "evals[0].assertions[1]", "assertions[0] has the same text"),
    ],
)
def test_a_fault_is_reported_with_its_place_and_what_is_expected(value: Any, place: str, says: str) -> None:
    with pytest.raises(InvalidEvalSetError) as caught:
        read(value)
    assert caught.value.faults[0].startswith(f"{place}: " if place else "")
    assert says in str(caught.value)
    assert str(caught.value).startswith("evals/evals.json: ")


def test_ids_are_unique_whatever_their_type() -> None:
    with pytest.raises(InvalidEvalSetError, match=r"evals\[1\].id: evals\[0\] has the id '1' too") as caught:
        read({"evals": [{"id": 1, "prompt": "x"}, {"id": "1", "prompt": "y"}]})
    assert len(caught.value.faults) == 1


def test_all_faults_are_reported_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(InvalidEvalSetError) as caught:
        read({"evals": [{"id": 1, "prompt": 3}, {"id": [], "prompt": "x", "files": [""]}]})
    places = [fault.partition(":")[0] for fault in caught.value.faults]
    assert places == ["evals[0].prompt", "evals[1].id", "evals[1].files[0]"]
    with pytest.raises(InvalidEvalSetError, match="and 90 more faults"):
        read({"evals": [{"id": number} for number in range(100)]})


LISTS = ("evals", "cases", "test_cases", "tests")
PROMPTS = ("prompt", "query", "input", "task")
EXPECTED = ("expected_output", "expected", "expected_behavior")
CLAIMS = ("assertions", "expectations", "criteria", "rubric", "checks")
STATEMENTS = ("text", "description", "criterion", "pass_if", "check")
WORDS = st.text("abc ", min_size=1, max_size=9).filter(str.strip)
MEANT = st.tuples(WORDS, WORDS, st.lists(WORDS, min_size=1, max_size=3, unique=True))


@given(st.lists(MEANT, min_size=1, max_size=3), st.data())
def test_a_set_means_the_same_in_each_shape(meant: list[tuple[str, str, list[str]]], data: st.DataObject) -> None:
    def one_of(names: tuple[str, ...]) -> str:
        return data.draw(st.sampled_from(names))

    def claim(words: str) -> Any:
        return data.draw(st.sampled_from([words, {one_of(STATEMENTS): words, "id": "c"}]))

    def case(number: int, prompt: str, expected: str, claims: list[str]) -> dict[str, Any]:
        listed = [claim(each) for each in claims]
        inside = listed[0] if len(listed) == 1 and data.draw(st.booleans()) else listed
        named = {"id": number} if data.draw(st.booleans()) else {}
        return {**named, one_of(PROMPTS): prompt, one_of(EXPECTED): expected, one_of(CLAIMS): inside}

    cases = [case(number, *each) for number, each in enumerate(meant, 1)]
    for document in (cases, {"skill_name": "a", one_of(LISTS): cases}, *(cases if len(cases) == 1 else [])):
        found = read(document)
        assert [(each.prompt, each.expected_output, [a.text for a in each.assertions]) for each in found] == meant
        assert [each.id for each in found] == [*range(1, len(meant) + 1)]
        assert not any(assertion.check for each in found for assertion in each.assertions)


def test_the_expected_output_is_judged_where_there_are_no_assertions() -> None:
    assert read(one(expected_output="A list."))[0].assertions == (Assertion("The result is as expected: A list."),)
    both = read(one(expected_output="A list.", assertions=["It has two lines"]))[0]
    assert (both.expected_output, both.assertions) == ("A list.", (Assertion("It has two lines"),))
    listed = read(one(expected_behavior=["It asks first", "It writes a list"]))[0]
    assert [each.text for each in listed.assertions] == ["It asks first", "It writes a list"]


@pytest.mark.parametrize(
    ("assertion", "text"),
    [
        ({"name": "has-total", "description": "There is a total"}, "There is a total"),
        ({"name": "has-total"}, "has-total"),
        ({"text": None, "statement": "There is a total"}, "There is a total"),
        ({"type": "contains", "value": "Total"}, "contains: Total"),
        ({"type": "any", "value": ["Sum", "Total"], "description": "A sum"}, 'A sum (any: ["Sum", "Total"])'),
        ({"name": "valid", "check": "out.json is valid"}, "out.json is valid"),
        ({"dimension": "tone", "pass_if": "It is polite"}, "It is polite"),
    ],
)
def test_an_object_is_a_statement_for_the_judge_and_no_command(assertion: dict[str, Any], text: str) -> None:
    assert read(one(assertions=[assertion]))[0].assertions == (Assertion(text),)


def test_commands_of_another_tool_are_noted_and_never_run() -> None:
    case = {
        "id": "bookmarks",
        "input": "Build a bookmarks tool.",
        "deterministic_assertions": [{"check": "Both commands are listed", "cmd": ["rm", "-r", "out"], "exit": 0}],
        "rubric": [{"dimension": "scope", "pass_if": "Nothing is added that was not asked for"}],
    }
    (found,) = read({"skill": "planner", "method": "by hand", "cases": [case]})
    assert (found.id, found.prompt) == ("bookmarks", "Build a bookmarks tool.")
    assert found.assertions == (
        Assertion("Nothing is added that was not asked for"),
        Assertion("Both commands are listed"),
    )
    assert notes_of({"skill": "planner", "method": "by hand", "cases": [case]}) == (
        "not read in the file: method (1)",
        "fields of assertions that are not read: dimension (1), cmd (1), exit (1)",
    )


def test_conditions_say_what_the_output_must_have_and_their_names_are_kept() -> None:
    listed = read(one(must_have=["a total"], checks={"must_contain": ["x", "y"], "min_code_blocks": 1}))[0]
    texts = ["must contain: x", "must contain: y", "min code blocks: 1", "must have: a total"]
    assert [each.text for each in listed.assertions] == texts


def test_what_must_not_hold_is_an_assertion_too() -> None:
    (found,) = read(
        one(must_not_have=["a guess"], anti_expectations="It asks back", checks={"must_not_contain": ["x"]})
    )
    assert [(each.text, each.absent) for each in found.assertions] == [
        ("must not contain: x", "x"),
        ("must not have: a guess", "a guess"),
        ("must not hold: It asks back", "It asks back"),
    ]
    # A command says itself when it passes.
    (checked,) = read(one(must_not_have=[{"text": "a log", "check": "! test -f log"}]))
    assert checked.assertions == (Assertion("must not have: a log", "! test -f log"),)
    assert notes_of(one(must_not_have=["a guess"])) == ()


def test_what_must_not_hold_is_part_of_what_a_grading_rests_on() -> None:
    cases = [EvalCase(1, "x", "p", assertions=(Assertion("must not have: a", absent=each),)) for each in (None, "a")]
    first, second = (grading_basis(case, "judge")["assertions"] for case in cases)
    assert first != second


def test_what_is_not_read_is_noted() -> None:
    value = {
        "setup": {"cmd": "x"},
        "evals": [
            {
                "prompt": "a",
                "turns": ["b"],
                "tags": ["t"],
                "must_not_have": ["c"],
                "assertions": [{"text": "d", "w": 1}],
            },
            {"id": "hook", "hook": "x"},
            {"prompt": "e", "files": ["../x"]},
        ],
    }
    assert [case.id for case in read(value)] == [1]
    assert notes_of(value) == (
        "evals[1].prompt: expected the text that a user would type, found nothing. The case is left out",
        (
            "evals[2].files[0]: '../x' leaves the skill's folder; copy the file to evals/files and name it there; "
            "the case is left out"
        ),
        "not read in the file: setup (1)",
        "fields of assertions that are not read: w (1)",
        "fields of cases that are not read: turns (1), hook (1)",
    )
    assert notes_of(SEED) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "prompt", "files", "assertions", "text", "check"]), inner)
    ),
    max_leaves=20,
)


@given(st.binary(max_size=60) | JSON.map(lambda each: json.dumps({"evals": [each]}).encode()))
def test_any_bytes_are_evals_or_an_error_with_a_place(raw: bytes) -> None:
    try:
        found = read(raw)
    except InvalidEvalSetError as error:
        if not error.faults:
            raise
    else:
        assert len({case.slug for case in found}) == len(found) > 0


FINE = Transcript(recognized=True)


@pytest.mark.parametrize(
    ("run", "status", "error"),
    [
        (AgentRun(transcript=FINE, exit_code=0), EvalStatus.DONE, ""),
        (AgentRun(transcript=FINE, timed_out=True), EvalStatus.TIMEOUT, "took longer than 9 seconds"),
        (AgentRun(transcript=FINE, fault="no model"), EvalStatus.ERROR, "no model"),
        (AgentRun(transcript=FINE, exit_code=3, errors="quota"), EvalStatus.ERROR, "exit code 3: quota"),
        (
            AgentRun(transcript=Transcript(is_error=True, error="no credit"), exit_code=1),
            EvalStatus.ERROR,
            "the agent reports: no credit",
        ),
        (AgentRun(transcript=Transcript(), exit_code=0), EvalStatus.ERROR, "nothing that the agent printed"),
    ],
)
def test_a_run_is_done_only_if_nothing_speaks_against_it(run: AgentRun, status: EvalStatus, error: str) -> None:
    found = status_of(run, 9, known=True)
    assert found[0] is status
    assert error in found[1]


def test_an_unknown_agent_may_print_anything() -> None:
    assert status_of(AgentRun(transcript=Transcript(), exit_code=0), 9, known=False) == (EvalStatus.DONE, "")


def test_a_baseline_neither_loads_nor_lists_the_skill() -> None:
    assert "loaded s" in absence_fault(Transcript(loaded=("s",)), "s", known=False)
    assert "lists s" in absence_fault(Transcript(available=("s",)), "s", known=True)
    assert absence_fault(Transcript(available=("s",)), "s", known=False) == ""
    assert absence_fault(Transcript(loaded=("t",), available=("t",)), "s", known=True) == ""


def test_a_skill_that_the_agent_does_not_have_cannot_be_loaded() -> None:
    assert "does not list s" in load_fault(Transcript(available=("t",)), "s")
    assert load_fault(Transcript(available=("s",)), "s") == load_fault(Transcript(), "s") == ""


def test_a_skill_that_was_never_loaded_is_remarked_with_the_reason() -> None:
    assert load_note(Transcript(loaded=("s",)), "s") == ""
    assert "a permission" in load_note(Transcript(denied=("*",)), "s")
    assert "tool failed (no rg)" in load_note(Transcript(failed={"s": "no rg"}), "s")
    assert load_note(Transcript(loaded=("t",)), "s") == "s was never loaded: this run measures nothing of it"
