"""Read `evals/evals.json`: the prompts that a skill is tested with, and the assertions about their outputs.

The shape is that of agentskills.io's guide. Sets that exist have others, so the tables below say under which names each
field is found. All faults of a file are reported at once, each with its place, as in `evals[2].assertions[0]`; what is
not read, and cases that cannot be run, are reported as notes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError, did_you_mean, similar_to
from skills_core.format.frontmatter import name_from

EVALS_FILE: Final = "evals/evals.json"
"""Where the evals of a skill are, relative to its folder."""

_MAX_TEXT: Final = 100_000
_MAX_CASES: Final = 1000
MAX_LISTED: Final = 100
"""Most entries of a list in a case."""

_MAX_SLUG: Final = 60
_MAX_SHOWN_FAULTS: Final = 10

_CASES: Final = ("evals", "cases", "test_cases", "tests", "evaluations", "scenarios", "items")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "eval_id", "case_id", "test_id"),
    "name": ("name", "eval_name", "title"),
    "prompt": ("prompt", "query", "input", "user_prompt", "task", "user_input"),
    "expected_output": (
        *("expected_output", "expected", "expected_behavior", "expected_behaviour", "expected_result"),
        *("expected_outcome", "expected_response"),
    ),
    "files": ("files", "input_files", "fixtures", "attachments"),
}
"""The names of the list of cases, and of the fields of a case; the first that is there counts."""

_ASSERTIONS: Final = (
    *("assertions", "expectations", "checks", "criteria", "success_criteria", "acceptance_criteria", "rubric"),
    *("expected_behaviors", "deterministic_assertions", "must_have", "must_include", "must_contain"),
)
"""The fields of a case with assertions; all that are there count."""

_ABSENT: Final = ("must_not_have", "must_not_include", "must_not_contain", "anti_expectations")
"""The fields of a case with statements that must not hold; all that are there count."""

_STATEMENT: Final = (
    *("text", "description", "assertion", "statement", "criterion", "expectation", "requirement", "pass_if"),
    *("question", "expected", "must_have", "check"),
)
"""The names of the statement in an object; beside `text`, `check` is a command."""

_REMARKS: Final = frozenset(
    {"area", "category", "comment", "description", "difficulty", "note", "notes", "rationale", "skill", "tags"}
)
"""Fields of a case that say nothing about how it is run or graded."""

_ABOUT: Final = frozenset(
    {"skill_name", "skill", "name", "title", "version", "schema_version", "suite_version", "$schema"}
)
"""Fields of the file that say nothing about that either, as `_REMARKS`."""

_DRIVE: Final = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class Assertion:
    """A statement about the outputs of a run; with `check`, a command decides instead of a model.

    `absent` is what must not hold: the model decides whether it does, and if not the assertion passes.
    """

    text: str
    check: str | None = None
    absent: str | None = None


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One test case. `slug` is unique in its set and safe as part of a file name; `files` are relative to the skill."""

    id: int | str
    slug: str
    prompt: str
    name: str | None = None
    expected_output: str = ""
    files: tuple[str, ...] = ()
    assertions: tuple[Assertion, ...] = ()

    @property
    def folder(self) -> str:
        """The name of the case's folder in an iteration."""
        return f"eval-{self.slug}"


