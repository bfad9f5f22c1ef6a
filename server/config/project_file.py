"""Read the `skillserve.toml` of a project, which may come from an untrusted repository.

The file of an untrusted project is ignored. In a trusted project, the settings of `ProjectSettings` apply to the
project's own skills only. Notices name each ignored setting, and say what to do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from server.config.files import FILE_NAME, ConfigurationError, own_file, read_settings_file
from server.config.settings.names import BY_OPTION, BY_PATH, SECTIONS, SettingPath, entries, fault_of
from server.config.settings.project import ProjectDiscovery, ProjectSettings, ProjectSource
from server.config.settings.skills import SourceSettings
from server.config.values import InvalidValueError, read
from skills_core.diagnostics import one_line
from skills_core.disk.files import read_bounded
from skills_core.disk.sources import Places, project_of, real_path
from skills_core.errors import FileRefusedError

_ALLOWED: Final = frozenset(("discovery", key) for key in ProjectDiscovery.__struct_fields__)

_NOT_OF_PROJECT: Final = sorted({*SourceSettings.__struct_fields__} - {*ProjectSource.__struct_fields__})

_NAMES: Final = r"""["']?([A-Za-z_]+)["']?(?:[ \t]*\.[ \t]*["']?([A-Za-z_]+))?(?![\w-])"""
_TABLE: Final = rf"[ \t]*\[{{1,2}}[ \t]*{_NAMES}"
_KEY: Final = rf"[ \t]*{_NAMES}"
_INLINE: Final = r"""[{,][ \t]*["']?([A-Za-z_]+)(?![\w-])"""
# Compiled on use: few starts meet the file of an untrusted project.


class ProjectFileResult(Struct, frozen=True):
    """The accepted settings of a project's file, the names of the ignored ones, and notices about them."""

    settings: ProjectSettings | None = None
    ignored: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class ProjectFile:
    """The settings file in the working directory; `is_own` if it is the user's own file, which is read elsewhere."""

    def __init__(self, places: Places) -> None:
        self.path = places.working_directory / FILE_NAME
        self._own = own_file(places.config_home)
        # If the working directory is the folder of the user's own settings, they are read there, not here.
        self.is_own = real_path(self.path.parent) == real_path(self._own.parent)
        self._project = project_of(places.working_directory, places.home)
        # Trusting the home directory, or a folder above it, would trust all projects.
        self._can_be_trusted = not real_path(places.home).is_relative_to(real_path(self._project))

    def untrusted(self, others: Iterable[Path] = ()) -> ProjectFileResult:
        """Return notices for an untrusted project: its whole file and those of `others` that exist are ignored.

        The file is not parsed, because parsing a hostile file may take minutes.
        """
        notices = [f"{self._ignored(path)}.{self._trust('it')}" for path in others if os.path.lexists(path)]
        try:
            raw = None if self.is_own else read_bounded(self.path)
        except FileRefusedError as error:
            return ProjectFileResult(notices=(f"{self._ignored(self.path)}: {error.message}.", *notices))
        if raw is None:
            return ProjectFileResult(notices=tuple(notices))
        names = _names_in(raw)
        helped = [name for name in names if tuple(name.split(".")) in _ALLOWED and self._can_be_trusted]
        unhelped = [name for name in names if name not in helped]
        notice = f"{self._ignored(self.path)}: it sets {', '.join(names) or 'no known setting'}."
        notice += self._trust(", ".join(helped)) if helped else ""
        notice += f" {self._elsewhere(unhelped)}" if unhelped else ""
        return ProjectFileResult(None, tuple(names), (notice, *notices))

    def trusted(self, overridden: Collection[SettingPath]) -> ProjectFileResult:
        """Return the settings of a trusted project, except those that are `overridden` by the user.

        Raises:
            ConfigurationError: the file cannot be read, or an accepted setting has an invalid value.
        """
        kept: dict[str, Any] = {}
        ignored: list[str] = []
        for path, value in entries({} if self.is_own else read_settings_file(self.path)):
            target = _setting_path(path)
            if target in _ALLOWED:
                if path != target:
                    raise ConfigurationError(f"{self.path}: {fault_of(path)}")
                if path not in overridden:
                    kept[path[1]] = value
            elif path == ("discovery",):
                raise ConfigurationError(f"{self.path}: {fault_of(path)}")
            else:
                ignored.append(".".join(target))
        ignored.sort()
        if isinstance(kept.get("sources"), list):
            kept["sources"], left_out = self._sources(kept["sources"])
            ignored += left_out
        try:
            settings = ProjectSettings(discovery=read(ProjectDiscovery, kept))
        except InvalidValueError as error:
            raise ConfigurationError(f"{self.path}: discovery.{'.'.join(error.path)}: {error.message}") from None
        shown = [one_line(name)[:100] for name in ignored]
        notices = (f"{one_line(str(self.path))}: ignored in part. {self._elsewhere(shown)}",) if shown else ()
        return ProjectFileResult(settings, tuple(ignored), notices)

    def _sources(self, given: list[object]) -> tuple[list[object], list[str]]:
        """Return the sources with only the keys that a project may set, and the names of the removed keys."""
        sources: list[object] = []
        left_out: list[str] = []
        for number, source in enumerate(given):
            if not isinstance(source, Mapping):
                sources.append(source)
                continue
            path = source.get("path")
            if isinstance(path, str) and path and not self._is_inside(path):
                left_out.append(f"discovery.sources.{number} (it is outside the project)")
                continue
            # Keys that only the user may set are removed; unknown keys stay, and cause the usual error.
            odd = [key for key in _NOT_OF_PROJECT if key in source]
            left_out += [f"discovery.sources.{number}.{key}" for key in odd]
            sources.append({key: value for key, value in source.items() if key not in odd})
        return sources, left_out

    def _is_inside(self, path: str) -> bool:
        try:
            return real_path(Path(path)).is_relative_to(real_path(self._project))
        except ValueError:
            return False

    def _ignored(self, path: Path) -> str:
        return f"{one_line(str(path))} is ignored because the project {one_line(str(self._project))} is not trusted"

    def _trust(self, what: str) -> str:
        if not self._can_be_trusted:
            return ""
        return f" If you trust the project, run `skillserve trust {one_line(str(self._project))}` to apply {what}."

    def _elsewhere(self, names: Iterable[str]) -> str:
        own = one_line(str(self._own))
        return f"A project cannot set {', '.join(names)}: use {own}, a flag or an environment variable."


def _setting_path(path: SettingPath) -> SettingPath:
    """Translate an option at the top level, such as `port`, into the path of its setting; leave other paths."""
    setting = BY_OPTION.get(path[0]) if len(path) == 1 else None
    return setting.path if setting else path


def _names_in(raw: bytes) -> list[str]:
    """Return the known settings that a file most likely has, in the order of their names."""
    return sorted({".".join(path) for path in map(_setting_path, _paths_in(raw)) if path in BY_PATH})


def _paths_in(raw: bytes) -> Iterator[SettingPath]:
    """Yield the paths that the lines of a file seem to set, without parsing TOML."""
    table: SettingPath = ()
    for line in raw.decode("utf-8", "replace").splitlines():
        if header := re.match(_TABLE, line):
            table = _parts(header)
            if table[1:] or table[0] not in SECTIONS:
                yield table
        elif key := re.match(_KEY, line):
            path = (*table, *_parts(key))
            inline = re.findall(_INLINE, line) if path[0] in SECTIONS and not path[1:] else ()
            yield from ((path[0], inner) for inner in inline) if inline else [path[:2]]


def _parts(found: re.Match[str]) -> SettingPath:
    return tuple(part for part in found.groups() if part)
