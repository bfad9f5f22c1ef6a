"""A library that is loaded in parts: what is not loaded yet is unknown, and at the end it is as if loaded at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep

import pytest

from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.errors import UnknownSkillError
from skills_core.live import library as library_module
from skills_core.live.library import Library, Progress
from skills_core.loading.discovery import LoadedSource, Part, reload_in_parts
from skills_core.loading.index import SourceIndex


def write(root: Path, name: str, place: str = "") -> None:
    folder = root / (place or name)
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\nDo it.\n")


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    """Two sources that share a name, and a name twice in one of them."""
    roots = [tmp_path / "first", tmp_path / "second"]
    for name in ("a", "b", "c"):
        write(roots[0], name)
        write(roots[1], name)
    write(roots[1], "x", "x")
    write(roots[1], "x", "deep/x")
    return roots


def later(roots: list[Path]) -> Library:
    return Library(explicit_sources(roots), current_environment, later=True)


def test_parts_add_up_to_the_whole_and_take_nothing_away(roots: list[Path]) -> None:
    library, served = later(roots), set[str]()
    assert (library.catalog.skills, library.catalog.is_loading) == ((), True)
    parts = 0
    while not library.is_complete:
        change = library.load(0)
        assert not change.removed
        now = {skill.uri for skill in library.catalog.active if skill.name != "x"}
        # What won a name first, keeps it.
        assert served <= now
        served, parts = now, parts + 1
    assert parts > len(roots) * 3
    assert library.catalog == Library(explicit_sources(roots), current_environment).catalog
    assert not library.catalog.is_loading


def test_a_reload_loads_the_rest_first(roots: list[Path]) -> None:
    library = later(roots)
    library.load(0)
    write(roots[0], "new")
    change = library.reload([roots[0] / "new" / "SKILL.md"])
    assert library.is_complete
    assert {"new", "a", "x"} <= {skill.name for skill in library.catalog.active}
    assert not change.removed


def test_an_unknown_skill_may_be_one_that_is_not_loaded_yet(roots: list[Path]) -> None:
    library = later(roots)
    with pytest.raises(UnknownSkillError, match="still being loaded"):
        library.catalog.skill("a")
    library.load()
    assert library.catalog.skill("a").name == "a"
    with pytest.raises(UnknownSkillError) as error:
        library.catalog.skill("unknown")
    assert "loaded" not in str(error.value)


def test_a_load_that_is_interrupted_goes_on(roots: list[Path]) -> None:
    library, calls = later(roots), 0

    def interrupt() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        library.load(pause=interrupt)
    assert not library.is_complete
    library.load()
    assert library.catalog == Library(explicit_sources(roots), current_environment).catalog


def test_progress_is_told_of_one_source_after_the_other(roots: list[Path]) -> None:
    library, told = later(roots), list[tuple[Path, float]]()
    while (progress := library.progress) is not None:
        told.append((progress.root, progress.share))
        assert progress.which == f"source {1 + roots.index(progress.root)} of 2"
        library.load(0)
    assert told == sorted(told)
    assert {root for root, _ in told} == set(roots)
    assert all(0 <= share <= 1 for _, share in told)
    assert Progress(roots[0], 0.25, 1.0).seconds_left == 3
    assert Progress(roots[0], 0.0, 1.0).seconds_left == 0
    assert not Progress(roots[0], 0.0, 1.0).which


def index_of(roots: list[Path], folder: Path) -> SourceIndex:
    """Return an index that has what a start loaded of `roots`."""
    index = SourceIndex(folder / "cache" / "index.db", least=0)
    Library(explicit_sources(roots), current_environment, index=index).save_index()
    return index


def test_progress_of_a_start_with_an_index_goes_through_both_halves(roots: list[Path], tmp_path: Path) -> None:
    index = index_of(roots, tmp_path)
    library, shares = Library(explicit_sources(roots), current_environment, index=index, later=True), set[float]()

    def note() -> None:
        assert library.progress is not None
        shares.add(library.progress.share)

    library.load(pause=note)
    assert any(0 < share <= 0.5 for share in shares)
    assert any(0.5 < share <= 1 for share in shares)
    assert library.progress is None


def test_what_is_restored_is_served_before_it_is_compared(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "_STAGE", 1)
    # Files that were written just now are not kept.
    monkeypatch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
    index = index_of(roots[:1], tmp_path)
    # All that is loaded counts as settled, so the next change needs another time.
    sleep(0.01)
    write(roots[0], "new")
    library = Library(explicit_sources(roots[:1]), current_environment, index=index, later=True)
    library.load(1000)
    assert {skill.name for skill in library.catalog.active} == {"a", "b", "c"}
    library.load(1000)
    assert {skill.name for skill in library.catalog.active} == {"a", "b", "c", "new"}
    assert library.is_complete


def test_once_half_of_a_source_is_restored_the_rest_is_served_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_core.loading.index._STEP", 2)
    monkeypatch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
    roots = [tmp_path / "skills"]
    for number in range(20):
        write(roots[0], f"skill-{number:02}")
    library = Library(explicit_sources(roots), current_environment, index=index_of(roots, tmp_path), later=True)
    sizes = list[int]()
    while not library.is_complete:
        library.load(0)
        sizes.append(len(library.catalog.skills))
    # The root is an entry, too.
    assert [size for size in sizes if size < 20] == [1, 3, 5, 7, 9]


def test_all_that_is_restored_is_served_before_any_of_it_is_compared(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "_STAGE", 1)
    monkeypatch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
    index, whole = index_of(roots, tmp_path), Library(explicit_sources(roots), current_environment)
    library = Library(explicit_sources(roots), current_environment, index=index, later=True)
    compared = list[Path]()

    def noted(known: LoadedSource, pause: Callable[[], None]) -> Iterator[Part]:
        compared.append(known.source.root)
        return reload_in_parts(known, pause=pause)

    monkeypatch.setattr(library_module, "reload_in_parts", noted)
    library.load(1000)
    served = library.catalog
    assert (served.active, compared) == (whole.catalog.active, [])
    assert served.is_loading
    library.load(1000)
    assert (library.catalog, compared) == (whole.catalog, roots)
    # Where nothing changed, no skill is decided upon again.
    assert library.catalog.skills is served.skills


def test_a_source_that_the_index_does_not_have_is_loaded_before_those_that_it_may_shadow(
    roots: list[Path], tmp_path: Path
) -> None:
    index = index_of(roots[1:], tmp_path)
    library, served = Library(explicit_sources(roots), current_environment, index=index, later=True), set[str]()
    while not library.is_complete:
        assert not library.load(0).removed
        now = {skill.uri for skill in library.catalog.active if skill.name != "x"}
        assert served <= now
        served = now
    assert library.catalog == Library(explicit_sources(roots), current_environment).catalog


def test_why_a_source_is_not_loaded_is_told_until_it_is(roots: list[Path]) -> None:
    library = later(roots)
    library.load(0)
    library.note_fault("the disk is on fire")
    assert [found.fault for found in library.catalog.sources] == ["the disk is on fire", ""]
    library.load()
    assert not any(found.fault for found in library.catalog.sources)
    library.note_fault("too late")
    assert not any(found.fault for found in library.catalog.sources)
