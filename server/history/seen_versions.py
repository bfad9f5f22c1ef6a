"""Which versions of skills a caller sees: those that its view would have shown when they were on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.format.instructions import parse_instructions
from skills_core.loading.documents import kind_of_file, parse_single_file, strictness_for
from skills_core.skill import Skill, SkillContent, State
from skills_core.sources import SkillKind

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

    from skills_core.format.instructions import Instructions
    from skills_core.history.seen_part import Sees
    from skills_core.sources import Source

__all__ = ["versions_seen"]


def versions_seen(root: Path, source: Source, shows: Callable[[Skill], bool], visible: Container[str]) -> Sees:
    """Return what judges versions of the skills of `source` in the history of the folder `root`.

    `shows` judges a skill by its content and source. Of skills that are not `visible` now, by their paths in the
    history, no version is seen: that they are hidden may have other reasons than their content.
    """

    def sees(path: str, main: bytes | None) -> bool:
        if path not in visible:
            return False
        whole = root / path
        place = whole.relative_to(source.root).as_posix() if whole.is_relative_to(source.root) else path
        place = "" if place == "." else place
        return shows(_skill(source, place, whole.name, main or b""))

    return sees


def _skill(source: Source, place: str, name: str, main: bytes) -> Skill:
    """Return a version of a skill with what a view judges it by."""
    folders = place.split("/")[:-1]
    kind = kind_of_file(folders, name) or SkillKind.FOLDER
    instructions: Instructions | None = None
    strictness = strictness_for(source.strictness, folders, kind)
    if kind is not SkillKind.FOLDER:
        instructions = parse_single_file(main, kind, name, place, strictness)
    if instructions is None:
        instructions = parse_instructions(main, name, place, strictness)
    content = SkillContent(place, instructions, {}, None, kind=kind)
    return Skill(content, source, content.name, place or content.name, State.ACTIVE)
