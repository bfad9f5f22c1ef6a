"""The log of dbos, which advertises a service and contains error texts: the heartbeat logs what matters."""

from __future__ import annotations

import logging

__all__ = ["silence_dbos_log"]


def silence_dbos_log() -> None:
    """Drop the log of dbos.

    Without a handler, dbos would add one for the standard error of this moment, and fail once that is closed.
    """
    log = logging.getLogger("dbos")
    log.setLevel(logging.CRITICAL)
    log.propagate = False
    if not any(isinstance(handler, logging.NullHandler) for handler in log.handlers):
        log.addHandler(logging.NullHandler())
