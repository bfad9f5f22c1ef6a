"""Skills as the Skills extension lists them (SEP-2640): frontmatter verbatim, and a digest for every file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.listing.envelope import cacheable
from server.listing.paging import Pager
from server.listing.resources import describe
from skills_core.diagnostics import printable
from skills_core.uris import file_uri

if TYPE_CHECKING:
    from server.config import Settings
    from skills_core.catalog import Catalog
    from skills_core.skill import Skill, SkillFile

__all__ = ["children", "entry", "pager"]

_PAGE_SIZE = 100
# An entry holds a line for each file of its skill, so pages are shorter than those of other lists.


def entry(skill: Skill) -> dict[str, Any]:
    """Return a skill's entry: the unit that hosts verify and that approvals bind to."""
    files = [
        {"uri": skill.file_uri(file.path), "digest": file.digest, "size": file.size}
        for file in skill.content.files.values()
    ]
    return {"uri": skill.uri, "frontmatter": skill.frontmatter.raw, "resources": files}


def pager(catalog: Catalog, settings: Settings) -> Pager[Skill]:
    """Return the pages of `skills/list`, by path; an entry is never split."""
    items = sorted((skill.path, skill) for skill in catalog.active if skill.content.published)
    return Pager(items, _PAGE_SIZE, "skills", entry, cacheable(settings))


def children(path: str, found: dict[str, tuple[Skill, SkillFile] | None]) -> list[tuple[str, dict[str, Any]]]:
    """Return the resources directly within the folder at `path`, with their names, in the order of these."""
    return [
        (name, describe(*held) if held is not None else _folder(f"{path}/{name}", name)) for name, held in found.items()
    ]


def _folder(path: str, name: str) -> dict[str, Any]:
    return {"uri": file_uri(path, "").removesuffix("/"), "name": printable(name), "mimeType": "inode/directory"}
