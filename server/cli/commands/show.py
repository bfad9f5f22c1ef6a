"""The command `show`: print one skill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson, Directories, FollowSymlinks
from server.cli.console import EXIT_NO, fail, print_json
from server.cli.validation_report import print_skill
from server.config.bootstrap import open_quietly
from server.hosting.status import skill_object
from skills_core.diagnostics import printable
from skills_core.errors import did_you_mean, similar_to

if TYPE_CHECKING:
    from skills_core.skill import Skill

__all__ = ["show"]


def show(
    name: Annotated[str, typer.Argument(help="The skill's name.")],
    directories: Directories = None,
    *,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
) -> None:
    """Show the fields, files and diagnostics of a skill."""
    catalog = open_quietly(directories, follow_symlinks=follow_symlinks).catalog
    found = [skill for skill in catalog.skills if name in {skill.key, skill.path, *skill.content.names}]
    if not found:
        similar = similar_to(name, (skill.key for skill in catalog.skills))
        fail(f"there is no skill {name[:200]!r}{did_you_mean(similar, '; did')}", EXIT_NO)
    if as_json:
        print_json({"skills": [_document(skill_object(skill), skill) for skill in found]})
        return
    for skill in found:
        print_skill(skill)


def _document(document: dict[str, Any], skill: Skill) -> dict[str, Any]:
    files = [
        {
            "path": printable(file.path),
            "uri": skill.file_uri(file.path),
            "size": file.size,
            "digest": file.digest,
        }
        for file in skill.content.files.values()
    ]
    return {**document, "frontmatter": skill.frontmatter.raw, "files": files}
