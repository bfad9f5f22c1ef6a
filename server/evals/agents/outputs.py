"""Take the outputs of an agent over into the folder of its run.

An agent may have left anything: links, pipes, folders without end. Only regular files below the run's folder are
copied, without following a link, and within limits.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from server.evals.errors import EvalError
from skills_core.disk.files import Location, Reader
from skills_core.disk.replacement import remove_tree
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError
from skills_core.system_faults import system_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from server.evals.agents.run_folder import RunFolder

__all__ = ["publish_outputs", "stray_files"]

_MAX_FILES: Final = 10_000
_MAX_BYTES: Final = 1024**3
_MAX_DEPTH: Final = 64
_MAX_STRAY: Final = 10


class _File(NamedTuple):
    path: str
    mode: int


def publish_outputs(run: RunFolder, folder: Path, answer: str) -> str:
    """Replace `outputs` in the folder of a run with the agent's outputs; return a digest of them and of the answer.

    Raises:
        EvalError: they cannot be copied, or are too many or too large.
    """
    half, target = folder / ".outputs.part", folder / "outputs"
    remove_tree(half)
    half.mkdir(parents=True)
    place = run.outputs.relative_to(run.root).as_posix()
    left, digests = _MAX_BYTES, dict[str, str]()
    try:
        with Reader() as reader:
            for file in _files(reader, run.root, place):
                raw, _ = reader.read(Location(run.root, file.path), left)
                left -= len(raw)
                digests[file.path] = hashlib.sha256(raw).hexdigest()
                write_file(Location(half, file.path.removeprefix(f"{place}/")), raw, file.mode)
    except FileRefusedError as error:
        raise EvalError(f"the outputs cannot be copied: {error}") from None
    except OSError as error:
        raise EvalError(f"the outputs cannot be copied: {system_message(error)}") from None
    finally:
        remove_tree(target)
        half.replace(target)
    whole = json.dumps([sorted(digests.items()), answer])
    return "sha256:" + hashlib.sha256(whole.encode()).hexdigest()


def stray_files(run: RunFolder, given: Iterable[str]) -> list[str]:
    """Return files that the agent has written to its workspace besides `given`, but not to `outputs`."""
    place = run.work.relative_to(run.root).as_posix()
    known = {f"{place}/{path}" for path in given}
    outputs = f"{run.outputs.relative_to(run.root).as_posix()}/"
    found: list[str] = []
    try:
        with Reader() as reader:
            for file in _files(reader, run.root, place):
                name = file.path.removeprefix(f"{place}/")
                if file.path not in known and not file.path.startswith(outputs) and not name.startswith("."):
                    found.append(name)
    except (OSError, EvalError):
        pass  # a remark is not worth an error
    return sorted(found)[:_MAX_STRAY]


def _files(reader: Reader, root: Path, folder: str) -> Iterator[_File]:
    """Yield the regular files below a folder; links and special files stay out.

    Raises:
        OSError: a folder cannot be read, or is a link.
        EvalError: there are too many files or levels.
    """
    waiting, count = deque([folder]), 0
    while waiting:
        above = waiting.popleft()
        if above.count("/") - folder.count("/") > _MAX_DEPTH:
            raise EvalError(f"the outputs have folders more than {_MAX_DEPTH} levels deep")
        with reader.entries(Location(root, above)) as entries:
            listed = sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries)
        for name, mode in listed:
            if stat.S_ISDIR(mode):
                waiting.append(f"{above}/{name}")
            elif stat.S_ISREG(mode):
                count += 1
                if count > _MAX_FILES:
                    raise EvalError(f"the outputs have more than {_MAX_FILES} files")
                yield _File(f"{above}/{name}", mode & 0o777)
