"""What the audit log keeps of an event: names and decisions, and never texts, arguments or tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from skills_core.diagnostics import without_lone_surrogates
from skills_core.errors import SkillsError
from skills_core.texts import without_secrets

MAX_TEXT: Final = 300
"""Characters that a record keeps of a name; clients choose some of them."""


class AuditEvent(StrEnum):
    """What happened."""

    ACTIVATION = "activation"
    """A client got the text of a skill."""
    READ = "read"
    """A client read a file of a skill."""
    RUN = "run"
    """A client had a skill, a workflow, a script or a declared tool executed."""
    ADMIN = "admin"
    """A client or an operator used a tool or a route that administers the server."""
    REQUEST = "request"
    """Any other request; it is recorded only if it was denied."""
    LOGIN_REFUSED = "login_refused"
    """A request was refused because its token was not accepted, or could not be checked."""
    TOKEN_ADDED = "token_added"  # noqa: S105 - the name of an event
    """`skillserve token add` made a token."""
    TOKEN_REVOKED = "token_revoked"  # noqa: S105
    """`skillserve token revoke` removed a token."""
    START = "start"
    """The first record of a file: its writer, and the ends of the files that were there."""
    GAP = "gap"
    """Records were lost, because the disk failed or was too slow."""
    RETENTION = "retention"
    """The files that `deleted` names are deleted, because they are older than the settings want."""
    END = "end"
    """The last record of a file whose writer ended regularly."""


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event. `when` is in UTC; None stands for what does not apply or is not known.

    `target` names what a request was about where it was not a skill. `count` is the number of events of this kind that
    one record stands for.
    """

    when: str
    event: AuditEvent
    principal: str | None = None
    kind: str | None = None
    roles: tuple[str, ...] = ()
    client: str | None = None
    era: str | None = None
    address: str | None = None
    method: str | None = None
    tool: str | None = None
    skill: str | None = None
    digest: str | None = None
    target: str | None = None
    decision: str | None = None
    reason: str | None = None
    request_id: str | None = None
    count: int = 1


_Number: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]


class ChainedRecord(AuditRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A record as a file has it: with its number in the file, its chain, and the fields of the log's own events.

    `seen` has the name, the last number and the last hash of files that were there when this file was begun. `deleted`
    has the names of the files that retention deletes after this record, and `before` the day up to which it does.
    """

    seq: _Number
    prev: str
    hash: str
    file: str | None = None
    host: str | None = None
    pid: int | None = None
    version: str | None = None
    seen: tuple[tuple[str, _Number, str], ...] = ()
    lost: int = 0
    since: str | None = None
    before: str | None = None
    deleted: tuple[str, ...] = ()


def timestamp(moment: datetime | None = None) -> str:
    """Return a moment, by default now, as the log writes it: in UTC, with milliseconds."""
    return (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_of(seconds: float) -> str:
    """Return a moment in seconds since 1970 in the same form."""
    return f"{_second_of(int(seconds))}.{int(seconds % 1 * 1000):03d}Z"


@lru_cache(2)
def _second_of(seconds: int) -> str:
    # A datetime formats itself slowly, and one second has many requests.
    return timestamp(datetime.fromtimestamp(seconds, UTC))[: -len(".000Z")]


def bounded(text: str) -> str | None:
    """Return a name as the log keeps it, None if it is empty: bounded, and without what has the form of a secret."""
    # Cut before searching, because a client may send megabytes; what is cut in two is longer than what is kept.
    return _bounded(text[: 8 * MAX_TEXT]) if text else None


@lru_cache(512)
def _bounded(text: str) -> str:
    # The same principals, clients and skills come again and again, and the search has many patterns.
    short = without_secrets(without_lone_surrogates(text))
    return short if len(short) <= MAX_TEXT else f"{short[: MAX_TEXT - 1]}…"


class AuditLogError(SkillsError):
    """The folder of the audit log cannot be used; the message says why and what to do."""
