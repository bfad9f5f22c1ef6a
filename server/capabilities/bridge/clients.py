"""The clients that read skills from a folder of their own; the facts are data (`clients.json`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from server.config.values import resolved_path

_DATA: Final = Path(__file__).with_name("clients.json")


class BridgedClient(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A client by its key for `connect`: the user's `folder` that stubs are written to, and others that it `reads`.

    `facts` is its key in `known_clients.json`. `most` is how many stubs are of use: Codex shortens all descriptions
    until the list fits, and clients without a limit pay for each stub in each request. `connect` writes stubs by
    `default`.
    """

    key: str
    title: str
    facts: str
    folder: str
    most: int
    default: bool = False
    reads: tuple[str, ...] = ()

    def place(self, home: Path, environment: Mapping[str, str] = os.environ) -> Path:
        """Return the folder of the stubs."""
        return resolved_path(self.folder, home, environment)

    def own_places(self, home: Path, environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
        """Return all folders of the user whose skills the client reads itself."""
        return tuple(resolved_path(each, home, environment) for each in (self.folder, *self.reads))


@cache
def bridged_clients() -> dict[str, BridgedClient]:
    """Return the clients by their keys."""
    return {each.key: each for each in msgspec.json.decode(_DATA.read_bytes(), type=list[BridgedClient])}
