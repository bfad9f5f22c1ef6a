"""The client of a run as the run knows it: its user, its progress reports, its model if it is used, and its view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.exchange.elicitation import user_of
from skills_core.run.models import CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from server.config.settings import Settings
    from server.exchange.client_exchange import ClientExchange
    from server.run.skill_runner import RunParticipants
    from skills_core.catalog import Catalog

__all__ = ["participants_of"]


def participants_of(
    exchange: ClientExchange,
    name: str,
    settings: Settings,
    catalog: Callable[[], Catalog] | None,
    allows: Callable[[str], bool],
    *,
    tool: str,
) -> RunParticipants:
    """Return the client at the other end of `exchange`, whose user knows the run by `name`.

    `catalog` returns what the client sees, None if it sees everything, and `allows` tells which tools it may use.
    `tool` is the tool that the client called.
    """
    from server.run.skill_runner import RunParticipants

    user, reason = user_of(exchange, name), f"client_call: {tool}"
    if settings.runs.model != CLIENT:
        return RunParticipants(user, exchange.report, catalog=catalog, allows=allows, reason=reason)
    from server.exchange.client_model import ClientModel

    return RunParticipants(user, exchange.report, ClientModel(exchange), catalog, allows, reason)
