"""What the operator is told of the catalog: log lines at the start and after each reload, and figures of the reloads.

Rule: agentskills.io asks for a line about each invalid and each shadowed skill. The operator reads the log, so that it
names every place. As text a line says in words what changed, and a burst of changes is cut; as JSON each skill has its
line, with its digest.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from server.config.machine import own_command
from server.logs.text_logs import for_people, for_programs, with_fields
from skills_core.diagnostics import Diagnostic, Reason, Severity, counted, one_line, shortened
from skills_core.disk.sources import Scope
from skills_core.skills.skill import Skill, State

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.disk.sources import Source
    from skills_core.live.library import Change, Library

logger = logging.getLogger(__name__)

_PROGRAM: Final = own_command()
# Found once, because a server that runs must not wait for the disk.

_MAX_PLACES = 10
_MAX_COLLISIONS = 50
# The places that one warning names, and the warnings about names at a time.

_MAX_LINES = 15
# Lines of text about skills, or about what is skipped, at a time.

_MAX_CAUSES = 3
_MAX_WARNINGS = 2
# Changed files that one line names, and new warnings of one skill.

_MAX_NAME = 80
_MAX_MESSAGE = 400
# Characters of the name of a skill, and of what is wrong with it, which may quote it.

_NOT_OWN = frozenset({Scope.BUNDLED, Scope.PLUGIN})
# Where users write no skills.

_SKIPPED = frozenset({Reason.SYMLINK, Reason.SYMLINK_OUTSIDE, Reason.PERMISSION_DENIED, Reason.SCAN_LIMIT})

_COLLISIONS = frozenset({Reason.SHADOWED, Reason.DUPLICATE_NAME})
# One line names all skills of a name.


class SkillLine(NamedTuple):
    """A line about a skill."""

    skill: Skill
    text: str
    level: int = logging.INFO

    @property
    def is_trouble(self) -> bool:
        """Whether something is wrong with the skill."""
        return self.level >= logging.WARNING


def log_catalog(catalog: Catalog) -> None:
    """Log the folders of a new catalog that cannot be used, and its skills that are not active, and what is skipped."""
    for found in catalog.sources:
        if found.source.fault:
            logger.warning("%s", one_line(found.source.fault))
    _warn([*_collisions(catalog.named())])
    _log_problems(catalog.problems)
    _log_untrusted(catalog)
    # A collision names the skills that are shadowed.
    others = (skill for skill in catalog.skills if skill.state not in {State.ACTIVE, State.SHADOWED})
    lines = [_trouble(skill) for skill in others]
    _log_lines(command_for(catalog, "status"), [line for line in lines if line.skill.reason is not Reason.UNTRUSTED])
    for line in lines:
        if line.skill.reason is Reason.UNTRUSTED:
            logger.info("%s", line.text, extra=for_programs(**_fields(line.skill)))


def log_change(change: Change) -> None:
    """Log what a reload changed; a collision, and what is skipped, only if it is new."""
    _log_folders(change)
    old = {str(problem) for problem in change.before.problems}
    new = (problem for problem in change.after.problems if problem.code is not Reason.MISSING_DIRECTORY)
    _log_problems([problem for problem in new if str(problem) not in old])
    changed = {skill.name for skill in (*change.added, *change.removed)}
    changed |= {skill.name for pair in change.updated for skill in pair}
    known = frozenset(_collisions(change.before.named(changed)))
    _warn([message for message in _collisions(change.after.named(changed)) if message not in known])
    # What is wrong comes first, so that it is not cut.
    lines = sorted(lines_of(change), key=lambda line: -line.level)
    _log_lines(command_for(change.after, "status"), lines)


def command_for(catalog: Catalog, command: str) -> str:
    """Return the command line of `skillserve` for the folders of a catalog; the usual ones need no argument."""
    sources = [found.source for found in catalog.sources]
    named = [source for source in sources if source.scope is Scope.EXPLICIT]
    if any(source.scope is Scope.MANAGED for source in sources):
        named = []
    return " ".join([f"{_PROGRAM} {command}", *(["DIR..."] if len(named) > 1 else map(_quoted, named))])


def notices_of(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Yield what a person needs to know of a new catalog, each with a heading, and the command that says more."""
    if not any(skill.source.scope is not Scope.BUNDLED for skill in catalog.skills):
        roots = [_shown(found.source) for found in catalog.sources if found.source.scope not in _NOT_OWN]
        yield "looked in", f"{', '.join(roots) or 'no folder'}, and found no skill"
        yield "begin", f"{_PROGRAM} init my-skill --to {first_folder(catalog)}"
    counts = Counter(skill.state for skill in catalog.skills)
    others = ", ".join(f"{counts[state]} {state}" for state in State if state is not State.ACTIVE and counts[state])
    found = (each for skill in catalog.active for each in skill.diagnostics)
    warnings = sum(each.severity is Severity.WARNING for each in (*catalog.problems, *found))
    if others:
        yield "not served", others
    if warnings:
        yield "warnings", f"{warnings:,}"
    if others or warnings:
        yield "see", command_for(catalog, "status")


