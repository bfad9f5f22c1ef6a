"""The packages that a Python script says it needs, put by uv into an environment that is made once for each such list.

This happens outside of the sandbox, for it takes the network. uv only unpacks wheels then, so that no code of a package
runs before the script does.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.errors import ScriptRefusedError
from skills_core.run.scripts.process import Command, Ending, ProcessLimits, run_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.run.scripts.metadata import ScriptMetadata

__all__ = ["python_with_packages"]

_MAX_SAID = 2000


async def python_with_packages(
    path: str,
    metadata: ScriptMetadata,
    lock: bytes | None,
    uv: Path,
    cache: Path,
    environment: Mapping[str, str],
    seconds: float,
    *,
    build: bool,
) -> Path:
    """Return a Python that has what the script `path` needs.

    `lock` is the content of the lock file beside the script, None where there is none. `cache` is a folder for what
    stands in for scripts there; uv has its own. `build` allows packages that are built here, which runs their code.

    Raises:
        ScriptRefusedError: uv cannot provide it.
    """
    # uv keeps an environment for each path of a script, and the path of what is run is another one each time.
    stand_in = await anyio.to_thread.run_sync(_stand_in, cache, metadata, lock)
    limits = ProcessLimits(seconds, 1_000_000)
    options = () if build else ("--no-build",)
    said = b""
    for words in (("sync", "--quiet", *options), ("python", "find")):
        command = Command((str(uv), *words, "--script", str(stand_in)), stand_in.parent, environment)
        done = await run_process(command, limits)
        if done.ending is not Ending.EXITED or done.exit_code != 0:
            why = done.fault or done.stderr.decode(errors="replace").strip()[:_MAX_SAID] or done.ending.value
            raise ScriptRefusedError(path, f"uv cannot provide the packages that it needs: {why}")
        said = done.stdout
    return Path(os.fsdecode(said.strip()))


def _stand_in(cache: Path, metadata: ScriptMetadata, lock: bytes | None) -> Path:
    """Return a script that needs the same and does nothing; uv takes a lock file beside it."""
    digest = hashlib.sha256(metadata.block.encode() + b"\0" + (lock or b"")).hexdigest()[:32]
    folder = cache / digest
    script = folder / "script.py"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if lock is not None:
            _write(folder / "script.py.lock", lock)
        _write(script, metadata.block.encode())
    return script


def _write(target: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(target)
