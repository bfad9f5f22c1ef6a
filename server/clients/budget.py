"""How much of the catalog a client is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from server.config import Settings

__all__ = ["budget_for"]


def budget_for(client: ClientProfile, settings: Settings) -> int:
    """Return how many characters of the catalog a client is sent.

    What is set for the client is taken as it is; else no more than it is known to show, and than is set for all.
    """
    own = settings.client_budgets.get(client.key)
    return own or min(client.description_budget or settings.catalog_budget, settings.catalog_budget)