def served_from(library: Library) -> str:
    """Return the folders that a library serves, as text."""
    sources = library.catalog.sources
    present = [str(found.source.root) for found in sources if not found.source.optional or found.exists]
    return ", ".join(present) or "the default directories, none of which exists yet"


def nothing_found(catalog: Catalog) -> list[str]:
    """Return the lines that say that there are no skills, where they were looked for, and what to do."""
    folders = [f"  {found.source.root}{'' if found.exists else ' (does not exist)'}" for found in catalog.sources]
    to_do = f"To make one, run: {_PROGRAM} init NAME --to {first_folder(catalog)}."
    return [
        "No skills found. Skills are looked for in:" if folders else "No skills found: there is no folder to look in.",
        *map(one_line, folders),
        f"{to_do} Skills elsewhere: name their folder in the command.",
    ]


def first_folder(catalog: Catalog) -> str:
    """Return the folder in which a first skill is served: the one that was named, else the user's own."""
    named = [found.source for found in catalog.sources if found.source.scope is Scope.EXPLICIT]
    return _quoted(named[0]) if named else "~/.agents/skills"


def _quoted(source: Source) -> str:
    import shlex  # noqa: PLC0415 - most starts have nothing to say

    return one_line(shlex.quote(str(source.root)))


def _shown(source: Source) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - a user without a home is not an error
    place = str(source.root)
    return one_line(f"~{place.removeprefix(home)}" if home != "/" and place.startswith(f"{home}{os.sep}") else place)


def _log_lines(more: str, lines: Sequence[SkillLine]) -> None:
    for number, (skill, text, level) in enumerate(lines):
        extra = with_fields if number < _MAX_LINES else for_programs
        logger.log(level, "%s", text, extra=extra(**_fields(skill)))
        logger.debug("%s is %s: %s", one_line(skill.key), skill.state, skill.digest, extra=for_people())
    if len(lines) > _MAX_LINES:
        logger.info("and %d more: %s", len(lines) - _MAX_LINES, more, extra=for_people())


def _fields(skill: Skill) -> dict[str, str | None]:
    return {"skill": one_line(skill.key), "digest": skill.digest, "reason": skill.reason and skill.reason.value}


def _log_problems(problems: Sequence[Diagnostic]) -> None:
    for problem in problems[:_MAX_LINES]:
        head = "skipped " if problem.code in _SKIPPED else ""
        line = f", line {problem.line}" if problem.line else ""
        logger.warning("%s", one_line(f"{head}{problem.path}{line}: {problem.message}"))
    if len(problems) > _MAX_LINES:
        logger.warning("%d more files or folders are skipped", len(problems) - _MAX_LINES)


