"""Files of searches of sources that are not served any more do not stay for ever."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from server.hosting import searches
from server.hosting.searches import SharedTexts
from skills_core import Environment, Library, Source
from skills_core.loading.index import SourceIndex

MONTH = 31 * 86_400


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedTexts:
    monkeypatch.setattr(searches, "_WORTH_A_FILE", 1)
    root = (tmp_path / "skills").resolve()
    for name in ("one", "two"):
        (root / name).mkdir(parents=True)
        (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
    machine = Environment(os="linux", has_bin=lambda _: True)
    return SharedTexts(Library([Source(root)], lambda: machine, index=SourceIndex(tmp_path / "cache" / "index.db")))


def make_old(path: Path) -> None:
    long_ago = time.time() - MONTH
    os.utime(path, (long_ago, long_ago))


def test_files_that_no_start_has_used_for_a_month_are_removed(texts: SharedTexts, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    names = ("search-old.db", "search-old.db-wal", "search-new.db", "usage.db", "index.db")
    for name in names:
        (cache / name).touch()
        if "new" not in name:
            make_old(cache / name)
    assert texts.index() is not None
    assert {path.name for path in cache.iterdir()} & {*names} == {"search-new.db", "usage.db", "index.db"}


def test_a_file_that_is_used_stays(texts: SharedTexts, tmp_path: Path) -> None:
    assert texts.index() is not None
    (path,) = (tmp_path / "cache").glob("search-*.db")
    make_old(path)
    number = path.stat().st_ino
    assert SharedTexts(texts._library).index() is not None
    assert path.stat().st_ino == number
    assert path.stat().st_mtime > time.time() - MONTH
