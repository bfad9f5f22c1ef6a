"""Texts of activations, rendered before a model asks for them, in moments without requests.

Rendering the text of a skill searches its body for tools and files, which takes longer than the rest of a request. So
the texts for a client are rendered after it has listed the tools, and those of changed skills after a reload, in the
background, one at a time. The request for a text that is not there yet renders it. Files of the skill, which a model
reads after the text, are read ahead together with it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server.logs.text_logs import prepare_logs
from skills_core.diagnostics import one_line, without_lone_surrogates
from skills_core.errors import FileUnavailableError, SkillChangedError
from skills_core.rendering.activation import render_activation
from skills_core.rendering.escaping import escape_tags

if TYPE_CHECKING:
    from server.hosting.background import Background
    from server.hosting.views import View, ViewName
    from server.wire.kept_result import KeptResult
    from skills_core.live.library import Change
    from skills_core.rendering.recipient import Recipient
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)


def _load_for_requests() -> None:
    """Import and compile what the first activation needs beside its text, and would wait for."""
    # The pattern for tags in bodies, the codec of answers, and the patterns of secrets for the records of requests.
    escape_tags("<")
    without_lone_surrogates("")
    prepare_logs()


MAX_CHARACTERS = 8_000_000
"""Most characters of all texts together; the text that was used longest ago is dropped first.

Of those that are asked for over HTTP, the answers are kept as JSON too.
"""

MAX_PREPARED = 500
"""Most skills whose texts are prepared for one kind of client, those that are offered first."""

MAX_CLIENTS = 8
"""Most kinds of clients for which texts are prepared."""

_LONG = 30_000
# Characters of a body that may be searched on the event loop; this takes about as long as a request.

_QUIET_SECONDS = 0.2
# After the request or reload that makes texts due: more requests follow a client's first ones.

_PAUSE_SECONDS = 0.001
# Between two texts, so that a request waits for one of them at most.


@dataclass(slots=True)
class KeptText:
    """The text of one skill for one recipient, and the plain answer with it once a request has made that."""

    skill: Skill
    text: str
    answer: KeptResult | None = None


class ActivationTexts:
    """The texts of one server: the same as `render_activation` returns, rendered once for each state of a skill."""

    def __init__(
        self, view: Callable[[ViewName], View], read_ahead: Callable[[Skill], None], background: Background
    ) -> None:
        """Render nothing yet; `view` returns a view of the current catalog, `read_ahead` reads files of a skill.

        Texts are prepared in turns of `background`.
        """
        self._background = background
        self._view = view
        self._read_ahead = read_ahead
        self._kept: OrderedDict[tuple[str, Recipient], KeptText] = OrderedDict()
        self._free = MAX_CHARACTERS
        self._clients: OrderedDict[tuple[ViewName, Recipient], None] = OrderedDict()
        self._jobs: deque[Iterator[tuple[Skill, Recipient]]] = deque()
        self._due = anyio.Event()
        self._is_first = True

    def text(
        self, skill: Skill, values: Mapping[str, str], recipient: Recipient, *, replaces: str | None = None
    ) -> str:
        """Return the text that hands `skill` to a model; the parameters are those of `render_activation`."""
        if values or replaces:
            return render_activation(skill, values, recipient, replaces=replaces)
        return self.kept(skill, recipient).text

    def kept(self, skill: Skill, recipient: Recipient) -> KeptText:
        """Return the text without values for parameters, with what is kept beside it."""
        key = (skill.path, recipient)
        kept = self._kept.get(key)
        if kept is not None and kept.skill is skill:
            self._kept.move_to_end(key)
            return kept
        return self._keep(skill, recipient, render_activation(skill, {}, recipient))

    def expect(self, view: ViewName, recipient: Recipient) -> None:
        """Prepare the skills of a view for a recipient, which has listed the tools."""
        client = (view, recipient)
        if client in self._clients:
            return
        self._clients[client] = None
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        self._add(self._offered(view, recipient))

    def refresh(self, changes: Callable[[ViewName], Change]) -> None:
        """Prepare the skills that a reload has changed; `changes` returns the change in a view."""
        for view, recipient in self._clients:
            change = changes(view)
            changed = (*change.added, *(new for _, new in change.updated))
            self._add((skill, recipient) for skill in changed[:MAX_PREPARED] if skill.is_offered)

    async def run(self) -> None:
        """Prepare texts when they are due, until cancelled."""
        while True:
            await self._due.wait()
            await anyio.sleep(_QUIET_SECONDS)
            while self._jobs:
                for skill, recipient in self._jobs.popleft():
                    if self._is_missing(skill, recipient):
                        await anyio.sleep(_PAUSE_SECONDS)
                        async with self._background.turn():
                            await self._prepare(skill, recipient)
            self._due = anyio.Event()

    def _is_missing(self, skill: Skill, recipient: Recipient) -> bool:
        """Tell whether a text is not there, and may be: of a library that is loaded in parts, only the first ones."""
        kept = self._kept.get((skill.path, recipient))
        if kept is None:
            return len(self._kept) < MAX_PREPARED * len(self._clients) and self._free > skill.body_length
        return kept.skill is not skill and self._free > skill.body_length

    async def _prepare(self, skill: Skill, recipient: Recipient) -> None:
        try:
            # Without a body in memory, rendering reads it from the disk.
            if self._is_first or skill.body_length > _LONG or skill.content.kept_body is None:
                # The first text imports the tables of tools.
                text = await anyio.to_thread.run_sync(render_activation, skill, {}, recipient)
                if self._is_first:
                    await anyio.to_thread.run_sync(_load_for_requests)
                self._is_first = False
            else:
                text = render_activation(skill, {}, recipient)
        except (SkillChangedError, FileUnavailableError):
            # A reload prepares the text, or the request for it does.
            logger.debug("the text of the skill %s is not prepared: its file has changed", one_line(skill.key))
        except Exception:
            # The request for the text reports it; other skills are prepared.
            logger.exception("cannot prepare the text of the skill %s", one_line(skill.key))
        else:
            self._keep(skill, recipient, text)
            self._read_ahead(skill)

    def _add(self, job: Iterator[tuple[Skill, Recipient]]) -> None:
        self._jobs.append(job)
        while len(self._jobs) > MAX_CLIENTS:
            self._jobs.popleft()
        self._due.set()

    def _offered(self, view: ViewName, recipient: Recipient) -> Iterator[tuple[Skill, Recipient]]:
        """Yield the skills of a view that models are offered first."""
        current = self._view(view)
        skills = chain(current.first, current.catalog.offered)
        yield from ((skill, recipient) for skill in islice(skills, MAX_PREPARED))

    def _keep(self, skill: Skill, recipient: Recipient, text: str) -> KeptText:
        key = (skill.path, recipient)
        older = self._kept.pop(key, None)
        self._free += len(older.text) if older is not None else 0
        made = self._kept[key] = KeptText(skill, text)
        self._free -= len(text)
        while self._free < 0:
            _, dropped = self._kept.popitem(last=False)
            self._free += len(dropped.text)
        return made
