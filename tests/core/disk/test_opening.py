"""No other module builds its own flags to open files."""

from __future__ import annotations

from pathlib import Path

import skills_core

ROOT = Path(skills_core.__file__).parents[1]


def test_only_one_module_opens_or_creates_files_by_flags() -> None:
    modules = [*(ROOT / "skills_core").rglob("*.py"), *(ROOT / "server").rglob("*.py")]
    flags = ("os.O_CREAT", "os.O_RDWR |", "os.O_RDONLY |", '"O_NONBLOCK"', '"O_CLOEXEC"')
    found = {
        path.relative_to(ROOT).as_posix() for path in modules if any(flag in path.read_text("utf-8") for flag in flags)
    }
    assert found == {"skills_core/disk/files.py"}
