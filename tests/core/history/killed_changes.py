"""Kill a process at each step of a change of files or history, and print what the next process finds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from skills_core.history.history import History
from skills_core.history.states import TEMPORARY
from tests.core.history.folders import SKILL, history_of, read, write
from tests.thoroughness import EVERY_CASE

OLD = {"SKILL.md": SKILL % (b"a", 1), "gone/file.txt": b"1", "swap": b"a file"}
NEW = {"SKILL.md": SKILL % (b"a", 2), "swap/is-folder.txt": b"3"}

STRIDE = 1 if EVERY_CASE else 3
"""From one step at which a process is killed to the next."""

_STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.chmod", "os.utime"}


def rollback(history: History) -> None:
    history.rollback("a")


def change(history: History) -> None:
    history.change("a", {"SKILL.md": NEW["SKILL.md"], "gone/file.txt": None}, "improvement", "m")


def record(history: History) -> None:
    (history.root / "a" / "SKILL.md").write_bytes(b"by hand")
    history.record_manual_edits()


WORKS: dict[str, Callable[[History], None]] = {
    "exchange": rollback,
    "one by one": rollback,
    "removed": rollback,
    "change": change,
    "record": record,
}


def prepare(base: Path, name: str) -> History:
    """Make a source with two versions of a skill, the older of which is recorded first."""
    shutil.rmtree(base, ignore_errors=True)
    source = base / "source"
    write(source / "a", OLD)
    write(source / "b", {"SKILL.md": b"another"})
    if name == "one by one":
        # A file that is not recorded must stay where it is.
        (source / "a" / ".env").write_bytes(b"secret")
    history = history_of(source)
    history.record_manual_edits()
    if name == "removed":
        shutil.rmtree(source / "a")
    elif name != "change":
        for path in ("gone", "swap"):
            shutil.rmtree(source / "a" / path, ignore_errors=True)
            (source / "a" / path).unlink(missing_ok=True)
        for path, content in NEW.items():
            (source / "a" / path).parent.mkdir(parents=True, exist_ok=True)
            (source / "a" / path).write_bytes(content)
    history.record_manual_edits()
    return history


def die_at(step: int) -> None:
    """Kill this process at its n-th access that may change something."""
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in _STEPS or (event == "open" and not _writes(arguments)):
            return
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def run(base: Path, name: str, step: int) -> bool:
    """Do the work in a process that dies at a step; return whether it died."""
    child = os.fork()
    if child == 0:
        try:
            history = history_of(base / "source")
            die_at(step)
            WORKS[name](history)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_at_each_step(base: Path, name: str) -> list[dict[str, object]]:
    """Do one work again and again, killed at a later step each time; return what was there after each."""
    history = prepare(base, name)
    pristine = base.with_name("pristine")
    shutil.copytree(base, pristine)
    before, count = read(base / "source"), len(history.commits())
    WORKS[name](history)
    after = read(base / "source")
    found = []
    for step in range(1, 1000, STRIDE):
        shutil.rmtree(base)
        shutil.copytree(pristine, base)
        died = run(base, name, step)
        at_once = {path: each for path, each in read(base / "source").items() if TEMPORARY not in path}
        again = history_of(base / "source")
        again.record_manual_edits()
        now = read(base / "source")
        commits = again.commits()
        found.append(
            {
                "whole at once": at_once in (before, after),
                "whole": now in (before, after),
                "is new": now == after,
                "one commit if new": len(commits) - count <= 1,
                "clean": again.record_manual_edits() is None,
                "commits": [each.cause for each in commits[: len(commits) - count]],
            }
        )
        if not died:
            break
    return found


def main() -> None:
    setattr(os, "fsync", lambda _: None)  # noqa: B010 - the types of the two differ
    # A folder in memory: hundreds of small folders are removed.
    memory = "/dev/shm"  # noqa: S108 - a folder of its own is made in it
    results = {}
    for name in WORKS:
        with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
            results[name] = kill_at_each_step(Path(folder).resolve() / "base", name)
    print(json.dumps(results))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main()
