"""The catalog: one immutable snapshot of all skills with their states, and the lookups over it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar
from weakref import ref

from skills_core.catalog.conflicts import Settlement
from skills_core.catalog.filter import Relations, edits_of_visible, keeps_name, visible_skills
from skills_core.errors import AmbiguousSkillError, UnknownFileError, UnknownSkillError
from skills_core.layered import Layered
from skills_core.ordered import Ordered
from skills_core.skills.skill import SCHEME, Skill, SkillFile, State, decode_path, is_same_skill
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from pathlib import Path

    from skills_core.diagnostics import Diagnostic
    from skills_core.disk.sources import Source
    from skills_core.skills.skill import SkillContent


_T = TypeVar("_T")
_name_of = attrgetter("name")

MAX_ENTRY = 1536
"""Maximum length in characters of one skill's entry in a catalog for models; some hosts cut longer ones."""


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A source as loaded: whether its directory exists, whether it is trusted, and its number of skills so far.

    One that is not `complete` is still being loaded; `fault` says why that could not go on.
    """

    source: Source
    exists: bool
    trusted: bool
    skills: int
    complete: bool = True
    fault: str = ""


class DirectoryContents(NamedTuple):
    """A folder: its path, which starts with that of a skill or leads to one, and its direct children by name.

    A file is paired with the innermost skill that has it, a folder is None.
    """

    path: str
    children: Mapping[str, tuple[Skill, SkillFile] | None]


class CatalogStep(NamedTuple):
    """How a catalog was made of the one before it: the skills that went and those that came, in order.

    A skill that changed went, and came as it is now.
    """

    gone: Sequence[Skill]
    come: Sequence[Skill]


class Admitted(NamedTuple):
    """The skills of a catalog that a caller may see, in order, before those are left out that depend on hidden ones."""

    catalog: Catalog
    skills: tuple[Skill, ...]


class _Origin(NamedTuple):
    """The step to a catalog from the one before it; of skills that went it has only the sort keys, to keep none."""

    before: ref[Catalog]
    gone: tuple[tuple[str, str, str, str], ...]
    come: tuple[Skill, ...]


@dataclass(frozen=True, slots=True, repr=False, weakref_slot=True)
class Catalog:
    """All skills found, ordered by name and path; `active` are those that are served.

    `conditional` are those with gates, `requiring` those that require others, `keyed` those with a `skillKey`.
    `offered` are the active skills that a model may activate by itself, with those that are always on first, then by
    key. `problems` are diagnostics about sources rather than skills. `sources` are in order of precedence. `settlement`
    is the outcome of conflicts over names. Build one with `catalog.builder.build_catalog`.
    """

    skills: tuple[Skill, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    sources: tuple[FoundSource, ...] = ()
    settlement: Settlement = field(default=Settlement(), compare=False)
    conditional: tuple[Skill, ...] = field(init=False, compare=False)
    requiring: tuple[Skill, ...] = field(init=False, compare=False)
    keyed: tuple[Skill, ...] = field(init=False, compare=False)
    active: tuple[Skill, ...] = field(init=False)
    offered: tuple[Skill, ...] = field(init=False, compare=False)
    _by_key: Layered[str, Skill] = field(init=False, compare=False)
    _by_path: Layered[str, Skill] = field(init=False, compare=False)
    _keys_of: Layered[str, tuple[str, ...]] = field(init=False, compare=False)
    _keys: Ordered[str] = field(init=False, compare=False)
    _paths: Ordered[str] = field(init=False, compare=False)
    _depth: int = field(init=False, compare=False)
    _origin: _Origin | None = field(init=False, compare=False, default=None)
    _relations: Relations | None = field(init=False, compare=False, default=None)

    def __post_init__(self) -> None:
        lists: dict[str, list[Skill]] = {name: [] for name in _LISTS}
        choices = [(belongs, lists[name].append) for name, (belongs, _) in _LISTS.items()]
        # In one pass: of many skills, the processor has only the next ones at hand.
        for skill in self.skills:
            for belongs, choose in choices:
                if belongs(skill):
                    choose(skill)
        for name, chosen in lists.items():
            order = _LISTS[name][1]
            if order is not order_of:
                chosen.sort(key=order)
            # The skills are in order already. Nearly always all are active, so that one tuple is both lists.
            has_all = order is order_of and len(chosen) == len(self.skills)
            object.__setattr__(self, name, self.skills if has_all else tuple(chosen))
        object.__setattr__(self, "_by_key", Layered({skill.key: skill for skill in self.active}))
        object.__setattr__(self, "_by_path", Layered({skill.path: skill for skill in self.active}))
        object.__setattr__(self, "_keys_of", Layered(_keys_by_name(self.skills)))
        object.__setattr__(self, "_keys", Ordered(self._by_key))
        object.__setattr__(self, "_paths", Ordered(self._by_path))
        object.__setattr__(self, "_depth", _depth(self.active))

    def __repr__(self) -> str:
        counts = Counter(str(skill.state) for skill in self.skills)
        return f"<Catalog {', '.join(f'{n} {state}' for state, n in sorted(counts.items())) or 'empty'}>"

    def updated(
        self,
        gone: Sequence[Skill],
        come: Sequence[Skill],
        settlement: Settlement,
        problems: tuple[Diagnostic, ...],
        sources: tuple[FoundSource, ...],
    ) -> Catalog:
        """Return the catalog after some skills went and others came; no other skill changes.

        It costs copies of two tuples, of all skills and of the offered ones; the rest is shared.
        """
        catalog = copy(self)
        skills = _revised(self.skills, gone, come, order_of)
        for name, (belongs, order) in _LISTS.items():
            values, left, joined = getattr(self, name), [*filter(belongs, gone)], [*filter(belongs, come)]
            has_all = order is order_of and len(values) - len(left) + len(joined) == len(skills)
            object.__setattr__(catalog, name, skills if has_all else _revised(values, left, joined, order))
        old, new = ([skill for skill in skills if skill.state is State.ACTIVE] for skills in (gone, come))
        by_key, by_path = self._by_key.copy(), self._by_path.copy()
        for skill in old:
            del by_key[skill.key], by_path[skill.path]
        by_key.update((skill.key, skill) for skill in new)
        by_path.update((skill.path, skill) for skill in new)
        by_key.merge()
        by_path.merge()
        for name, value in {
            "problems": problems,
            "sources": sources,
            "settlement": settlement,
            "_by_key": by_key,
            "_by_path": by_path,
            "_keys": _replaced(self._keys, (each.key for each in old), (each.key for each in new)),
            "_paths": _replaced(self._paths, (each.path for each in old), (each.path for each in new)),
            "_depth": max(self._depth, _depth(new)),
            "_relations": None,
            "_origin": _Origin(ref(self), tuple(sorted(map(order_of, gone))), tuple(sorted(come, key=order_of))),
        }.items():
            object.__setattr__(catalog, name, value)
        names = {name for skill in (*gone, *come) for name in skill.content.names}
        object.__setattr__(catalog, "_keys_of", catalog._keys_as_now(names))  # noqa: SLF001 - its own
        return catalog

    def _keys_as_now(self, names: Iterable[str]) -> Layered[str, tuple[str, ...]]:
        """Return `_keys_of`, which is that of the catalog before, with the entries for `names` as they are now."""
        keys_of = self._keys_of.copy()
        keyed = [skill for skill in self.keyed if skill.content.skill_key in names]
        for name in names:
            ((_, found),) = self.named((name,))
            having = [*found]
            if not any(map(keeps_name, having)):
                having += [skill for skill in keyed if name in skill.content.names and skill.name != name]
                having.sort(key=order_of)
            keys = tuple(skill.key for skill in having if skill.state is State.ACTIVE and skill.key != name)
            if keys:
                keys_of[name] = keys
            else:
                keys_of.pop(name, None)
        return keys_of

    def step_from(self, before: Catalog) -> CatalogStep | None:
        """Return how this catalog was made of `before`, None if it was made of another, or built anew."""
        origin = self._origin
        if origin is None or origin.before() is not before:
            return None
        gone = [before.skills[bisect_left(before.skills, key, key=order_of)] for key in origin.gone]
        return CatalogStep(gone, origin.come)

    def admitted(self, admits: Callable[[Skill], bool], before: Admitted | None = None) -> Admitted:
        """Return the skills for which `admits` holds, of which `before` has those of another catalog.

        If this catalog was made of that one, `admits` is asked for what changed alone. It should judge what a skill is
        (its source, name, frontmatter), never its state.
        """
        if before is not None and before.catalog is self:
            return before
        step = None if before is None else self.step_from(before.catalog)
        if before is None or step is None:
            return Admitted(self, tuple(filter(admits, self.skills)))
        gone = frozenset(map(id, step.gone))
        left = [skill for skill in before.skills if id(skill) not in gone]
        return Admitted(self, _revised(tuple(left), (), [*filter(admits, step.come)], order_of))

    def restricted(self, admits: Callable[[Skill], bool], admitted: Admitted | None = None) -> Catalog:
        """Return the catalog of the skills that a caller may see; the same one if `admits` holds for all skills.

        Which these are may be known: `admitted`. What is left says nothing of the others; `catalog.filter` tells which
        skills are hidden with a hidden one. A source whose skills are all hidden is hidden as well; the others count
        the skills that are left. As soon as one skill is hidden there are no `problems`, since they name paths whatever
        skill these would belong to.
        """
        seen = self.admitted(admits, admitted).skills
        roots = (found.source.root for found in self.sources)
        skills = visible_skills(self.skills, seen, roots, self._related)
        if skills is self.skills:
            return self
        skills = tuple(sorted(skills, key=order_of))
        counts = Counter(skill.source.root for skill in skills)
        sources = tuple(
            replace(found, skills=counts[found.source.root])
            for found in self.sources
            if counts[found.source.root] or not found.skills
        )
        return Catalog(skills, (), sources)

    def _related(self) -> Relations:
        """Return what all restricted catalogs look up, from the first of them on."""
        found = self._relations
        if found is None:
            found = Relations(self.skills)
            object.__setattr__(self, "_relations", found)
        return found

    def restricted_after(self, before: Catalog, restricted: Catalog, admits: Callable[[Skill], bool]) -> Catalog | None:
        """Return what `restricted` returns, from what it returned for `before`, of which this catalog was made.

        That costs what changed: most changes are edits, after which the same skills are seen. None is returned if more
        has changed. It is the same catalog if what changed is hidden.
        """
        step = self.step_from(before)
        if step is None or self.sources != before.sources or restricted is before:
            return None
        edits = edits_of_visible(
            step.gone,
            step.come,
            admits,
            lambda skill: restricted.skill_of(skill.source.root, skill.content) is skill,
        )
        if edits is None:
            return None
        if not edits:
            return restricted
        gone, come = zip(*edits, strict=True)
        return restricted.updated(gone, come, restricted.settlement, restricted.problems, restricted.sources)

    def is_same(self, other: Catalog) -> bool:
        """Tell whether everything that was derived from this catalog holds for the other."""
        if (self.problems, self.sources) != (other.problems, other.sources):
            return False
        if len(self.skills) != len(other.skills):
            return False
        if self._origin is not None and self._origin.before() is other:
            # A skill that is the same stays the same object.
            return False
        pairs = zip(self.skills, other.skills, strict=True)
        # Nearly all skills are the same objects, so a call for each would take most of the time.
        return all(old is new or is_same_skill(old, new) for old, new in pairs)

    def get(self, name: str) -> Skill | None:
        """Return the active skill whose key or path is `name`, or the only one with this name or `skillKey`."""
        found = self._by_key.get(name) or self._by_path.get(name)
        if found is None and len(keys := self._keys_of.get(name, ())) == 1:
            return self._by_key[keys[0]]
        return found

    def skill(self, name: str, suggested: Iterable[Skill] | None = None) -> Skill:
        """Return the active skill that `get` finds, or whose SKILL.md has the URI `name`.

        The error suggests names from `suggested`, by default from all active skills: an error must not reveal a skill
        to a caller who may not see it.

        Raises:
            UnknownSkillError: no active skill has this name.
            AmbiguousSkillError: several active skills have this name or `skillKey`.
        """
        found = self.get(name)
        if found is None and name.startswith(SCHEME):
            at = self.file(name)
            found = at[0] if at is not None and at[0].content.is_main(at[1]) else None
        return found if found is not None else self._refuse(name, self.active if suggested is None else suggested)

    @property
    def is_loading(self) -> bool:
        """Whether there are skills that are not loaded yet: what is not here is unknown, not absent."""
        return not all(found.complete for found in self.sources)

    def _refuse(self, name: str, suggested: Iterable[Skill]) -> NoReturn:
        known = {skill.key: skill for skill in suggested}
        choices = {key: known[key].description for key in self._keys_of.get(name, ()) if key in known}
        if len(choices) > 1:
            raise AmbiguousSkillError(name, choices)
        inactive = [skill for skill in self.skills if skill.state is not State.ACTIVE and name in skill.content.names]
        inactive.sort(key=lambda skill: skill.name != name)
        other = None if name in self._keys_of else next(iter(inactive), None)
        because = f"it is {other.state} ({other.reason}: {other.detail})" if other is not None else ""
        if self.is_loading and other is None:
            because = "skills are still being loaded; try again in some seconds"
        raise UnknownSkillError(name, known, because)

    def provider(self, name: str) -> Skill | None:
        """Return the active skill that a `requires` names: that of `get`, or the first of several with this name."""
        return self.get(name) or next((self._by_key[key] for key in self._keys_of.get(name, ())), None)

    def named(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, Iterable[Skill]]]:
        """Yield the skills in any state that have each of `names`, or each name there is, in the catalog's order."""
        if names is None:
            yield from groupby(self.skills, key=_name_of)
            return
        for name in sorted(names):
            first, end = (bisect(self.skills, name, key=_name_of) for bisect in (bisect_left, bisect_right))
            yield name, self.skills[first:end]

    def skill_of(self, root: Path, content: SkillContent) -> Skill | None:
        """Return the skill, in any state, that `content` became which was loaded from the source at `root`."""
        ((_, found),) = self.named((content.name,))
        return next((each for each in found if each.identity == (root, content.place)), None)

    def at(self, path: str) -> Skill | None:
        """Return the active skill with this path, None if there is none."""
        return self._by_path.get(path)

    def by_path(self, first: str | None = None) -> Iterator[Skill]:
        """Yield the active skills in the order of their paths, from the path `first` on."""
        return _from(first, self._paths, self._by_path)

    def by_key(self, first: str | None = None) -> Iterator[Skill]:
        """Yield the active skills in the order of their keys, from the key `first` on."""
        return _from(first, self._keys, self._by_key)

    def encloses(self, path: str) -> bool:
        """Tell whether the path of an active skill lies below `path`."""
        return next((skill.path for skill in self.by_path(f"{path}/")), "").startswith(f"{path}/")

    def shown(self, skill: Skill) -> Skill | None:
        """Return an active skill as this catalog has it, None if it has not; `skill` may be of one that shows more."""
        ((_, found),) = self.named((skill.name,))
        active = (each for each in found if each.state is State.ACTIVE)
        return next((each for each in active if each.identity == skill.identity), None)

    def offer(self, name: str) -> Skill | None:
        """Return the active skill that `get` finds if a model may activate it, else None."""
        skill = self.get(name)
        return skill if skill is not None and skill.model_invocable else None

    def file(self, uri: str) -> tuple[Skill, SkillFile] | None:
        """Return the file that `uri` names and the innermost active skill that has it, or None.

        A file whose path differs in case is found as `SkillContent.file` finds it, if there is none of this spelling.
        """
        for skill, inside in self._holders(uri):
            file = skill.content.files.get(inside)
            if file is not None:
                return skill, file
        for skill, inside in self._holders(uri):
            file = skill.content.file(inside)
            if file is not None:
                # The right spelling may lead into a nested skill.
                return self.file(skill.file_uri(file.path))
        return None

    def similar_files(self, uri: str) -> tuple[str, ...]:
        """Return the URIs of up to three files that `uri`, which names none, may mean: those that models may read."""
        for skill, inside in self._holders(uri):
            similar = UnknownFileError(skill.key, inside, files_for_models(skill.content)).similar
            return tuple(map(skill.file_uri, similar))
        return ()

    def _holders(self, uri: str) -> Iterator[tuple[Skill, str]]:
        """Yield the active skills whose folders enclose what `uri` names, the innermost first, with its path there."""
        path = decode_path(uri)
        segments = path.split("/") if path is not None else []
        # No skill path is deeper, so that a URI of a thousand segments costs no more than others.
        for count in range(min(self._depth, len(segments) - 1), 0, -1):
            skill = self._by_path.get("/".join(segments[:count]))
            if skill is not None:
                yield skill, "/".join(segments[count:])

    def directory(self, uri: str) -> DirectoryContents | None:
        """Return the folder that `uri` names; None if there is no such folder. Folders above skills count as folders.

        A folder of a skill is found as `SkillContent.subfolder` finds it, if there is none of this spelling.
        """
        path = decode_path(uri)
        if path is None:
            return None
        if found := self._folder_at(path):
            return found
        near = (
            f"{skill.path}/{folder}"
            for skill, inside in self._holders(uri)
            if (folder := skill.content.subfolder(inside)) is not None
        )
        spelled = next(near, None)
        return self._folder_at(spelled) if spelled is not None else None

    def _folder_at(self, path: str) -> DirectoryContents | None:
        children: dict[str, tuple[Skill, SkillFile] | None] = {}
        segments, is_folder = path.split("/"), False
        for count in range(1, min(self._depth, len(segments)) + 1):
            skill = self._by_path.get("/".join(segments[:count]))
            inside = "/".join(segments[count:])
            if skill is not None and (not inside or inside in skill.content.folders):
                is_folder = True
                children |= _children(skill, inside)
        below = path + "/"
        for inside in self._paths.starting_at(below):
            if not inside.startswith(below):
                break
            is_folder = True
            children.setdefault(inside[len(below) :].partition("/")[0], None)
        return DirectoryContents(path, dict(sorted(children.items()))) if is_folder else None

    def file_of(self, skill: Skill, path: str) -> SkillFile:
        """Return the file at `path`, which is relative to the skill's folder, as `SkillContent.file` finds it.

        Raises:
            UnknownFileError: the skill has no such file.
        """
        file = skill.content.file(path)
        if file is None:
            raise UnknownFileError(skill.key, path, files_for_models(skill.content))
        return file


