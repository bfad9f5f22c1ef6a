"""Kill a process at each step of the installation of an improvement, and print what the next process finds."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from server.capabilities.history.histories import Histories
from server.capabilities.improve.installation import install
from server.config.settings.model import Settings
from skills_core.history.states import TEMPORARY
from tests.capabilities.improve.loops import RIGHT, SKILL, WRONG
from tests.core.history.killed_changes import STRIDE, die_at

OLD, NEW = SKILL.encode(), SKILL.replace(WRONG, RIGHT).encode()
SETTINGS = Settings()


def install_improvement(source: Path) -> None:
    base = {"SKILL.md": OLD}
    install(source, "tidy", {"SKILL.md": NEW}, base, "Improved", "a-run", SETTINGS)


def killed_at(base: Path, step: int) -> bool:
    child = os.fork()
    if child == 0:
        try:
            die_at(step)
            install_improvement(base / "source")
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(base: Path) -> None:
    setattr(os, "fsync", lambda _: None)  # noqa: B010 - the types of the two differ
    os.environ["XDG_STATE_HOME"] = str(base / "state")
    source = base / "source"
    (source / "tidy").mkdir(parents=True)
    (source / "tidy" / "SKILL.md").write_bytes(OLD)
    with Histories.of(SETTINGS).open(source) as history:
        history.record_manual_edits()
    pristine = base.with_name("pristine")
    shutil.copytree(base, pristine)
    found = []
    for step in range(1, 500, STRIDE):
        shutil.rmtree(base)
        shutil.copytree(pristine, base)
        died = killed_at(base, step)
        at_once = (source / "tidy" / "SKILL.md").read_bytes()
        with Histories.of(SETTINGS).open(source) as history:
            history.complete()
            causes = [commit.cause for commit in history.commits("tidy")]
        now = (source / "tidy" / "SKILL.md").read_bytes()
        left = [path.name for path in source.rglob("*") if TEMPORARY in path.name]
        found.append(
            {
                "whole": at_once in {OLD, NEW} and now in {OLD, NEW} and not left,
                "recorded": causes == (["improvement", "initial"] if now == NEW else ["initial"]),
                "is new": now == NEW,
            }
        )
        if not died:
            break
    print(json.dumps(found))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    # A folder in memory: hundreds of small folders are removed.
    memory = "/dev/shm"  # noqa: S108 - a folder of its own is made in it
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        main(Path(folder).resolve() / "base")
