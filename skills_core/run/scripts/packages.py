"""Installs the packages that a Python script requires: uv creates one environment for each set of requirements.

This happens outside the sandbox, because it needs the network. So uv only unpacks wheels, and no code of a package runs
before the script does. It has neither the user's credentials nor configuration, see `environment`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.errors import ScriptRefusedError
from skills_core.run.scripts.package_sources import check_lock, sanitized_block
from skills_core.run.scripts.process import Command, ProcessEnding, ProcessLimits, run_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.run.scripts.metadata import ScriptMetadata

__all__ = ["PackageInstaller"]

_MAX_ERROR_TEXT = 2000
_MAX_OUTPUT = 1_000_000

_EXPORT = ("export", "--quiet", "--offline", "--frozen", "--no-header", "--no-annotate", "--format", "requirements.txt")
_INSTALL = ("pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-build")


@dataclass(frozen=True, slots=True)
class PackageInstaller:
    """Runs uv for scripts.

    `cache` is a folder for stand-in scripts. `environment` is uv's complete environment. `any_source` permits scripts
    to name the sources of their packages.
    """

    uv: Path
    cache: Path
    environment: Mapping[str, str]
    seconds: float
    any_source: bool = False

    async def python_for(self, path: str, metadata: ScriptMetadata, lock: bytes | None) -> Path:
        """Return a Python with the packages that the script `path` requires.

        `lock` is the content of the lock file beside the script, None if there is none.

        Raises:
            ScriptRefusedError: uv cannot or must not provide them.
        """
        if self.any_source:
            script = await self._stand_in(metadata.block, lock)
            await self._run(path, script, "sync", "--quiet", "--no-build", "--script", str(script))
            return await self._python(path, script)
        plain = sanitized_block(path, metadata)
        if lock is None:
            script = await self._stand_in(plain)
            await self._run(path, script, "sync", "--quiet", "--no-build", "--script", str(script))
            return await self._python(path, script)
        return await self._locked(path, metadata, plain, lock)

    async def _locked(self, path: str, metadata: ScriptMetadata, plain: str, lock: bytes) -> Path:
        """Install the packages of a lock file by version and hash; the sources in the file are ignored."""
        locked = await self._stand_in(plain, lock)
        exported = await self._run(path, locked, *_EXPORT, "--script", str(locked))
        check_lock(path, metadata, exported.decode(errors="replace"))
        # The mark gives each lock file an environment of its own, which starts empty.
        mark = f"# {hashlib.sha256(lock).hexdigest()}\n"
        empty = await self._stand_in(mark + sanitized_block(path, metadata, dependencies=False))
        requirements = empty.with_name("requirements.txt")
        await anyio.to_thread.run_sync(_write, requirements, exported)
        await self._run(path, empty, "sync", "--quiet", "--inexact", "--no-build", "--script", str(empty))
        python = await self._python(path, empty)
        await self._run(path, empty, *_INSTALL, "--python", str(python), "--requirement", str(requirements))
        return python

    async def _python(self, path: str, script: Path) -> Path:
        found = await self._run(path, script, "python", "find", "--script", str(script))
        return Path(os.fsdecode(found.strip()))

    async def _run(self, path: str, script: Path, *words: str) -> bytes:
        limits = ProcessLimits(self.seconds, _MAX_OUTPUT)
        done = await run_process(Command((str(self.uv), *words), script.parent, self.environment), limits)
        if done.ending is not ProcessEnding.EXITED or done.exit_code != 0:
            why = done.fault or done.stderr.decode(errors="replace").strip()[:_MAX_ERROR_TEXT] or done.ending.value
            raise ScriptRefusedError(path, f"uv cannot provide the packages that it needs: {why}")
        return done.stdout

    async def _stand_in(self, content: str, lock: bytes | None = None) -> Path:
        # uv keeps an environment for each path of a script, and the private copy has another path each time.
        return await anyio.to_thread.run_sync(_stand_in, self.cache, content, lock)


def _stand_in(cache: Path, content: str, lock: bytes | None) -> Path:
    """Return an empty script with the same requirements; uv reads a lock file beside it."""
    digest = hashlib.sha256(content.encode() + b"\0" + (lock or b"")).hexdigest()[:32]
    folder = cache / digest
    script = folder / "script.py"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if lock is not None:
            _write(folder / "script.py.lock", lock)
        _write(script, content.encode())
    return script


def _write(target: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(target)
