"""Agent Skills as data: discovery, validation, conflicts, gates, and a catalog that follows the disk.

    from skills_core import Environment, Library, explicit_sources

    library = Library(explicit_sources(["skills"]), lambda: Environment(os="linux", has_bin=lambda name: True))
    for skill in library.catalog.active:
        print(skill.key, skill.description)

The core knows nothing of MCP, HTTP, the process's environment or the command line.
"""

from skills_core.catalog import Catalog, FoundSource
from skills_core.diagnostics import Diagnostic, Reason, Severity
from skills_core.errors import (
    FileRefusedError,
    InvalidSourceError,
    SkillsError,
    UnknownFileError,
    UnknownSkillError,
)
from skills_core.frontmatter import Evaluation, Frontmatter, ToolDeclaration
from skills_core.gates import Credential, Environment, Exclusion, Gate, SkillEntry, evaluate_gate
from skills_core.library import Change, Library
from skills_core.rendering import render_activation, render_catalog, render_request
from skills_core.selection import Band, Match, SelectionPolicy, SkillIndex
from skills_core.skill import Instructions, Skill, SkillContent, SkillFile, State
from skills_core.sources import ScanBounds, Scope, Source, Strictness, explicit_sources

__all__ = [
    "Band",
    "Catalog",
    "Change",
    "Credential",
    "Diagnostic",
    "Environment",
    "Evaluation",
    "Exclusion",
    "FileRefusedError",
    "FoundSource",
    "Frontmatter",
    "Gate",
    "Instructions",
    "InvalidSourceError",
    "Library",
    "Match",
    "Reason",
    "ScanBounds",
    "Scope",
    "SelectionPolicy",
    "Severity",
    "Skill",
    "SkillContent",
    "SkillEntry",
    "SkillFile",
    "SkillIndex",
    "SkillsError",
    "Source",
    "State",
    "Strictness",
    "ToolDeclaration",
    "UnknownFileError",
    "UnknownSkillError",
    "evaluate_gate",
    "explicit_sources",
    "render_activation",
    "render_catalog",
    "render_request",
]
