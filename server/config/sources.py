"""Derive the sources of a library from settings: the named directories, or the default and the configured sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from server.capabilities import CAPABILITIES
from server.config.settings.project import ProjectDiscovery, ProjectSettings, ProjectSource
from server.config.settings.skills import Conventions, DiscoverySettings, SourceSettings
from skills_core.disk.sources import (
    DEFAULT_BOUNDS,
    ScanBounds,
    Scope,
    SkillKind,
    Source,
    Strictness,
    default_sources,
    directory_error,
    explicit_sources,
    project_of,
    real_path,
    unreadable_fault,
)

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.disk.sources import Places


Value = TypeVar("Value")

_NAMES_IN_FOLDER: Final = DEFAULT_BOUNDS.entries // DEFAULT_BOUNDS.folders


def sources_of(
    directories: Sequence[Path] | None, settings: Settings, places: Places, *, awaited: bool = False
) -> tuple[Source, ...]:
    """Return the sources in order of precedence: `directories`, or without any those of `places` and the settings.

    Those of capabilities come last. The settings of a trusted project apply to the sources of the project, and to
    directories in it. With `awaited`, directories and configured sources that cannot be used yet have a `fault`.

    Raises:
        InvalidSourceError: a directory is missing, or is a file, and is not awaited.
    """
    added = (source for each in CAPABILITIES if each.sources is not None for source in each.sources(settings))
    chosen = _chosen_sources(directories, settings, places, awaited=awaited)
    return (*(map(_with_fault, chosen) if awaited else chosen), *added)


def _with_fault(source: Source) -> Source:
    if source.optional or source.fault or source.project is not None:
        return source
    error = directory_error(source.root)
    return replace(source, fault=unreadable_fault(source.root) if error is None else str(error))


def _chosen_sources(
    directories: Sequence[Path] | None, settings: Settings, places: Places, *, awaited: bool
) -> tuple[Source, ...]:
    project = project_of(places.working_directory, places.home)
    overrides = (settings.project or ProjectSettings()).discovery
    own = settings.discovery
    conventions = _or_default(overrides.conventions, own.conventions)
    if directories:
        named = explicit_sources(
            directories,
            own.strictness,
            follow_symlinks=own.follow_symlinks,
            conventions=own.conventions is not Conventions.OFF,
            gitignore=own.gitignore,
            awaited=awaited,
        )
        inside = real_path(project)
        return tuple(
            _named_in_project(each, overrides, own) if each.root.is_relative_to(inside) else each for each in named
        )
    added = [
        *(_user_source(each, own) for each in own.sources),
        *(_project_source(each, overrides, own, project) for each in overrides.sources),
    ]
    usual = default_sources(
        places,
        added,
        own.precedence,
        conventions=conventions is Conventions.PROJECT,
        may_leave=own.trust_workspace or settings.project is not None,
    )
    found = (source if source in added else _with_settings(source, own, overrides) for source in usual)
    return tuple(replace(source, project=None) for source in found) if own.trust_workspace else tuple(found)


def _named_in_project(named: Source, overrides: ProjectDiscovery, settings: DiscoverySettings) -> Source:
    """Return a named directory of the project with the settings of the project."""
    return replace(
        named,
        strictness=_or_default(overrides.strictness, settings.strictness),
        kinds=_kinds(_or_default(overrides.conventions, settings.conventions) is not Conventions.OFF),
        gitignore=_or_default(overrides.gitignore, settings.gitignore),
    )


def _user_source(configured: SourceSettings, settings: DiscoverySettings) -> Source:
    """Return a source of the user's configuration; missing values are those for all sources."""
    return Source(
        real_path(Path(configured.path)),
        configured.scope,
        configured.strictness or settings.strictness,
        _bounds(settings, configured.scan_depth, configured.scan_folders),
        follow_symlinks=_or_default(configured.follow_symlinks, settings.follow_symlinks),
        kinds=_kinds(_or_default(configured.conventions, settings.conventions is not Conventions.OFF)),
        gitignore=_or_default(configured.gitignore, settings.gitignore),
    )


def _project_source(
    configured: ProjectSource, overrides: ProjectDiscovery, settings: DiscoverySettings, project: Path
) -> Source:
    """Return a source of the project's configuration; missing values are those for all sources of the project."""
    conventions = _or_default(overrides.conventions, settings.conventions) is not Conventions.OFF
    return Source(
        real_path(Path(configured.path)),
        # Users select and order skills by scope; a project must not influence that.
        Scope.WORKSPACE,
        _or_default(configured.strictness, _or_default(overrides.strictness, settings.strictness)),
        _bounds(settings, overrides.scan_depth, overrides.scan_folders),
        follow_symlinks=settings.follow_symlinks,
        project=project,
        kinds=_kinds(_or_default(configured.conventions, conventions)),
        gitignore=_or_default(configured.gitignore, _or_default(overrides.gitignore, settings.gitignore)),
    )


def _with_settings(source: Source, settings: DiscoverySettings, overrides: ProjectDiscovery) -> Source:
    """Return a default source with the user's settings, or with those of the project if it belongs to the project."""
    if source.project is None:
        overrides = ProjectDiscovery()
    is_strict = _or_default(overrides.strictness, settings.strictness) is Strictness.STRICT
    return replace(
        source,
        strictness=Strictness.STRICT if is_strict else source.strictness,
        bounds=_bounds(settings, overrides.scan_depth, overrides.scan_folders),
        follow_symlinks=settings.follow_symlinks,
        gitignore=_or_default(overrides.gitignore, settings.gitignore),
    )


def _bounds(settings: DiscoverySettings, depth: int | None, folders: int | None) -> ScanBounds:
    """Return the bounds of a source, with the values for all sources in place of None."""
    folders = _or_default(folders, settings.scan_folders)
    return ScanBounds(
        _or_default(depth, settings.scan_depth), folders, max(DEFAULT_BOUNDS.entries, folders * _NAMES_IN_FOLDER)
    )


def _kinds(conventions: bool) -> frozenset[SkillKind]:  # noqa: FBT001 - it is a setting
    return frozenset(SkillKind) if conventions else frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT})


def _or_default(value: Value | None, default: Value) -> Value:
    return default if value is None else value
