"""Measure the size of tools/list and the instructions, by size of the catalog and by client."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from corpus import write_corpus

from server.clients.known import client_called
from server.clients.layout import layout_for
from server.clients.profile import UNKNOWN, ClientProfile
from server.config.settings.model import Settings
from server.listing.snapshot import Snapshot
from skills_core import Catalog, Environment, Library, explicit_sources

if TYPE_CHECKING:
    from server.listing.layout import ListingLayout

SIZES = (20, 100, 1000, 10_000, 60_000)
CLIENTS = (UNKNOWN, *(client_called(name) for name in ("claude-code", "claude-ai")))
REPEATS = 5


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, nargs="+", default=SIZES, help="sizes of the catalog")
    options = parser.parse_args()
    print("skills  client        tools/list  description  entries  enum   instructions  to make it")
    for count in options.skills:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "skills"
            write_corpus(root, count, bundled=False)
            catalog = Library(explicit_sources([root]), environment).catalog
            for client in CLIENTS:
                print_row(catalog, client)


def environment() -> Environment:
    """Return an environment that meets every requirement."""
    return Environment(os="linux", has_bin=lambda _: True)


def print_row(catalog: Catalog, client: ClientProfile) -> None:
    """Print the sizes for one client: `tools/list` in bytes of JSON, texts in characters."""
    settings = Settings()
    room = layout_for(client, settings)
    snapshot = Snapshot(catalog, settings)
    result = snapshot.tools(room)
    times = [_timed(Snapshot(catalog, settings), room) for _ in range(REPEATS)]
    size = len(json.dumps(result, ensure_ascii=False).encode())
    activate = result["tools"][0]
    text = activate["description"]
    entries, names = text.count("\n- "), len(activate["inputSchema"]["properties"]["name"]["enum"])
    print(
        f"{len(catalog.offered):6}  {client.key:12}  {size:8} B  {len(text):11}  {entries:7}  {names:5}"
        f"  {len(snapshot.instructions(room) or ''):12}  {statistics.median(times):7.2f} ms"
    )


def _timed(snapshot: Snapshot, room: ListingLayout) -> float:
    start = time.perf_counter()
    snapshot.tools(room)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