def _log_untrusted(catalog: Catalog) -> None:
    for found in catalog.sources:
        if found.skills and not found.trusted:
            skills, root = counted(found.skills, "skill"), one_line(str(found.source.root))
            message = "not served until you trust their project: %s of %s; see: skillserve trust"
            logger.info(message, skills, root, extra=for_people())


def lines_of(change: Change) -> Iterator[SkillLine]:
    """Yield the lines about a change; a skill that is gone and there again elsewhere has moved."""
    gone: dict[str | None, list[Skill]] = {}
    for skill in change.removed:
        gone.setdefault(skill.digest, []).append(skill)
    moves: list[tuple[Skill, Skill]] = []
    for skill in change.added:
        if skill.digest is not None and gone.get(skill.digest):
            moves.append((gone[skill.digest].pop(0), skill))
        else:
            yield from _lines_of_new(skill)
    for skill in (skill for skills in gone.values() for skill in skills):
        yield SkillLine(skill, f"{_key(skill)} removed")
    for before, after in (*moves, *change.updated):
        yield from _lines_of_pair(before, after)


def _lines_of_new(skill: Skill) -> Iterator[SkillLine]:
    if skill.state is not State.ACTIVE:
        yield _trouble(skill)
        return
    yield SkillLine(skill, f"{_key(skill)} added")
    yield from _new_warnings((), skill)


def _lines_of_pair(before: Skill, after: Skill) -> Iterator[SkillLine]:
    # The name of a file that is broken may be any text.
    if before.name != after.name and State.INVALID not in {before.state, after.state}:
        yield SkillLine(after, f"{_key(before)} renamed to {_key(after)}")
    elif before.identity != after.identity:
        yield SkillLine(after, f"{_key(after)} moved to {one_line(after.source.shown(after.content.place))}")
    if after.state is not State.ACTIVE:
        yield _trouble(after)
        return
    if before.state is not State.ACTIVE:
        again = "works again" if before.state is State.INVALID else "is served now"
        yield SkillLine(after, f"{_key(after)} {again}")
    elif before.identity == after.identity and (causes := [*_causes(before, after)]):
        yield SkillLine(after, f"{_key(after)} changed: {one_line(', '.join(causes))}")
    yield from _new_warnings(before.diagnostics, after)


def _causes(before: Skill, after: Skill) -> Iterator[str]:
    """Yield what differs between two active states of a skill, except its name."""
    if before.description != after.description:
        yield "description"
    old, new = before.frontmatter.raw, after.frontmatter.raw
    fields = sorted(str(name) for name in {**old, **new} if old.get(name) != new.get(name))
    yield from _cut([shortened(name, 40) for name in fields if name not in {"name", "description"}], "fields")
    is_same_body = _is_same_body(before, after)
    if not is_same_body:
        yield "instructions"
    was, now = before.content, after.content
    paths = sorted({*was.files.differing(now.files)} - {was.main_path, now.main_path})
    yield from _cut([_file_change(path, was.files, now.files) for path in paths], "files")
    if was.main != now.main and is_same_body and old == new:
        yield "spelling of its frontmatter"


def _is_same_body(before: Skill, after: Skill) -> bool:
    """Tell whether two versions have the same body; the older one may be in memory, and is not on the disk any more.

    Where it is nowhere, a change of the file counts as one of the body, unless the frontmatter explains it.
    """
    if before.digest == after.digest or before.body_length != after.body_length:
        return before.body_length == after.body_length
    old, new = before.content.kept_body, after.content.kept_body
    if old is None or new is None:
        return before.frontmatter.raw != after.frontmatter.raw
    return old == new


def _file_change(path: str, before: Container[str], after: Container[str]) -> str:
    if path in before and path in after:
        return path
    return f"{path} {'removed' if path in before else 'added'}"


def _cut(names: Sequence[str], kind: str) -> Iterator[str]:
    yield from names[:_MAX_CAUSES]
    if len(names) > _MAX_CAUSES:
        yield f"{len(names) - _MAX_CAUSES} more {kind}"


