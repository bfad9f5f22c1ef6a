"""Files of searches: which ones stay, and what a start that is loading skills makes of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from server.hosting import searches
from server.hosting.searches import SharedTexts
from skills_core import Environment, Library, Source
from skills_core.loading.index import SourceIndex
from skills_core.selection.fulltext import pieces_of

MONTH = 31 * 86_400


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "skills").resolve()
    for name in ("one", "two"):
        (root / name).mkdir(parents=True)
        (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
    return root


def library_of(root: Path, *, later: bool = False) -> Library:
    machine = Environment(os="linux", has_bin=lambda _: True)
    index = SourceIndex(root.parent / "cache" / "index.db")
    return Library([Source(root)], lambda: machine, index=index, later=later)


@pytest.fixture
def texts(root: Path, monkeypatch: pytest.MonkeyPatch) -> SharedTexts:
    monkeypatch.setattr(searches, "_WORTH_A_FILE", 1)
    return SharedTexts(library_of(root))


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


def test_while_skills_are_loaded_an_index_keeps_what_it_has(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "_WORTH_A_FILE", 2)
    before = SharedTexts(library_of(root)).index()
    assert before is not None
    (counted,) = before.count([pieces_of(["word"] * 4)])
    before.add({b"%d" % number: counted for number in range(10)})
    library = library_of(root, later=True)
    texts = SharedTexts(library)
    during = texts.index()
    assert during is not None
    # A file, though no skill is loaded, with contents of skills that may still come.
    assert len(during) == 10
    while not library.is_complete:
        library.load(0)
    after = texts.index()
    assert after is during
    assert len(after) == 0


def test_a_small_library_has_no_file(root: Path) -> None:
    library = library_of(root, later=True)
    while not library.is_complete:
        library.load(0)
    assert SharedTexts(library).index() is not None
    assert not [*(root.parent / "cache").glob("search-*")]
