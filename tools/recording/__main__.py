"""Install the client, record the session in namespaces of its own, and write the picture."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio

from conformance.clients.install import NotInstallableError, install
from conformance.clients.sandbox import is_possible, run_inside
from conformance.processes import REPOSITORY, CheckError
from tools.recording.picture import svg_of
from tools.recording.screens import read_cast, screens_of

PICTURE = REPOSITORY / "docs/assets/edit-arrives.svg"
TITLE = "A skill is edited, skillserve logs the change, and the menu of Claude Code shows the new description"


async def _main() -> int:
    if not await is_possible():
        print(
            "This system allows no network namespaces (unshare of util-linux), so nothing was recorded", file=sys.stderr
        )
        return 2
    try:
        await install("claude")
        with tempfile.TemporaryDirectory(prefix="skillserve-") as folder:
            await run_inside("claude", "edit", Path(folder), "tools.recording.session")
            cast = read_cast(Path(folder) / "session.cast")
    except (NotInstallableError, CheckError) as error:
        print(f"Nothing was recorded: {error}", file=sys.stderr)
        return 2
    PICTURE.write_text(svg_of(screens_of(cast), cast.columns, cast.rows, TITLE), encoding="utf-8")
    print(f"{PICTURE.relative_to(REPOSITORY)}: {PICTURE.stat().st_size / 1000:.0f} kB, {cast.seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(anyio.run(_main))
