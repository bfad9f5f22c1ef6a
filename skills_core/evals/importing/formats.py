"""Tell which tool a file or a folder is of, and read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from skills_core.disk.files import Reader
from skills_core.evals.importing import promptfoo, scenarios, skilljack, tessl, waza
from skills_core.evals.importing.found import Found
from skills_core.evals.importing.sources import ForeignFileError, Sources, joined, mappings

_Read: TypeAlias = Callable[[Sources, str, Found], None]

_NAMES: Final = (*promptfoo.NAMES, *scenarios.NAMES, *waza.NAMES, *waza.TRIGGER_NAMES, *skilljack.NAMES)
_FOLDERS: Final = ("", "evals", "tests", "eval")
"""Where the files are looked for in a folder that the user names; the first that has some counts."""

_MAX_SCENARIOS: Final = 200

FORMS: Final = "promptfoo, waza, dotnet/skills, skilljack and tessl"


def import_from(path: Path, skill: str) -> Found:
    """Return what a file or a folder of another tool has for the skill of this name.

    Raises:
        ForeignFileError: there is nothing that can be read, or it is of none of the tools.
    """
    found = Found(skill)
    root = path if path.is_dir() else path.parent
    with Reader() as reader:
        sources = Sources(root, reader)
        parts = list(_in_folder(sources)) if path.is_dir() else [path.name]
        if not parts:
            names = ", ".join(dict.fromkeys((*_NAMES, f"{tessl.TASK} with {tessl.CRITERIA}")))
            raise ForeignFileError(f"{path}: no file of {FORMS} is here; expected one of {names}")
        forms = dict.fromkeys(_read(sources, part, found) for part in parts)
    found.form = ", ".join(forms)
    return found


def _in_folder(sources: Sources) -> Iterator[str]:
    for folder in _FOLDERS:
        files, _ = sources.names(folder)
        taken = [joined(folder, name) for name in dict.fromkeys(_NAMES) if name in files]
        tasks = [] if taken else list(_scenarios(sources, folder))
        # A later version of a set lies beside the earlier one, with the same scenarios.
        if any(each.endswith("eval.yaml") for each in taken):
            taken = [each for each in taken if not each.endswith("eval.vally.yaml")]
        if taken or tasks:
            yield from (*taken, *tasks)
            return


def _scenarios(sources: Sources, folder: str) -> Iterator[str]:
    """Yield the `task.md` of a folder, or those in its folders."""
    files, folders = sources.names(folder)
    if tessl.TASK in files:
        yield joined(folder, tessl.TASK)
        return
    for name in folders[:_MAX_SCENARIOS]:
        place = joined(folder, name)
        if tessl.TASK in sources.names(place)[0]:
            yield joined(place, tessl.TASK)


def _read(sources: Sources, path: str, found: Found) -> str:
    """Read a file, and return the name of its tool."""
    folder, _, name = path.rpartition("/")
    if name in {tessl.TASK, tessl.CRITERIA}:
        if tessl.CRITERIA in sources.names(folder)[0]:
            tessl.read_scenario(sources, folder, found)
            return "tessl"
        skilljack.read_task(sources, path, found)
        return "skilljack"
    form, read = _form_of(sources.document(path), path)
    read(sources, path, found)
    return form


def _form_of(document: Mapping[str, Any], path: str) -> tuple[str, _Read]:
    tasks = [task for _, task in mappings(document.get("tasks"))]
    is_promptfoo = bool(promptfoo.KEYS & document.keys()) or path.rpartition("/")[2] in promptfoo.NAMES
    has_scenarios = any(isinstance(document.get(name), list) for name in scenarios.KEYS)
    forms: tuple[tuple[bool, str, _Read], ...] = (
        (bool(waza.TRIGGER_KEYS & document.keys()), "waza", waza.read_triggers),
        (has_scenarios and not is_promptfoo, "dotnet/skills", scenarios.read),
        (any(skilljack.TASK_KEYS & task.keys() for task in tasks), "skilljack", skilljack.read),
        (isinstance(document.get("tasks"), list) or "tasks_from" in document, "waza", waza.read),
        (is_promptfoo, "promptfoo", promptfoo.read),
        (isinstance(document.get("inputs"), Mapping), "waza", waza.read_task),
    )
    for fits, form, read in forms:
        if fits:
            return form, read
    if "entries" in document or isinstance(document.get("tests"), list):
        raise ForeignFileError(f"{path}: these are tests without prompts; name the configuration that they belong to")
    raise ForeignFileError(f"{path}: this is none of the forms of {FORMS}")
