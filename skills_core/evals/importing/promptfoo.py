"""Read promptfoo's `promptfooconfig.yaml`: prompts with variables, tests, and their assertions.

The form is that of promptfoo's documentation, "Test cases", "Deterministic metrics" and "Test agent skills". Assertions
that are code, or measure cost, time or traces, are not carried over.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from skills_core.evals.importing.checks import NotCarriedError, check_of
from skills_core.evals.importing.found import MAX_CASES, ForeignCase, Found
from skills_core.evals.importing.sources import ForeignFileError, joined, mapping, mappings, text

if TYPE_CHECKING:
    from skills_core.evals.importing.sources import Sources

NAMES: Final = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")
KEYS: Final = frozenset({"prompts", "providers", "targets", "defaultTest"})

_CONDITIONS: Final = {
    **{name: name for name in ("contains", "icontains", "contains-all", "icontains-all")},
    **{name: name for name in ("contains-any", "icontains-any", "equals", "starts-with", "is-json")},
    "regex": "matches",
}
_JUDGED: Final = {
    "llm-rubric": "{}",
    "g-eval": "{}",
    "model-graded-closedqa": "{}",
    "factuality": "The facts agree with: {}",
    "model-graded-factuality": "The facts agree with: {}",
}
_SKILL_USED: Final = "skill-used"
_CODE: Final = frozenset({"javascript", "python", "ruby", "webhook"})

_DEFAULT_PROMPT: Final = "{{prompt}}"

_ASKED: Final = ("prompt", "request", "message", "query", "question", "task", "input", "user_input")
"""The variables in which tests usually have what the user says, for prompts that cannot be read."""

_MAX_STEPS: Final = 100_000
_MAX_DEPTH: Final = 8
# Of the prompts and assertions that are tried, and of assertions in sets: a short file can stand for any number.

_FILE: Final = "file://"
_VARIABLE: Final = re.compile(r"\{\{-?\s*([A-Za-z_][\w.]*)\s*(?:\|\s*(?:safe|trim)\s*)?-?\}\}")
_TEMPLATE: Final = re.compile(r"\{[{%#]")


def read(sources: Sources, path: str, found: Found) -> None:
    """Add what a configuration has."""
    document = sources.document(path)
    base = path.rpartition("/")[0]
    prompts = list(_prompts(document.get("prompts"), sources, base, found)) or [_DEFAULT_PROMPT]
    shared = mapping(document.get("defaultTest"))
    templates = mapping(document.get("assertionTemplates"))
    steps = iter(range(_MAX_STEPS))
    for name in ("scenarios", "redteam", "derivedMetrics"):
        if document.get(name):
            found.lose(f"`{name}` of the configuration", path)
    for place, test in _tests(document.get("tests"), sources, base, found, "tests"):
        several = len(prompts) > 1
        for number, prompt in enumerate(prompts):
            where = f"{place} with prompt {number + 1}" if several else place
            _Test(sources, base, found, templates, steps).add(prompt, shared, test, where)
            if next(steps, None) is None:
                found.lose(f"tests and assertions after {_MAX_STEPS:,}", where)
                return


def _prompts(value: object, sources: Sources, base: str, found: Found) -> Iterator[str]:
    listed = value if isinstance(value, list) else [] if value is None else [value]
    for number, each in enumerate(listed):
        place = f"prompts[{number}]"
        one = each.get("raw") or each.get("id") if isinstance(each, dict) else each
        if not isinstance(one, str):
            found.lose("prompts that are not a text", place)
        elif not one.startswith(_FILE):
            yield _of_chat(one, place, found)
        elif re.search(r"\.(?:[cm]?[jt]s|py|rb|csv)(?::|$)", one):
            found.lose("prompts that are code or tables", place)
        else:
            for path in sources.matching(one.removeprefix(_FILE), base):
                try:
                    content = sources.text(path)
                except ForeignFileError as error:
                    found.lose(f"prompts that cannot be read ({error})", place)
                    continue
                yield from (
                    _of_chat(part, place, found) for part in re.split(r"(?m)^---[ \t]*$", content) if part.strip()
                )


def _of_chat(prompt: str, place: str, found: Found) -> str:
    """Return what the user says in a prompt that is a list of messages; any other one as it is."""
    if not prompt.lstrip().startswith("["):
        return prompt
    try:
        messages = json.loads(prompt)
    except (ValueError, RecursionError):
        return prompt
    said = [text(each.get("content")) for _, each in mappings(messages) if each.get("role") == "user"]
    if len(said) < len(messages):
        found.lose("messages of prompts that the user does not say", place)
    return "\n\n".join(filter(None, said)) or prompt


def _tests(
    value: object, sources: Sources, base: str, found: Found, place: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tests with their places, those in other files too."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    for number, each in enumerate(listed):
        where = f"{place}[{number}]"
        if isinstance(each, dict) and "path" not in each:
            yield where, each
            continue
        named = text(each.get("path")) if isinstance(each, dict) else text(each)
        pattern = named.removeprefix(_FILE)
        if not re.search(r"\.(?:ya?ml|json)$", pattern) or named.startswith("http"):
            found.lose("tests that are code, tables or elsewhere", where)
            continue
        for path in sources.matching(pattern, base):
            try:
                document = sources.document(path)
            except ForeignFileError as error:
                found.lose(f"tests that cannot be read ({error})", where)
                continue
            inner = document.get("entries", document.get("tests"))
            entries = inner if isinstance(inner, list) else [document]
            yield from ((f"{path}[{place_in}]", test) for place_in, test in mappings(entries))


class _Test:
    """Adds one test with one prompt."""

    def __init__(
        self, sources: Sources, base: str, found: Found, templates: Mapping[str, Any], steps: Iterator[int]
    ) -> None:
        self._sources = sources
        self._base = base
        self._found = found
        self._templates = templates
        self._steps = steps

    def add(self, prompt: str, shared: Mapping[str, Any], test: Mapping[str, Any], place: str) -> None:
        """Add the cases and queries of a test; `shared` is what all tests have."""
        values = {**mapping(shared.get("vars")), **mapping(test.get("vars"))}
        asserted = [*_listed(shared.get("assert")), *_listed(test.get("assert"))]
        for name in ("options", "provider", "threshold", "assertScoringFunction"):
            if test.get(name):
                self._found.lose(f"`{name}` of tests", place)
        name = text(test.get("description"))
        for number, chosen in enumerate(itertools.islice(_combinations(prompt, values), MAX_CASES)):
            if next(self._steps, None) is None:
                return
            rendered = self._prompt(prompt, chosen, place)
            if rendered is None:
                continue
            case = ForeignCase(f"{place} ({number + 1})" if number else place, rendered, name)
            self._assert(case, asserted, chosen)
            if case.assertions or case.absent or not self._says_when(asserted):
                self._found.add(case)

    def _says_when(self, asserted: Sequence[Mapping[str, Any]]) -> bool:
        return any(text(each.get("type")).removeprefix("not-") == _SKILL_USED for each in asserted)

    def _prompt(self, prompt: str, values: Mapping[str, Any], place: str) -> str | None:
        """Return the prompt of a test, or what the user says in it if the whole cannot be read."""
        asked = next((name for name in _ASKED if isinstance(values.get(name), str)), None)
        is_plain = not _TEMPLATE.search(_VARIABLE.sub("", prompt))
        names = {name.partition(".")[0] for name in _VARIABLE.findall(prompt)}
        if asked is None or (is_plain and names <= values.keys()):
            return self._rendered(prompt, values, place)
        self._found.lose(f"prompts that are more than a text with variables; the variable {asked} is taken", place)
        return self._rendered(f"{{{{{asked}}}}}", values, place)

    def _rendered(self, template: str, values: Mapping[str, Any], place: str) -> str | None:
        """Return a template with its variables; None if it has more than these."""
        lacking = []

        def value(match: re.Match[str]) -> str:
            current: Any = values
            for part in match[1].split("."):
                current = current.get(part) if isinstance(current, Mapping) else None
            if isinstance(current, str) and current.startswith(_FILE):
                current = self._content(current, place)
            if current is None:
                lacking.append(match[1])
            return current if isinstance(current, str) else json.dumps(current, ensure_ascii=False)

        rest = _VARIABLE.sub("", template)
        rendered = _VARIABLE.sub(value, template)
        if _TEMPLATE.search(rest):
            self._found.lose("templates with more than names of variables", place)
            return None
        if lacking:
            self._found.lose(f"templates with variables that have no value, such as {lacking[0][:60]}", place)
            return None
        return rendered

    def _content(self, named: str, place: str) -> str | None:
        path = joined(self._base, named.removeprefix(_FILE))
        if not re.search(r"\.(?:txt|md|json|ya?ml|csv|html?|xml)$", path):
            return None
        try:
            return self._sources.text(path)
        except ForeignFileError as error:
            self._found.lose(f"variables that cannot be read ({error})", place)
            return None

    def _assert(
        self, case: ForeignCase, asserted: Sequence[Mapping[str, Any]], values: Mapping[str, Any], depth: int = 0
    ) -> None:
        for each in asserted:
            if next(self._steps, None) is None:
                return
            one = self._template_of(each)
            if one.get("type") == "assert-set":
                if one.get("threshold") is not None:
                    self._found.lose("assertions of type assert-set with a threshold", case.place)
                elif depth < _MAX_DEPTH:
                    self._assert(case, _listed(one.get("assert")), values, depth + 1)
                else:
                    self._found.lose(f"assertions nested deeper than {_MAX_DEPTH} sets", case.place)
                continue
            try:
                self._one(case, one, values)
            except NotCarriedError as error:
                self._found.lose(str(error), case.place)

    def _template_of(self, one: Mapping[str, Any]) -> Mapping[str, Any]:
        name = text(one.get("$ref")).rpartition("/")[2]
        return mapping(self._templates.get(name)) if name else one

    def _one(self, case: ForeignCase, one: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        full = text(one.get("type"))
        kind, denied = full.removeprefix("not-"), full.startswith("not-")
        if kind == _SKILL_USED:
            self._skill_used(case, one.get("value"), denied=denied)
            return
        if kind not in _CONDITIONS and kind not in _JUDGED:
            why = ", which is code and is never run" if kind in _CODE else ""
            raise NotCarriedError(f"assertions of type {full[:60] or 'unknown'}{why}")
        if one.get("transform"):
            raise NotCarriedError("assertions about a transformed output")
        if one.get("weight") is not None or one.get("threshold") is not None:
            self._found.remark("each assertion counts the same: weights and thresholds are left out")
        value = self._values(one.get("value"), values, case.place)
        if kind in _JUDGED:
            case.judged(_JUDGED[kind].format("\n".join(map(str, value))), denied=denied)
            return
        if kind == "is-json":
            if value:
                self._found.lose("schemas of is-json", case.place)
            case.checked(check_of("is-json", [], denied=denied))
        elif kind == "equals" and value and isinstance(value[0], (dict, list)):
            case.checked(check_of("equals-json", [json.dumps(value[0])], denied=denied))
        else:
            case.checked(check_of(_CONDITIONS[kind], value, denied=denied))

    def _values(self, value: object, variables: Mapping[str, Any], place: str) -> list[Any]:
        listed = value if isinstance(value, list) else [] if value is None else [value]
        rendered: list[Any] = []
        for each in listed:
            if not isinstance(each, str):
                rendered.append(each)
                continue
            shown = self._content(each, place) if each.startswith(_FILE) else each
            if shown is not None and "{{" in shown:
                shown = self._rendered(shown, variables, place)
            if shown is None:
                raise NotCarriedError("values of assertions that cannot be read")
            rendered.append(shown)
        return rendered

    def _skill_used(self, case: ForeignCase, value: object, *, denied: bool) -> None:
        patterns = [
            mapping(each).get("pattern", each) if isinstance(each, Mapping) else each
            for each in (value if isinstance(value, list) else [value])
        ]
        names = [text(each).rpartition(":")[2] for each in patterns]
        ours = any(fnmatch.fnmatchcase(self._found.skill, name) for name in names if name)
        if denied and not ours:
            self._found.lose("assertions that another skill is not used", case.place)
        elif names != [""]:
            other = None if ours or "*" in names[0] else names[0]
            self._found.query(case.prompt, case.place, should_trigger=ours and not denied, instead=other)


def _listed(value: object) -> list[Mapping[str, Any]]:
    return [each for _, each in mappings(value)]


def _combinations(prompt: str, values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the values of variables; a list of a variable in the prompt stands for a test with each of its entries."""
    used = {name.partition(".")[0] for name in _VARIABLE.findall(prompt)}
    lists = {name: each for name, each in values.items() if isinstance(each, list) and name in used}
    for chosen in itertools.product(*lists.values()):
        yield {**values, **dict(zip(lists, chosen, strict=True))}
