"""The listing budget of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.listing.order import ListingBudget

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from server.config.settings import Settings

__all__ = ["budget_for"]


def budget_for(client: ClientProfile, settings: Settings) -> ListingBudget:
    """Return a client's budget for the catalog and for the enum of names.

    A budget configured for this client is used as it is. Otherwise the budget is the smaller of what the client is
    known to show and what is configured for all clients.
    """
    own = settings.clients.budgets.get(client.key)
    catalog = own or min(client.description_budget or settings.catalog.budget, settings.catalog.budget)
    return ListingBudget(catalog, client.schema.value if client.schema else None)
