"""Kill the replacement of a plugin at each of its steps; print a line for each kill.

A line says what was in the plugin's place after the kill, after the next command, and what else was left then. The
argument `renames` switches off the system's exchange of folders.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from server.capabilities.remote.plugins.folder import PluginsFolder
from skills_core.disk import replacement

STEPS = {"os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.scandir", "os.listdir", "shutil.rmtree", "open"}


def put(plugins: PluginsFolder, dies_at: int) -> None:
    """Replace the plugin, and die at the given step."""
    with plugins.changing(), plugins.staging() as staging:
        for name in ("a", "b"):
            (staging / "acme" / "skills" / name).mkdir(parents=True)
            (staging / "acme" / "skills" / name / "SKILL.md").write_text("new")
        steps = 0

        def die(event: str, _: object) -> None:
            nonlocal steps
            if event in STEPS:
                steps += 1
                if steps == dies_at:
                    os._exit(9)

        sys.addaudithook(die)
        plugins.put(staging / "acme", "acme")
    os._exit(0)


def found(place: Path) -> str:
    return " ".join(sorted(f"{path.parent.name}:{path.read_text()}" for path in place.rglob("SKILL.md"))) or "nothing"


def main() -> None:
    if "renames" in sys.argv:
        replacement._system_exchange = lambda: None  # type: ignore[assignment]
    died, dies_at = True, 0
    while died:
        dies_at += 1
        with tempfile.TemporaryDirectory() as folder:
            plugins = PluginsFolder(Path(folder))
            (plugins.root / "acme" / "skills" / "a").mkdir(parents=True)
            (plugins.root / "acme" / "skills" / "a" / "SKILL.md").write_text("old")
            child = os.fork()
            if child == 0:
                put(plugins, dies_at)
            died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
            killed = found(plugins.root / "acme")
            with plugins.changing():
                left = {path.name for path in plugins.root.iterdir() if not path.name.endswith(".lock")} - {"acme"}
                sys.stdout.write(f"{killed}, {found(plugins.root / 'acme')}, {sorted(left)}\n")


main()
