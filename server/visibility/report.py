"""Report what some clients show of a catalog, and which skills clash in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.clients import layout_for
from server.visibility.entry_state import EntryState
from server.visibility.name_clashes import NameClash, name_clashes
from server.visibility.native_listing import NativeSkills, native_skills
from server.visibility.repacking import Repacker, Repacking
from server.visibility.served_listing import ServedSkills, served_skills
from server.visibility.similar_descriptions import SimilarDescriptions, similar_descriptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.clients import ClientProfile
    from server.listing.snapshot import Snapshot
    from skills_core.catalog import Catalog

__all__ = ["ClientVisibility", "VisibilityReport", "visibility_report"]


@dataclass(frozen=True, slots=True)
class ClientVisibility:
    """What one client shows of the skills that this server serves, and of those it reads itself."""

    client: ClientProfile
    version: str | None
    """The version that was asked about; None stands for the latest."""
    served: ServedSkills
    native: NativeSkills | None
    repacking: Repacking

    @property
    def label(self) -> str:
        """The client's key, with the version that was asked about."""
        return f"{self.client.key}@{self.version}" if self.version else self.client.key

    @property
    def hides_skills(self) -> bool:
        """Whether the texts do not show a skill for models, or not completely, once the tools are loaded."""
        return any(shown.skill.model_invocable and shown.entry is not EntryState.WHOLE for shown in self.served.skills)


@dataclass(frozen=True, slots=True)
class VisibilityReport:
    """What clients show of `catalog`, and what clashes in it."""

    catalog: Catalog
    window: int
    clients: tuple[ClientVisibility, ...]
    name_clashes: tuple[NameClash, ...]
    similar: SimilarDescriptions


def visibility_report(
    snapshot: Snapshot, clients: Sequence[tuple[ClientProfile, str | None]], window: int
) -> VisibilityReport:
    """Return the report on clients, each with the version that was asked about, if any.

    `window` is the model's context in tokens, for budgets that are a share of it.
    """
    catalog, repacker = snapshot.catalog, Repacker(snapshot)
    shown: list[ClientVisibility] = []
    for client, version in clients:
        profile = client.of_version(version)
        native = native_skills(catalog.offered, profile.native, window) if profile.native else None
        repacking = repacker.repacking(layout_for(profile, snapshot.settings))
        shown.append(ClientVisibility(profile, version, served_skills(snapshot, profile), native, repacking))
    # Each client once, however many of its versions are asked about.
    distinct = {client.key: client for client, _ in clients}.values()
    similar = similar_descriptions(catalog.offered)
    return VisibilityReport(catalog, window, tuple(shown), name_clashes(catalog, distinct), similar)
