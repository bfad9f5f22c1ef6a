"""From settings to the sources of a library: directories that were named, or the usual places and what was added."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from server.config import Conventions, Settings, SourceSettings
from skills_core.locations import default_sources, project_of
from skills_core.sources import ScanBounds, SkillKind, Source, Strictness, explicit_sources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.locations import Places

__all__ = ["sources_of"]


def sources_of(directories: Sequence[Path] | None, settings: Settings, places: Places) -> tuple[Source, ...]:
    """Return the sources in order of precedence: just `directories`, or without them what `places` and settings say.

    Raises:
        InvalidSourceError: a directory is missing, or is a file.
    """
    if directories:
        return explicit_sources(
            directories,
            settings.strictness,
            follow_symlinks=settings.follow_symlinks,
            conventions=settings.conventions is not Conventions.OFF,
            gitignore=settings.gitignore,
        )
    project = project_of(places.working_directory, places.home)
    own = [_configured(each, settings, None) for each in settings.sources]
    of_project = [_configured(each, settings, project) for each in settings.project_sources]
    whole_project = settings.conventions is Conventions.PROJECT
    bounds = ScanBounds(settings.scan_depth, settings.scan_folders)
    added = [*own, *of_project]
    usual = default_sources(places, added, settings.precedence, conventions=whole_project, bounds=bounds)
    configured = {source.root for source in added}
    return tuple(source if source.root in configured else _with_defaults(source, settings) for source in usual)


def _configured(configured: SourceSettings, settings: Settings, project: Path | None) -> Source:
    """Return a source of the configuration; what it does not say is as for all others."""
    conventions = settings.conventions is not Conventions.OFF
    if configured.conventions is not None:
        conventions = configured.conventions
    return Source(
        Path(configured.path).resolve(),
        configured.scope,
        configured.strictness or settings.strictness,
        follow_symlinks=_either(configured.follow_symlinks, settings.follow_symlinks),
        project=None if settings.trust_workspace else project,
        kinds=frozenset(SkillKind) if conventions else frozenset({SkillKind.FOLDER, SkillKind.DOCUMENT}),
        gitignore=_either(configured.gitignore, settings.gitignore),
    )


def _with_defaults(source: Source, settings: Settings) -> Source:
    """Return one of the usual sources as the settings for all of them have it."""
    is_strict = settings.strictness is Strictness.STRICT
    return replace(
        source,
        strictness=settings.strictness if is_strict else source.strictness,
        follow_symlinks=settings.follow_symlinks,
        project=None if settings.trust_workspace else source.project,
        gitignore=settings.gitignore,
    )


def _either(own: bool | None, common: bool) -> bool:  # noqa: FBT001 - both are settings
    return common if own is None else own
