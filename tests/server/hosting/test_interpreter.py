"""Python does not look for garbage among loaded skills, threads pass the interpreter on soon, memory is given back."""

from __future__ import annotations

import gc
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from server.hosting.interpreter import give_back_memory, left_alone, short_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 200_000


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """Collect garbage as a server does, and at the end as before."""
    was, thresholds = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*thresholds)
    if not was:
        gc.disable()


def test_much_that_is_made_is_never_looked_at_again() -> None:
    frozen = gc.get_freeze_count()
    with left_alone():
        made = [[number] for number in range(MANY)]
    assert gc.get_freeze_count() >= frozen + len(made)


def test_little_that_is_made_stays_with_the_rest() -> None:
    frozen = gc.get_freeze_count()
    with left_alone():
        made = [[number] for number in range(100)]
    assert gc.get_freeze_count() <= frozen
    assert any(each is made for each in gc.get_objects())


def test_not_everything_is_looked_at_within_the_block() -> None:
    whole: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start" and about["generation"] == 2:
            whole.append(len(gc.get_objects()))

    gc.callbacks.append(note)
    try:
        with left_alone():
            made = [[number] for number in range(MANY)]
    finally:
        gc.callbacks.remove(note)
    assert len(made) == MANY
    assert whole == []


def test_thresholds_are_as_before_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(LookupError), left_alone():
        raise LookupError
    assert gc.get_threshold() == before


def test_turns_are_short_within_the_block_only() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    try:
        with short_turns():
            assert sys.getswitchinterval() < 0.005
        assert sys.getswitchinterval() == pytest.approx(0.005)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to give memory back")
def test_what_was_freed_between_what_is_in_use_is_given_back() -> None:
    def in_memory() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096

    blocks = [bytes([number % 256]) * 20_000 for number in range(2000)]
    last = blocks.pop()
    blocks.clear()
    before = in_memory()
    give_back_memory()
    assert in_memory() < before - 20_000_000
    assert len(last) == 20_000


def test_where_the_c_library_cannot_be_told_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    give_back_memory()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("ctypes.CDLL", None)
    give_back_memory()
