"""What each client's model knows, as far as the server can tell: for short answers and news of changes.

Each connection counts as one conversation: over stdio there is one, over HTTP one for each session of the handshake
era. A client that names its threads in each request (Codex) has a conversation for each thread. A request of the modern
era over HTTP is a conversation of its own. The memory is bounded; a skill that is forgotten is sent again.
Conversations hold digests instead of skills and catalogs, since they may outlive thousands of these.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from server.access import PrincipalKind, principal_of
from server.conversation.client_requests import session_of
from server.listing.layout import MAX_NEWS
from skills_core.rendering.catalog import ACTIVATION_TOOL, entry_text
from skills_core.rendering.escaping import escape_line
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.hosting.changes import OfferChanges, OfferNews
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill, SkillContent


META_VIEW = "skillserve/view"
"""The key in `_meta` of a request that a view sends, whose answer no model sees."""

MAX_CONVERSATIONS = 2000
"""Most conversations of all clients; each thread of a connection is one, and so is the connection."""

MAX_LOADED = 200
"""Most skills that are remembered in one conversation."""

MAX_THREAD = 100
"""Longest name of a thread, in characters."""

_MAX_FILES = 5
# Most changed files that a line names.


@dataclass(frozen=True, slots=True)
class ActivationAnswer:
    """How to answer an activation: with the skill's text, or with a line that says that it has not changed.

    `replaces` is the digest of an older text that the model has received.
    """

    text: bool
    replaces: str | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Outline:
    """The state of a skill: the digest of each file, that of the main file, and the folder."""

    folder: str
    main: str | None
    files: tuple[tuple[str, str], ...]


class _Outlines:
    """Creates outlines; equal ones share one object, since many models load the same skill."""

    def __init__(self) -> None:
        self._shared: weakref.WeakValueDictionary[tuple[object, ...], _Outline] = weakref.WeakValueDictionary()

    def of(self, content: SkillContent) -> _Outline:
        files = tuple(sorted((path, file.digest) for path, file in files_for_models(content).items()))
        outline = _Outline(content.folder, content.main.digest if content.main else None, files)
        return self._shared.setdefault((outline.folder, outline.main, files), outline)


@dataclass(slots=True)
class _Loaded:
    """A skill as the model received it (`given`), and as the model was last told about it (`known`).

    `content` is the content that `known` was made of, while a catalog holds it. `values` is the digest of the parameter
    values. `short` tells that the last answer was the line that says that the skill has not changed.
    """

    key: str
    given: _Outline
    known: _Outline
    content: weakref.ref[SkillContent]
    values: str
    short: bool = False


class _SeenList(NamedTuple):
    """The list of skills as a model knows it: the number of the last change that it was told."""

    changes: OfferChanges
    number: int


class Conversation:
    """The skills that one model has loaded, and the list of skills as it knows it, as far as the server can tell."""

    def __init__(
        self, outlines: _Outlines | None = None, begun: _SeenList | None = None, *, continues: bool = True
    ) -> None:
        """Begin with no skill loaded; `outlines` are shared by all conversations of a server.

        `begun` is the list that the model begins with, None if it is told nothing about the list. `continues`
        is false for a single request, after which there is no use for what the model has loaded.
        """
        self._outlines = outlines or _Outlines()
        self._continues = continues
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()
        self._catalog: weakref.ref[Catalog] | None = None
        self._seen = self.begun = begun

    def deliver(
        self,
        skill: Skill,
        values: Mapping[str, str],
        *,
        have: str | None = None,
        keeps: bool = True,
    ) -> ActivationAnswer:
        """Decide how to answer an activation of `skill` with parameter `values`, and remember the answer.

        `have` is the digest of the text that the model says it has; `keeps` is false for clients that are known to drop
        earlier results. If asked again after "unchanged", send the text: the server cannot see the model's context.
        """
        claimed = have is not None and have == skill.digest and not values
        if not self._continues:
            return ActivationAnswer(not claimed, None if have is None or have == skill.digest else have)
        before = self._loaded.get(skill.path)
        if before is not None and before.content() is skill.content:
            now = before.known
        else:
            now = self._outlines.of(skill.content)
        given = _digest_of(sorted(values.items())) if values else ""
        # A model that names another text does not have the one that it was given last.
        remembered = before is not None and keeps and have is None and _is_same(before, now, given)
        claimed = claimed and (before is None or not _differing(before.given, now))
        short = (remembered or claimed) and not (before is not None and before.short)
        self._loaded[skill.path] = _Loaded(skill.key, now, now, weakref.ref(skill.content), given, short)
        self._loaded.move_to_end(skill.path)
        if len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)
        older = have or (before.given.main if before is not None else None)
        return ActivationAnswer(not short, older if older != skill.digest and not short else None)

    def news(
        self,
        catalog: Catalog,
        changes: OfferChanges | None = None,
        *,
        tool: str = ACTIVATION_TOOL,
        may_refuse: bool = True,
    ) -> list[str]:
        """Return the news of the skills in `catalog`, each once, as texts of at most `MAX_NEWS` characters together.

        There is a line for each loaded skill that has changed and, with the `changes` of the view, a text for the list
        of skills. `tool` is what the model calls the tool that loads a skill; its client `may_refuse` new names.
        """
        lines, told = self._news_of_loaded(catalog, tool)
        if changes is not None:
            lines += self.pending(catalog, changes, told, may_refuse=may_refuse)
            self._seen = _SeenList(changes, changes.last)
        return within_limit(lines)

    def has_news(self, catalog: Catalog, changes: OfferChanges | None = None) -> bool:
        """Tell whether there may be news; `news` takes the same arguments."""
        seen = self._seen
        is_other = self._catalog is None or self._catalog() is not catalog
        listed = changes is not None and seen is not None and seen.number != changes.last
        return listed or (is_other and bool(self._loaded))

    def _news_of_loaded(self, catalog: Catalog, tool: str) -> tuple[list[str], set[str]]:
        """Return a line for each loaded skill that has changed, and the keys of which the list has no other news."""
        lines: list[str] = []
        told: set[str] = set()
        if self._catalog is not None and self._catalog() is catalog:
            return lines, told
        self._catalog = weakref.ref(catalog)
        for path, loaded in list(self._loaded.items()):
            skill = catalog.at(path)
            if skill is None:
                del self._loaded[path]
                lines.append(f"{_which(loaded)} is no longer there.")
                # Another skill may have the key.
                told |= {loaded.key} if catalog.get(loaded.key) is None else set()
            elif skill.content is not loaded.content():
                now = self._outlines.of(skill.content)
                if line := _changed(loaded, now, tool):
                    lines += line
                    told.add(loaded.key)
                loaded.known, loaded.content = now, weakref.ref(skill.content)
        return lines, told

    def pending(
        self, catalog: Catalog, changes: OfferChanges, told: Container[str] = (), *, may_refuse: bool = False
    ) -> list[str]:
        """Return a text on the list of skills if there is news, without the skills that are `told` of.

        A change of view is not news. A client that `may_refuse` new names checks them against the list that it has.
        """
        seen = self._seen
        if seen is None or seen.changes is not changes or seen.number == changes.last:
            return []
        return news_of_list(changes.since(seen.number, catalog, without=told), may_refuse=may_refuse)


class _Key(NamedTuple):
    """What a conversation is found by; the thread is empty for the conversation of a connection."""

    kind: PrincipalKind
    subject: str
    session: str
    thread: str = ""


class Conversations:
    """The conversations of one server; if there are too many, the one that was used least recently is forgotten."""

    def __init__(self, *, local: bool) -> None:
        """`local` tells that there is a single client, over stdio."""
        self._local = local
        self._outlines = _Outlines()
        self._kept: OrderedDict[_Key, Conversation] = OrderedDict()

    def of(self, ctx: ServerRequestContext[Any, Any], changes: OfferChanges) -> Conversation:
        """Return the conversation of a request; a new one if requests cannot be related.

        A conversation begins with the list of skills as it is at its first request, with `changes` as its last ones;
        that of a thread as its connection began, because the client lists the tools once for all threads. A
        request of a view has a conversation of its own, as its answer tells the model nothing.
        """
        if (ctx.meta or {}).get(META_VIEW) is True:
            return Conversation(self._outlines, continues=False)
        session = "" if self._local else session_of(ctx)
        now = _SeenList(changes, changes.last)
        if session is None:
            return Conversation(self._outlines, now, continues=False)
        principal = principal_of(ctx)
        key = _Key(principal.kind, principal.subject, session)
        connection = self._used(key, now)
        thread = _thread_of(ctx)
        return self._used(key._replace(thread=thread), connection.begun) if thread else connection

    def forget(self, session: str) -> None:
        """Forget the conversations of a session that has ended."""
        for key in [key for key in self._kept if key.session == session]:
            del self._kept[key]

    def _used(self, key: _Key, begun: _SeenList | None) -> Conversation:
        """Return the conversation of a key, the latest one now; a new one has `begun` with a state of the list."""
        conversation = self._kept.get(key)
        if conversation is None:
            conversation = self._kept[key] = Conversation(self._outlines, begun)
            if len(self._kept) > MAX_CONVERSATIONS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return conversation


def _thread_of(ctx: ServerRequestContext[Any, Any]) -> str:
    """Return the thread of a request, as Codex names it; empty if the client names none."""
    thread = (ctx.meta or {}).get("threadId")
    return thread if isinstance(thread, str) and len(thread) <= MAX_THREAD else ""


def _digest_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _is_same(before: _Loaded, now: _Outline, values: str) -> bool:
    # The text names the folder to clients that share the disk.
    return before.values == values and before.given.folder == now.folder and not _differing(before.given, now)


def _changed(loaded: _Loaded, now: _Outline, tool: str) -> list[str]:
    """Describe the change of a skill, unless it is known, or the skill is again as the model received it."""
    files = _differing(loaded.given, now)
    if not files or not _differing(loaded.known, now):
        return []
    if loaded.given.main != now.main:
        return [f"{_which(loaded)} has changed: load it again with {tool}."]
    more = f" and {len(files) - _MAX_FILES} more" if len(files) > _MAX_FILES else ""
    return [f"{_which(loaded)} has changed in its files {', '.join(map(escape_line, files[:_MAX_FILES]))}{more}."]


def _which(loaded: _Loaded) -> str:
    return f"The skill {escape_line(loaded.key)}, which you loaded,"


def _differing(one: _Outline, other: _Outline) -> list[str]:
    """Return the sorted paths of files that differ or that only one of both has."""
    if one is other:
        return []
    ours, theirs = dict(one.files), dict(other.files)
    return sorted(path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path))


TOO_MUCH = "The list of skills has changed much since you received it: find_skills finds what is there."

_MORE = "More skills have changed: find_skills finds what is there."

_DESCRIBED = 3
# Most skills whose descriptions the news contains.
_NAMED = 10
_MAX_DESCRIPTION = 200
_MAX_NAME = 100
# A longer name is counted instead of shown: half a name cannot be called.


def news_of_list(news: OfferNews | None, *, may_refuse: bool = False) -> list[str]:
    """Return the news as one text, if there are any; None stands for more than is remembered.

    For a client that `may_refuse` new names, the text names the way that works in each.
    """
    if news is None:
        return [TOO_MUCH]
    if not news:
        return []
    lines = ["The list of skills has changed since you received it.", *_described(news)]
    if news.added:
        otherwise = " If your client refuses one, read_skill_file with path SKILL.md brings its text."
        lines.append(f"{ACTIVATION_TOOL} takes the new names too.{otherwise if may_refuse else ''}")
    return ["\n".join(lines)]


def within_limit(texts: Sequence[str]) -> list[str]:
    """Return the first of the texts that fit `MAX_NEWS`, and say so if some do not."""
    if sum(map(len, texts)) <= MAX_NEWS:
        return [*texts]
    left, fitting = MAX_NEWS - len(_MORE), []
    for text in texts:
        left -= len(text)
        if left < 0:
            break
        fitting.append(text)
    return [*fitting, _MORE]


def _described(news: OfferNews) -> Iterator[str]:
    left = _NAMED
    short = len(news.added) + len(news.changed) > _DESCRIBED
    for title, skills in (("New", news.added), ("Changed", news.changed)):
        if short:
            keys = [skill.key for skill in skills]
            yield from _names(title, keys, left)
            left -= len(keys)
        else:
            yield from (_entry(title, skill) for skill in skills)
    yield from _names("Removed", news.removed, left)


def _entry(title: str, skill: Skill) -> str:
    if len(skill.key) > _MAX_NAME:
        return f"{title}: 1, which find_skills finds."
    return f"{title}: {escape_line(skill.key)}: {escape_line(entry_text(skill, _MAX_DESCRIPTION))}"


def _names(title: str, keys: Sequence[str], limit: int) -> Iterator[str]:
    if not keys:
        return
    shown = [escape_line(key) for key in keys if len(key) <= _MAX_NAME][: max(limit, 0)]
    more = len(keys) - len(shown)
    found = "" if title == "Removed" else ": find_skills finds them"
    if more:
        shown.append(f"{more} more{found}" if shown else f"{more}{found}")
    yield f"{title}: {', '.join(shown)}."
