"""Skills as values, for tests without a disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skills_core.catalog.catalog import Catalog
from skills_core.disk.sources import Source
from skills_core.format.frontmatter import Frontmatter
from skills_core.format.instructions import Instructions
from skills_core.skills.skill import Skill, SkillContent, SkillFiles, State


def skill_of(name: str, description: str = "Does a thing.", body: str = "Do it.", **fields: Any) -> Skill:
    """Return an active skill; `fields` are those of its frontmatter."""
    front = Frontmatter(name=name, description=description, **fields)
    content = SkillContent(name, Instructions(name, front, body=body), SkillFiles(), None)
    return Skill(content, Source(Path("/skills")), name, name, State.ACTIVE)


def catalog_of(*descriptions: str) -> Catalog:
    """Return a catalog of skills with these descriptions."""
    return Catalog(tuple(skill_of(f"skill-{number:03}", text) for number, text in enumerate(descriptions)))
