"""Install the packages of clients in the versions that `packages` pins, or as they were before a day."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients.client import PACKAGES, earlier_packages
from conformance.processes import CheckError
from conformance.suite import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["NotInstallableError", "install", "unpinned"]

OLDEST = {"fast-agent": (3, 12)}
"""The oldest Python that a package accepts, if that is not the one that the server needs."""

USUAL = (3, 11)

EARLIER = "earlier.txt"
"""The file of a package with bounds that its earlier versions need but do not declare for what is installed."""

PYTHON_VARIABLE = "CLIENTS_PYTHON"
"""The environment variable that names a newer interpreter."""


QUIETLY = ("--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")


class NotInstallableError(Exception):
    """This machine lacks npm, or a Python that is new enough for a package."""


async def install(package: str, before: str = "") -> None:
    """Install a package unless its pinned versions are there; or the newest versions `before` a day (ISO 8601).

    Raises:
        NotInstallableError: npm or a Python that is new enough is missing.
        CheckError: The installation failed.
    """
    folder = unpinned(PACKAGES / package, earlier_packages(before) / package) if before else PACKAGES / package
    pins = [
        path for name in ("package.json", "requirements.txt", "constraints.txt") if (path := folder / name).exists()
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in pins)).hexdigest()
    target = folder / ("node_modules" if pins[0].name == "package.json" else ".venv")
    stamp = target / ".installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return
    if target.name == "node_modules":
        await _with_npm(folder, [f"--before={before}"] if before else [])
    elif before:
        bounds = ["--constraint", EARLIER] if (folder / EARLIER).exists() else []
        await _with_pip(folder, target, OLDEST.get(package, USUAL), ["--uploaded-prior-to", before, *bounds])
    else:
        await _with_pip(folder, target, OLDEST.get(package, USUAL), ["--constraint", "constraints.txt"])
    stamp.write_text(digest, encoding="utf-8")


def unpinned(package: Path, folder: Path) -> Path:
    """Write the files of a package to a folder, so that they ask for any version; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in package.iterdir():
        if path.name == "package.json":
            asked = json.loads(path.read_text(encoding="utf-8"))
            asked["dependencies"] = dict.fromkeys(asked["dependencies"], "*")
            (folder / path.name).write_text(json.dumps(asked), encoding="utf-8")
        elif path.is_file() and path.name != "constraints.txt":
            shutil.copyfile(path, folder / path.name)
    return folder


async def _with_npm(folder: Path, choice: Sequence[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstallableError("npm is missing")
    # With the Node that clients run on, because npm prefers versions that name its own.
    path = os.pathsep.join([str(NODE.parent), os.environ["PATH"]])
    await _run([npm, "install", *choice, *QUIETLY], folder, {**os.environ, "PATH": path})


async def _with_pip(folder: Path, target: Path, oldest: tuple[int, int], choice: Sequence[str]) -> None:
    interpreter = await _interpreter(oldest)
    await _run([interpreter, "-m", "venv", "--clear", str(target)], folder)
    pip = [str(target / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if "--uploaded-prior-to" in choice:
        await _run([*pip, "--upgrade", "pip"], folder)  # The one that comes with Python may not know that option.
    # Few of the installed modules are ever imported; those are compiled then.
    await _run([*pip, "--no-compile", *choice, "--requirement", "requirements.txt"], folder)


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


async def _run(words: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    done = await anyio.run_process(
        list(words), check=False, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=None, stderr=None
    )
    if done.returncode:
        raise CheckError(f"exit code {done.returncode}: {' '.join(words)}")
