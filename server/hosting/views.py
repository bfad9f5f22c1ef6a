"""Views: what each group of callers sees of the library, and the events that tell them of its changes.

A `ViewRule` names the view of each request and decides which skills and tools a view has. Each view has a snapshot of
its own part of the catalog, built when the first request of the view comes, and again by each reload; a search of its
own over an index of texts that all views share, whose scores depend on no skill outside the view; a log of what changed
in the skills that it offers; and a feed of events, which is published to only while it has listeners. Without a rule
there is one view, which shows the whole catalog and has all tools.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import anyio.lowlevel
import anyio.to_thread
from msgspec import structs

from server.access import Principal, PrincipalKind, Profiles, Roles, principal_of, profile_of
from server.config.settings.tools import SHARED_ONLY_TOOLS
from server.hosting.changes import OfferChanges, events_of
from server.hosting.searches import MOST_INDEXED, SharedTexts
from server.listing.snapshot import Snapshot, allow_all
from skills_core.errors import SkillsError, did_you_mean, similar_to
from skills_core.live.library import Change, Library
from skills_core.selection.ranking import TOP_TEN, SkillSearch
from skills_core.selection.twins import NO_TWINS

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import ServerEvent, SubscriptionBus

    from server.config.settings.access import AccessSettings
    from server.config.settings.model import Settings
    from server.listing.layout import ListingLayout
    from skills_core.catalog.catalog import Admitted, Catalog
    from skills_core.live.library import Library
    from skills_core.selection.fusion import Reranker
    from skills_core.selection.policy import Match, SelectionPolicy
    from skills_core.selection.twins import Twins
    from skills_core.skills.skill import Skill


ViewName: TypeAlias = "frozenset[str]"
"""The name of a view: a set of roles, or whatever else a rule tells views apart by."""

COMMON_VIEW: ViewName = frozenset()
"""The view of all callers where there is no rule."""

MAX_VIEWS = 64
"""Most views whose snapshots are kept while no client listens to them; a further request builds a snapshot again."""

_DEEPER = (3, 30)
# How many times as many skills as are asked for are searched where some are alike: the second if the first are too few.

_DEEPEST = 1000
# Most skills that are searched for this.

_FEW = 50
_SMALL = 1000
# Of so many changed skills, in a catalog of so many, the events are found on the event loop. Lists of tools that have
# to be compared take longer to build the more skills there are.

_TOGETHER = 500
# So many events are published without a pause.

_Derived = TypeVar("_Derived")

_LISTS = frozenset({"declared", "prompts", "resources", "skills", "templates", "tool_schemas"})
# The cached properties of a snapshot that answer requests.


@dataclass(frozen=True, slots=True)
class ViewRule:
    """Decides what callers see.

    `view_of` names the view of a request. It is called for every request, so it should be fast, and it should return
    few different names, since each costs a catalog and a search index: drop the roles that make no difference. At
    `initialize`, the session does not know its client yet; the params of the request do.

    `shows` tells whether a view has a skill. It should judge what the skill is (source, path, frontmatter) and answer
    the same each time. The frontmatter of an invalid skill may be empty.

    `allows` tells whether callers with a view may use a tool that the settings switch on. Without it they may use all.
    """

    view_of: Callable[[ServerRequestContext[Any, Any]], ViewName]
    shows: Callable[[ViewName, Skill], bool]
    allows: Callable[[ViewName, str], bool] = lambda _, __: True

    def admitted(self, catalog: Catalog, name: ViewName, before: Admitted | None = None) -> Admitted:
        """Return the skills that a view shows; `before` are those of another catalog."""
        return catalog.admitted(partial(self.shows, name), before)

    def part_of(self, catalog: Catalog, name: ViewName, admitted: Admitted | None = None) -> Catalog:
        """Return the part of a catalog that a view shows, of which it may be known which skills are `admitted`."""
        return catalog.restricted(partial(self.shows, name), admitted)

    def settings_of(self, name: ViewName, settings: Settings) -> Settings:
        """Return the settings with those optional tools alone that callers with a view have."""
        # Schedules are those of the server's user, and run with all skills.
        enabled = (tool for tool in settings.tools.enabled if tool not in SHARED_ONLY_TOOLS)
        allowed = tuple(tool for tool in enabled if self.allows(name, tool))
        return structs.replace(settings, tools=structs.replace(settings.tools, enabled=allowed))


class View(Snapshot):
    """The snapshot of one view, and the search over it."""

    def __init__(
        self,
        name: ViewName,
        kept: _Kept,
        catalog: Catalog,
        settings: Settings,
        used: Mapping[str, int],
        layouts: frozenset[ListingLayout],
        *,
        shared: bool,
        twins: Twins = NO_TWINS,
    ) -> None:
        """Build no list yet; `kept` is what the view keeps from its earlier catalogs."""
        super().__init__(catalog, settings, used, layouts, shared=shared, allows=kept.allows, twins=twins)
        self.name = name
        self.kept = kept
        self.changes = kept.changes
        self.shows = kept.shows

    def build_as(self, before: View) -> None:
        """Build the lists that clients have asked an earlier view for, in the same layouts."""
        for layout in before.built_layouts:
            self.tools(layout)
        for name in _LISTS & vars(before).keys():
            getattr(self, name)

    def search(self, query: str, policy: SelectionPolicy = TOP_TEN, *, words_only: bool = False) -> list[Match]:
        """Return the offered skills that match best. It may take long, so run it in a worker thread.

        `words_only` ranks without embeddings.
        """
        return self.kept.search.select(self.catalog.offered, query, policy, words_only=words_only)

    def search_distinct(self, query: str, policy: SelectionPolicy = TOP_TEN) -> list[Match]:
        """Search like `search`; of skills that are alike, the best one stands for those that the policy admits."""
        search, offered = self.kept.search, self.catalog.offered
        twins = search.twins
        found: list[Match] = []
        for deeper in _DEEPER if twins else (1,):
            deep = replace(policy, top_k=min(policy.top_k * deeper, max(policy.top_k, _DEEPEST)))
            matches = search.select(offered, query, deep)
            found = self._without_twins(matches, twins, policy)
            if len(found) == policy.top_k or len(matches) < deep.top_k:
                break
        return found

    def alike_to(self, skill: Skill) -> list[Skill]:
        """Return the other offered skills that are nearly the same as one; none before the skills are compared."""
        return self._alike(self.kept.twins, skill)

    def alike_among(self, skills: Iterable[Skill]) -> Mapping[str, Sequence[Skill]]:
        """Return those offered ones of `skills` that stand for others of them, by path, each with the others."""
        return self.kept.twins.folded(skill for skill in skills if skill.is_offered)

    def _alike(self, twins: Twins, skill: Skill) -> list[Skill]:
        # A skill of a former catalog may have become another one.
        return [each for each in twins.of(skill) if each is not skill and self.catalog.get(each.key) is each]

    def _without_twins(self, matches: Iterable[Match], twins: Twins, policy: SelectionPolicy) -> list[Match]:
        admits = policy.admission()
        said: set[int] = set()
        found: list[Match] = []
        for match in matches:
            if len(found) == policy.top_k:
                break
            if id(match.skill) in said:
                continue
            alike = self._alike(twins, match.skill)
            said.update(map(id, alike))
            others = tuple(filter(admits, alike))
            found.append(replace(match, alike=others) if others else match)
        return found

    def prepare_search(self, pause: Callable[[], None], *, compare: bool = True) -> None:
        """Index the offered skills, so that a search need not, and `compare` them; `pause` is called often, may block.

        What the catalog folds stays as it is until `Views.regroup`.
        """
        self.kept.search.warm(self.catalog.offered, pause, compare=compare)

    @property
    def unsearched(self) -> int:
        """How many contents of skills the last search left out, because they are not indexed yet."""
        return self.kept.search.unsearched


class PerView(Generic[_Derived]):
    """What is derived once from each view, and forgotten together with it; worker threads may share it."""

    def __init__(self, derive: Callable[[View], _Derived]) -> None:
        """Derive nothing yet; what `derive` returns must not hold the view itself."""
        self._derive = derive
        self._lock = Lock()
        self._derived: WeakKeyDictionary[View, _Derived] = WeakKeyDictionary()

    def of(self, view: View) -> _Derived:
        """Return what is derived from a view; others that ask meanwhile wait."""
        with self._lock:
            found = self._derived.get(view)
            if found is None:
                found = self._derived[view] = self._derive(view)
            return found


class _Kept:
    """What one view keeps from catalog to catalog: the search index, opened by its first search, and its changes.

    `allows` tells whether callers with the view may use a tool, and `shows` whether they see a skill.
    """

    def __init__(
        self,
        reranker: Reranker | None,
        texts: SharedTexts,
        allows: Callable[[str], bool],
        shows: Callable[[Skill], bool] | None,
    ) -> None:
        self._reranker = reranker
        self._texts = texts
        self._lock = Lock()
        self._search: SkillSearch | None = None
        self.allows = allows
        self.shows = shows
        self.changes = OfferChanges()
        self.is_wanted = False
        """Whether the skills should be indexed and compared before anyone searches."""

    @property
    def search(self) -> SkillSearch:
        texts = self._texts.index()
        with self._lock:
            if self._search is None:
                self._search = SkillSearch(self._reranker, texts=texts, at_once=MOST_INDEXED)
            return self._search

    @property
    def twins(self) -> Twins:
        """The alike ones among the skills that were compared last."""
        return NO_TWINS if self._search is None else self._search.twins


class _Feed:
    """The events of one view, and the view that was announced to its listeners last; None without listeners."""

    def __init__(self, announced: Callable[[], View]) -> None:
        """Begin with no listeners; `announced` gives the view of the catalog that was announced last."""
        self._view_to_begin_with = announced
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}
        self._published = 0
        self.announced: View | None = None

    async def publish(self, event: ServerEvent) -> None:
        """Deliver an event to every listener; those of one reload are delivered together, unless they are very many."""
        for listener in [*self._listeners.values()]:
            listener(event)
        self._published += 1
        if not self._published % _TOGETHER:
            await anyio.lowlevel.checkpoint()

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Add a listener; the returned function, which is called once, removes it."""
        token = object()
        self._listeners[token] = listener
        if self.announced is None:
            self.announced = self._view_to_begin_with()

        def end() -> None:
            self._listeners.pop(token, None)
            if not self._listeners:
                self.announced = None

        return end


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A view of the catalog `whole` as it follows the view `before`: how it differs, None if it is the same view."""

    whole: Catalog
    before: View
    after: View
    change: Change | None


@dataclass(slots=True)
class _OpenView:
    """A view as it was built last, the catalog that it was built from, and its feed."""

    whole: Catalog
    view: View
    feed: _Feed


class Views:
    """The views of one library, each built once a catalog, when it is asked for."""

    def __init__(
        self,
        library: Library,
        settings: Settings,
        rule: ViewRule | None,
        *,
        used: Mapping[str, int],
        reranker: Reranker | None,
    ) -> None:
        """Build nothing yet; without a `rule` all callers have one view."""
        self._library = library
        self._settings = settings
        self._rule = rule
        self._used = used
        self._reranker = reranker
        self._texts = SharedTexts(library)
        self._entries: OrderedDict[ViewName, _OpenView] = OrderedDict()
        self._prepared: dict[ViewName, _Prepared] = {}
        self._changes: WeakKeyDictionary[Change, dict[ViewName, Change]] = WeakKeyDictionary()
        self._admitted: dict[ViewName, Admitted] = {}
        self._held: Catalog | None = None
        self._announced = library.catalog

    @property
    def differ(self) -> bool:
        """Whether callers may see different skills."""
        return self._rule is not None

    @property
    def _whole(self) -> Catalog:
        """The catalog that requests are answered from."""
        return self._library.catalog if self._held is None else self._held

    def name_of(self, ctx: ServerRequestContext[Any, Any]) -> ViewName:
        """Return the name of a request's view."""
        return COMMON_VIEW if self._rule is None else self._rule.view_of(ctx)

    def current(self, name: ViewName) -> View:
        """Return a view of the library's current catalog."""
        return self._entry(name).view

    def searched(self) -> list[ViewName]:
        """Return the views whose search is kept ready: that of all callers, and of several views those wanted."""
        if self._rule is None:
            return [COMMON_VIEW]
        return [name for name, entry in self._entries.items() if entry.view.kept.is_wanted]

    def want_search(self, view: View) -> bool:
        """Have the search of a view kept ready; return whether it was not."""
        is_new, view.kept.is_wanted = not view.kept.is_wanted, True
        return is_new and self._rule is not None

    async def regroup(self, view: View) -> None:
        """Have the catalog of a view fold the skills that were found to be alike, and tell the listeners if it differs.

        A view of a later catalog folds what this one did, until its own skills are compared.
        """
        from mcp.server.subscriptions import ToolsListChanged  # noqa: PLC0415 - views are made before the SDK is loaded

        twins = view.kept.twins
        if not (twins or view.twins) or twins.fold_as(view.twins):
            return
        found = await anyio.to_thread.run_sync(view.regrouped, twins)
        entry = self._entries.get(view.name)
        if entry is not None and entry.view is view and view.take_groups(found):
            await entry.feed.publish(ToolsListChanged())

    def feed(self, name: ViewName) -> SubscriptionBus:
        """Return the events of a view; while it has listeners, each reload publishes what it changes for them."""
        return self._entry(name).feed

    def change_in(self, name: ViewName, change: Change) -> Change:
        """Return the part of a change that a view shows; that of a view which the reload made is known."""
        if self._rule is None:
            return change
        if (known := self._changes.get(change, {}).get(name)) is not None:
            return known
        return Change.between(self._catalog(name, change.before), self._catalog(name, change.after))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Answer requests from the present catalog within the block, in which the library loads another one.

        So no request waits for the views of the new catalog, which `prepare` makes.
        """
        self._held = self._library.catalog
        try:
            yield
        finally:
            self._held = None

    async def prepare(self, change: Change) -> None:
        """Make the known views of the library's new catalog in a worker thread, with the lists that clients ask for.

        `change` leads to that catalog. The one view that there is without a rule shows all of it, and makes its lists
        when they are asked for.
        """
        whole = self._library.catalog
        known = [(name, entry.whole, entry.view) for name, entry in self._entries.items()]
        if self._rule is None:
            same = [(name, view) for name, _, view in known if view.catalog is change.before]
            views = {name: (view, self._after(view, whole, change)) for name, view in same}
            self._prepared = {name: _Prepared(whole, *pair, change) for name, pair in views.items()}
            return

        def make() -> dict[ViewName, _Prepared]:
            prepared = {name: self._next(name, before, view, whole) for name, before, view in known}
            for each in prepared.values():
                each.after.build_as(each.before)
            return prepared

        self._prepared = await anyio.to_thread.run_sync(make)
        self._changes[change] = {
            name: Change(each.after.catalog, each.after.catalog) if each.change is None else each.change
            for name, each in self._prepared.items()
            if (entry := self._entries.get(name)) and entry.view is each.before and entry.whole is change.before
        }

    def _next(self, name: ViewName, before: Catalog, view: View, whole: Catalog) -> _Prepared:
        """Return how a view of the catalog `before` becomes one of `whole`."""
        known = None
        if self._rule is not None:
            self._admit(name, whole)
            known = whole.restricted_after(before, view.catalog, partial(self._rule.shows, name))
        catalog = self._catalog(name, whole) if known is None else known
        # Another catalog of the library differs; what a view shows of it may be the same as before.
        if self._rule is not None and (catalog is view.catalog or catalog.is_same(view.catalog)):
            return _Prepared(whole, view, view, None)
        change = Change.between(view.catalog, catalog)
        return _Prepared(whole, view, self._after(view, catalog, change), change)

    async def announce(self) -> None:
        """Tell the listeners of each view how it differs from what was announced last."""
        catalog = self._library.catalog
        for name, entry in [*self._entries.items()]:
            before = entry.feed.announced
            if before is None:
                if name in self._prepared:
                    self._renew(name, entry)
                continue
            change = self._renew(name, entry)
            after = entry.view
            if before.catalog is after.catalog:
                continue
            if change is None or change.before is not before.catalog:
                change = Change.between(before.catalog, after.catalog)
            events: Iterable[ServerEvent] = events_of(before, after, change)
            if change.size > _FEW or len(after.catalog.skills) > _SMALL:
                events = await anyio.to_thread.run_sync(list, events)
            for event in events:
                await entry.feed.publish(event)
            if entry.feed.announced is before:
                entry.feed.announced = after
        self._announced = catalog
        # Listeners act on all events of a reload at once, when the event loop runs next.
        await anyio.lowlevel.checkpoint()

    def _entry(self, name: ViewName) -> _OpenView:
        entry = self._entries.get(name)
        if entry is None:
            entry = self._opened(name)
        elif self._rule is not None:
            self._entries.move_to_end(name)
        self._renew(name, entry)
        return entry

    def _opened(self, name: ViewName) -> _OpenView:
        whole = self._whole
        # Clients with this view may have lists in the same layouts, made before the view was dropped.
        layouts = frozenset(layout for entry in self._entries.values() for layout in entry.view.layouts)
        view = self._view(name, self._catalog(name, whole), self._kept(name), layouts)
        entry = _OpenView(whole, view, _Feed(partial(self._announced_view, name)))
        if len(self._entries) >= MAX_VIEWS:
            idle = next((known for known, other in self._entries.items() if other.feed.announced is None), None)
            if idle is not None:
                del self._entries[idle]
                self._admitted.pop(idle, None)
        self._entries[name] = entry
        return entry

    def _renew(self, name: ViewName, entry: _OpenView) -> Change | None:
        """Bring the entry up to date with the catalog; return how its view differs, None if it is the same view."""
        whole, view = self._whole, entry.view
        if entry.whole is whole:
            return None
        found = self._prepared.pop(name, None)
        if found is None or found.whole is not whole or found.before is not view:
            found = self._next(name, entry.whole, view, whole)
        entry.whole = whole
        entry.view = found.after
        if found.change is not None:
            view.changes.record(found.change)
        return found.change

    def _after(self, view: View, catalog: Catalog, change: Change) -> View:
        """Return what a view becomes by a change that leads to a catalog."""
        after = self._view(view.name, catalog, view.kept, view.layouts, view.twins)
        if change.size <= _FEW:
            after.keep_texts(view, change)
        return after

    def _announced_view(self, name: ViewName) -> View:
        """Return a view of the catalog that was announced last, for a listener that comes now."""
        entry = self._entry(name)
        if entry.whole is self._announced:
            return entry.view
        view = entry.view
        return self._view(name, self._catalog(name, self._announced), view.kept, view.layouts, view.twins)

    def _view(
        self,
        name: ViewName,
        catalog: Catalog,
        kept: _Kept,
        layouts: frozenset[ListingLayout],
        twins: Twins = NO_TWINS,
    ) -> View:
        settings = self._settings_of(name)
        return View(name, kept, catalog, settings, self._used, layouts, shared=self._rule is None, twins=twins)

    def _kept(self, name: ViewName) -> _Kept:
        if self._rule is None:
            return _Kept(self._reranker, self._texts, allow_all, None)
        return _Kept(self._reranker, self._texts, partial(self._rule.allows, name), partial(self._rule.shows, name))

    def _settings_of(self, name: ViewName) -> Settings:
        return self._settings if self._rule is None else self._rule.settings_of(name, self._settings)

    def _catalog(self, name: ViewName, whole: Catalog) -> Catalog:
        return whole if self._rule is None else self._rule.part_of(whole, name, self._admit(name, whole))

    def _admit(self, name: ViewName, whole: Catalog) -> Admitted | None:
        """Return the skills that a view shows of a catalog, which costs what changed since it was asked before."""
        if self._rule is None:
            return None
        found = self._admitted[name] = self._rule.admitted(whole, name, self._admitted.get(name))
        return found


def role_rule(settings: AccessSettings) -> ViewRule | None:
    """Return the rule that gives callers the skills and tools of their roles; None if the settings have no roles."""
    if not settings.known_roles:
        return None
    roles, profiles = roles_of(settings), Profiles(settings.profiles)

    def view_of(ctx: ServerRequestContext[Any, Any]) -> frozenset[str]:
        return profiles.narrowed(roles.of(principal_of(ctx)), profile_of(ctx))

    return ViewRule(view_of, roles.show, roles.allow)


def roles_of(settings: AccessSettings) -> Roles:
    """Return the roles of the settings."""
    return Roles(settings.roles, settings.default_roles, settings.tools)


class UnknownRoleError(SkillsError):
    """A role that the settings do not have; the message names those that they have."""

    def __init__(self, role: str, settings: AccessSettings) -> None:
        known = sorted(settings.known_roles)
        has = f"the settings have {', '.join(known)}" if known else "there are none, because access.roles is not set"
        super().__init__(f"no role {role[:80]!r}: {has}{did_you_mean(similar_to(role, known), '; did')}")


class SeenByRoles(NamedTuple):
    """What a caller with some roles sees of a catalog: the skills, and the optional tools that it may use."""

    roles: tuple[str, ...]
    catalog: Catalog
    tools: tuple[str, ...]


def seen_by(asked: Iterable[str], catalog: Catalog, settings: Settings) -> SeenByRoles:
    """Return what a server shows to a caller whose token has the roles `asked`; it also has the default roles.

    Raises:
        UnknownRoleError: the settings do not have one of the roles.
    """
    access, wanted = settings.access, frozenset(asked)
    rule = role_rule(access)
    for role in sorted(wanted - access.known_roles):
        raise UnknownRoleError(role, access)
    name = roles_of(access).of(Principal("", PrincipalKind.TOKEN, wanted))
    if rule is None:
        return SeenByRoles((), catalog, settings.tools.enabled)
    return SeenByRoles(tuple(sorted(name)), rule.part_of(catalog, name), rule.settings_of(name, settings).tools.enabled)
