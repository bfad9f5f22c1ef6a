"""Records of what a server was asked and how it decided, and the notes that handlers take for them.

A record is for those who count, log or audit requests. It contains names, decisions and figures; it never contains the
texts of requests and results, nor tokens. The notes belong to the context of the request's task and of the tasks that
it starts. Where nothing records requests there are no notes, and noting does nothing.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from server.access import LOCAL, Principal
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

LOGIN_METHOD = "login"
"""The method of a record of a refused login."""
LIMIT_METHOD = "limit"
"""The method of a record of a request that a limit refused, before it was read; `target` is the path."""
OPENING_METHODS = frozenset({"initialize", "server/discover"})
"""The methods that open a conversation."""
OTHER_METHOD = "(other)"
"""The method of a record of a request whose method does not exist: its name is a text of the client."""
SESSION_METHOD = "session"
"""The method of a record of a request that named the session of another principal; `target` is the path."""
HTTP_METHOD = "http"
"""The method of a record of a request that was refused before a message was read from it."""
DOWNLOAD_METHOD = "download"
"""The method of a record of a download of a skill; `target` is the path."""
PAGE_METHOD = "page"
"""The method of a record of a request for the page that people open in a browser; `target` is the path."""
ADMIN_METHOD = "admin"
"""The method of a record of a request to the admin routes; `target` is the path."""


class RequestDecision(StrEnum):
    """The outcome of a request."""

    ALLOWED = "allowed"
    """It was answered."""
    DENIED = "denied"
    """It was refused because of who sent it, how often, or by a guard or a user."""
    INVALID = "invalid"
    """It asked for something that does not exist, or in a wrong form."""
    FAILED = "failed"
    """It was valid, and the server, a run or a tool failed."""


class Use(StrEnum):
    """What a request did with its skill."""

    ACTIVATED = "activated"
    """It returned the instructions."""
    READ = "read"
    """It returned a file or the entry of the skill."""
    RAN = "ran"
    """It ran the skill, a script or a declared tool of it."""


class RequestReason(StrEnum):
    """Why a request was decided as it was; a refused login has a reason of `LoginRefusal` with the prefix `login_`."""

    NONE = ""
    INPUT_REQUIRED = "input_required"
    """The answer is a question to the client, which repeats the request."""
    UNKNOWN_METHOD = "unknown_method"
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_SKILL = "unknown_skill"
    UNKNOWN_FILE = "unknown_file"
    UNKNOWN_WORKFLOW = "unknown_workflow"
    INVALID_REQUEST = "invalid_request"
    GUARD = "guard"
    """The guard of tool calls denies it."""
    DECLINED = "declined"
    """The user declined, or could not be asked."""
    ROLE = "role"
    """The roles of the caller do not allow it."""
    LIMIT = "limit"
    """The caller sends too many requests, or has too many sessions."""
    FOREIGN_SESSION = "foreign_session"
    """The session belongs to another principal."""
    FOREIGN_HOST = "foreign_host"
    """The Host header names another server."""
    FOREIGN_ORIGIN = "foreign_origin"
    """The Origin header names another site."""
    TOO_LARGE = "too_large"
    """The body is larger than the limit."""
    WITHHELD = "withheld"
    """The skill or file is not for models."""
    CANCELLED = "cancelled"
    """The client cancelled it or disconnected, or the server stopped."""
    TOOL_FAILED = "tool_failed"
    """A run, a script or a tool of a skill did not succeed."""
    UNAVAILABLE = "unavailable"
    """A file or a service cannot be reached at present."""
    INTERNAL = "internal"


class Client(NamedTuple):
    """The name and the version that a client gave itself; empty if it gave none."""

    name: str = ""
    version: str = ""


NO_CLIENT: Final = Client()

_MAX_ADDRESS: Final = 60


class RequestRecord(Struct, frozen=True, kw_only=True):
    """One request and its outcome; the empty string stands for what does not apply.

    `target` names what was asked for: the URI of a resource, the name of a prompt, the skill's name or a file's URI in
    a call of one of the server's own tools, or the name of a tool that does not exist. The client chose it, and it is
    cut to a bounded length. `skill` and `digest` are those of a skill that exists and that the caller sees. `found`
    has the keys of the skills that a search returned. `reason` is a `RequestReason` or a code of the same form; the
    number of different codes is bounded. `tool` is the name of a tool that exists.
    `trace_id` is that of the trace that the request belongs to. `address` is the network address of the client.
    `seconds` is how long the answer took, and `request_id` is unique.
    """

    method: str
    request_id: str
    principal: Principal = LOCAL
    client: Client = NO_CLIENT
    era: str = ""
    address: str = ""
    target: str = ""
    tool: str = ""
    skill: str = ""
    digest: str = ""
    use: Use | None = None
    found: tuple[str, ...] = ()
    decision: RequestDecision = RequestDecision.ALLOWED
    reason: str = RequestReason.NONE
    seconds: float = 0.0
    trace_id: str = ""


class CommandRecord(NamedTuple):
    """What a command changed, for the audit log: the event, and the name of what was changed."""

    event: str
    target: str


def address_of(scope: object) -> str:
    """Return the network address of the client of an ASGI scope, empty if there is none."""
    client = scope.get("client") if isinstance(scope, dict) else None
    # A proxy may have passed on what its client sent.
    return one_line(str(client[0])[:_MAX_ADDRESS]) if client else ""


Sink: TypeAlias = "Callable[[RequestRecord], None]"


@dataclass(slots=True)
class Emitted:
    """Whether there was any record while it was watched for."""

    any: bool = False


_EMITTED: Final[ContextVar[Emitted | None]] = ContextVar("skillserve_emitted", default=None)


class OpenSpan(Protocol):
    """The span of a request that is being answered."""

    @property
    def trace_id(self) -> str:
        """The id of the trace that it belongs to."""
        ...

    def end(self, record: RequestRecord) -> None:
        """End it, in the task that began it, with the attributes of a record."""


class Tracer(Protocol):
    """Makes a span for each request."""

    def begin(self, carrier: Mapping[str, Any]) -> OpenSpan:
        """Begin the span of a request, within the trace that `carrier` names if it names one."""
        ...

    def tell(self, name: str, attributes: Mapping[str, str]) -> None:
        """Make a span of its own that is over at once."""
        ...


class Records:
    """Passes each record to all sinks.

    Without sinks and a `tracer`, only the `observer` gets records: of requests that used a skill or opened a
    conversation, and of those that were not allowed, without what takes time to find out.
    """

    def __init__(self) -> None:
        self._sinks: tuple[Sink, ...] = ()
        self.tracer: Tracer | None = None
        self.observer: Sink | None = None
        # Unique among the replicas of a server too, at less cost than a random number for each request.
        self._prefix = os.urandom(6).hex()
        self._numbers = itertools.count(1)

    @property
    def wanted(self) -> bool:
        """Whether there is a sink, a tracer or an observer."""
        return bool(self._sinks) or self.tracer is not None or self.observer is not None

    @property
    def wanted_whole(self) -> bool:
        """Whether all requests are recorded, with all fields."""
        return bool(self._sinks) or self.tracer is not None

    def add(self, sink: Sink) -> None:
        """Call `sink` with each record from now on, on the event loop after the request; it must not block."""
        self._sinks = (*self._sinks, sink)

    def new_id(self) -> str:
        """Return the id of a request."""
        return f"{self._prefix}-{next(self._numbers)}"

    @contextmanager
    def watched(self) -> Iterator[Emitted]:
        """Yield what tells whether this task, or one that it started, has emitted a record within the block."""
        emitted = Emitted()
        outer = _EMITTED.set(emitted)
        try:
            yield emitted
        finally:
            _EMITTED.reset(outer)

    def emit(self, record: RequestRecord) -> None:
        """Pass a record to the sinks; one that fails is logged, and does not affect the request nor the others."""
        if (emitted := _EMITTED.get()) is not None:
            emitted.any = True
        for sink in self._sinks if self.observer is None else (*self._sinks, self.observer):
            try:
                sink(record)
            except Exception:
                logger.exception("a record of a request was lost")


class Notes(Struct):
    """The notes on one request. `error` is what a handler turned into a result; `decision` precedes it.

    `target` names what a request is about where its parameters do not tell by themselves. `address` is the network
    address of a client that has not logged in; afterwards, the principal tells who it is.
    """

    request_id: str
    trace_id: str = ""
    principal: Principal = LOCAL
    address: str = ""
    tool: str = ""
    is_own_tool: bool = False
    target: str = ""
    skill: str = ""
    digest: str = ""
    use: Use | None = None
    found: tuple[str, ...] = ()
    decision: RequestDecision | None = None
    reason: str = RequestReason.NONE
    error: Exception | None = None


NOTES: ContextVar[Notes | None] = ContextVar("skillserve_request", default=None)
"""The notes on the request of the current task."""


def note_tool(name: str, *, own: bool) -> None:
    """Note the tool that a request calls, once it is known to exist; `own` tells that no skill declares it."""
    if (notes := NOTES.get()) is not None:
        notes.tool, notes.is_own_tool = name, own


def note_skill(skill: Skill, use: Use) -> None:
    """Note the skill that a request uses, once it is known that the caller sees it."""
    if (notes := NOTES.get()) is not None:
        notes.skill, notes.digest, notes.use = skill.settings_key, skill.digest or "", use


def note_use(use: Use) -> None:
    """Note what a request does with a skill that is not there any more."""
    if (notes := NOTES.get()) is not None:
        notes.use = use


def note_target(name: str) -> None:
    """Note what a request is about, by a name that its client chose."""
    if (notes := NOTES.get()) is not None:
        notes.target = name


def note_found(keys: Iterable[str]) -> None:
    """Note the skills that a search returned."""
    if (notes := NOTES.get()) is not None:
        notes.found = tuple(keys)


def note_denied(reason: str) -> None:
    """Note that a request is denied, whatever its answer says."""
    if (notes := NOTES.get()) is not None:
        notes.decision, notes.reason = RequestDecision.DENIED, reason


def note_invalid(reason: str) -> None:
    """Note why a request is invalid, in more detail than its error tells, or though its answer does not tell."""
    if (notes := NOTES.get()) is not None:
        notes.decision, notes.reason = RequestDecision.INVALID, reason


def adopt(earlier: Notes | None) -> None:
    """Take over what is noted of an earlier request, whose work the current request continues."""
    notes = NOTES.get()
    if notes is None or earlier is None or notes is earlier:
        return
    notes.skill, notes.digest, notes.use = earlier.skill, earlier.digest, earlier.use
    notes.decision, notes.reason = earlier.decision, earlier.reason


def note_error(error: Exception) -> None:
    """Note an error that is answered by a result."""
    if (notes := NOTES.get()) is not None:
        notes.error = error