class InvalidEvalSetError(SkillsError):
    """An evals file cannot be used; `faults` has a line for each fault, in the order of the file."""

    def __init__(self, where: str, faults: Sequence[str]) -> None:
        shown = [f"{where}: {one_line(fault)}" for fault in faults[:_MAX_SHOWN_FAULTS]]
        more = [f"{where}: and {len(faults) - len(shown)} more faults"] if len(faults) > len(shown) else []
        super().__init__("\n".join([*shown, *more]))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class EvalSet:
    """The cases of a file; `notes` say which of its cases are left out, and what of it is not read."""

    cases: tuple[EvalCase, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Found:
    """What is wrong with a file, which cases are left out and why, and the fields that are not read."""

    faults: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unread: dict[str, Counter[str]] = field(default_factory=dict)

    def ignore(self, what: str, names: Iterator[str] | Sequence[str]) -> None:
        """Note the names of fields of one thing that are not read."""
        self.unread.setdefault(what, Counter()).update(names)

    def notes(self) -> Iterator[str]:
        """Yield the notes."""
        yield from self.left_out
        for what, names in self.unread.items():
            if names:
                shown = [f"{name[:40]} ({number})" for name, number in names.most_common(_MAX_SHOWN_FAULTS)]
                more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
                yield f"{what}: {', '.join(shown)}{more}"


def read_eval_cases(raw: bytes, where: str) -> EvalSet:
    """Return the test cases in the bytes of a file; `where` names the file in errors.

    Raises:
        InvalidEvalSetError: the file is not JSON, a value in it is missing or wrong, or no case can be run.
    """
    found = _Found()
    document = _document(raw, found.faults)
    cases = () if found.faults else _read(document, found)
    if faults := found.faults or ([] if cases else found.left_out):
        raise InvalidEvalSetError(where, faults)
    return EvalSet(tuple(_with_slugs(cases)), tuple(map(one_line, found.notes())))


def _document(raw: bytes, faults: list[str]) -> object:
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        faults.append(f"byte {error.start} is not UTF-8; save the file as UTF-8")
    except json.JSONDecodeError as error:
        faults.append(f"line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}")
    except (ValueError, RecursionError):
        faults.append("this is not JSON that can be read: it is nested too deep, or a number is too long")
    return None


def _read(document: object, found: _Found) -> Sequence[EvalCase]:
    place, listed = _list_of_cases(document, found)
    if not isinstance(listed, list):
        return ()
    if not 1 <= len(listed) <= _MAX_CASES:
        count = f"expected from 1 to {_MAX_CASES} evals, found {len(listed)}; add one"
        found.faults.append(f"{place}: {count}" if place else count)
        return ()
    cases = [_case(each, f"{place}[{number}]", number, found) for number, each in enumerate(listed)]
    found.faults.extend(_repeated_ids(cases, place))
    return _with_ids_of_one_kind([case for case in cases if case is not None])


def _list_of_cases(document: object, found: _Found) -> tuple[str, object]:
    """Return the name and the list of the cases; a fault is added if there is none."""
    if isinstance(document, list):
        return "", document
    if not isinstance(document, dict):
        wanted = 'an object such as {"skill_name": "…", "evals": […]}'
        found.faults.append(f"expected {wanted}, found {_kind(document)}")
        return "", None
    name = next((each for each in _CASES if each in document), None)
    if name is None and any(each in document for each in _FIELDS["prompt"]):
        return "", [document]  # a file with one case
    name = name or _CASES[0]
    listed = document.get(name)
    if not isinstance(listed, list):
        hint = did_you_mean(similar_to(name, document)) if listed is None else ""
        found.faults.append(f"{name}: expected a list of evals, found {_kind(listed)}.{hint}")
    known = {name, *_ABOUT, *_REMARKS}
    found.ignore("not read in the file", [key for key in document if key not in known and not key.startswith("_")])
    return name, listed


def _named(value: Mapping[str, Any], field_name: str) -> str:
    """Return the name that a case has for a field."""
    return next((name for name in _FIELDS[field_name] if value.get(name) is not None), field_name)


def _case(value: object, place: str, number: int, found: _Found) -> EvalCase | None:
    """Return a case; None if it has faults or cannot be run."""
    if not isinstance(value, dict):
        found.faults.append(f"{place}: expected an object with id, prompt and assertions, found {_kind(value)}")
        return None
    faults = found.faults
    before, left_out = len(faults), len(found.left_out)
    names = {each: _named(value, each) for each in _FIELDS}
    case_id = _id(value, names["id"], place, number, faults)
    prompt = _prompt(value, names["prompt"], place, found)
    name = _text(value, names["name"], f"{place}.{names['name']}", faults).strip() or None
    expected, listed = "", isinstance(value.get(names["expected_output"]), (list, dict))
    if not listed:
        expected = _text(value, names["expected_output"], f"{place}.{names['expected_output']}", faults)
    files = tuple(_files(value, names["files"], place, found))
    fields = [*_ASSERTIONS, *_ABSENT, *([names["expected_output"]] if listed else [])]
    assertions = tuple(_assertions(value, fields, place, found))
    if not assertions and expected.strip():
        assertions = (Assertion(f"The result is as expected: {expected}"[:_MAX_TEXT]),)
    known = {*names.values(), *_ASSERTIONS, *_ABSENT, *_REMARKS}
    found.ignore("fields of cases that are not read", (key for key in value if key not in known))
    if len(faults) > before or len(found.left_out) > left_out:
        return EvalCase(case_id, "", "") if len(faults) > before else None
    return EvalCase(case_id, "", prompt, name, expected, files, assertions)


def _prompt(value: Mapping[str, Any], name: str, place: str, found: _Found) -> str:
    before = len(found.faults)
    prompt = _text(value, name, f"{place}.{name}", found.faults)
    if prompt.strip() or len(found.faults) > before:
        return prompt
    known = {*_ASSERTIONS, *(each for names in _FIELDS.values() for each in names)}
    hint = did_you_mean([each for each in similar_to("prompt", value) if each not in known])
    message = f"{place}.{name}: expected the text that a user would type, found nothing.{hint}"
    # A case of another kind, such as one for a hook, has no field that is meant as the prompt.
    if hint or name in value:
        found.faults.append(message)
    else:
        found.left_out.append(f"{message} The case is left out")
    return ""


def _id(value: Mapping[str, Any], name: str, place: str, number: int, faults: list[str]) -> int | str:
    found = value.get(name)
    if found is None:
        return number + 1
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    if isinstance(found, str) and found.strip() and len(found) <= MAX_LISTED and _is_unicode(found):
        return found
    wanted = f"a whole number or a text of 1 to {MAX_LISTED} characters"
    faults.append(f"{place}.{name}: expected {wanted} that no other eval has, found {_shown(found)}")
    return ""


def _repeated_ids(cases: Sequence[EvalCase | None], place: str) -> Iterator[str]:
    first: dict[str, int] = {}
    for number, case in enumerate(cases):
        # 1 and "1" would have the same folder.
        if case is not None and case.id != "" and first.setdefault(str(case.id), number) != number:
            earlier = first[str(case.id)]
            yield f"{place}[{number}].id: {place}[{earlier}] has the id {case.id!r} too; give it another one"


def _files(value: Mapping[str, Any], field_name: str, place: str, found: _Found) -> Iterator[str]:
    """Yield the paths of the input files; a case with one that cannot be a file of the skill is left out."""
    for where, entry in _listed(value, field_name, place, found.faults):
        file = entry
        if isinstance(entry, dict) and "content" not in entry:
            file = next((entry[name] for name in ("path", "file", "source") if name in entry), entry)
        if isinstance(file, dict):
            message = "an object with a content is not read; save the file in evals/files and name its path"
            found.left_out.append(f"{where}: {message}; the case is left out")
        elif not isinstance(file, str) or not file or "\0" in file or not _is_unicode(file):
            wanted = "a path relative to the skill's folder, such as evals/files/data.csv"
            found.faults.append(f"{where}: expected {wanted}, found {_shown(file)}")
        elif _leaves(file):
            message = f"{_shown(file)} leaves the skill's folder; copy the file to evals/files and name it there"
            found.left_out.append(f"{where}: {message}; the case is left out")
        else:
            yield "/".join(part for part in file.split("/") if part not in {"", "."})


def _leaves(path: str) -> bool:
    parts = path.split("/")
    plain = any(part not in {"", "."} for part in parts)
    return path.startswith("/") or "\\" in path or ".." in parts or bool(_DRIVE.match(path)) or not plain


def _assertions(value: Mapping[str, Any], fields: Sequence[str], place: str, found: _Found) -> Iterator[Assertion]:
    """Yield the assertions in all `fields` of a case."""
    seen: dict[str, str] = {}
    known: set[Assertion] = set()
    for name in fields:
        for where, each in _entries(value, name, place, found):
            assertion = _assertion(each, where, found)
            # A file for both dialects has each assertion in both lists.
            if assertion is None:
                continue
            if name in _ABSENT:
                assertion = _denied(assertion, name)
            elif name.startswith("must_"):
                assertion = replace(assertion, text=f"{_words(name)}: {assertion.text}")
            if assertion in known and not seen[assertion.text].startswith(f"{place}.{name}"):
                continue
            if assertion.text in seen:
                found.faults.append(f"{where}: {seen[assertion.text]} has the same text; remove one of them")
                continue
            seen[assertion.text] = where
            known.add(assertion)
            yield assertion


def _entries(value: Mapping[str, Any], name: str, place: str, found: _Found) -> Iterator[tuple[str, object]]:
    """Yield the entries of a field; an object without a statement has a condition, or a list of them, for each key."""
    inside = value.get(name)
    if not isinstance(inside, dict) or any(each in inside for each in _STATEMENT):
        yield from _listed(value, name, place, found.faults)
        return
    for key, condition in inside.items():
        for each in condition if isinstance(condition, list) else [condition]:
            stated = _denied(Assertion(_written(each)), key) if key in _ABSENT else None
            yield f"{place}.{name}.{key}", stated or f"{_words(str(key))}: {_written(each)}"


def _denied(assertion: Assertion, name: str) -> Assertion:
    """Return the assertion that another one does not hold; a command says itself when it passes."""
    text = f"{_words(name.replace('anti_expectations', 'must_not_hold'))}: {assertion.text}"
    return replace(assertion, text=text, absent=assertion.text if assertion.check is None else None)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _assertion(value: object, place: str, found: _Found) -> Assertion | None:
    if isinstance(value, Assertion):
        return value
    if isinstance(value, dict):
        return _stated(value, place, found)
    if isinstance(value, str) and value.strip() and _is_usable(value):
        return Assertion(value)
    wanted = 'a text, or an object such as {"text": "The report is valid JSON", "check": "jq . report.json"}'
    found.faults.append(f"{place}: expected {wanted}, found {_shown(value)}")
    return None


def _stated(value: Mapping[str, Any], place: str, found: _Found) -> Assertion | None:
    """Return the assertion of an object. Without `text`, words under other names are for the judge, `check` too."""
    before = len(found.faults)
    name = next((each for each in _STATEMENT if isinstance(value.get(each), str) and value[each].strip()), None)
    if value.get("text") is not None:
        name = "text"
    text = _text(value, name, f"{place}.{name}", found.faults) if name else ""
    kind, wanted = value.get("type"), value.get("value")
    if wanted is not None and name != "text":
        condition = f"{_written(kind)}: {_written(wanted)}" if kind is not None else _written(wanted)
        text = f"{text} ({condition})" if text else condition
    elif not name:
        text = _text(value, "name", f"{place}.name", found.faults)
    if (not text.strip() or not _is_usable(text)) and len(found.faults) == before:
        found.faults.append(f"{place}.text: expected a statement about the output, found nothing")
    check = _text(value, "check", f"{place}.check", found.faults) if name == "text" else ""
    if name == "text" and "check" in value and not check.strip() and len(found.faults) == before:
        found.faults.append(f"{place}.check: expected a command, found nothing; write one or remove it")
    known = {name, "check" if name == "text" else "", "id", "name", *(() if name == "text" else ("type", "value"))}
    found.ignore("fields of assertions that are not read", (key for key in value if key not in known))
    return Assertion(text, check or None) if len(found.faults) == before else None


def _listed(value: Mapping[str, Any], name: str, place: str, faults: list[str]) -> Iterator[tuple[str, object]]:
    """Yield the entries of a list with their places; a text or an object is a list of one."""
    found = value.get(name)
    if found is None:
        return
    if isinstance(found, (str, dict)):
        yield f"{place}.{name}", found
    elif not isinstance(found, list):
        faults.append(f"{place}.{name}: expected a list, found {_kind(found)}")
    elif len(found) > MAX_LISTED:
        faults.append(f"{place}.{name}: expected at most {MAX_LISTED} entries, found {len(found)}")
    else:
        yield from ((f"{place}.{name}[{number}]", each) for number, each in enumerate(found))


def _text(value: Mapping[str, Any], name: str, place: str, faults: list[str]) -> str:
    """Return a text; an empty one if the field is missing or wrong."""
    found = value.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        faults.append(f"{place}: expected text, found {_kind(found)}")
        return ""
    if not _is_usable(found):
        wanted = f"at most {_MAX_TEXT} characters of Unicode text without NUL"
        faults.append(f"{place}: expected {wanted}, found {_shown(found)}")
        return ""
    return found


def _is_usable(text: str) -> bool:
    # The texts are arguments of programs, which end at a NUL.
    return len(text) <= _MAX_TEXT and "\0" not in text and _is_unicode(text)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_ids_of_one_kind(cases: list[EvalCase]) -> list[EvalCase]:
    """Return the cases with ids that can be sorted, as readers of results do: all are texts if one is."""
    if all(isinstance(case.id, int) for case in cases):
        return cases
    return [replace(case, id=str(case.id)) for case in cases]


def _with_slugs(cases: Sequence[EvalCase]) -> Iterator[EvalCase]:
    taken: set[str] = set()
    for case in cases:
        slug = base = _slug(case.name or "") or _slug(str(case.id)) or "case"
        number = 1
        while slug in taken:
            number += 1
            slug = f"{base}-{number}"
        taken.add(slug)
        yield replace(case, slug=slug)


def _slug(text: str) -> str:
    return name_from(text).removeprefix("eval-")[:_MAX_SLUG].strip("-")


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds[type(value)]


def _shown(value: object) -> str:
    return repr(value)[:60] if isinstance(value, str) else _kind(value)
