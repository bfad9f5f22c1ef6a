"""What each client's model has loaded, as far as the server can know: for short answers and news of changes.

Each connection counts as one conversation: over stdio there is one, over HTTP one for each session of the handshake
era. A request of the modern era over HTTP is a conversation of its own. The memory is bounded; a skill that is
forgotten is sent again. Conversations hold digests instead of skills and catalogs, since they may outlive thousands of
these.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from server.exchange.callers import session_of
from skills_core.rendering.escaping import escape_line
from skills_core.withheld_files import files_for_models

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

    from skills_core.catalog import Catalog
    from skills_core.skill import Skill, SkillContent

__all__ = ["Conversation", "Conversations", "Delivery"]

MAX_CONVERSATIONS = 1000
MAX_LOADED = 200
"""Most skills that are remembered in one conversation."""

_MAX_FILES = 5
# Most changed files that a line names.


@dataclass(frozen=True, slots=True)
class Delivery:
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
        self._shared: weakref.WeakValueDictionary[str, _Outline] = weakref.WeakValueDictionary()

    def of(self, content: SkillContent) -> _Outline:
        files = tuple(sorted((path, file.digest) for path, file in files_for_models(content).items()))
        outline = _Outline(content.folder, content.main.digest if content.main else None, files)
        return self._shared.setdefault(_digest_of((outline.folder, outline.main, *files)), outline)


@dataclass(slots=True)
class _Loaded:
    """A skill as the model received it (`given`), and as the model last heard of it (`known`).

    `content` is the content that `known` was made of, while a catalog holds it. `values` is the digest of the parameter
    values. `short` tells that the last answer was the line that says that the skill has not changed.
    """

    key: str
    given: _Outline
    known: _Outline
    content: weakref.ref[SkillContent]
    values: str
    short: bool = False


class Conversation:
    """The skills that one model has loaded, as far as is known."""

    def __init__(self, outlines: _Outlines | None = None) -> None:
        """Begin empty; `outlines` are shared by all conversations of a server."""
        self._outlines = outlines or _Outlines()
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()
        self._catalog: weakref.ref[Catalog] | None = None

    def deliver(
        self,
        skill: Skill,
        values: Mapping[str, str],
        *,
        have: str | None = None,
        force: bool = False,
        keeps: bool = True,
    ) -> Delivery:
        """Decide how to answer an activation of `skill` with parameter `values`, and remember the answer.

        `have` is the digest of the text that the model says it has; `keeps` is false for clients that are known to drop
        earlier results. If asked again after "unchanged", send the text: the server cannot see the model's context.
        """
        before, now = self._loaded.get(skill.path), self._outlines.of(skill.content)
        given = _digest_of(sorted(values.items()))
        remembered = before is not None and keeps and _is_same(before, now, given)
        claimed = have is not None and have == skill.digest and not values and not _has_other_files(before, now)
        short = (remembered or claimed) and not force and not (before is not None and before.short)
        self._loaded[skill.path] = _Loaded(skill.key, now, now, weakref.ref(skill.content), given, short)
        self._loaded.move_to_end(skill.path)
        if len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)
        older = have or (before.given.main if before is not None else None)
        return Delivery(not short, older if older != skill.digest and not short else None)

    def news(self, catalog: Catalog) -> list[str]:
        """Return a line for each loaded skill that has changed; each change is reported once."""
        if self._catalog is not None and self._catalog() is catalog:
            return []
        self._catalog = weakref.ref(catalog)
        lines: list[str] = []
        for path, loaded in list(self._loaded.items()):
            skill = catalog.at(path)
            if skill is None:
                del self._loaded[path]
                lines.append(f"{_which(loaded)} is no longer there.")
            elif skill.content is not loaded.content():
                now = self._outlines.of(skill.content)
                lines += _changed(loaded, now)
                loaded.known, loaded.content = now, weakref.ref(skill.content)
        return lines


class Conversations:
    """The conversations of one server."""

    def __init__(self, *, local: bool) -> None:
        """`local` tells that there is a single client, over stdio."""
        self._local = local
        self._outlines = _Outlines()
        self._by_session: OrderedDict[str, Conversation] = OrderedDict()

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Conversation:
        """Return the conversation of a request; a new one if requests cannot be related."""
        session = "" if self._local else session_of(ctx)
        if session is None:
            return Conversation(self._outlines)
        conversation = self._by_session.setdefault(session, Conversation(self._outlines))
        self._by_session.move_to_end(session)
        if len(self._by_session) > MAX_CONVERSATIONS:
            self._by_session.popitem(last=False)
        return conversation

    def forget(self, session: str) -> None:
        """Forget the conversation of a session that has ended."""
        self._by_session.pop(session, None)


def _digest_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _has_other_files(before: _Loaded | None, now: _Outline) -> bool:
    return before is not None and _differing(before.given, now) != []


def _is_same(before: _Loaded, now: _Outline, values: str) -> bool:
    # The text names the folder to clients that share the disk.
    return before.values == values and before.given.folder == now.folder and _differing(before.given, now) == []


def _changed(loaded: _Loaded, now: _Outline) -> list[str]:
    """Describe the change of a skill, unless it is known, or the skill is again as the model received it."""
    files = _differing(loaded.given, now)
    if not files or not _differing(loaded.known, now):
        return []
    if loaded.given.main != now.main:
        return [f"{_which(loaded)} has changed: load it again with activate_skill."]
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
