"""Install the packages of clients in the versions that `packages` pins."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients.client import PACKAGES
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["NotInstallableError", "install"]

OLDEST = {"fast-agent": (3, 12), "frameworks": (3, 11)}
"""The oldest Python that a package accepts."""

PYTHON_VARIABLE = "CLIENTS_PYTHON"
"""The environment variable that names a newer interpreter."""


class NotInstallableError(Exception):
    """This machine lacks npm, or a Python that is new enough for a package."""


async def install(package: str) -> None:
    """Install a package unless its pinned versions are there.

    Raises:
        NotInstallableError: npm or a Python that is new enough is missing.
        CheckError: The installation failed.
    """
    folder = PACKAGES / package
    pins = [
        path for name in ("package.json", "requirements.txt", "constraints.txt") if (path := folder / name).exists()
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in pins)).hexdigest()
    target = folder / ("node_modules" if pins[0].name == "package.json" else ".venv")
    stamp = target / ".installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return
    if target.name == "node_modules":
        await _with_npm(folder)
    else:
        await _with_pip(folder, target, OLDEST[package])
    stamp.write_text(digest, encoding="utf-8")


async def _with_npm(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstallableError("npm is missing")
    await _run([npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"], folder)


async def _with_pip(folder: Path, target: Path, oldest: tuple[int, int]) -> None:
    interpreter = await _interpreter(oldest)
    await _run([interpreter, "-m", "venv", "--clear", str(target)], folder)
    pip = [str(target / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Few of the installed modules are ever imported; those are compiled then.
    await _run([*pip, "--no-compile", "--constraint", "constraints.txt", "--requirement", "requirements.txt"], folder)


async def _interpreter(oldest: tuple[int, int]) -> str:
    """Return the first interpreter that is new enough.

    Raises:
        NotInstallableError: There is none.
    """
    for candidate in _candidates(oldest):
        test = f"import sys; sys.exit(sys.version_info < {oldest})"
        try:
            done = await anyio.run_process([candidate, "-c", test], check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    version = ".".join(map(str, oldest))
    raise NotInstallableError(f"there is no Python {version} or later; {PYTHON_VARIABLE} may name one")


def _candidates(oldest: tuple[int, int]) -> Iterator[str]:
    if chosen := os.environ.get(PYTHON_VARIABLE):
        yield chosen
    yield sys.executable
    names = [f"python3.{minor}" for minor in range(oldest[1], 15)]
    yield from names
    # Where pyenv has versions that it does not put on PATH.
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(path) for name in names for path in sorted(root.glob(f"versions/*/bin/{name}")))


async def _run(words: Sequence[str], folder: Path) -> None:
    done = await anyio.run_process(
        list(words), check=False, cwd=folder, stdin=subprocess.DEVNULL, stdout=None, stderr=None
    )
    if done.returncode:
        raise CheckError(f"exit code {done.returncode}: {' '.join(words)}")
