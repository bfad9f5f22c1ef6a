"""Read the sets of skilljack-evals: `tasks.yaml`, and folders with a `task.md`.

The forms are those of `src/parser.ts` and of `evals/example-greeting` in olaservo/skilljack-evals, the second one of
its later versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from skills_core.evals.importing.checks import NotCarriedError, check_of
from skills_core.evals.importing.found import ForeignCase, Found
from skills_core.evals.importing.sources import mapping, mappings, parsed, text, texts
from skills_core.format.document import Fences, find_fences

if TYPE_CHECKING:
    from skills_core.evals.importing.sources import Sources

NAMES: Final = ("tasks.yaml", "tasks.yml")
TASK_KEYS: Final = frozenset({"golden_checklist", "deterministic", "criteria", "expected_skill_load"})

_NONE: Final = "none"


def read(sources: Sources, path: str, found: Found) -> None:
    """Add the tasks of a file."""
    document = sources.document(path)
    defaults = mapping(document.get("defaults"))
    for number, task in mappings(document.get("tasks")):
        place = f"tasks[{number}]"
        case = ForeignCase(place, text(task.get("prompt")), text(task.get("id")))
        fixed = mapping(task.get("deterministic"))
        if marker := text(fixed.get("expect_marker")):
            # It may be a pattern there; as text it means the same to those who wrote one.
            _check(case, "contains", [marker], found)
        for name in ("expect_tool_calls", "expect_no_tool_calls"):
            if fixed.get(name):
                found.lose("limits on tools, turns and tokens (`deterministic`)", place)
        if task.get("fixture"):
            found.lose("scripts that prepare the workspace (`fixture`); they are never run", place)
        checklist = texts(task.get("golden_checklist"))
        for statement in checklist:
            case.judged(statement)
        criteria = {**mapping(defaults.get("criteria")), **mapping(task.get("criteria"))}
        for name, each in criteria.items():
            # Which skill was loaded is a matter of queries.
            if name != "discovery" and not checklist:
                case.judged(text(mapping(each).get("description")))
        wanted = text(task.get("expected_skill_load")) or text(defaults.get("expected_skill_load"))
        _activation(found, case, wanted, fixed.get("expect_skill_activation"))
        found.add(case)


def read_task(sources: Sources, path: str, found: Found) -> None:
    """Add the task in a `task.md`: fields between the fences, then the prompt."""
    content = sources.text(path).replace("\r\n", "\n")
    fields, prompt = _parts(content, path)
    folder = path.rpartition("/")[0]
    case = ForeignCase(path, prompt.strip(), folder.rpartition("/")[2])
    checks = mapping(fields.get("checks"))
    for name, denied in (("marker", False), ("contains", False), ("not_contains", True)):
        for each in texts(checks.get(name)):
            _check(case, "contains", [each], found, denied=denied)
    for name in checks:
        if name not in {"marker", "contains", "not_contains"}:
            found.lose(f"checks of type {str(name)[:60]}", path)
    for statement in texts(fields.get("assertions")):
        case.judged(statement)
    if "verifier" in sources.names(folder)[1]:
        found.lose("verifiers, which are code and are never run", path)
    _activation(found, case, text(fields.get("expected_skill")), fields.get("expect_skill_invocation"))
    found.add(case)


def _parts(content: str, path: str) -> tuple[Mapping[str, Any], str]:
    fences = find_fences(content)
    if not isinstance(fences, Fences):
        return {}, content
    return parsed(content[fences.start : fences.end], path), content[fences.body :]


def _activation(found: Found, case: ForeignCase, wanted: str, activates: object) -> None:
    """Add a query if the task says which skill it is for, or that none is."""
    if activates is False or wanted == _NONE:
        found.query(case.prompt, case.place, should_trigger=False)
    elif wanted and wanted != found.skill:
        found.query(case.prompt, case.place, should_trigger=False, instead=wanted)
    elif wanted or activates is True:
        found.query(case.prompt, case.place, should_trigger=True)


def _check(case: ForeignCase, condition: str, values: list[str], found: Found, *, denied: bool = False) -> None:
    try:
        case.checked(check_of(condition, values, denied=denied))
    except NotCarriedError as error:
        found.lose(str(error), case.place)
