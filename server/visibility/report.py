"""All that can be told of a catalog's visibility, for some clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.visibility.entry_state import Entry
from server.visibility.name_clashes import NameClash, name_clashes
from server.visibility.native_listing import Native, native
from server.visibility.repacking import Repacker, Repacking
from server.visibility.served_listing import Served, served
from server.visibility.similar_descriptions import MeaningClashes, meaning_clashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.clients import ClientProfile
    from server.listing.snapshot import Snapshot
    from skills_core.catalog import Catalog

__all__ = ["ClientView", "Overview", "overview"]


@dataclass(frozen=True, slots=True)
class ClientView:
    """What one client shows, by this server and by itself, and what would change it."""

    client: ClientProfile
    served: Served
    native: Native | None
    repacking: Repacking

    @property
    def hides(self) -> bool:
        """Whether a skill that is for models is not wholly shown in the catalog."""
        return any(shown.skill.model_invocable and shown.entry is not Entry.WHOLE for shown in self.served.skills)


@dataclass(frozen=True, slots=True)
class Overview:
    """What clients show of `catalog`, and what clashes in it."""

    catalog: Catalog
    window: int
    views: tuple[ClientView, ...]
    names: tuple[NameClash, ...]
    meaning: MeaningClashes


def overview(snapshot: Snapshot, clients: Sequence[ClientProfile], window: int) -> Overview:
    """Compute everything; `window` are the tokens of a model's context, for budgets that are a share of it."""
    catalog, repacker = snapshot.catalog, Repacker(snapshot)
    views = []
    for client in clients:
        shown = served(snapshot, client)
        listing = native(catalog.offered, client.native, window) if client.native else None
        views.append(ClientView(client, shown, listing, repacker.repacking(shown.budget)))
    return Overview(catalog, window, tuple(views), name_clashes(catalog, clients), meaning_clashes(catalog.offered))
