from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Environment, Library, Reason, SkillEntry, Source, State
from skills_core.disk.files import Fingerprint
from skills_core.format import instructions
from tests.temporary import TEMPORARY
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core import Catalog, Skill

LINKS = os.name != "nt"

VALID = "---\nname: {}\ndescription: {}\n---\nBody\n"
CONTENTS = [
    VALID.format("a", "one"),
    VALID.format("a", "two"),  # of the same size as the one before
    VALID.format("b", "one"),
    VALID.format("a", "one\nmetadata: {jdai: {primaryEnv: PATH, skillKey: k}}"),
    VALID.format("a/b", "one"),
    "---\nname: a\n---\n",
    "---\ndescription: d\n---\n",
    "no frontmatter",
    "",
]
FOLDERS = ["a", "b", "c", ".hidden", "node_modules"]
FILES = ["SKILL.md", "SKILL.md", "SKILL.md", "skill.md", "data.txt", "data.txt~", "a", "b"]

OUTSIDE = "a skill folder outside"
LINK_TARGETS = ["a", "../a", "../../b", "a/c", "SKILL.md", "absent", ".", "../outside", OUTSIDE, OUTSIDE]

PLACES = st.lists(st.sampled_from(FOLDERS[:3] * 3 + FOLDERS), min_size=1, max_size=3).map("/".join)
PATHS = st.tuples(st.lists(st.sampled_from(FOLDERS[:3] * 3 + FOLDERS), max_size=3), st.sampled_from(FILES)).map(
    lambda parts: "/".join([*parts[0], parts[1]])
)

OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from(CONTENTS)),
    st.tuples(st.just("write"), PATHS, st.sampled_from(CONTENTS)),
    st.tuples(st.just("swap same size"), PATHS, st.none()),
    st.tuples(st.just("remove"), st.one_of(PATHS, PLACES), st.none()),
    st.tuples(st.just("rename"), st.one_of(PATHS, PLACES), st.one_of(PATHS, PLACES)),
    st.tuples(st.just("make folder"), st.one_of(PATHS, PLACES), st.none()),
    st.tuples(st.just("link"), st.one_of(PATHS, PLACES), st.sampled_from(LINK_TARGETS)),
    st.tuples(st.just("write outside"), st.none(), st.tuples(st.sampled_from(FILES), st.sampled_from(CONTENTS))),
    st.tuples(st.just("move in"), PLACES, st.sampled_from(CONTENTS)),
    st.tuples(st.just("move out"), PLACES, st.none()),
    st.tuples(st.just("replace"), PLACES, st.sampled_from(CONTENTS)),
    st.tuples(st.just("recreate root"), st.none(), st.booleans()),
    st.tuples(st.just("remove root"), st.none(), st.none()),
)


