"""How operators watch and stop a server: metrics, and the time for running requests after SIGTERM."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["OperationSettings"]


class OperationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics and the stop of a server over HTTP."""

    metrics: bool = False
    """Whether `/metrics` serves figures for Prometheus. This requires the extra `team`. Where clients need a login,
    readers need the role `metrics` or `admin`."""
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 5.0
    """Seconds that running requests have to finish after the first SIGTERM or SIGINT, before they are cancelled. Raise
    it where clients run skills, and keep it some seconds below the time after which the process is killed."""
    drain_notice_seconds: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """Seconds that the server goes on serving after the signal even if nothing is running, while `/ready` answers 503.
    Set it to the time in which your proxy notices that, if the proxy looks at `/ready`."""
