"""What the sets of other tools become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skills_core.evals.grading.cases import read_eval_cases
from skills_core.evals.importing.formats import import_from
from skills_core.evals.importing.found import Found
from skills_core.evals.importing.sources import ForeignFileError
from skills_core.evals.importing.writing import EvalsExistError, files_of, write_imported
from tests.core.evals.importing import sets
from tests.core.evals.importing.sets import write

CHECK = 'python3 "$EVALS/check_output.py" '


def commands(found: Found, number: int = 0) -> list[str]:
    """Return the commands of a case, without what they begin with."""
    checked = [each["check"] for each in found.cases[number].assertions if isinstance(each, dict)]
    assert all(each.startswith(CHECK) for each in checked)
    return [each.removeprefix(CHECK) for each in checked]


def judged(found: Found, number: int = 0) -> list[str]:
    return [each for each in found.cases[number].assertions if isinstance(each, str)]


def queries(found: Found) -> list[tuple[str, bool, str | None]]:
    return [(each["query"], each["should_trigger"], each.get("expected_skill")) for each in found.queries.values()]


def written(found: Found) -> dict[str, Any]:
    """Return the JSON files of an import, read back."""
    contents = files_of(found).contents
    return {name: json.loads(raw) for name, raw in contents.items() if name.endswith(".json") and name.count("/") == 1}


def test_promptfoo(tmp_path: Path) -> None:
    root = write(tmp_path, promptfooconfig_dot_yaml=sets.PROMPTFOO, tests__more_dot_yaml=sets.PROMPTFOO_MORE)
    found = import_from(root, "weather")
    assert found.form == "promptfoo"
    assert [(case.name, case.prompt) for case in found.cases] == [
        ("Names the town", "Report on Oslo. Answer in English."),
        ("Each town", "Report on Rome. Answer in English."),
        ("Each town", "Report on Bern. Answer in English."),
    ]
    assert commands(found) == [
        "contains Oslo",
        "not icontains sorry",
        r"matches '(?P<deg>\d+) degrees'",
        """equals-json '{"town": "Oslo"}'""",
        "is-json",
        "contains-any rain sun",
    ]
    assert judged(found) == ["The report is polite"]
    assert found.cases[0].absent == ["The report guesses"]
    assert queries(found) == [
        ("Report on Oslo. Answer in English.", True, None),
        ("Paint a house. Answer in English.", False, None),
        ("Book a flight. Answer in English.", False, "travel"),
    ]
    lost = "\n".join(found.lost())
    for kind in ("cost", "javascript, which is code and is never run", "python, which is code and is never run"):
        assert f"assertions of type {kind}: " in lost
    assert any("weights" in each for each in found.remarks)


@pytest.mark.parametrize(
    ("prompt", "taken"),
    [
        ("{% for x in y %}{{x}}{% endfor %}", "Report."),
        ("file://prompt.js", "Report."),
        ("{{a.b}}", "deep"),
        ('[{"role": "system", "content": "Obey"}, {"role": "user", "content": "{{request}}"}]', "Report."),
        ("file://p.txt", "From a file: Report."),
    ],
)
def test_prompts_of_promptfoo(tmp_path: Path, prompt: str, taken: str) -> None:
    test = {"vars": {"request": "Report.", "a": {"b": "deep"}}, "assert": [{"type": "contains", "value": "x"}]}
    config = json.dumps({"prompts": [prompt], "providers": ["echo"], "tests": [test]})
    root = write(tmp_path, promptfooconfig_dot_json=config, p_dot_txt="From a file: {{request}}")
    assert [case.prompt for case in import_from(root, "weather").cases] == [taken]


def test_waza(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        eval_dot_yaml=sets.WAZA,
        tasks__a_dot_yaml=sets.WAZA_TASK,
        tasks__b_dot_yaml=sets.WAZA_OFF,
        fixtures__town_dot_txt="Oslo",
        trigger_tests_dot_yaml=sets.WAZA_TRIGGERS,
    )
    found = import_from(root, "weather")
    assert found.form == "waza"
    (case,) = found.cases
    assert (case.name, case.files) == ("Report on Oslo", {"town.txt": b"Oslo", "notes/today.md": b"Rain."})
    assert commands(found) == [
        "icontains Oslo",
        "icontains-any rain sun",
        "not matches '(?i)fatal error'",
        "exists report.md",
        "not exists scratch.txt",
        "file-matches report.md '(?i)oslo'",
        "not file-matches report.md TODO",
    ]
    assert judged(found) == ["The report is short"]
    assert queries(found) == [
        ("Report on the town in town.txt.", True, None),
        ("Will it rain?", True, None),
        ("Paint a house.", False, None),
    ]
    lost = "\n".join(found.lost())
    for what in ("graders of type code", "`expected.behavior`", "not enabled", "confidence (1)"):
        assert what in lost


def test_scenarios_of_dotnet(tmp_path: Path) -> None:
    root = write(tmp_path, tests__eval_dot_yaml=sets.DOTNET, tests__fixtures__rain_dot_csv="1")
    found = import_from(root, "weather")
    assert found.form == "dotnet/skills"
    assert found.cases[0].files == {"data/town.txt": b"Oslo", "data/rain.csv": b"1"}
    assert commands(found) == [
        "icontains oslo",
        """not imatches 'I (can not|can'"'"'t)'""",
        "exists '**/*.md'",
        "not file-contains report.md TODO",
    ]
    assert judged(found) == ["The report names its source"]
    assert judged(found, 1) == ["Nothing is said about the weather"]
    assert queries(found) == [("Write report.md about Oslo.", True, None), ("Paint a house.", False, None)]
    assert "assertions of type run-command: scenarios[1]" in list(found.lost())


def test_stimuli_of_dotnet(tmp_path: Path) -> None:
    root = write(tmp_path, eval_dot_yaml=sets.DOTNET_STIMULI, RULES_dot_md="Be short.", fixtures__a__b_dot_txt="1")
    found = import_from(root, "weather")
    assert [case.files for case in found.cases] == [
        {"RULES.md": b"Be short.", "inputs/a/b.txt": b"1"},
        {"RULES.md": b"Be short."},
    ]
    assert commands(found) == ["icontains Oslo", r"imatches '\d+ degrees'"]
    assert commands(found, 1) == ["exists report.md"]
    assert list(found.lost()) == ["assertions of type run-command: stimuli[0]"]


def test_all_files_beside_a_scenario_may_be_its_input(tmp_path: Path) -> None:
    scenario = {"name": "x", "prompt": "Build.", "setup": {"copy_test_files": True}, "rubric": ["It builds"]}
    root = write(tmp_path, eval_dot_yaml=json.dumps({"scenarios": [scenario]}), src__main_dot_cs="1", readme="2")
    assert import_from(root, "weather").cases[0].files == {"readme": b"2", "src/main.cs": b"1"}


def test_skilljack(tmp_path: Path) -> None:
    found = import_from(write(tmp_path, tasks_dot_yaml=sets.SKILLJACK) / "tasks.yaml", "weather")
    assert found.form == "skilljack"
    assert [case.name for case in found.cases] == ["we-001", "we-fp-001"]
    assert (commands(found), judged(found), judged(found, 1)) == (
        ["contains FORECAST"],
        ["A chance of rain is named"],
        ["It helps"],
    )
    assert queries(found) == [("Will it rain?", True, None), ("What is a barometer?", False, None)]


def test_tasks_of_skilljack_in_folders(tmp_path: Path) -> None:
    root = write(tmp_path, evals__one__task_dot_md=sets.SKILLJACK_TASK, evals__one__verifier__run_dot_js="exit()")
    found = import_from(root, "weather")
    assert (found.form, found.cases[0].name, found.cases[0].prompt) == ("skilljack", "one", "Will it rain?")
    assert commands(found) == ["contains FORECAST", "not contains ERROR"]
    assert queries(found) == [("Will it rain?", True, None)]
    assert "verifiers, which are code and are never run" in "\n".join(found.lost())


def test_tessl(tmp_path: Path) -> None:
    files = {"evals__oslo__task_dot_md": sets.TESSL_TASK, "evals__oslo__criteria_dot_json": sets.TESSL_CRITERIA}
    root = write(tmp_path, **files, evals__oslo__inputs__rain_dot_csv="1")
    found = import_from(root, "weather")
    (case,) = found.cases
    assert (found.form, case.name, case.prompt) == ("tessl", "oslo", sets.TESSL_TASK.strip())
    assert (case.assertions, case.absent) == (["The report names the town"], ["The report guesses"])
    assert case.files == {"inputs/rain.csv": b"1"}
    for name in ("task.md", "criteria.json"):
        (one,) = import_from(root / "evals/oslo" / name, "weather").cases
        assert (one.prompt, one.assertions, one.files) == (case.prompt, case.assertions, case.files)


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    root = write(tmp_path, tests__eval_dot_yaml=sets.DOTNET, tests__fixtures__rain_dot_csv="1")
    found = import_from(root, "weather")
    document = written(found)["evals/evals.json"]
    read = read_eval_cases(json.dumps(document).encode(), "evals.json")
    assert read.notes == ()
    assert [case.slug for case in read.cases] == ["report-on-a-town", "another-task"]
    assert read.cases[0].files == (
        "evals/files/report-on-a-town/data/town.txt",
        "evals/files/report-on-a-town/data/rain.csv",
    )
    assert files_of(found).contents["evals/files/report-on-a-town/data/town.txt"] == b"Oslo"
    assert "evals/check_output.py" in files_of(found).contents
    assert [each["should_trigger"] for each in written(found)["evals/eval_queries.json"]] == [True, False]


def test_evals_of_the_skill_are_not_replaced_unasked(tmp_path: Path) -> None:
    found = import_from(write(tmp_path / "set", tasks_dot_yaml=sets.SKILLJACK), "weather")
    skill = write(tmp_path / "weather", evals__eval_queries_dot_json="mine")
    with pytest.raises(EvalsExistError, match=r"eval_queries.json: the file exists .* --force"):
        write_imported(skill, files_of(found), replaces=False)
    assert sorted(each.name for each in (skill / "evals").iterdir()) == ["eval_queries.json"]
    write_imported(skill, files_of(found), replaces=True)
    assert (skill / "evals/eval_queries.json").read_bytes() != b"mine"


def test_the_same_text_twice_does_not_spoil_the_set(tmp_path: Path) -> None:
    long = "x" * 300
    config = {
        "prompts": ["Report."],
        "providers": [],
        "tests": [{"assert": [{"type": "contains", "value": f"{long}{end}{long}"} for end in "ab"]}],
    }
    found = import_from(write(tmp_path, promptfooconfig_dot_json=json.dumps(config)), "weather")
    (case,) = written(found)["evals/evals.json"]["evals"]
    assert len({each["text"] for each in case["assertions"]}) == 2


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"readme": "x"}, "no file of promptfoo, waza"),
        ({"eval_dot_yaml": "a: 1"}, "none of the forms"),
        ({"eval_dot_yaml": "- a\n- b"}, "without prompts"),
        ({"eval_dot_yaml": "a: [1"}, "not YAML"),
        ({"promptfooconfig_dot_json": "{"}, "not JSON"),
        ({"promptfooconfig_dot_json": "[" * 100_000}, "not JSON"),
        ({"eval_dot_yaml": b"\xff"}, "not UTF-8"),
        ({"eval_dot_yaml": "a: " + "x" * 300_000}, "longer than"),
        ({"x__task_dot_md": "x", "x__criteria_dot_json": "{}"}, "expected a `checklist`"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path: Path, files: dict[str, str | bytes], says: str) -> None:
    with pytest.raises(ForeignFileError, match=says):
        import_from(write(tmp_path, **files), "weather")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("prompts: ['{{q}}']\n" + "\n" * 100_000 + "tests: [{vars: {q: a}}]", "no assertion"),
        ("\n" * 100_000 + "x: 1", "none of the forms"),
        (" \n# x\n" * 20_000 + "x: 1", "none of the forms"),
        (
            (
                "prompts: ['{{q}}']\n"
                "assertionTemplates: {a: {type: assert-set, assert: [{$ref: '#/a'}, {$ref: '#/a'}]}}\n"
                "tests: [{vars: {q: a}, assert: [{$ref: '#/a'}]}]"
            ),
            "deeper",
        ),
        ("prompts: [" + "'{{q}}'," * 2000 + "]\ntests:\n" + " - vars: {q: a}\n" * 2000, "after 100,000"),
    ],
    ids=["lines in a file", "lines before a mapping", "comments", "a template of itself", "each test with each prompt"],
)
def test_a_short_file_does_not_take_long(tmp_path: Path, content: str, says: str) -> None:
    root = write(tmp_path, promptfooconfig_dot_yaml=content) if "prompts" in content else tmp_path / "eval.yaml"
    if root.suffix:
        root.write_text(content, encoding="utf-8")
    try:
        lost = "\n".join(import_from(root, "weather").lost())
    except ForeignFileError as error:
        lost = str(error)
    assert says in lost


def test_files_that_cannot_lie_side_by_side_are_not_written(tmp_path: Path) -> None:
    task = {"inputs": {"prompt": "Go", "files": [{"path": "a", "content": ""}, {"path": "a/b", "content": ""}]}}
    root = write(tmp_path, eval_dot_yaml=json.dumps({"tasks": [{**task, "expected": "Done"}]}))
    found = import_from(root, "weather")
    assert not found.cases
    assert "input files that are folders too" in "\n".join(found.lost())


def test_nothing_is_read_outside_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    root = write(tmp_path / "set", here__x="1")
    (root / "linked.txt").symlink_to(tmp_path / "secret.txt")
    files = [{"path": name} for name in ("../secret.txt", str(tmp_path / "secret.txt"), "linked.txt")]
    rubric = [{"type": "prompt", "rubric": "x"}]
    tasks = [{"id": each["path"], "inputs": {"prompt": "p", "files": [each]}, "graders": rubric} for each in files]
    targets = [{"path": "../../out.txt", "content": "x"}, {"path": "/out.txt", "content": "x"}]
    tasks += [{"id": each["path"], "inputs": {"prompt": "p", "files": [each]}, "graders": rubric} for each in targets]
    found = import_from(write(root, eval_dot_yaml=json.dumps({"skill": "weather", "tasks": tasks})), "weather")
    assert found.cases == []
    assert "secret" not in json.dumps([case.prompt for case in found.cases])
    assert "cases with input files that cannot be carried over: eval.yaml: tasks[0] and 4 more" in list(found.lost())
    config = {"prompts": ["{{a}}"], "tests": [{"vars": {"a": "file://../secret.txt"}, "assert": rubric}]}
    (root / "eval.yaml").unlink()
    found = import_from(write(root, promptfooconfig_dot_json=json.dumps(config)), "weather")
    assert found.is_empty
