"""Turn flags and the environment into settings and a library, in the same way for every command."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from server import __version__
from server.capabilities import CAPABILITIES
from server.config.machine import SCHEDULED_RUN, Machine, cache_home, current_places
from server.config.project_file import ProjectFile, ProjectFileResult
from server.config.settings.layers import from_environment, from_flags, load_settings
from server.config.settings.names import BY_PATH
from server.config.settings.server import LogFormat, LoggingSettings, LogLevel
from server.config.sources import sources_of
from server.config.values import home_path
from server.logs.text_logs import TextHandler
from skills_core.disk.sources import SkillKind, Strictness, real_path
from skills_core.live.library import Library, Review, load_catalog

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.loading.index import SourceIndex
    from skills_core.skills.gates import Environment
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)


def settings_with_logs(machine: Machine, **flags: object) -> Settings:
    """Return the settings, overridden by `flags`, and start logging to stderr.

    A flag that is false, None or empty counts as not given.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    settings, result = settings_in_project(machine, user_settings(machine, flags), flags)
    log_to_stderr(settings.logging)
    _log_notices(result)
    return settings


def log_to_stderr(settings: LoggingSettings) -> None:
    """Log to stderr at the level and in the format of the settings."""
    if settings.format is LogFormat.JSON:
        from server.logs.json_logs import JsonHandler, log_uncaught  # noqa: PLC0415 - most servers log text

        logging.basicConfig(handlers=[JsonHandler()], level=settings.level.upper())
        logging.captureWarnings(capture=True)
        log_uncaught()
    else:
        handler = TextHandler()
        if os.isatty(2) and settings.level is not LogLevel.DEBUG:
            handler.write_for_terminal()
        logging.basicConfig(handlers=[handler], level=settings.level.upper())
    if settings.level is LogLevel.INFO:
        # At this level these libraries log details of their own operation only.
        for library in ("uvicorn", "mcp"):
            logging.getLogger(library).setLevel(logging.WARNING)


def open_library(
    directories: Sequence[Path] | None,
    settings: Settings,
    machine: Machine,
    *,
    awaited: bool = False,
    later: bool = False,
) -> Library:
    """Load the skills in `directories`, or in the default sources if there are none.

    With `awaited`, a directory that cannot be used yet has no skills, and its source says why. With `later`, skills are
    loaded by `Library.load`.

    Raises:
        InvalidSourceError: a directory is missing, or is a file, and is not awaited.
    """
    sources = sources_of(directories, settings, machine.places, awaited=awaited)
    index = _index_of(settings)
    return Library(sources, _environment_of(settings, machine), _review_of(settings), index, later=later)


def _index_of(settings: Settings) -> SourceIndex | None:
    """Return the index of skills, None if it is switched off."""
    if not settings.discovery.index:
        return None
    # Guards, which answer each call of a tool in a process of its own, load no index.
    from skills_core.loading.index import SourceIndex  # noqa: PLC0415

    given = settings.discovery.index_path
    return SourceIndex(cache_home() / "index.db" if given is None else home_path(given).absolute(), __version__)


def _review_of(settings: Settings) -> Review | None:
    return next((each.review(settings) for each in CAPABILITIES if each.review is not None), None)


def open_catalog(
    directories: Sequence[Path] | None, settings: Settings, machine: Machine, *, awaited: bool = False
) -> Catalog:
    """Load the same skills as `open_library`, once, without listing their other files.

    Raises:
        InvalidSourceError: a directory is missing, or is a file, and is not awaited.
    """
    sources = sources_of(directories, settings, machine.places, awaited=awaited)
    return load_catalog(sources, _environment_of(settings, machine)())


def open_in_front(
    folder: Path, directories: Sequence[Path] | None, settings: Settings, machine: Machine
) -> tuple[Library, Skill | None]:
    """Load the same skills as `open_library`, and the skill in `folder`; return it too, in whatever state it is.

    A folder outside the sources precedes them, so that its skill shadows an installed one of the same name.

    Raises:
        InvalidSourceError: a directory is missing, or is a file.
    """
    read, sources = _environment_of(settings, machine), sources_of(directories, settings, machine.places)
    library = Library(sources, read)
    if (skill := _skill_in(folder, library)) is None:
        library = Library((*sources_of([folder], settings, machine.places), *sources), read)
        skill = _skill_in(folder, library)
    return library, skill


