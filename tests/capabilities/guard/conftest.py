"""A user with a home directory, and a project with a skill and a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capabilities.guard.helpers import DENYING, Hook
from tests.conftest import write_skill


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    home = tmp_path / "home"
    home.mkdir()
    return Hook(home)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a skill that denies and settings of its own."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "src").mkdir()
    write_skill(root / ".agents" / "skills", "care", fields=DENYING)
    return root
