"""Which tools that skills declare are switched on, and their names, `SKILL__TOOL`.

None of the server's own tools has two underscores in its name, and the part before them is the skill's key, so no
skill can take the name of another skill's tool, or of the server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from server.config.settings.tools import ToolSettings
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.skills.skill import Skill

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def allows(settings: ToolSettings, skill: Skill, declaration: ToolDeclaration) -> bool:
    """Tell whether settings switch a tool on."""
    key = skill.settings_key
    return any(entry in {f"{key}/{declaration.name}", f"{key}/*"} for entry in settings.declared)


def settings_name(skill: Skill, declaration: ToolDeclaration) -> str:
    """Return the name by which settings and records name a tool, whatever its callers call it."""
    return f"{_OTHER.sub('_', skill.settings_key)}__{declaration.name}"


def prefix_of(skill: Skill) -> str:
    """Return the prefix of the names of a skill's tools."""
    return f"{_OTHER.sub('_', skill.key)}__"


def served(
    catalog: Catalog, settings: Settings, allowed: Callable[[str], bool]
) -> dict[str, tuple[Skill, ToolDeclaration]]:
    """Return the tools that clients may call, by name; if two have the same name, the first in the catalog.

    `allowed` tells whether the caller may use a tool, by the name of settings.
    """
    # The library that checks arguments comes with an extra; without it no declared tool can be called.
    if not settings.tools.declared or find_spec("jsonschema") is None:
        return {}
    found: dict[str, tuple[Skill, ToolDeclaration]] = {}
    for skill in catalog.active:
        for name, declaration in _usable(skill, settings):
            found.setdefault(name, (skill, declaration))
    return {name: tool for name, tool in found.items() if allowed(settings_name(*tool))}


def _usable(skill: Skill, settings: Settings) -> Iterator[tuple[str, ToolDeclaration]]:
    from skills_core.scripts.tools import declaration_problem

    for declaration in skill.frontmatter.tools:
        name = f"{prefix_of(skill)}{declaration.name}"
        if allows(settings.tools, skill, declaration) and not declaration_problem(skill, declaration, name):
            yield name, declaration