def _from(first: str | None, names: Ordered[str], skills: Mapping[str, Skill]) -> Iterator[Skill]:
    return (skills[name] for name in (names if first is None else names.starting_at(first)))


def order_of(skill: Skill) -> tuple[str, str, str, str]:
    """Return the sort key of the skills of a catalog: name, path, root of the source, and place in it."""
    content = skill.content
    return content.instructions.name, skill.path, str(skill.source.root), content.place


def _keys_by_name(skills: Iterable[Skill]) -> dict[str, tuple[str, ...]]:
    """Return the keys of the active skills with each name or `skillKey` that is not simply the key of its only skill.

    No `skillKey` takes the name of another skill, not even that of one which is excluded.
    """
    # Nearly every skill has its name as its key, and no `skillKey`.
    others = [
        skill
        for skill in skills
        if skill.key != (read := skill.content.instructions).name or read.frontmatter.skill_key
    ]
    keys: dict[str, list[str]] = {}
    taken = {skill.name for skill in skills if keeps_name(skill)} if others else set[str]()
    for skill in (each for each in others if each.state is State.ACTIVE):
        for name in skill.content.names_beside(taken):
            if name != skill.key:
                keys.setdefault(name, []).append(skill.key)
    return {name: tuple(found) for name, found in keys.items()}