def _skill_in(folder: Path, library: Library) -> Skill | None:
    wanted = real_path(folder)
    skills = (skill for skill in library.catalog.skills if skill.content.kind is SkillKind.FOLDER)
    return next((skill for skill in skills if real_path(skill.source.root / skill.content.folder) == wanted), None)


def _environment_of(settings: Settings, machine: Machine) -> Callable[[], Environment]:
    """Return what reads the environment of the skills: the state of the machine, and the choices of the settings."""
    return partial(
        machine.environment,
        trust_workspace=settings.discovery.trust_workspace,
        enabled=settings.catalog.enabled,
        disabled=settings.catalog.disabled,
    )


def open_with_settings(directories: Sequence[Path] | None, **flags: object) -> tuple[Library, Settings]:
    """Load skills to inspect them, without configuring logs; `flags` are those of `settings_of`.

    Raises:
        ConfigurationError: a setting cannot be used.
        InvalidSourceError: a directory is missing, or is a file.
    """
    machine = Machine(current_places())
    settings = settings_of(machine, flags)
    return open_library(directories, settings, machine), settings


def settings_of(machine: Machine, flags: Mapping[str, object]) -> Settings:
    """Return the settings, overridden by `flags`.

    Flags have the names of options; a list stands for a tuple, and a flag that is false, None or empty counts as not
    given. The file of the project applies if the project is trusted; otherwise a warning on stderr names it.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    settings, result = settings_in_project(machine, user_settings(machine, flags), flags)
    _log_notices(result)
    return settings


def _log_notices(result: ProjectFileResult) -> None:
    for notice in result.notices:
        # Without configured logs, Python still writes warnings to stderr.
        logger.warning("%s", notice)


def user_settings(machine: Machine, flags: Mapping[str, object]) -> Settings:
    """Return the settings without those of the project; `flags` and errors are those of `settings_of`."""
    jdai = machine.jdai.read(trusted=False)
    return load_settings(_given(flags), os.environ, machine.places.config_home, jdai)


def settings_in_project(
    machine: Machine, own: Settings, flags: Mapping[str, object]
) -> tuple[Settings, ProjectFileResult]:
    """Return the user's settings `own`, extended by the settings of the project if it is trusted.

    Raises:
        ConfigurationError: a setting of a trusted project cannot be used.
    """
    file = ProjectFile(machine.places)
    if not (own.discovery.trust_workspace or machine.trusts_project()):
        return own, file.untrusted(machine.jdai.of_project)
    given = _given(flags)
    result = file.trusted({*from_flags(given), *from_environment(os.environ)})
    jdai = machine.jdai.read(trusted=True)
    if (jdai.watch, jdai.watch_debounce_ms) != (None, None):
        own = load_settings(given, os.environ, machine.places.config_home, jdai)
    return structs.replace(own, project=result.settings), result


def _given(flags: Mapping[str, object]) -> dict[str, object]:
    """Return the given flags as values of settings."""
    given = {
        name: tuple(flag) if isinstance(flag, list) else flag
        for name, flag in flags.items()
        if flag is not False and flag is not None and flag not in ([], ())
    }
    if given.pop("strict", None):
        given["strictness"] = Strictness.STRICT
    if given.pop("no_adapt", None):
        given["adapt"] = False
    return given


_PREFIX: Final = "SKILLSERVE_"


class UnknownVariable(NamedTuple):
    """A variable that no setting has, what is wrong with it, and what to do."""

    name: str
    message: str
    advice: str


def unknown_variables(environment: Iterable[str]) -> list[UnknownVariable]:
    """Return the variables among these names that begin like those of settings and belong to none, sorted by name."""
    names = (name for setting in BY_PATH.values() for name in (setting.variable, setting.file_variable))
    known = {*filter(None, names), SCHEDULED_RUN}
    return [_described(name, known) for name in sorted(environment) if name.startswith(_PREFIX) and name not in known]


def _described(name: str, known: set[str]) -> UnknownVariable:
    import difflib  # noqa: PLC0415 - a server imports little before it answers

    if any(name == f"{_PREFIX}{setting.option.upper()}" for setting in BY_PATH.values()):
        return UnknownVariable(name, "only a file can have this setting", "set it in skillserve.toml")
    near = difflib.get_close_matches(name.removeprefix(_PREFIX), [each.removeprefix(_PREFIX) for each in known], 1)
    if near:
        message = f"no setting has this name; the closest one is {_PREFIX}{near[0]}"
        return UnknownVariable(name, message, "correct the name, or unset it")
    return UnknownVariable(name, "no setting has this name", "unset it")
