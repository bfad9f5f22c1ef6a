"""Read `evals/evals.json`: the prompts that a skill is tested with, and the assertions about their outputs.

The shape is that of agentskills.io's guide; skill-creator's `expectations` are read as assertions too. All faults of a
file are reported at once, each with its place, as in `evals[2].assertions[0]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError, did_you_mean, similar_to
from skills_core.format.frontmatter import name_from

EVALS_FILE: Final = "evals/evals.json"
"""Where the evals of a skill are, relative to its folder."""

_MAX_TEXT: Final = 100_000
_MAX_CASES: Final = 1000
_MAX_LISTED: Final = 100
_MAX_SLUG: Final = 60
_MAX_SHOWN_FAULTS: Final = 10

_FIELDS: Final = ("id", "name", "prompt", "expected_output", "files", "assertions", "expectations")
_DRIVE: Final = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class Assertion:
    """A statement about the outputs of a run; with `check`, a command decides instead of a model."""

    text: str
    check: str | None = None


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


def read_eval_cases(raw: bytes, where: str) -> tuple[EvalCase, ...]:
    """Return the test cases in the bytes of a file; `where` names the file in errors.

    Raises:
        InvalidEvalSetError: the file is not JSON, or a value in it is missing or wrong.
    """
    faults: list[str] = []
    document = _document(raw, faults)
    cases = () if faults else _read(document, faults)
    if faults:
        raise InvalidEvalSetError(where, faults)
    return tuple(_with_slugs(cases))


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


def _read(document: object, faults: list[str]) -> Sequence[EvalCase]:
    if not isinstance(document, dict):
        wanted = 'an object such as {"skill_name": "…", "evals": […]}'
        faults.append(f"expected {wanted}, found {_kind(document)}")
        return ()
    listed = document.get("evals")
    if not isinstance(listed, list):
        hint = did_you_mean(similar_to("evals", document)) if listed is None else ""
        faults.append(f"evals: expected a list of evals, found {_kind(listed)}.{hint}")
        return ()
    if not 1 <= len(listed) <= _MAX_CASES:
        faults.append(f"evals: expected from 1 to {_MAX_CASES} evals, found {len(listed)}; add one")
        return ()
    cases = [_case(each, f"evals[{number}]", faults) for number, each in enumerate(listed)]
    faults.extend(_repeated_ids(cases))
    return [case for case in cases if case is not None]


def _case(value: object, place: str, faults: list[str]) -> EvalCase | None:
    if not isinstance(value, dict):
        faults.append(f"{place}: expected an object with id, prompt and assertions, found {_kind(value)}")
        return None
    before = len(faults)
    case_id = _id(value, place, faults)
    prompt = _text(value, "prompt", f"{place}.prompt", faults)
    if not prompt.strip() and len(faults) == before:
        hint = did_you_mean([name for name in similar_to("prompt", value) if name not in _FIELDS])
        faults.append(f"{place}.prompt: expected the text that a user would type, found nothing.{hint}")
    return EvalCase(
        case_id,
        "",
        prompt,
        _text(value, "name", f"{place}.name", faults).strip() or None,
        _text(value, "expected_output", f"{place}.expected_output", faults),
        tuple(_files(value, place, faults)),
        tuple(_assertions(value, place, faults)),
    )


def _id(value: Mapping[str, Any], place: str, faults: list[str]) -> int | str:
    found = value.get("id")
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    if isinstance(found, str) and found.strip() and len(found) <= _MAX_LISTED and _is_unicode(found):
        return found
    wanted = f"a whole number or a text of 1 to {_MAX_LISTED} characters"
    faults.append(f"{place}.id: expected {wanted} that no other eval has, found {_shown(found)}")
    return ""


def _repeated_ids(cases: Sequence[EvalCase | None]) -> Iterator[str]:
    first: dict[str, int] = {}
    for number, case in enumerate(cases):
        # 1 and "1" would have the same folder.
        if case is not None and case.id != "" and first.setdefault(str(case.id), number) != number:
            earlier = first[str(case.id)]
            yield f"evals[{number}].id: evals[{earlier}] has the id {case.id!r} too; give it another one"


def _files(value: Mapping[str, Any], place: str, faults: list[str]) -> Iterator[str]:
    for number, file in _listed(value, "files", place, faults):
        where = f"{place}.files[{number}]"
        if not isinstance(file, str) or not file or "\0" in file or not _is_unicode(file):
            wanted = "a path relative to the skill's folder, such as evals/files/data.csv"
            faults.append(f"{where}: expected {wanted}, found {_shown(file)}")
        elif _leaves(file):
            message = f"{_shown(file)} leaves the skill's folder; copy the file to evals/files and name it there"
            faults.append(f"{where}: {message}")
        else:
            yield "/".join(part for part in file.split("/") if part not in {"", "."})


def _leaves(path: str) -> bool:
    parts = path.split("/")
    plain = any(part not in {"", "."} for part in parts)
    return path.startswith("/") or "\\" in path or ".." in parts or bool(_DRIVE.match(path)) or not plain


def _assertions(value: Mapping[str, Any], place: str, faults: list[str]) -> Iterator[Assertion]:
    seen: dict[str, str] = {}
    found: set[Assertion] = set()
    for field in ("assertions", "expectations"):
        for number, each in _listed(value, field, place, faults):
            where = f"{place}.{field}[{number}]"
            assertion = _assertion(each, where, faults)
            # A file for both dialects has each assertion in both lists.
            if assertion is None:
                continue
            if assertion in found and not seen[assertion.text].startswith(f"{place}.{field}"):
                continue
            if assertion.text in seen:
                faults.append(f"{where}: {seen[assertion.text]} has the same text; remove one of them")
                continue
            seen[assertion.text] = where
            found.add(assertion)
            yield assertion


def _assertion(value: object, place: str, faults: list[str]) -> Assertion | None:
    if isinstance(value, dict):
        before = len(faults)
        text, check = (_text(value, name, f"{place}.{name}", faults) for name in ("text", "check"))
        if not text.strip() and len(faults) == before:
            faults.append(f"{place}.text: expected a statement about the output, found nothing")
        if "check" in value and not check.strip() and len(faults) == before:
            faults.append(f"{place}.check: expected a command, found nothing; write one or remove it")
        return Assertion(text, check or None) if len(faults) == before else None
    if isinstance(value, str) and value.strip() and _is_usable(value):
        return Assertion(value)
    wanted = 'a text, or an object such as {"text": "The report is valid JSON", "check": "jq . report.json"}'
    faults.append(f"{place}: expected {wanted}, found {_shown(value)}")
    return None


def _listed(value: Mapping[str, Any], field: str, place: str, faults: list[str]) -> Iterator[tuple[int, object]]:
    found = value.get(field)
    if found is None:
        return
    if not isinstance(found, list):
        faults.append(f"{place}.{field}: expected a list, found {_kind(found)}; put it in [ ]")
    elif len(found) > _MAX_LISTED:
        faults.append(f"{place}.{field}: expected at most {_MAX_LISTED} entries, found {len(found)}")
    else:
        yield from enumerate(found)


def _text(value: Mapping[str, Any], field: str, place: str, faults: list[str]) -> str:
    """Return a text; an empty one if the field is missing or wrong."""
    found = value.get(field)
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


def _with_slugs(cases: Sequence[EvalCase]) -> Iterator[EvalCase]:
    taken: set[str] = set()
    for case in cases:
        slug = base = _slug(case.name or "") or _slug(str(case.id)) or "case"
        number = 1
        while slug in taken:
            number += 1
            slug = f"{base}-{number}"
        taken.add(slug)
        yield EvalCase(case.id, slug, case.prompt, case.name, case.expected_output, case.files, case.assertions)


def _slug(text: str) -> str:
    return name_from(text).removeprefix("eval-")[:_MAX_SLUG].strip("-")


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds[type(value)]


def _shown(value: object) -> str:
    return repr(value)[:60] if isinstance(value, str) else _kind(value)
