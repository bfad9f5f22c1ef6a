"""The capabilities: everything that a server of skills can leave out, one folder each.

This tuple names them all. Its order is that of their sections in the reference of settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capabilities import (
    audit,
    auditlog,
    authoring,
    evals,
    guard,
    history,
    improve,
    login,
    operation,
    remote,
    replicas,
    runs,
    schedules,
    scripts,
    visibility,
)

if TYPE_CHECKING:
    from server.capability import Capability

CAPABILITIES: Final[tuple[Capability, ...]] = (
    authoring.CAPABILITY,
    visibility.CAPABILITY,
    remote.CAPABILITY,
    audit.CAPABILITY,
    guard.CAPABILITY,
    auditlog.CAPABILITY,
    runs.CAPABILITY,
    scripts.CAPABILITY,
    evals.CAPABILITY,
    history.CAPABILITY,
    schedules.CAPABILITY,
    improve.CAPABILITY,
    login.CAPABILITY,
    operation.CAPABILITY,
    replicas.CAPABILITY,
)
