"""The skills of a project: the files that are skills, a catalog of them, and an injector for programs.

Names and order follow adk-skill's discovery and index; what is a skill follows `loading`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skills_core.context.injection import MAX_INJECTED_CHARS, by_shared_words, inject, select_block
from skills_core.disk.sources import JDAI_FOLDER, Scope, Source, Strictness, explicit_sources, real_path
from skills_core.live.library import Library
from skills_core.loading.discovery import find_skill_files
from skills_core.selection.policy import SelectionPolicy

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.context.injection import Injection, Message, Ranking, SkillBlock
    from skills_core.skills.gates import Environment


_HIDDEN_FOLDERS: Final = (
    (f"{JDAI_FOLDER}/skills", Strictness.JDAI),
    (".agents/skills", Strictness.LENIENT),
    (".claude/skills", Strictness.LENIENT),
)
"""Folders of skills in a project that a scan of the project leaves out, because they are hidden."""

_POLICY = SelectionPolicy()


def project_sources(
    root: str | os.PathLike[str], extras: Iterable[str | os.PathLike[str]] = (), *, conventions: bool = True
) -> tuple[Source, ...]:
    """Return the sources of a project, in order of precedence: `root`, its hidden folders of skills, and `extras`.

    Extras that are not directories are skipped, and so is a hidden folder that is a link out of `root`. With
    `conventions`, convention files (`AGENTS.md` and others) below `root` are skills.

    Raises:
        InvalidSourceError: `root` is not a directory, or cannot be accessed.
    """
    (whole,) = explicit_sources([root], conventions=conventions)
    hidden = (
        Source(real_path(whole.root / folder), Scope.WORKSPACE, strictness, optional=True)
        for folder, strictness in _HIDDEN_FOLDERS
    )
    inside = (source for source in hidden if source.root.is_relative_to(whole.root))
    # No directory has such a name, and the system refuses it.
    named = (Path(extra) for extra in extras if "\0" not in os.fspath(extra))
    more = (Source(real_path(extra), optional=True) for extra in named)
    sources: dict[Path, Source] = {}
    for source in (whole, *inside, *more):
        sources.setdefault(source.root, source)
    return tuple(sources.values())


def discover_skill_files(
    root: str | os.PathLike[str], extras: Iterable[str | os.PathLike[str]] = ()
) -> tuple[Path, ...]:
    """Return the paths of all files in a project that make a skill, sorted, each once; none of them is read.

    They are the main files of skill folders, and documents (`*.skill.md`, and Markdown files below `.skills` and
    `.claude/skills`; those without frontmatter turn out not to be skills when they are read). See `project_sources`
    for the parameters.

    Raises:
        InvalidSourceError: `root` is not a directory, or cannot be accessed.
    """
    return _sorted(project_sources(root, extras, conventions=False))


def discover_instruction_files(
    root: str | os.PathLike[str], extras: Iterable[str | os.PathLike[str]] = ()
) -> tuple[Path, ...]:
    """Return the paths that `discover_skill_files` returns, and those of the project's convention files.

    Raises:
        InvalidSourceError: `root` is not a directory, or cannot be accessed.
    """
    return _sorted(project_sources(root, extras))


def load_skills(
    root: str | os.PathLike[str], environment: Environment, extras: Iterable[str | os.PathLike[str]] = ()
) -> Catalog:
    """Load the skills of a project once, with conditions evaluated against `environment`.

    A program that follows changes makes a `Library` of `project_sources` instead.

    Raises:
        InvalidSourceError: `root` is not a directory, or cannot be accessed.
    """
    return Library(project_sources(root, extras), lambda: environment).catalog


def _sorted(sources: Iterable[Source]) -> tuple[Path, ...]:
    return tuple(sorted({path for source in sources for path in _paths(source)}))


def _paths(source: Source) -> Iterator[Path]:
    for path in find_skill_files(source):
        yield source.root / path


@dataclass(frozen=True, slots=True)
class Injector:
    """A ranking of skills with the policy that selects one of them, and the limit for its body.

    It knows the skills that the ranking was made of; make a new injector after they changed.
    """

    ranking: Ranking
    policy: SelectionPolicy = _POLICY
    max_injected_chars: int = MAX_INJECTED_CHARS

    @classmethod
    def from_root(
        cls,
        root: str | os.PathLike[str],
        environment: Environment,
        extras: Iterable[str | os.PathLike[str]] = (),
        *,
        policy: SelectionPolicy = _POLICY,
        max_injected_chars: int = MAX_INJECTED_CHARS,
    ) -> Injector:
        """Return an injector of the project's skills that models may choose, in adk-skill's ranking.

        See `load_skills` for the first parameters.

        Raises:
            InvalidSourceError: `root` is not a directory, or cannot be accessed.
        """
        ranking = by_shared_words(load_skills(root, environment, extras).offered)
        return cls(ranking, policy, max_injected_chars)

    def select(self, query: str) -> SkillBlock | None:
        """Return the block of the best skill for what a user says; None if no skill matches."""
        return select_block(query, self.ranking, self.policy, self.max_injected_chars)

    def inject(self, message: Message) -> Injection:
        """Return the message with the block of the best skill before its first text; see `context.injection.inject`."""
        return inject(message, self.ranking, self.policy, self.max_injected_chars)
