"""Read the `eval.yaml` of dotnet/skills: `scenarios` of its skill-validator, and the later `stimuli` of vally.

The forms are those of `eng/skill-validator` (`EvalSchema`, `AssertionEvaluator`) and of the files in `tests`. Texts are
compared there without regard to case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from skills_core.evals.importing.checks import NotCarriedError, check_of
from skills_core.evals.importing.found import ForeignCase, Found
from skills_core.evals.importing.sources import is_inside, joined, mapping, mappings, text, texts

if TYPE_CHECKING:
    from skills_core.evals.importing.sources import Sources

NAMES: Final = ("eval.yaml", "eval.yml", "eval.vally.yaml")
KEYS: Final = frozenset({"scenarios", "stimuli"})

_CONDITIONS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "file-exists": ("exists", ("path",)),
    "file-contains": ("file-contains", ("path", "value")),
    "file-matches": ("file-matches", ("path", "pattern")),
    "output-contains": ("icontains", ("value",)),
    "output-matches": ("imatches", ("pattern",)),
}
"""The conditions, with the fields of their values; `not` before the verb denies one."""

_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {"value": ("value", "substring", "text"), "pattern": ("pattern",)}
_WITHOUT_VALUE: Final = frozenset({"exit-success", "prompt"})
# Every run that counts has succeeded; `prompt` is the judge of the rubric.

_LIMITS: Final = ("expect_tools", "reject_tools", "max_turns", "max_tokens", "constraints")


def read(sources: Sources, path: str, found: Found) -> None:
    """Add the scenarios of a file."""
    document = sources.document(path)
    base = path.rpartition("/")[0]
    for name in KEYS:
        for number, scenario in mappings(document.get(name)):
            _scenario(sources, base, path, f"{name}[{number}]", scenario, found)


def _scenario(sources: Sources, base: str, path: str, place: str, scenario: Mapping[str, Any], found: Found) -> None:
    case = ForeignCase(place, text(scenario.get("prompt")), text(scenario.get("name")))
    for each in [*_listed(scenario.get("assertions")), *_listed(scenario.get("graders"))]:
        try:
            _assert(case, each, found)
        except NotCarriedError as error:
            found.lose(str(error), place)
    for statement in texts(scenario.get("rubric")):
        case.judged(statement)
    for limit in _LIMITS:
        if scenario.get(limit):
            found.lose(f"limits on tools, turns and tokens (`{limit}`)", place)
    setup = mapping(scenario.get("setup")) or mapping(scenario.get("environment"))
    if setup.get("commands"):
        found.lose("commands that prepare the workspace; they are never run", place)
    if _files(sources, base, path, setup, case, found):
        found.add(case)
    else:
        found.lose("cases with input files that cannot be carried over", place)
    activates = scenario.get("expect_activation", True) is not False
    found.query(case.prompt, place, should_trigger=activates)


def _listed(value: object) -> Iterator[Mapping[str, Any]]:
    return (each for _, each in mappings(value))


def _assert(case: ForeignCase, one: Mapping[str, Any], found: Found) -> None:
    full = text(one.get("type")).replace("_", "-")
    kind, denied = full.replace("-not-", "-"), "-not-" in full
    if kind in _WITHOUT_VALUE:
        return
    if kind not in _CONDITIONS:
        raise NotCarriedError(f"assertions of type {full[:60] or 'unknown'}")
    condition, fields = _CONDITIONS[kind]
    given = {**one, **mapping(one.get("config"))}
    values = [
        next((given[name] for name in _OTHER_NAMES.get(field, (field,)) if name in given), None) for field in fields
    ]
    if condition.startswith(("file-", "exists")):
        found.remark(
            "assertions about files look into outputs/, where agents are told to write; not at files edited in place"
        )
    case.checked(check_of(condition, values, denied=denied))


def _files(sources: Sources, base: str, path: str, setup: Mapping[str, Any], case: ForeignCase, found: Found) -> bool:
    """Add the input files; False if one of them is missing."""
    complete = True
    if setup.get("copy_test_files"):
        # All that lies beside the file is copied there.
        for each in sources.below(base):
            if each != path and not each.endswith(NAMES):
                complete &= _keep(case, each.removeprefix(f"{base}/"), sources.input_file(found, each, case.place))
    for _, file in mappings(setup.get("files")):
        target = text(file.get("path")) or text(file.get("dest")) or text(file.get("src")).rpartition("/")[2]
        content = file.get("content")
        if isinstance(content, str):
            complete &= _keep(case, target, sources.keep(found, content.encode("utf-8", "replace"), case.place))
            continue
        source = text(file.get("source")) or text(file.get("src"))
        place = sources.nearest(source, base) if source else None
        inside = sources.below(place) if place else []
        if place and not inside:
            complete &= _keep(case, target, sources.input_file(found, place, case.place))
        for each in inside:
            inner = joined(target, each.removeprefix(f"{place}/"))
            complete &= _keep(case, inner, sources.input_file(found, each, case.place))
        if place is None:
            found.lose(f"input files that are not below the folder, such as {source[:100]}", case.place)
            complete = False
    return complete


def _keep(case: ForeignCase, target: str, raw: bytes | None) -> bool:
    if raw is None or not is_inside(target):
        return False
    case.files[joined("", target)] = raw
    return True
