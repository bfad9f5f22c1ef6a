"""Write what an import has found as `evals/evals.json` and `evals/eval_queries.json` of a skill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skills_core.disk.files import Location
from skills_core.disk.folders import EVALS
from skills_core.disk.writing import json_bytes, write_file
from skills_core.errors import SkillsError
from skills_core.evals.grading.cases import EVALS_FILE, MAX_LISTED, read_eval_cases
from skills_core.evals.importing.checks import SCRIPT
from skills_core.evals.triggers.queries import QUERY_FILES

if TYPE_CHECKING:
    from skills_core.evals.importing.found import ForeignCase, Found

_FILES: Final = f"{EVALS}/files"


class EvalsExistError(SkillsError):
    """The skill has evals, which are not replaced."""


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """The files that an import makes, by their path in the skill, and how many cases and queries they hold."""

    contents: Mapping[str, bytes]
    cases: int
    queries: int


def files_of(found: Found) -> ImportedFiles:
    """Return the files of an import. Its cases are read once, so what is written can be read.

    Raises:
        InvalidEvalSetError: a case cannot be read back.
    """
    contents: dict[str, bytes] = {}
    if found.cases:
        documents = [_document(number, case) for number, case in enumerate(found.cases, 1)]
        slugs = [each.slug for each in read_eval_cases(json.dumps(documents).encode(), EVALS_FILE).cases]
        for document, case, slug in zip(documents, found.cases, slugs, strict=True):
            if case.files:
                listed = [f"{_FILES}/{slug}/{path}" for path in case.files]
                document["files"] = listed if len(listed) <= MAX_LISTED else [f"{_FILES}/{slug}"]
                contents |= {f"{_FILES}/{slug}/{path}": raw for path, raw in case.files.items()}
        contents[EVALS_FILE] = json_bytes({"skill_name": found.skill, "evals": documents})
        if any(SCRIPT in str(each.get("check")) for each in _objects(documents)):
            contents[f"{EVALS}/{SCRIPT}"] = (Path(__file__).parent / SCRIPT).read_bytes()
    if found.queries:
        contents[QUERY_FILES[0]] = json_bytes(list(found.queries.values()))
    return ImportedFiles(contents, len(found.cases), len(found.queries))


def _document(number: int, case: ForeignCase) -> dict[str, Any]:
    document: dict[str, Any] = {"id": number, "name": case.name, "prompt": case.prompt}
    if case.expected:
        document["expected_output"] = case.expected
    if case.assertions:
        document["assertions"] = list(_with_own_texts(case.assertions))
    if case.absent:
        document["must_not_have"] = case.absent
    return {name: value for name, value in document.items() if value}


def _with_own_texts(assertions: list[str | dict[str, Any]]) -> Iterator[str | dict[str, Any]]:
    """Yield assertions whose texts differ, as those of long values may not."""
    seen: dict[str, int] = {}
    for each in assertions:
        text = each if isinstance(each, str) else each["text"]
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 1:
            yield each
        elif isinstance(each, dict):
            yield {**each, "text": f"{text} ({seen[text]})"}


def _objects(documents: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        yield from (each for each in document.get("assertions", ()) if isinstance(each, dict))


def write_imported(folder: Path, files: ImportedFiles, *, replaces: bool) -> None:
    """Write the files of an import into the skill in `folder`.

    Raises:
        EvalsExistError: one of them exists and `replaces` is false.
        FileRefusedError: a file cannot be written, or its place is a link.
    """
    if not replaces and (name := next((each for each in files.contents if os.path.lexists(folder / each)), None)):
        raise EvalsExistError(
            f"{folder / name}: the file exists and is not replaced; move it, or replace it and the others with --force"
        )
    for name, content in files.contents.items():
        write_file(Location(folder, name), content)
