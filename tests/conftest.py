"""Fixtures for all tests: skill folders on disk, forked processes and a model endpoint."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

from tests.fork_server.client import ForkServer, forking
from tests.temporary import TEMPORARY
from tests.thoroughness import examples

# The time of an example depends on the load of the machine, so it has no deadline.
settings.register_profile(
    "untimed", settings(), deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

# Tests start hundreds of processes; without cached bytecode each of them would compile the product again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Scripts, checks and agents start `python3`, which may be a launcher that takes ten times as long as the interpreter.
_INTERPRETERS = Path(sys.base_prefix, "bin")
if (_INTERPRETERS / "python3").exists():
    os.environ["PATH"] = f"{_INTERPRETERS}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

if TEMPORARY is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", TEMPORARY)

# A client of HTTP reads all certificates of the system, though no test connects to anything but loopback.
httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)

# A shell that runs the tests in the background makes them ignore these signals, and their processes would inherit that.
# A signal with a handler gets the default action in a new process.
for _name in ("SIGINT", "SIGHUP"):
    if hasattr(signal, _name) and signal.getsignal(getattr(signal, _name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, _name), lambda *_: None)

MakeSkill = Callable[..., Path]


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """An interpreter that forks the product's processes, on systems with fork."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _forks(request: pytest.FixtureRequest, fork_server: ForkServer) -> Iterator[None]:
    if request.node.get_closest_marker("cold_start") is not None:
        yield
        return
    with forking(fork_server):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage of the imports and of the list of tests, which live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Collect garbage once more at the end of each file, and then not in what lives on: imports, caches, reports."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


MAX_ID = 60
"""Characters of a long text that the id of a test shows; each report of a test has its id."""


def pytest_make_parametrize_id(val: object) -> str | None:
    if isinstance(val, str) and len(val) > 2 * MAX_ID:
        return f"{val[:MAX_ID]} ({len(val)} characters)".encode("unicode_escape").decode()
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def write_skill(
    root: Path,
    name: str,
    description: str = "Does a thing. Use when the thing is to be done.",
    body: str = "Do the thing.",
    fields: str = "",
    files: dict[str, bytes] | None = None,
) -> Path:
    """Write the skill `name` below `root`; `fields` are additional lines of frontmatter."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    extra = fields.rstrip("\n") + "\n" if fields else ""
    text = f"---\nname: {folder.name}\ndescription: {description}\n{extra}---\n\n{body}\n"
    # Replace the file atomically, as editors do: a server sees the old text or the new one, never a part.
    half = root / f".{folder.name}.half"
    half.write_text(text, encoding="utf-8", newline="\n")
    half.replace(folder / "SKILL.md")
    for path, content in (files or {}).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return folder


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """An empty folder for skills."""
    root = tmp_path / "skills"
    root.mkdir()
    return root


@pytest.fixture
def make_skill(skills: Path) -> MakeSkill:
    """Write skills into the folder `skills`."""
    return partial(write_skill, skills)


@pytest.fixture(scope="session")
def endpoint_server() -> Iterator[Any]:
    """A `tests.model_endpoint.EndpointServer`, which all tests share."""
    from tests.model_endpoint import open_endpoint_server  # noqa: PLC0415 - only tests of runs need its imports

    with open_endpoint_server() as opened:
        yield opened


@pytest.fixture
def endpoint(endpoint_server: Any) -> Iterator[Any]:
    """A `tests.model_endpoint.ModelEndpoint` of this test, which answers from a script."""
    with endpoint_server.endpoint() as opened:
        yield opened
