"""The capabilities: everything that a server of skills can leave out, one folder each.

This tuple names them all. Its order is that of their tools in `tools/list`, of their commands, and of their sections in
the reference of settings; what surrounds a server is entered in this order, so spans outlast the audit log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.capabilities import (
    apps,
    audit,
    auditlog,
    authoring,
    bridge,
    connect,
    doctor,
    embeddings,
    evals,
    guard,
    history,
    improve,
    login,
    operation,
    publish,
    remote,
    replicas,
    review,
    runs,
    schedules,
    scripts,
    visibility,
    web,
)

if TYPE_CHECKING:
    from server.capability import Capability

CAPABILITIES: Final[tuple[Capability, ...]] = (
    authoring.CAPABILITY,
    bridge.CAPABILITY,
    connect.CAPABILITY,
    doctor.CAPABILITY,
    visibility.CAPABILITY,
    remote.CAPABILITY,
    publish.CAPABILITY,
    audit.CAPABILITY,
    embeddings.CAPABILITY,
    scripts.CAPABILITY,
    runs.CAPABILITY,
    guard.CAPABILITY,
    operation.CAPABILITY,
    auditlog.CAPABILITY,
    login.CAPABILITY,
    web.CAPABILITY,
    replicas.CAPABILITY,
    apps.CAPABILITY,
    history.CAPABILITY,
    schedules.CAPABILITY,
    improve.CAPABILITY,
    evals.CAPABILITY,
    review.CAPABILITY,
)
