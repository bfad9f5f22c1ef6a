"""Read the value of `--client`: a client, and optionally its version."""

from __future__ import annotations

import re

from server.cli.console import EXIT_USAGE, fail

__all__ = ["name_and_version"]

_VERSION = re.compile(r"\d[\w.+-]*")


def name_and_version(chosen: str) -> tuple[str, str | None]:
    """Return the client and the version of `CLIENT@VERSION`; without a version, None.

    A name may hold an `@` itself, so only what stands behind the key of a known client has to be a version.
    """
    from server.clients import KNOWN_CLIENTS

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