def _order_of_offer(skill: Skill) -> tuple[bool, str]:
    return not skill.content.instructions.frontmatter.always_on, skill.key


_LISTS: Mapping[str, tuple[Callable[[Skill], Any], Callable[[Skill], Any]]] = {
    "skills": (lambda _: True, order_of),
    "active": (lambda skill: skill.state is State.ACTIVE, order_of),
    "conditional": (attrgetter("content.instructions.frontmatter.gates"), order_of),
    "requiring": (attrgetter("content.instructions.frontmatter.requires"), order_of),
    "keyed": (lambda skill: skill.frontmatter.skill_key and skill.content.skill_key != skill.name, order_of),
    "offered": (attrgetter("is_offered"), _order_of_offer),
}
"""The lists of a catalog: what is true of the skills that belong to each, and their order."""


def _depth(skills: Iterable[Skill]) -> int:
    return max((skill.path.count("/") + 1 for skill in skills), default=0)


def _revised(
    values: tuple[_T, ...], gone: Sequence[_T], come: Sequence[_T], order: Callable[[_T], Any]
) -> tuple[_T, ...]:
    """Return values sorted by `order`, in which no two are alike, without the first ones and with the others."""
    if not gone and not come:
        return values
    result = list(values)
    joining = {order(each): each for each in come}
    for each in gone:
        place = order(each)
        at = bisect_left(result, place, key=order)
        # Most changes are edits: what comes takes the place of what goes, and nothing behind it moves.
        if (instead := joining.pop(place, None)) is not None:
            result[at] = instead
        else:
            del result[at]
    for each in joining.values():
        insort(result, each, key=order)
    return tuple(result)


def _replaced(values: Ordered[str], gone: Iterable[str], come: Iterable[str]) -> Ordered[str]:
    before, after = set(gone), set(come)
    return values if before == after else values.revised(before - after, after - before)


def _children(skill: Skill, inside: str) -> dict[str, tuple[Skill, SkillFile] | None]:
    """Return the direct children of a folder in a skill."""
    prefix = f"{inside}/" if inside else ""
    children: dict[str, tuple[Skill, SkillFile] | None] = {}
    for folder in skill.content.folders:
        if folder.startswith(prefix) and "/" not in folder[len(prefix) :]:
            children[folder[len(prefix) :]] = None
    for path, file in skill.content.files.items():
        if path.startswith(prefix) and "/" not in path[len(prefix) :]:
            children[path[len(prefix) :]] = (skill, file)
    return children
