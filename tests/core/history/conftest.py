from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_core.history.history import History
from tests.core.history.folders import SKILL, history_of, write


@pytest.fixture(autouse=True)
def _disk_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk: no test takes the power away."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source with two skills."""
    write(tmp_path / "source", {})
    for name in ("a", "b"):
        write(tmp_path / "source" / name, {"SKILL.md": SKILL % (name.encode(), 1), "scripts/x.sh": b"#!/bin/sh\n"})
    return tmp_path / "source"


@pytest.fixture
def history(source: Path) -> Iterator[History]:
    """The history of the source, with its first commit."""
    history = history_of(source)
    history.record_manual_edits()
    yield history
    history.close()
