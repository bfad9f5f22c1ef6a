"""Which files of a skill a model may read: all but eval files, and instructions that only users may invoke.

Eval files are those below `evals/` in the folder of a skill. They hold the prompts and the expected answers of its
tests, so a model that performs the skill neither sees nor reads them.

When the user invokes a skill that models may not (`disable-model-invocation`, or `trigger`), the model needs its
supporting files. Its SKILL.md is withheld, also where it is a file of an enclosing skill.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Reason, one_line
from skills_core.disk.folders import EVALS, MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.disk.sources import SkillKind, Strictness
from skills_core.errors import EvalFileError
from skills_core.format.instructions import parse_instructions

if TYPE_CHECKING:
    from skills_core.disk.files import Location
    from skills_core.skills.skill import Skill, SkillContent, SkillFile


_FIELD: Final = b"disable-model-invocation"
_PARSED: Final = frozenset({None, Reason.MISSING_FRONTMATTER})


def is_withheld_from_models(skill: Skill, file: SkillFile, raw: bytes) -> bool:
    """Tell whether a file of `skill`, with the bytes `raw`, instructs a model in what only users may invoke."""
    if skill.content.is_main(file):
        return not skill.model_invocable
    name = file.path.rpartition("/")[2]
    # The references of a single file may be single files too; in a folder only a SKILL.md makes a skill.
    may_be_single = skill.content.kind is not SkillKind.FOLDER and name.lower().endswith(".md")
    if name not in {MAIN_FILE, MAIN_FILE_LOWERCASE} and not may_be_single:
        return False
    instructions = parse_instructions(raw, name, file.path, Strictness.LENIENT)
    # Unreadable frontmatter may hold the field.
    unclear = instructions.fault not in _PARSED and not instructions.frontmatter.raw and _FIELD in raw
    return unclear or not instructions.frontmatter.model_invocable


def files_for_models(content: SkillContent) -> Mapping[str, SkillFile]:
    """Return the files of a skill by path, without eval files."""
    if not _may_have_eval_files(content):
        return content.files
    left = {path: file for path, file in content.files.items() if not is_eval_file(content, file)}
    return left if len(left) < len(content.files) else content.files


def _may_have_eval_files(content: SkillContent) -> bool:
    """Tell from all paths at once whether there may be eval files; few of thousands of skills have any."""
    files = content.files
    return bool(files.linked) or f"{EVALS}/" in files.paths.casefold()


def refuse_eval_file(skill: Skill, file: SkillFile) -> None:
    """Refuse a model's request for an eval file.

    Raises:
        EvalFileError: the file is one.
    """
    if is_eval_file(skill.content, file):
        raise EvalFileError(one_line(skill.key), one_line(file.path))


def is_eval_file(content: SkillContent, file: SkillFile) -> bool:
    """Tell whether a file is an eval file of the skill or of a skill nested in it, also by the target of a link."""
    return is_eval_path(content, file.path) or (file.linked is not None and _is_eval_target(content, file.linked))


def is_eval_path(content: SkillContent, path: str) -> bool:
    """Tell whether a path lies in the folder `evals` of the skill, or of a skill nested in it, in any state.

    Case does not matter, because some file systems ignore it.
    """
    if f"{EVALS}/" not in path.casefold():
        # So for nearly all files of thousands of skills.
        return False
    *folders, _ = path.split("/")
    return any(
        folder.casefold() == EVALS and (number == 0 or _is_skill(content, "/".join(folders[:number])))
        for number, folder in enumerate(folders)
    )


def _is_skill(content: SkillContent, folder: str) -> bool:
    return any(f"{folder}/{name}" in content.files for name in (MAIN_FILE, MAIN_FILE_LOWERCASE))


def _is_eval_target(content: SkillContent, target: Location) -> bool:
    """Tell whether a link leads to an eval file; in the folder of another skill, any folder `evals` counts."""
    main = content.main.linked if content.main is not None else None
    folder = content.folder if main is None else posixpath.dirname(main.relative)
    inside = f"{folder}/" if folder else ""
    if target.relative.startswith(inside):
        return is_eval_path(content, target.relative.removeprefix(inside))
    return EVALS in target.relative.casefold().split("/")[:-1]
