"""Read waza's `eval.yaml`, its tasks, and `trigger_tests.yaml`.

The form is that of the schemas in `schemas/` of microsoft/waza (`eval.schema.json`, `task.schema.json`) and of its
examples. Graders that are code or programs, or count tool calls, are not carried over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from skills_core.evals.importing.checks import NotCarriedError, check_of
from skills_core.evals.importing.found import ForeignCase, Found
from skills_core.evals.importing.sources import ForeignFileError, is_inside, joined, mapping, mappings, text, texts
from skills_core.evals.triggers.queries import QueryFileError, read_queries

if TYPE_CHECKING:
    from skills_core.evals.importing.sources import Sources

NAMES: Final = ("eval.yaml", "eval.yml")
TRIGGER_NAMES: Final = ("trigger_tests.yaml", "trigger_tests.yml", "trigger-tests.yaml")
TRIGGER_KEYS: Final = frozenset({"should_trigger_prompts", "should_not_trigger_prompts"})

_OUTPUT: Final[Mapping[str, tuple[str, bool]]] = {
    "contains": ("icontains", False),
    "not_contains": ("icontains", True),
    "must_contain": ("icontains", False),
    "must_not_contain": ("icontains", True),
    "keywords": ("icontains", False),
    "contains_cs": ("contains", False),
    "not_contains_cs": ("contains", True),
    "regex_match": ("matches", False),
    "regex_not_match": ("matches", True),
    "must_match": ("matches", False),
    "must_not_match": ("matches", True),
}
"""The fields of graders of texts, the condition of each of their entries, and whether it is denied."""

_TEXT_GRADERS: Final = frozenset({"text", "regex", "keyword"})
_CODE_GRADERS: Final = frozenset({"code", "program", "script"})
_FIXTURES: Final = "fixtures"


def read(sources: Sources, path: str, found: Found) -> None:
    """Add the tasks of a suite, and of the files that it names."""
    document = sources.document(path)
    base = path.rpartition("/")[0]
    shared = [*_graders(document)]
    if document.get("tasks_from"):
        found.lose("tasks of a table (`tasks_from`)", path)
    for name in ("hooks", "mcp_mocks"):
        if document.get(name):
            found.lose(f"`{name}` of the suite", path)
    tasks = document.get("tasks")
    for number, each in enumerate(tasks if isinstance(tasks, list) else []):
        if isinstance(each, Mapping):
            _task(sources, base, f"{path}: tasks[{number}]", each, shared, found)
            continue
        for place in sources.matching(text(each), base):
            try:
                task = sources.document(place)
            except ForeignFileError as error:
                found.lose(f"tasks that cannot be read ({error})", path)
            else:
                _task(sources, base, place, task, shared, found)


def read_task(sources: Sources, path: str, found: Found) -> None:
    """Add a task that stands alone."""
    _task(sources, path.rpartition("/")[0], path, sources.document(path), [], found)


def read_triggers(sources: Sources, path: str, found: Found) -> None:
    """Add the queries of `trigger_tests.yaml`.

    Raises:
        ForeignFileError: it cannot be read.
    """
    try:
        queries = read_queries(sources.read(path), path, lambda line: found.lose(line.removeprefix(f"{path}: "), path))
    except QueryFileError as error:
        raise ForeignFileError(str(error)) from None
    for query in queries:
        found.query(
            query.text, f"{path}: query {query.id}", should_trigger=query.should_trigger, instead=query.expected_skill
        )


def _graders(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in ("graders", "validators"):
        yield from (each for _, each in mappings(document.get(name)))


def _task(
    sources: Sources,
    base: str,
    place: str,
    task: Mapping[str, Any],
    shared: list[Mapping[str, Any]],
    found: Found,
) -> None:
    if task.get("enabled") is False:
        found.lose("tasks that are not enabled", place)
        return
    inputs = mapping(task.get("inputs"))
    prompt = text(inputs.get("prompt")) or text(task.get("prompt"))
    case = ForeignCase(place, prompt, text(task.get("name")) or text(task.get("id")))
    if "{{" in prompt:
        found.lose("tasks whose prompt is a template", place)
        return
    for name in ("environment", "context"):
        if inputs.get(name):
            found.lose(f"`inputs.{name}` of tasks", place)
    expected = mapping(task.get("expected"))
    if isinstance(task.get("expected"), str):
        case.expected = text(task.get("expected"))
    _expected(case, expected, found)
    for grader in [*shared, *_graders(task)]:
        _grade(case, grader, found)
    if _files(sources, base, task, inputs, case, found):
        found.add(case)
    else:
        found.lose("cases with input files that cannot be carried over", place)


def _expected(case: ForeignCase, expected: Mapping[str, Any], found: Found) -> None:
    for name, denied in (("output_contains", False), ("output_not_contains", True)):
        for each in texts(expected.get(name)):
            _check(case, "icontains", [each], found, denied=denied)
    if any_of := texts(expected.get("output_contains_any")):
        _check(case, "icontains-any", any_of, found)
    if isinstance(expected.get("should_trigger"), bool):
        found.query(case.prompt, case.place, should_trigger=expected["should_trigger"])
    for name in ("tool_calls", "behavior"):
        if expected.get(name):
            found.lose(f"limits on tools, turns and tokens (`expected.{name}`)", case.place)
    # That the task is done says nothing that could be graded.
    if any(each.get("type") != "task_completed" for _, each in mappings(expected.get("outcomes"))):
        found.lose("`expected.outcomes`", case.place)


def _check(case: ForeignCase, condition: str, values: list[str], found: Found, *, denied: bool = False) -> None:
    try:
        case.checked(check_of(condition, values, denied=denied))
    except NotCarriedError as error:
        found.lose(str(error), case.place)


def _grade(case: ForeignCase, grader: Mapping[str, Any], found: Found) -> None:
    kind, config = text(grader.get("type")), mapping(grader.get("config"))
    if grader.get("weight") is not None:
        found.remark("each assertion counts the same: weights and thresholds are left out")
    if kind in _TEXT_GRADERS:
        for name, (condition, denied) in _OUTPUT.items():
            for each in texts(config.get(name)):
                _check(case, condition, [each], found, denied=denied)
    elif kind == "file":
        _grade_files(case, config, found)
    elif kind == "prompt" and text(config.get("mode")) != "pairwise":
        rubric = text(grader.get("rubric")) or text(config.get("prompt")) or text(config.get("rubric"))
        if rubric:
            case.judged(rubric)
        else:
            found.lose("graders of type prompt without a text", case.place)
    elif kind == "skill_invocation":
        required = texts(config.get("required_skills"))
        found.query(
            case.prompt,
            case.place,
            should_trigger=found.skill in required,
            instead=None if found.skill in required or not required else required[0],
        )
    else:
        why = ", which is code and is never run" if kind in _CODE_GRADERS else ""
        found.lose(f"graders of type {kind[:60] or 'unknown'}{why}", case.place)


def _grade_files(case: ForeignCase, config: Mapping[str, Any], found: Found) -> None:
    found.remark(
        "assertions about files look into outputs/, where agents are told to write; not at files edited in place"
    )
    for name, denied in (("must_exist", False), ("must_not_exist", True)):
        for each in texts(config.get(name)):
            _check(case, "exists", [each], found, denied=denied)
    for _, patterns in mappings(config.get("content_patterns")):
        for name, denied in (("must_match", False), ("must_not_match", True)):
            for pattern in texts(patterns.get(name)):
                _check(case, "file-matches", [text(patterns.get("path")), pattern], found, denied=denied)


def _files(
    sources: Sources,
    base: str,
    task: Mapping[str, Any],
    inputs: Mapping[str, Any],
    case: ForeignCase,
    found: Found,
) -> bool:
    """Add the input files, which lie in the folder of fixtures or beside the suite; False if one is missing."""
    folders = [joined(base, text(task.get("context_dir")) or _FIXTURES), base]
    complete = True
    for _, file in mappings(inputs.get("files")):
        path = text(file.get("path"))
        raw: bytes | None
        if isinstance(file.get("content"), str):
            raw = sources.keep(found, file["content"].encode("utf-8", "replace"), case.place)
        else:
            place = next(filter(None, (sources.nearest(path, folder) for folder in folders)), None)
            if place is None:
                found.lose(f"input files that are not below the folder, such as {path[:100]}", case.place)
            raw = None if place is None else sources.input_file(found, place, case.place)
        if raw is None or not is_inside(path):
            complete = False
        else:
            case.files[joined("", path)] = raw
    return complete
