"""What a machine needs at least for the folders of a corpus: plain loops, each in a process of its own.

    python -m scale_limits load|walk FOLDER

`walk` lists all folders and stats all files, as any server must at its start. `load` also reads and hashes every file,
and parses the frontmatter of each skill with the YAML parser that is written in C.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGEST, SIZE, MTIME = 32, 8, 8
HERE = Path(__file__).resolve().parent


class Cost(NamedTuple):
    """The seconds that something took: by the clock, and of processor time."""

    wall: float
    cpu: float


def walk(root: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield the folder, the name and the metadata of every file."""
    folders = [root]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield folder, entry.name, entry.stat(follow_symlinks=False)


def load(root: str) -> int:
    """Read, hash and parse all files; return the bytes of their metadata.

    The metadata of a file are its path below the root as UTF-8, a digest of 32 bytes, a size and an mtime of 8 bytes
    each; those of a skill are the metadata of its files, and its frontmatter as compact JSON.
    """
    total = 0
    for folder, name, _ in walk(root):
        path = f"{folder}/{name}"
        with open(path, "rb") as file:  # noqa: PTH123 - a Path for each of many files would slow the limit
            content = file.read()
        hashlib.sha256(content).digest()
        total += len(path.encode()) - len(root) - 1 + DIGEST + SIZE + MTIME
        if name == "SKILL.md":
            frontmatter = yaml.load(content.split(b"---\n", 2)[1], Loader=yaml.CSafeLoader)
            total += len(json.dumps(frontmatter, separators=(",", ":"), ensure_ascii=False).encode())
    return total


def run(what: str, root: Path) -> tuple[Cost, int]:
    """Run a loop in a new process; return its cost from the start of the process on, and its result."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "scale_limits", what, str(root)], cwd=HERE, stdout=subprocess.PIPE, check=True
    )
    result = json.loads(done.stdout)
    return Cost(time.perf_counter() - begin, result["cpu"]), result["found"]


def main() -> None:
    """Run one loop and print what it found and its processor time."""
    what, root = sys.argv[1:]
    found = load(root) if what == "load" else sum(1 for _ in walk(root))
    print(json.dumps({"found": found, "cpu": time.process_time()}))


if __name__ == "__main__":
    main()