class Disk:
    """A folder of skills that is edited as users and tools do; collects the paths that the system would report."""

    def __init__(self, space: Path) -> None:
        self.root = space / "root"
        self.outside = space / "outside"
        self.count = 0
        self.reported: list[Path] = []
        self.root.mkdir()
        self.outside.mkdir()
        self.linked = self.prepared(CONTENTS[0])

    def apply(self, operation: str, where: Any, what: Any) -> None:
        """Apply one operation, unless it is impossible or its path contains a link."""
        paths = [self.root / path for path in (where, what if operation == "rename" else None) if path]
        if any(os.path.realpath(path.parent) != str(path.parent) for path in paths):
            return
        try:
            getattr(self, operation.replace(" ", "_"))(self.root / where if where else self.root, what)
        except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, shutil.Error):
            return
        except OSError as error:
            if error.errno not in {22, 39, 40, 66}:  # a folder into itself, onto one that is not empty, links in a ring
                raise

    def ready(self, path: Path) -> None:
        """Create the folders above `path`; the system reports only the topmost one."""
        missing = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        self.reported += missing[-1:]

    def write(self, path: Path, content: str) -> None:
        self.ready(path)
        if not path.is_symlink():
            path.write_text(content, encoding="utf-8")
            self.reported.append(path)

    def swap_same_size(self, path: Path, _: None) -> None:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("one", "2wo").replace("two", "one").replace("2wo", "two"), encoding="utf-8")
        self.reported.append(path)

    def remove(self, path: Path, _: None) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        self.reported.append(path)

    def rename(self, path: Path, other: str) -> None:
        target = self.root / other
        self.ready(target)
        path.rename(target)
        self.reported += [path, target]

    def make_folder(self, path: Path, _: None) -> None:
        self.ready(path)
        path.mkdir()
        self.reported.append(path)

    def link(self, path: Path, target: str) -> None:
        if LINKS:
            self.ready(path)
            path.symlink_to(self.linked if target == OUTSIDE else target)
            self.reported.append(path)

    def write_outside(self, _: Path, what: tuple[str, str]) -> None:
        path = self.linked / what[0]
        path.write_text(what[1], encoding="utf-8")
        self.reported.append(path)

    def prepared(self, content: str) -> Path:
        self.count += 1
        folder = self.outside / str(self.count)
        (folder / "b").mkdir(parents=True)
        (folder / "SKILL.md").write_text(content, encoding="utf-8")
        (folder / "b" / "SKILL.md").write_text(VALID.format("b", "one"), encoding="utf-8")
        (folder / "b" / "data.txt").write_text(content, encoding="utf-8")
        return folder

    def move_in(self, path: Path, content: str) -> None:
        self.ready(path)
        self.prepared(content).rename(path)
        self.reported.append(path)

    def move_out(self, path: Path, _: None) -> None:
        self.count += 1
        path.rename(self.outside / str(self.count))
        self.reported.append(path)

    def replace(self, path: Path, content: str) -> None:
        self.move_out(path, None)
        self.prepared(content).rename(path)

    def remove_root(self, path: Path, _: None) -> None:
        shutil.rmtree(path)
        self.reported.append(path)

    def recreate_root(self, path: Path, filled: bool) -> None:  # noqa: FBT001 - as generated
        if path.exists():
            shutil.rmtree(path)
        if filled:
            self.prepared(CONTENTS[0]).rename(path)
        else:
            path.mkdir()
        self.reported.append(path)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the clock an hour ahead of the file system's, so that files count as written long ago."""
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + 3_600_000_000_000)
    return iter(())


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), min_size=1, max_size=8), follow=st.booleans())
def test_reload_by_parts_and_reload_by_comparing_equal_a_load_from_nothing(
    steps: list[list[tuple[str, Any, Any]]],
    follow: bool,  # noqa: FBT001 - a drawn example
    load: Callable[..., Library],
    seen: Callable[[Catalog], Any],
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        disk = Disk(Path(space).resolve())
        told, untold = load(disk.root, follow_symlinks=follow), load(disk.root, follow_symlinks=follow)
        for step in steps:
            for operation, where, what in step:
                disk.apply(operation, where, what)
            change = told.reload(disk.reported)
            untold.reload()
            disk.reported.clear()
            gone = not disk.root.exists()
            if gone:
                disk.root.mkdir()
            fresh = load(disk.root, follow_symlinks=follow)
            if gone:
                disk.root.rmdir()
                fresh.reload()
            expected = seen(fresh.catalog)
            assert seen(untold.catalog) == expected
            assert seen(told.catalog) == expected
            assert seen(change.after) == expected


@settings(max_examples=examples(40), deadline=None)
@given(order=st.permutations(range(6)), data=st.data())
def test_the_order_in_which_folders_are_made_never_changes_the_catalog(
    order: list[int],
    data: st.DataObject,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    seen: Callable[[Catalog], Any],
) -> None:
    names = data.draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=6, max_size=6))
    folders = ["a", "a/b", "b", "b/a", "x", "y"]
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        root = Path(space).resolve() / "root"
        catalogs = []
        for positions in (order, range(6)):
            shutil.rmtree(root, ignore_errors=True)
            for number in positions:
                write_skill(root, folders[number], name=names[number])
            catalogs.append(seen(load(root).catalog))
    assert catalogs[0] == catalogs[1]


def test_a_file_that_takes_the_place_of_a_nested_skill_moves_the_skill(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], seen: Callable[[Catalog], Any]
) -> None:
    write_skill(tmp_path, "", name="a")
    write_skill(tmp_path, "b", name="a")
    library = load(tmp_path)
    assert {skill.path for skill in library.catalog.active} == {"a", "a/a"}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").write_text("no skill", encoding="utf-8")
    library.reload([tmp_path.resolve() / "a"])
    assert seen(library.catalog) == seen(load(tmp_path).catalog)


