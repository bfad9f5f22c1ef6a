"""A source that several processes load is, once it is compared with the disk, as one process loads it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Environment, Library, Source
from skills_core.disk.sources import ScanBounds, SkillKind
from skills_core.loading import discovery, processes, records
from skills_core.loading.discovery import divided, load_below, load_source, reload_source
from skills_core.loading.index import SourceIndex, rows_below
from skills_core.loading.loader import load_content
from skills_core.loading.processes import load_with_processes
from skills_core.loading.records import Restoration, encoded
from tests.core.live.test_reload import OPERATIONS, Disk
from tests.temporary import TEMPORARY
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.loading.discovery import LoadedSource
    from skills_core.loading.loader import SourceReading
    from skills_core.skills.skill import SkillContent

LATER = "import skills_core.disk.files as files; files._RACY_NS = -3_600_000_000_000; "
MACHINE = Environment(os="linux", has_bin=lambda _: True)


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small sources be worth several processes, in which files that were just written count as settled."""
    monkeypatch.setattr(discovery, "_WORTH_DIVIDING", 2)
    monkeypatch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
    monkeypatch.setattr(processes, "_START", processes._START.replace("from", f"{LATER}from", 1))
    monkeypatch.setattr(processes, "_BATCH", 1)


@pytest.fixture
def source(tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Source:
    """A source of two categories, with a skill in a skill, an invalid one, a document and a single file at the top."""
    # The categories are listed to find so many.
    monkeypatch.setattr(discovery, "_WORTH_DIVIDING", 6)
    root = tmp_path / "skills"
    for number in range(6):
        write_skill(root, f"{'ab'[number % 2]}/skill-{number}", files={"references/more.md": f"{number}"})
    write_skill(root, "a/skill-0/inner")
    write_skill(root, "b/invalid", name="another name")
    (root / "notes.skill.md").write_text("---\nname: notes\ndescription: d\n---\nText.\n", encoding="utf-8")
    (root / "a/README.md").write_text("no skill", encoding="utf-8")
    return Source(root)


def parts_of(source: Source, index: SourceIndex | None = None) -> list[LoadedSource]:
    found = divided(source)
    assert found is not None
    return [part.source() for part in load_with_processes(source, *found, index, count=2)]


def test_it_is_as_one_process_loads_it(source: Source) -> None:
    parts = parts_of(source)
    assert len(parts[-1].contents) == 8
    assert reload_source(parts[-1]) == load_source(source)
    # Each part has what those before have.
    for before, after in pairwise(parts):
        assert before.contents.items() <= after.contents.items()


def test_what_is_loaded_is_not_loaded_again(source: Source) -> None:
    known = parts_of(source)[-1]
    compared = reload_source(known)
    assert all(compared.contents[place] is content for place, content in known.contents.items())


@settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(before=st.lists(OPERATIONS, min_size=4, max_size=16), after=st.lists(OPERATIONS, max_size=4))
def test_whatever_changes_meanwhile_is_found(before: list[Any], after: list[Any]) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        disk = Disk(Path(space).resolve())
        for operation in before:
            disk.apply(*operation)
        source = Source(disk.root, kinds=frozenset(SkillKind))
        if (found := divided(source)) is None:
            return
        top, folders = found
        for operation in after:
            disk.apply(*operation)
        restoration = Restoration(source, top)
        for folder in folders:
            for row in rows_below(load_below(source, [folder]), [folder]):
                restoration.add(*row)
        assert reload_source(processes._without_missing(restoration, top)) == load_source(source)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_share_of_a_process_that_ends_early_is_loaded_by_this_one(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    # It ends after so many answers.
    patch = (
        "import skills_core.loading.processes as p; loaded = p.load_below; left = [None] * {}; "
        "p.load_below = lambda *words: left.pop() or loaded(*words); p.main()"
    )
    monkeypatch.setattr(processes, "_START", f"{processes._START.rpartition(';')[0]}; {patch.format(count)}")
    caplog.set_level(logging.INFO)
    library = Library([source], lambda: MACHINE, later=True)
    while not library.is_complete:
        library.load(0)
    assert library.catalog == Library([source], lambda: MACHINE).catalog
    assert "a process that loads skills" in caplog.text
    assert str(source.root) in caplog.text


@pytest.mark.parametrize("program", ["", "/nonexistent", os.devnull])
def test_without_processes_this_one_loads_all(source: Source, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert parts_of(source) == []
    library = Library([source], lambda: MACHINE, later=True)
    library.load()
    assert library.catalog == Library([source], lambda: MACHINE).catalog


def test_a_load_that_is_given_up_leaves_no_process(source: Source) -> None:
    def ours() -> list[psutil.Process]:
        return [each for each in psutil.Process().children() if "skills_core.loading.processes" in str(each.cmdline())]

    found = divided(source)
    assert found is not None
    with closing(load_with_processes(source, *found, count=2)) as parts:
        next(parts)
        assert len(ours()) == 2
    assert ours() == []


def test_a_process_ends_with_its_parent() -> None:
    command = [sys.executable, "-P", "-c", processes._START, str(processes._PACKAGE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_load_goes_on_where_it_was_ended(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_STAGE", 1)
    index = SourceIndex(tmp_path / "cache/index.db", least=0)
    found = divided(source)
    assert found is not None
    with closing(load_with_processes(source, *found, index, count=2)) as parts:
        part = [next(parts) for _ in range(3)][-1].source()
    loaded: list[str] = []

    def noted(load: SourceReading, folder: str, before: SkillContent | None) -> SkillContent:
        loaded.append(folder)
        return load_content(load, folder, before)

    monkeypatch.setattr(discovery, "load_content", noted)
    library = Library([source], lambda: MACHINE, index=SourceIndex(index.path, least=0), later=True)
    library.load()
    assert loaded
    assert not part.contents.keys() & loaded
    assert library.catalog == Library([source], lambda: MACHINE).catalog


def test_the_index_has_what_was_loaded_and_only_the_top_is_written_again(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    path = tmp_path / "cache/index.db"
    library = Library([source], lambda: MACHINE, index=SourceIndex(path, least=0), later=True)
    library.load()

    def noted(loaded: LoadedSource, folders: list[str]) -> bytes | None:
        written.append(folders[0])
        return encoded(loaded, folders)

    monkeypatch.setattr(records, "encoded", noted)
    library.save_index()
    assert sorted(written) == ["", "a", "b"]
    restored = SourceIndex(path).restore(source)
    assert restored == load_source(source)
    assert reload_source(restored) is restored


@pytest.mark.parametrize("bounds", [ScanBounds(folders=12), ScanBounds(entries=14), ScanBounds(depth=2)])
def test_beyond_its_bounds_a_source_has_what_a_scan_leaves_in_it(source: Source, bounds: ScanBounds) -> None:
    bounded = replace(source, bounds=bounds)
    library = Library([bounded], lambda: MACHINE, later=True)
    library.load()
    assert library.catalog == Library([bounded], lambda: MACHINE).catalog
    assert load_source(bounded).tree.bounded


def test_only_a_source_of_many_independent_folders_is_divided(
    source: Source, tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert divided(source) is not None
    for other in (
        replace(source, gitignore=True),
        replace(source, follow_symlinks=True),
        replace(source, barred=True),
        replace(source, kinds=frozenset({SkillKind.DOCUMENT})),
        replace(source, root=tmp_path / "missing"),
        replace(source, root=source.root / "a/skill-0"),
    ):
        assert divided(other) is None
    monkeypatch.setattr(discovery, "_WORTH_DIVIDING", 20)
    assert divided(source) is None
    for number in range(20):
        write_skill(tmp_path / "flat", f"{number}")
    found = divided(Source(tmp_path / "flat"))
    assert found is not None
    assert [*found[0]] == [""]
