"""Clients that a command line names, and the lists that a server hands to them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from server.cli.console import EXIT_USAGE, fail
from server.config.machine import state_home
from skills_core.errors import did_you_mean, similar_to

if TYPE_CHECKING:
    from server.clients.profile import ClientProfile
    from server.config.settings.model import Settings
    from server.listing.snapshot import Snapshot
    from skills_core.catalog.catalog import Catalog

_VERSION = re.compile(r"\d[\w.+-]*")


def name_and_version(chosen: str) -> tuple[str, str | None]:
    """Return the client and the version of `CLIENT@VERSION`; without a version, None.

    A name may hold an `@` itself, so only what stands behind the key of a known client has to be a version.
    """
    from server.clients.known import KNOWN_CLIENTS

    name, _, version = chosen.rpartition("@")
    if not name:
        return chosen, None
    if _VERSION.fullmatch(version):
        return name, version
    if name.strip().lower() in {client.key for client in KNOWN_CLIENTS}:
        fail(
            f"--client {chosen[:100]!r}: {version[:100]!r} is not a version; expected one like {name}@2.1.200",
            EXIT_USAGE,
        )
    return chosen, None


def chosen_clients(chosen: Iterable[str]) -> list[tuple[ClientProfile, str | None]]:
    """Return the chosen clients with their versions, each once; exit with a message if one is not known."""
    from server.clients.known import KNOWN_CLIENTS
    from server.clients.profile import UNKNOWN

    known = {client.key: client for client in (*KNOWN_CLIENTS, UNKNOWN)}
    clients = dict.fromkeys(map(name_and_version, chosen))
    for key, _ in clients:
        if key not in known:
            hint = did_you_mean(similar_to(key, known), "; did") or f"; known are {', '.join(known)}"
            fail(f"--client {key[:100]!r} is not known{hint}", EXIT_USAGE)
    return [(known[key], version) for key, version in clients]


def served_lists(catalog: Catalog, settings: Settings) -> Snapshot:
    """Return the lists of a catalog, in the order that the recorded uses of its skills give."""
    from server.hosting.usage import read_counts, usage_file
    from server.listing.snapshot import Snapshot

    used = read_counts(usage_file(state_home())) if settings.catalog.usage else {}
    return Snapshot(catalog, settings, used)
