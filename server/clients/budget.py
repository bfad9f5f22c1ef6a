"""How much a client is sent of what it might show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.listing.offer import ListingBudget

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from server.config.settings import Settings

__all__ = ["budget_for"]


def budget_for(client: ClientProfile, settings: Settings) -> ListingBudget:
    """Return how much budget a client has for the catalog and for the enum of names.

    The budget that is set for the client is taken as it is; else it is no more than the client is known to show, and
    than is set for all.
    """
    own = settings.clients.budgets.get(client.key)
    catalog = own or min(client.description_budget or settings.catalog.budget, settings.catalog.budget)
    return ListingBudget(catalog, client.schema.value if client.schema else None)
