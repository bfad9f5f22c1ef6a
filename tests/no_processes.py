"""A plugin for the inner loop: each test that starts a process is skipped at the moment when it does so.

Use it as `pytest -p tests.no_processes`. No list says which tests these are: the interpreter reports each start of a
process to its audit hooks, whichever fixture, helper or part of the product requests it.
"""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

STARTS = frozenset(
    {"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "subprocess.Popen"}
)
"""The audit events of https://docs.python.org/3/library/audit_events.html that precede the start of a process."""


class _Test:
    """Whether a test runs now, and whether it was about to start a process."""

    runs = False
    has_started = False


def _refuse(event: str, _: object) -> None:
    if _Test.runs and event in STARTS:
        _Test.has_started = True
        pytest.skip("starts a process")


def pytest_configure() -> None:
    sys.addaudithook(_refuse)


def _skip_when_it_starts_one() -> Generator[None, object, object]:
    """Skip the test also if a group of exceptions holds the refusal, or if the product handled it."""
    _Test.runs, _Test.has_started = True, False
    try:
        result = yield
    except BaseException:
        if not _Test.has_started:
            raise
    finally:
        _Test.runs = False
    if _Test.has_started:
        pytest.skip("starts a process")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    return (yield from _skip_when_it_starts_one())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    return (yield from _skip_when_it_starts_one())
