"""Agent Skills as data: discovery, validation, conflicts, gates, and a catalog that follows the disk.

    from skills_core import Environment, Library, explicit_sources

    library = Library(explicit_sources(["skills"]), lambda: Environment(os="linux", has_bin=lambda name: True))
    for skill in library.catalog.active:
        print(skill.key, skill.description)

One skill alone, or an error that says what is wrong with it:

    from skills_core import InvalidSkillError, read_skill

    try:
        skill = read_skill("skills/code-review")
    except InvalidSkillError as error:
        print(error.path, error.line, error.message)

The core does not depend on MCP, HTTP, the process's environment or the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog, FoundSource
    from skills_core.context.assembly import (
        AssembledContext,
        ContextBounds,
        SkillCall,
        Triggered,
        activation_of,
        always_on,
        assemble_context,
        match_skill_call,
        request_of,
        stack_activations,
        triggered_by,
    )
    from skills_core.context.coordinator import (
        ByName,
        ByQuery,
        ByTag,
        ContextCoordinator,
        CoordinatorConfig,
        MissingTools,
        Rejected,
        Rejection,
        Resolution,
        SkillContext,
        Strategy,
        ToolRegistry,
    )
    from skills_core.context.injection import (
        Injection,
        Message,
        Ranking,
        SkillBlock,
        TextPart,
        by_full_text,
        by_shared_words,
        inject,
        select_block,
    )
    from skills_core.diagnostics import Diagnostic, Reason, Severity
    from skills_core.disk.sources import ScanBounds, Scope, Source, Strictness, explicit_sources
    from skills_core.errors import (
        AmbiguousSkillError,
        FileRefusedError,
        InvalidFrontmatterError,
        InvalidSkillError,
        InvalidSkillsRootError,
        InvalidSourceError,
        MissingFieldError,
        SkillIoError,
        SkillsError,
        SkillYamlError,
        UnknownFileError,
        UnknownSkillError,
    )
    from skills_core.format.frontmatter import Evaluation, Frontmatter, ToolDeclaration
    from skills_core.format.gate import Gate
    from skills_core.format.instructions import Instructions
    from skills_core.integrations.project import (
        Injector,
        discover_instruction_files,
        discover_skill_files,
        load_skills,
        project_sources,
    )
    from skills_core.live.library import Change, Library
    from skills_core.loading.single_skill import parse_skill, read_skill
    from skills_core.rendering.activation import render_activation, render_request
    from skills_core.rendering.catalog import render_catalog
    from skills_core.rendering.recipient import Recipient
    from skills_core.selection.embeddings import EmbeddingReranker
    from skills_core.selection.fusion import Reranker, Similarities
    from skills_core.selection.policy import Band, Match, SelectionPolicy
    from skills_core.selection.ranking import SkillIndex, SkillSearch
    from skills_core.skills.gates import Credential, Environment, Exclusion, SkillEntry, evaluate_gate
    from skills_core.skills.skill import Skill, SkillContent, SkillFile, State

__all__ = [
    "AmbiguousSkillError",
    "AssembledContext",
    "Band",
    "ByName",
    "ByQuery",
    "ByTag",
    "Catalog",
    "Change",
    "ContextBounds",
    "ContextCoordinator",
    "CoordinatorConfig",
    "Credential",
    "Diagnostic",
    "EmbeddingReranker",
    "Environment",
    "Evaluation",
    "Exclusion",
    "FileRefusedError",
    "FoundSource",
    "Frontmatter",
    "Gate",
    "Injection",
    "Injector",
    "Instructions",
    "InvalidFrontmatterError",
    "InvalidSkillError",
    "InvalidSkillsRootError",
    "InvalidSourceError",
    "Library",
    "Match",
    "Message",
    "MissingFieldError",
    "MissingTools",
    "Ranking",
    "Reason",
    "Recipient",
    "Rejected",
    "Rejection",
    "Reranker",
    "Resolution",
    "ScanBounds",
    "Scope",
    "SelectionPolicy",
    "Severity",
    "Similarities",
    "Skill",
    "SkillBlock",
    "SkillCall",
    "SkillContent",
    "SkillContext",
    "SkillEntry",
    "SkillFile",
    "SkillIndex",
    "SkillIoError",
    "SkillSearch",
    "SkillYamlError",
    "SkillsError",
    "Source",
    "State",
    "Strategy",
    "Strictness",
    "TextPart",
    "ToolDeclaration",
    "ToolRegistry",
    "Triggered",
    "UnknownFileError",
    "UnknownSkillError",
    "activation_of",
    "always_on",
    "assemble_context",
    "by_full_text",
    "by_shared_words",
    "discover_instruction_files",
    "discover_skill_files",
    "evaluate_gate",
    "explicit_sources",
    "inject",
    "load_skills",
    "match_skill_call",
    "parse_skill",
    "project_sources",
    "read_skill",
    "render_activation",
    "render_catalog",
    "render_request",
    "request_of",
    "select_block",
    "stack_activations",
    "triggered_by",
]

_HOMES = {
    "catalog.catalog": "Catalog FoundSource",
    "context.assembly": (
        "AssembledContext ContextBounds SkillCall Triggered activation_of always_on assemble_context match_skill_call "
        "request_of stack_activations triggered_by"
    ),
    "context.coordinator": (
        "ByName ByQuery ByTag ContextCoordinator CoordinatorConfig MissingTools Rejected Rejection Resolution "
        "SkillContext Strategy ToolRegistry"
    ),
    "context.injection": (
        "Injection Message Ranking SkillBlock TextPart by_full_text by_shared_words inject select_block"
    ),
    "diagnostics": "Diagnostic Reason Severity",
    "disk.sources": "ScanBounds Scope Source Strictness explicit_sources",
    "errors": (
        "AmbiguousSkillError FileRefusedError InvalidFrontmatterError InvalidSkillError InvalidSkillsRootError "
        "InvalidSourceError MissingFieldError SkillIoError SkillYamlError SkillsError UnknownFileError "
        "UnknownSkillError"
    ),
    "format.frontmatter": "Evaluation Frontmatter ToolDeclaration",
    "format.gate": "Gate",
    "format.instructions": "Instructions",
    "integrations.project": "Injector discover_instruction_files discover_skill_files load_skills project_sources",
    "live.library": "Change Library",
    "loading.single_skill": "parse_skill read_skill",
    "rendering.activation": "render_activation render_request",
    "rendering.catalog": "render_catalog",
    "rendering.recipient": "Recipient",
    "selection.embeddings": "EmbeddingReranker",
    "selection.fusion": "Reranker Similarities",
    "selection.policy": "Band Match SelectionPolicy",
    "selection.ranking": "SkillIndex SkillSearch",
    "skills.gates": "Credential Environment Exclusion SkillEntry evaluate_gate",
    "skills.skill": "Skill SkillContent SkillFile State",
}
# The public names of each module.

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type depends on the name
    """Import a name on first use: a short-lived process uses few of them."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