def _new_warnings(known: Iterable[Diagnostic], skill: Skill) -> Iterator[SkillLine]:
    old = {(each.code, each.message) for each in known}
    found = (each for each in skill.diagnostics if each.severity is Severity.WARNING and each.code not in _COLLISIONS)
    for each in [each for each in found if (each.code, each.message) not in old][:_MAX_WARNINGS]:
        line = f", line {each.line}" if each.line else ""
        yield SkillLine(skill, f"{_key(skill)}{line}: {shortened(each.message, _MAX_MESSAGE)}", logging.WARNING)


def _trouble(skill: Skill) -> SkillLine:
    """Return the line that says why a skill is not active."""
    if skill.state is not State.INVALID:
        state = "shadowed" if skill.state is State.SHADOWED else "not served"
        return SkillLine(skill, f"{_key(skill)} is {state}: {shortened(skill.detail, _MAX_MESSAGE)}")
    fault = next((each for each in skill.diagnostics if each.code is skill.reason), None)
    line = f", line {fault.line}" if fault is not None and fault.line else ""
    message = shortened(fault.message if fault is not None else skill.detail, _MAX_MESSAGE)
    folder = shortened(skill.source.name_of(skill.content.place), _MAX_NAME)
    return SkillLine(skill, f"{folder} is broken{line}: {message}", logging.WARNING)


def _key(skill: Skill) -> str:
    return shortened(skill.key, _MAX_NAME)


def _log_folders(change: Change) -> None:
    """Log which folders of skills are gone, or there again: a share that is not mounted looks like removed skills."""
    existed = {found.source.root: found.exists for found in change.before.sources}
    for found in change.after.sources:
        root = found.source.root
        if found.source.optional or existed.get(root, found.exists) == found.exists:
            continue
        if found.exists:
            logger.info("the folder %s is there%s", one_line(str(root)), "" if found.source.fault else " again")
        else:
            why = "all of its skills are removed. If it is on a share, see whether that is mounted"
            logger.warning("the folder %s is gone: %s", one_line(str(root)), why)


def _warn(collisions: Sequence[str]) -> None:
    for message in collisions[:_MAX_COLLISIONS]:
        logger.warning("%s", message)
    if len(collisions) > _MAX_COLLISIONS:
        logger.warning("%d more names are those of several skills", len(collisions) - _MAX_COLLISIONS)


def _collisions(named: Iterable[tuple[str, Iterable[Skill]]]) -> Iterator[str]:
    for name, skills in named:
        group = [skill for skill in skills if _competes(skill)]
        if len(group) > 1:
            rest = len(group) - _MAX_PLACES
            places = [_described(skill) for skill in group[:_MAX_PLACES]] + ([f"{rest} more"] if rest > 0 else [])
            yield f"{len(group)} skills are named {one_line(name[:200])}: {', '.join(places)}"


def _competes(skill: Skill) -> bool:
    return skill.state is not State.INVALID and skill.reason is not Reason.UNTRUSTED


def _described(skill: Skill) -> str:
    place = one_line(str(skill.source.root / skill.content.place))
    return f"{place} (active as {one_line(skill.key)})" if skill.state is State.ACTIVE else f"{place} ({skill.state})"


def log_reload(change: Change) -> Change:
    """Log what a requested reload changed, and return it."""
    from server.hosting.status import change_summary  # noqa: PLC0415 - starts do without it

    logger.info("reloaded on request: %s", change_summary(change))
    return change


@dataclass(frozen=True, slots=True)
class ReloadFigures:
    """The reloads since the start: how many were done and failed, and the seconds that they took together."""

    done: int = 0
    failed: int = 0
    seconds: float = 0.0

    def after(self, seconds: float, *, failed: bool) -> ReloadFigures:
        """Return the figures after one more reload."""
        return ReloadFigures(self.done + (not failed), self.failed + failed, self.seconds + seconds)
