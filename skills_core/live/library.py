"""The library: holds the current catalog, reloads it, and returns what changed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from skills_core.catalog.builder import build_catalog, is_trusted, update_catalog
from skills_core.disk.tree import Tree
from skills_core.layered import Layered, differing
from skills_core.loading.discovery import (
    LoadedSource,
    divided,
    enclosing,
    load_in_parts,
    load_source,
    reload_in_parts,
    reload_source,
)

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.disk.sources import Source
    from skills_core.loading.discovery import Part
    from skills_core.loading.index import IndexState, SourceIndex
    from skills_core.skills.gates import Environment
    from skills_core.skills.skill import Skill, SkillContent


_RESTORING: Final = 0.5
_SHARING: Final = 0.85
# The share of a load that it takes to restore what the index has, or to let several processes load it. The rest is the
# comparison, and what is loaded then.

_STAGE: Final = 5_000
# Folders that are loaded between two writes to the index: a second or two of work. Each write copies what is loaded.
# From so many restored folders on, these are served before they are compared.


class Review(Protocol):
    """What a library asks about each content that it loaded."""

    def siblings(self, source: Source, contents: Mapping[str, SkillContent]) -> Mapping[str, frozenset[str]]:
        """Return by place the names of other skills that the review of a content depends on; no entry means none.

        They are among the skills whose folders are in the same folder.
        """

    def __call__(self, source: Source, content: SkillContent, siblings: frozenset[str]) -> SkillContent:
        """Return the content with the review's diagnostics and exclusion."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Change:
    """The difference that a reload made, per skill; `updated` holds pairs of the old and the new skill.

    A change is false if no skill differs. It equals itself alone, and so may be the key of what is derived from it.
    """

    before: Catalog
    after: Catalog
    added: tuple[Skill, ...] = ()
    removed: tuple[Skill, ...] = ()
    updated: tuple[tuple[Skill, Skill], ...] = ()

    def __bool__(self) -> bool:
        return self.size > 0

    @property
    def size(self) -> int:
        """How many skills differ."""
        return len(self.added) + len(self.removed) + len(self.updated)

    @classmethod
    def between(cls, before: Catalog, after: Catalog) -> Change:
        """Return the difference between two catalogs of the same sources."""
        if (step := after.step_from(before)) is not None:
            gone = {skill.identity: skill for skill in step.gone}
            come = {skill.identity: skill for skill in step.come}
            return cls._of(before, after, gone, come)
        # Most reloads change few skills: equal beginnings and ends are skipped.
        was, now = differing(before.skills, after.skills)
        old = {skill.identity: skill for skill in before.skills[was]}
        new = {skill.identity: skill for skill in after.skills[now]}
        return cls._of(before, after, old, new)

    @classmethod
    def _of(
        cls,
        before: Catalog,
        after: Catalog,
        old: Mapping[tuple[Path, str], Skill],
        new: Mapping[tuple[Path, str], Skill],
    ) -> Change:
        """Return the difference, given the skills that may differ by their identities, in the order of the catalog."""
        added = tuple(skill for place, skill in new.items() if place not in old)
        removed = tuple(skill for place, skill in old.items() if place not in new)
        pairs = ((old[place], skill) for place, skill in new.items() if place in old and old[place] is not skill)
        updated = tuple(pair for pair in pairs if pair[0] != pair[1])
        return cls(before, after, added, removed, updated)


class Progress(NamedTuple):
    """How far the load of the source at `root` is: about a `share` of it, from 0 to 1, is done after `seconds`.

    It is the one with this `number`, counted from 1, of so many `sources`.
    """

    root: Path
    share: float
    seconds: float
    number: int = 1
    sources: int = 1

    @property
    def which(self) -> str:
        """Which of several sources this is, in words; empty for the only one."""
        return f"source {self.number} of {self.sources}" if self.sources > 1 else ""

    @property
    def seconds_left(self) -> float:
        """For how long this source will be loaded at the speed so far; 0 while nothing is known of it."""
        return self.seconds * (1 / self.share - 1) if self.share else 0.0


class _Uncompared(NamedTuple):
    """A source that was not compared with the disk yet, and the share of its load that is done."""

    source: LoadedSource
    share: float = 0.0


