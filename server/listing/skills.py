"""The entries of the Skills extension (SEP-2640): the frontmatter verbatim, and a digest for each file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from server.listing.envelope import COMPLETE
from server.listing.resources import describe
from server.wire.paging import Pager
from skills_core.diagnostics import printable
from skills_core.skills.uris import file_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill, SkillFile

__all__ = ["FolderChild", "folder_pager", "skill_entry", "skill_pager"]

FolderChild: TypeAlias = "tuple[str, tuple[Skill, SkillFile] | None]"
"""A child of a folder: its name, and the file with its skill, or None for a folder."""

_PAGE_SIZE = 100
# An entry lists all files of its skill, so pages have fewer entries than those of other lists.


def skill_entry(skill: Skill) -> dict[str, Any]:
    """Return the entry of a skill: the unit that hosts verify and that users approve."""
    files = [
        {"uri": skill.file_uri(file.path), "digest": file.digest, "size": file.size}
        for file in skill.content.files.values()
    ]
    return {"uri": skill.uri, "frontmatter": skill.frontmatter.raw, "resources": files}


def skill_pager(catalog: Catalog, envelope: Mapping[str, Any]) -> Pager[Skill]:
    """Return the pages of `skills/list`, sorted by path."""
    items = sorted((skill.path, skill) for skill in catalog.active if skill.content.published)
    return Pager(items, _PAGE_SIZE, "skills", skill_entry, envelope)


def folder_pager(catalog: Catalog, settings: Settings, uri: str) -> Pager[FolderChild] | None:
    """Return the pages of `resources/directory/read`, sorted by name; None if the URI does not name a folder."""
    found = catalog.directory(uri)
    if found is None:
        return None
    path = found.path

    def described(child: FolderChild) -> dict[str, Any]:
        name, held = child
        return describe(*held) if held is not None else _folder(f"{path}/{name}", name)

    children = [(child[0], child) for child in found.children.items()]
    return Pager(children, settings.server.page_size, "resources", described, COMPLETE, of=path)


def _folder(path: str, name: str) -> dict[str, Any]:
    return {"uri": file_uri(path, "").removesuffix("/"), "name": printable(name), "mimeType": "inode/directory"}
