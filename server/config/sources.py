"""From settings to the sources of a library: directories that were named, or the usual places and what was added."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from server.config.settings import (
    Conventions,
    DiscoverySettings,
    ProjectDiscovery,
    ProjectSettings,
    ProjectSource,
    Settings,
    SourceSettings,
)
from skills_core.locations import DEFAULT_BOUNDS, default_sources, project_of
from skills_core.sources import ScanBounds, Scope, SkillKind, Source, Strictness, explicit_sources, real_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.locations import Places

__all__ = ["sources_of"]

Value = TypeVar("Value")

_NAMES_IN_FOLDER: Final = DEFAULT_BOUNDS.entries // DEFAULT_BOUNDS.folders


def sources_of(directories: Sequence[Path] | None, settings: Settings, places: Places) -> tuple[Source, ...]:
    """Return the sources in order of precedence: just `directories`, or without them what `places` and settings say.

    What the file of a trusted project says counts for the sources of the project, and for directories in it.

    Raises:
        InvalidSourceError: a directory is missing, or is a file.
    """
    project = project_of(places.working_directory, places.home)
    said = (settings.project or ProjectSettings()).discovery
    own = settings.discovery
    conventions = _first(said.conventions, own.conventions)
    if directories:
        named = explicit_sources(
            directories,
            own.strictness,
            follow_symlinks=own.follow_symlinks,
            conventions=own.conventions is not Conventions.OFF,
            gitignore=own.gitignore,
        )
        inside = real_path(project)
        return tuple(_as_said(each, said, own) if each.root.is_relative_to(inside) else each for each in named)
    added = [
        *(_own(each, own) for each in own.sources),
        *(_of_project(each, said, own, project) for each in said.sources),
    ]
    usual = default_sources(
        places,
        added,
        own.precedence,
        conventions=conventions is Conventions.PROJECT,
        may_leave=own.trust_workspace or settings.project is not None,
    )
    found = (source if source in added else _as_set(source, own, said) for source in usual)
    return tuple(replace(source, project=None) for source in found) if own.trust_workspace else tuple(found)


def _as_said(named: Source, said: ProjectDiscovery, settings: DiscoverySettings) -> Source:
    """Return a directory of the project that was named on the command line, as the project has its skills."""
    return replace(
        named,
        strictness=_first(said.strictness, settings.strictness),
        kinds=_kinds(_first(said.conventions, settings.conventions) is not Conventions.OFF),
        gitignore=_first(said.gitignore, settings.gitignore),
    )


def _own(configured: SourceSettings, settings: DiscoverySettings) -> Source:
    """Return a source of the user's configuration; what it does not say is as for all others."""
    return Source(
        real_path(Path(configured.path)),
        configured.scope,
        configured.strictness or settings.strictness,
        _bounds(settings, configured.scan_depth, configured.scan_folders),
        follow_symlinks=_first(configured.follow_symlinks, settings.follow_symlinks),
        kinds=_kinds(_first(configured.conventions, settings.conventions is not Conventions.OFF)),
        gitignore=_first(configured.gitignore, settings.gitignore),
    )


def _of_project(
    configured: ProjectSource, said: ProjectDiscovery, settings: DiscoverySettings, project: Path
) -> Source:
    """Return a source of the project; what it does not say is as for all others of the project."""
    conventions = _first(said.conventions, settings.conventions) is not Conventions.OFF
    return Source(
        real_path(Path(configured.path)),
        # Scopes are by what users choose and order skills: a project has no part in that.
        Scope.WORKSPACE,
        _first(configured.strictness, _first(said.strictness, settings.strictness)),
        _bounds(settings, said.scan_depth, said.scan_folders),
        follow_symlinks=settings.follow_symlinks,
        project=project,
        kinds=_kinds(_first(configured.conventions, conventions)),
        gitignore=_first(configured.gitignore, _first(said.gitignore, settings.gitignore)),
    )


def _as_set(source: Source, settings: DiscoverySettings, said: ProjectDiscovery) -> Source:
    """Return one of the usual sources as the settings have it, or those of the project if it is the project's."""
    if source.project is None:
        said = ProjectDiscovery()
    is_strict = _first(said.strictness, settings.strictness) is Strictness.STRICT
    return replace(
        source,
        strictness=Strictness.STRICT if is_strict else source.strictness,
        bounds=_bounds(settings, said.scan_depth, said.scan_folders),
        follow_symlinks=settings.follow_symlinks,
        gitignore=_first(said.gitignore, settings.gitignore),
    )


def _bounds(settings: DiscoverySettings, depth: int | None, folders: int | None) -> ScanBounds:
    """Return the bounds of a source for which others than usual may be set; the names in it grow with its folders."""
    folders = _first(folders, settings.scan_folders)
    return ScanBounds(
        _first(depth, settings.scan_depth), folders, max(DEFAULT_BOUNDS.entries, folders * _NAMES_IN_FOLDER)
    )


def _kinds(conventions: bool) -> frozenset[SkillKind]:  # noqa: FBT001 - it is a setting
    return frozenset(SkillKind) if conventions else frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT})


def _first(said: Value | None, usual: Value) -> Value:
    return usual if said is None else said