class Library:
    """Skills of one or more sources, loaded once and then kept current by `reload`.

    `catalog` is an immutable snapshot that `reload` replaces as a whole: a caller that reads it once works on one
    state. `reload` may be called from any thread; calls are serialized.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        environment: Callable[[], Environment],
        review: Review | None = None,
        index: SourceIndex | None = None,
        *,
        later: bool = False,
    ) -> None:
        """Load all sources, or nothing before `load` if that is for `later`.

        `environment` is called for each load, and returns what gates are evaluated against.

        `review` is called for each content that was loaded anew or has other siblings, and may add diagnostics and an
        exclusion. What `index` has of a source is compared with the files, and not loaded again.
        """
        self.index = index
        self._environment = environment
        self._review = review
        self._lock = threading.Lock()
        self._known = environment()
        self._sources = tuple(sources)
        self._steps: Iterator[Callable[[], list[LoadedSource]]] | None = None
        self._pause: Callable[[], None] | None = None
        self._share: Callable[[], float] = float
        self._number, self._seconds = 0, [0.0 for _ in self._sources]
        self._is_restored = False
        if later:
            self._loaded = [_nothing_of(source, self._known) for source in self._sources]
            self._steps = self._load_in_steps()
        else:
            self._loaded = [_load(source, self._known, index) for source in self._sources]
        self._reviewed = [self._with_review(each, None, each) for each in self._loaded]
        self._catalog = build_catalog(self._reviewed, self._known)

    def __repr__(self) -> str:
        return f"<Library {', '.join(str(source.root) for source in self.sources)}: {self._catalog!r}>"

    @property
    def catalog(self) -> Catalog:
        """The current snapshot."""
        return self._catalog

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources in order of precedence."""
        return tuple(loaded.source for loaded in self._loaded)

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders to watch: the roots of the sources, and the targets of links out of them."""
        return tuple(sorted(frozenset[Path]().union(*(loaded.roots for loaded in self._loaded))))

    @property
    def unread(self) -> dict[Path, frozenset[str]]:
        """The paths that could not be read at the last load, by root; until they are, the last known content stays."""
        return {loaded.source.root: loaded.unread for loaded in self._loaded if loaded.unread}

    @property
    def is_stale(self) -> bool:
        """Whether another reload is due because something could not be read at the last load."""
        return self._known.unread or any(loaded.unread for loaded in self._loaded)

    @property
    def is_complete(self) -> bool:
        """Whether all sources are loaded; until then, what the catalog does not have is unknown, not absent."""
        return self._steps is None

    @property
    def progress(self) -> Progress | None:
        """How far the source that is being loaded is, None if the library is complete; it may be asked for meanwhile.

        Of further sources nothing is known before their turn. One that the index has is half done when it is restored.
        """
        if self._steps is None:
            return None
        number = self._number
        return Progress(
            self._sources[number].root, self._share(), self._seconds[number], number + 1, len(self._sources)
        )

    @property
    def seconds_loaded(self) -> float:
        """For how long `load` has loaded, apart from the publishing of catalogs."""
        return sum(self._seconds)

    def load(self, seconds: float = math.inf, pause: Callable[[], None] | None = None) -> Change:
        """Go on loading for about so many seconds, then publish a catalog of what is loaded; return the difference.

        Each catalog costs time for all skills in it, so callers let the seconds grow. Sources are loaded in order of
        precedence: what shadows others comes first. Those that the index has are all served before one is compared; of
        one that is half restored by then, the rest is restored too.
        `pause` is as for `reload`.
        """
        with self._lock:
            before = self._catalog
            self._load_more(seconds, pause)
            return Change.between(before, self._catalog)

    def note_fault(self, fault: str) -> Change:
        """Let the catalog say why the source that is being loaded is not; the next part that is loaded takes it back.

        Does nothing to a library that is complete.
        """
        with self._lock:
            before = self._catalog
            if self._steps is not None:
                loaded = replace(self._loaded[self._number], fault=fault)
                self._loaded[self._number] = loaded
                self._reviewed[self._number] = replace(self._reviewed[self._number], fault=fault)
                self._catalog = build_catalog(self._reviewed, self._known, before)
            return Change.between(before, self._catalog)

    def _load_more(self, seconds: float, pause: Callable[[], None] | None) -> None:
        if self._steps is None:
            return
        self._pause = pause
        now = monotonic()
        end, found, is_last = now + seconds, None, False
        try:
            while True:
                step = next(self._steps, None)
                before, now = now, monotonic()
                self._seconds[self._number] += now - before
                found, is_last = step or found, step is None
                # Comparing what was restored with the disk is one step, and may take long.
                if is_last or now >= end or (self._is_restored and end < math.inf):
                    break
            if pause is not None:
                # What follows takes a second or more for 100,000 skills: a server that ends need not wait for it.
                pause()
        except BaseException:
            # What raises ends its generator; the next load begins again with the first source that is not complete.
            self._steps = self._load_in_steps()
            raise
        self._is_restored = False
        loaded = self._loaded if found is None else found()
        if not all(map(is_, loaded, self._loaded)):
            reviewed = [self._with_review(*each) for each in zip(self._loaded, self._reviewed, loaded, strict=True)]
            self._catalog = update_catalog(self._catalog, (self._reviewed, reviewed), (self._known, self._known))
            self._loaded, self._reviewed = loaded, reviewed
        if is_last:
            self._steps = None

    def _load_in_steps(self) -> Iterator[Callable[[], list[LoadedSource]]]:
        """Yield after each step what returns all sources as they are then.

        What the index has of a source is restored, unverified; a source of which it has nothing is loaded at its turn,
        as it may shadow those after it. Then what was restored is compared.
        """
        loaded, restored = self._loaded, dict[int, _Uncompared]()
        for number, each in enumerate(loaded):
            if each.complete:
                continue
            self._number, self._share = number, float
            for part in self._unverified_parts(number, each, restored):
                yield partial(_with_part, loaded, number, partial(_unverified, part))
            known = restored.get(number, _Uncompared(each))
            found: Callable[[], LoadedSource] = partial(replace, known.source, complete=False)
            if number not in restored:
                for found in self._loaded_parts(each):
                    yield partial(_with_part, loaded, number, found)
            loaded = _with_part(loaded, number, found)
        # Comparing fewer folders takes less time than a catalog of them is worth.
        self._is_restored = sum(len(each.source.tree) for each in restored.values()) >= _STAGE
        yield lambda: loaded
        for number, (each, share) in restored.items():
            self._number = number
            for found in self._compared_parts(each, share):
                yield partial(_with_part, loaded, number, found)
            loaded = _with_part(loaded, number, found)
        yield lambda: loaded

    def _pause_load(self) -> None:
        if self._pause is not None:
            self._pause()

    def _unverified_parts(self, number: int, each: LoadedSource, restored: dict[int, _Uncompared]) -> Iterator[Part]:
        """Yield after each step what is known of a source before it is compared, and enter the whole under its number.

        That is what the index has of it, or what several processes load of a large one.
        """
        if each.main_only:
            return
        part, share = None, _RESTORING
        for part in self.index.restore_in_parts(each.source) if self.index is not None else ():
            self._share = partial(_share_between, 0.0, _RESTORING, part.share)
            # From a half on, the rest takes no longer, and a catalog would soon be made again.
            if self._share() < _RESTORING / 2:
                yield part
            self._pause_load()
        if part is None and (parts := divided(each.source)) is not None:
            from skills_core.loading.processes import load_with_processes  # noqa: PLC0415 - few sources are large

            share = _SHARING
            for part in load_with_processes(each.source, *parts, self.index):
                self._share = partial(_share_between, 0.0, _SHARING, part.share)
                yield part
                self._pause_load()
        if part is not None and (known := part.source()).tree:
            restored[number] = _Uncompared(known, share)

    def _loaded_parts(self, each: LoadedSource) -> Iterator[Callable[[], LoadedSource]]:
        """Load a source from its files; yield after each step what returns it as it is then."""
        for part in self._kept(load_in_parts(each.source, main_only=each.main_only, pause=self._pause_load)):
            self._share = part.share
            yield part.source

    def _compared_parts(self, known: LoadedSource, share: float) -> Iterator[Callable[[], LoadedSource]]:
        """Compare a restored source with its files; yield after each step what returns it as it is then.

        A `share` of its load is done.
        """
        compared = 0

        def count_and_pause() -> None:
            nonlocal compared
            compared += 1
            self._pause_load()

        middle = (share + 1) / 2
        self._share = partial(_share_between, share, middle, lambda: compared / len(known.tree))
        for part in self._kept(reload_in_parts(known, pause=count_and_pause)):
            self._share = partial(_share_between, middle, 1.0, part.share)
            yield part.source if part.folder is not None else partial(_completed, part)

    def _kept(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield parts, and write them to the index in stages: the next start goes on where a load was ended."""
        since: set[str] = set()
        for part in parts:
            if part.folder is not None:
                since.add(part.folder)
            if self.index is not None and len(since) >= _STAGE:
                self.index.save(replace(part.source(), renewed=frozenset(enclosing(since))), self._pause)
                since.clear()
            yield part

    def reload(self, changed: Iterable[Path] | None = None, pause: Callable[[], None] | None = None) -> Change:
        """Bring the catalog up to date with the disk, and return the difference.

        What is not loaded yet is loaded first. `changed` are absolute paths that are known to have changed: only these
        are read again, whatever their metadata says. With None, the metadata of all files is compared; `pause` is
        called often meanwhile, and may block to let others work. `unread` paths are read again in either case.
        """
        with self._lock:
            before = self._catalog
            self._load_more(math.inf, pause)
            known = self._current_environment()
            loaded = self._reloaded(changed, known, pause)
            pairs = zip(self._loaded, self._reviewed, loaded, strict=True)
            reviewed = [self._with_review(*each) for each in pairs]
            after = update_catalog(self._catalog, (self._reviewed, reviewed), (self._known, known))
            change = Change.between(before, after)
            self._loaded, self._reviewed, self._known = loaded, reviewed, known
            self._catalog = after
            return change

    def index_state(self) -> IndexState | None:
        """Return what the file of the index has; None if no source is in it, or there is no file."""
        if self.index is None or not any(map(self.index.keeps, self._loaded)):
            return None
        return self.index.state()

    def save_index(self, pause: Callable[[], None] | None = None) -> None:
        """Bring the index up to date with what is loaded now; `pause` may block to let others work."""
        if self.index is not None:
            for loaded in self._loaded:
                if loaded.complete:
                    self.index.save(loaded, pause)

    def _with_review(self, before: LoadedSource, reviewed: LoadedSource | None, loaded: LoadedSource) -> LoadedSource:
        """Return a loaded source with reviewed contents; those that did not change keep their review.

        Of an untrusted source only the main files were read, and no skill is served.
        """
        if self._review is None or loaded.main_only:
            return loaded
        if reviewed is not None and loaded is before:
            return reviewed
        known = reviewed.contents if reviewed is not None and not before.main_only else {}
        now, was = loaded.contents, before.contents if known else {}
        if known and (places := loaded.places_concerned_since(before)) is not None:
            now, was = ({each: found[each] for each in places if each in found} for found in (now, was))
        siblings = self._review.siblings(loaded.source, now)
        previous = self._review.siblings(before.source, was) if known else {}
        contents = Layered(known)
        for place in was.keys() - now.keys():
            del contents[place]
        for place, content in now.items():
            beside = siblings.get(place, frozenset())
            if place not in known or was[place] != content or previous.get(place, frozenset()) != beside:
                contents[place] = self._review(loaded.source, content, beside)
            elif was[place] is not content:
                # The content is equal, but the metadata of its files may be newer.
                contents[place] = replace(known[place], files=content.files, main_path=content.main_path)
        # What is beside a skill may have changed its review.
        changed = frozenset(place for place in now.keys() | was.keys() if contents.get(place) is not known.get(place))
        return replace(loaded, contents=contents, changed=changed if known else None)

    def _current_environment(self) -> Environment:
        found = self._environment()
        # Until the environment can be read again, the previous one applies.
        return replace(self._known, problems=found.problems, unread=True) if found.unread else found

    def _reloaded(
        self, changed: Iterable[Path] | None, known: Environment, pause: Callable[[], None] | None
    ) -> list[LoadedSource]:
        paths = None if changed is None else list(changed)
        result: list[LoadedSource] = []
        for source, loaded in zip(self._sources, self._loaded, strict=True):
            if is_trusted(source, known) is loaded.main_only:
                result.append(_load(source, known, self.index))
                continue
            inside = None if paths is None else list(loaded.paths_of(paths))
            is_due = inside is None or inside or loaded.unread
            result.append(self._not_saved(loaded, reload_source(loaded, inside, pause)) if is_due else loaded)
        return result

    def _not_saved(self, before: LoadedSource, loaded: LoadedSource) -> LoadedSource:
        """Return a source that was loaded again; `renewed` is then of all loads since one that the index has."""
        if self.index is None or loaded is before or self.index.holds(before):
            return loaded
        if before.renewed is None or loaded.renewed is None:
            return replace(loaded, renewed=None)
        return replace(loaded, renewed=before.renewed | loaded.renewed)


