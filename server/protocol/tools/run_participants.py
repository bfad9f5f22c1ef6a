"""Who is there for a run that a client asked for: its user, who is told of progress, and its model where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.exchange.elicitation import user_of
from skills_core.run.models import CLIENT

if TYPE_CHECKING:
    from server.config.settings import Settings
    from server.exchange.client_exchange import ClientExchange
    from server.run.skill_runner import RunParticipants

__all__ = ["participants_of"]


def participants_of(exchange: ClientExchange, name: str, settings: Settings) -> RunParticipants:
    """Return who is at the other end of `exchange`, asked on behalf of what the user knows by `name`."""
    from server.run.skill_runner import RunParticipants

    user = user_of(exchange, name)
    if settings.runs.model != CLIENT:
        return RunParticipants(user, exchange.report)
    from server.exchange.client_model import ClientModel

    return RunParticipants(user, exchange.report, ClientModel(exchange))
