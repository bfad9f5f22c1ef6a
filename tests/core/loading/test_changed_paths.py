"""Which paths in a source correspond to changed absolute paths: of many as of each alone, by plain comparison."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from skills_core.disk.files import Location
from skills_core.disk.links import LinkIndex
from skills_core.disk.sources import Source
from skills_core.disk.tree import Tree
from skills_core.loading.discovery import LoadedSource

TOP = Path(Path.cwd().anchor, "top")

folders = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3).map("/".join)
paths = st.one_of(st.just(TOP.parent), folders.map(lambda each: TOP / each))
links = st.lists(st.tuples(folders.filter(bool), st.builds(Location, paths, folders)), max_size=4)


def by_plain_comparison(root: Path, links: list[tuple[str, Location]], real: Path) -> set[str]:
    found: set[str] = set()
    if real.is_relative_to(root):
        found.add(real.relative_to(root).as_posix())
    if root.is_relative_to(real):
        found.add(".")
    for path, target in links:
        if real.is_relative_to(target.path):
            found.add((Path(path) / real.relative_to(target.path)).as_posix())
        if target.path.is_relative_to(real) and real.is_relative_to(target.root):
            found.add(path)
    return {"" if path == "." else path for path in found}


@given(root=paths, links=links, reals=st.lists(paths, max_size=6))
def test_the_paths_of_many_changes_are_those_of_each(
    root: Path, links: list[tuple[str, Location]], reals: list[Path]
) -> None:
    loaded = LoadedSource(Source(root), Tree(), links=LinkIndex(links))
    expected = {path for real in reals for path in by_plain_comparison(root, links, real)}
    assert set(loaded.paths_of(reals)) == expected