def test_of_many_skills_only_the_edited_one_is_parsed_again(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        write_skill(tmp_path, f"s{number:02}")
    library = load(tmp_path)
    before = library.catalog
    parsed: list[str] = []
    parse = instructions.parse_instructions

    def count(raw: bytes, folder_name: str, path: str, strictness: Any) -> Any:
        parsed.append(folder_name)
        return parse(raw, folder_name, path, strictness)

    monkeypatch.setattr("skills_core.loading.loader.parse_instructions", count)
    write_skill(tmp_path, "s07", description="Edited.")
    change = library.reload([tmp_path.resolve() / "s07" / "SKILL.md"])
    assert parsed == ["s07"]
    assert [(old.description, new.description) for old, new in change.updated] == [("Does a thing.", "Edited.")]
    assert (change.added, change.removed) == ((), ())
    assert sum(old is new for old, new in zip(before.skills, library.catalog.skills, strict=True)) == 49


@pytest.mark.usefixtures("later")
def test_a_comparing_reload_parses_only_what_was_edited(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        write_skill(tmp_path, f"s{number:02}")
    library = load(tmp_path)
    parsed: list[str] = []
    parse = instructions.parse_instructions

    def count(raw: bytes, folder_name: str, path: str, strictness: Any) -> Any:
        parsed.append(folder_name)
        return parse(raw, folder_name, path, strictness)

    monkeypatch.setattr("skills_core.loading.loader.parse_instructions", count)
    write_skill(tmp_path, "s07", description="Edited at length.")
    assert len(library.reload().updated) == 1
    assert parsed == ["s07"]


@pytest.mark.usefixtures("later")
def test_a_file_reported_as_changed_is_read_whatever_its_metadata_says(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    path = write_skill(tmp_path, "a", files={"data": "one"}).resolve() / "data"
    library = load(tmp_path)
    status = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(library.reload([path]).updated) == 1


def test_an_unreported_edit_of_the_same_size_in_the_same_moment_is_seen(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    path = write_skill(tmp_path, "a", files={"data": "one"}) / "data"
    library = load(tmp_path)
    status = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(library.reload().updated) == 1


def change_of(library: Library, changed: list[Path] | None) -> tuple[list[str], list[str], list[str]]:
    change = library.reload(changed)
    assert bool(change) == bool(change.added or change.removed or change.updated)
    assert change.after == library.catalog

    def keys(skills: tuple[Skill, ...]) -> list[str]:
        return [skill.key for skill in skills]

    return keys(change.added), keys(change.removed), keys(tuple(new for _, new in change.updated))


@pytest.mark.parametrize("told", [True, False])
def test_a_change_lists_added_removed_and_updated_skills(
    told: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    root = tmp_path.resolve()
    for name in ("kept", "edited", "gone"):
        write_skill(root, name)
    library = load(root)
    kept = library.catalog.skill("kept")
    write_skill(root, "edited", body="Otherwise.")
    write_skill(root, "new")
    shutil.rmtree(root / "gone")
    changed = [root / "edited" / "SKILL.md", root / "new", root / "gone"]
    assert change_of(library, changed if told else None) == (["new"], ["gone"], ["edited"])
    assert library.catalog.skill("kept") is kept


@pytest.mark.parametrize("told", [True, False])
def test_a_touched_file_is_no_change_and_its_new_fingerprint_is_kept(
    told: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    file = write_skill(tmp_path.resolve(), "a") / "SKILL.md"
    library = load(tmp_path)
    os.utime(file, (1, 1))
    assert not library.reload([file] if told else None)
    main = library.catalog.skill("a").content.main
    assert main is not None
    assert main.fingerprint == Fingerprint.of(file.lstat())


@pytest.mark.parametrize("told", [True, False])
def test_a_reload_without_differences_is_no_change_and_keeps_the_catalog(
    told: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    root = tmp_path.resolve()
    write_skill(root, "a", files={"data": "x"})
    (root / "loose.txt").touch()
    library = load(root)
    before = library.catalog
    assert change_of(library, [root / "a" / "SKILL.md", root / "absent", root] if told else None) == ([], [], [])
    assert library.catalog is before


@pytest.mark.parametrize("path", ["data", "sub/data", "sub"])
def test_a_change_inside_a_nested_skill_is_a_change_of_both(
    path: str, tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    root = tmp_path.resolve()
    write_skill(root, "outer")
    write_skill(root, "outer/inner", files={"data": "x", "sub/data": "x"})
    write_skill(root, "other")
    library = load(root)
    target = root / "outer" / "inner" / path
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.write_bytes(b"longer")
    assert change_of(library, [target])[2] == ["inner", "outer"]


def test_a_snapshot_is_unchanged_by_reloads(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], seen: Callable[[Catalog], Any]
) -> None:
    write_skill(tmp_path, "a", files={"data": "x"})
    library = load(tmp_path)
    catalog = library.catalog
    before = seen(catalog)
    shutil.rmtree(tmp_path / "a")
    library.reload()
    assert seen(catalog) == before
    assert library.catalog.skills == ()


def test_paths_outside_of_all_sources_change_nothing(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path / "root", "a")
    library = load(tmp_path / "root")
    write_skill(tmp_path / "root", "b")
    assert not library.reload([tmp_path.resolve() / "rootless", tmp_path.resolve() / "other" / "SKILL.md"])
    assert [skill.key for skill in library.reload([tmp_path.resolve()]).added] == ["b"]


def test_the_skills_of_a_deleted_root_come_back_when_it_is_recreated(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    root = tmp_path.resolve() / "root"
    write_skill(root, "a")
    library = load(root)
    shutil.rmtree(root)
    assert change_of(library, [root]) == ([], ["a"], [])
    assert [found.code for found in library.catalog.problems] == [Reason.MISSING_DIRECTORY]
    write_skill(root, "a")
    assert change_of(library, [root / "a"]) == (["a"], [], [])
    assert library.catalog.problems == ()


def test_a_skill_that_becomes_invalid_is_reported_and_recovers(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    root = tmp_path.resolve()
    path = write_skill(root, "a") / "SKILL.md"
    library = load(root)
    good = path.read_bytes()
    path.write_bytes(b"---\n")
    ((old, new),) = library.reload([path]).updated
    assert (old.state, new.state, new.reason) == (State.ACTIVE, State.INVALID, Reason.UNCLOSED_FRONTMATTER)
    path.write_bytes(good)
    ((_, again),) = library.reload([path]).updated
    assert again.state is State.ACTIVE


def test_a_deleted_winner_activates_the_skill_that_it_shadowed(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    root = tmp_path.resolve()
    write_skill(root / "high", "a", description="High.")
    write_skill(root / "low", "a", description="Low.")
    library = load(root / "high", root / "low")
    shutil.rmtree(root / "high" / "a")
    change = library.reload([root / "high" / "a"])
    assert [skill.description for skill in change.removed] == ["High."]
    assert [(old.state, new.state) for old, new in change.updated] == [(State.SHADOWED, State.ACTIVE)]


def test_a_new_shadowed_skill_leaves_the_winner_unchanged(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    root = tmp_path.resolve()
    write_skill(root / "high", "a")
    (root / "low").mkdir()
    library = load(root / "high", root / "low")
    winner = library.catalog.skill("a")
    write_skill(root / "low", "a")
    assert [skill.state for skill in library.reload([root / "low" / "a"]).added] == [State.SHADOWED]
    assert library.catalog.skill("a") is winner


CREDENTIAL = "metadata: {{jdai: {{skillKey: {key}, primaryEnv: {name}}}}}"


def test_credentials_and_sources_after_a_reload_are_those_of_a_load_from_nothing(
    tmp_path: Path, write_skill: Callable[..., Path], seen: Callable[[Catalog], Any]
) -> None:
    root = tmp_path.resolve() / "skills"
    here = [Environment(os="linux", has_bin=lambda _: True, variables={"A": "x"})]
    sources = [Source(root, optional=True), Source(tmp_path.resolve() / "other", optional=True)]
    library = Library(sources, lambda: here[0])

    def reloaded(changed: list[Path] | None = None) -> list[object]:
        library.reload(changed)
        assert seen(library.catalog) == seen(Library(sources, lambda: here[0]).catalog)
        return [(skill.credential and skill.credential.is_set) for skill in library.catalog.skills]

    assert reloaded() == []
    path = write_skill(root, "one", fields=CREDENTIAL.format(key="k", name="A")) / "SKILL.md"
    assert reloaded() == [True]
    write_skill(root, "one", fields=CREDENTIAL.format(key="k", name="B"))
    assert reloaded([path]) == [False]
    here[0] = replace(here[0], variables={"B": "x"})
    assert reloaded([]) == [True]
    here[0] = replace(here[0], variables={}, entries={"k": SkillEntry(has_credential=True)})
    assert reloaded([]) == [True]
    write_skill(root, "one", fields=CREDENTIAL.format(key="l", name="B"))
    assert reloaded([path]) == [False]
    write_skill(root, "one")
    assert reloaded([path]) == [None]
    sources[1].root.mkdir()
    assert reloaded([sources[1].root]) == [None]
    assert [found.exists for found in library.catalog.sources] == [True, True]
    shutil.rmtree(sources[1].root)
    assert reloaded([sources[1].root]) == [None]
    assert [found.exists for found in library.catalog.sources] == [True, False]