def _load(source: Source, environment: Environment, index: SourceIndex | None) -> LoadedSource:
    """Load a source; of an untrusted one only what lists its skills, because it may be huge."""
    if is_trusted(source, environment):
        known = None if index is None else index.restore(source)
        return load_source(source) if known is None else reload_source(known)
    return load_source(source.preview, main_only=True)


def _unverified(part: Part) -> LoadedSource:
    return replace(part.source(), complete=False)


def _completed(part: Part) -> LoadedSource:
    whole = part.source()
    return whole if whole.complete else replace(whole, complete=True)


def _share_between(begin: float, end: float, share: Callable[[], float]) -> float:
    return begin + min(1.0, share()) * (end - begin)


def _with_part(loaded: list[LoadedSource], number: int, part: Callable[[], LoadedSource]) -> list[LoadedSource]:
    return [*loaded[:number], part(), *loaded[number + 1 :]]


def _nothing_of(source: Source, environment: Environment) -> LoadedSource:
    """Return a source of which nothing is loaded yet; of an untrusted one only what lists its skills will be."""
    if is_trusted(source, environment):
        return LoadedSource(source, Tree(), complete=False)
    return LoadedSource(source.preview, Tree(), main_only=True, complete=False)


def load_catalog(sources: Iterable[Source], environment: Environment) -> Catalog:
    """Load a catalog once, without reading any files but the main file of each skill."""
    seen = (source if is_trusted(source, environment) else source.preview for source in sources)
    return build_catalog([load_source(source, main_only=True) for source in seen], environment)
