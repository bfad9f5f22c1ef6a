"""A scan lists folders within bounds, and follows links only where the source allows."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import (
    Environment,
    FileRefusedError,
    InvalidSourceError,
    Library,
    Reason,
    ScanBounds,
    Source,
    State,
    Strictness,
    explicit_sources,
)
from skills_core.disk.files import read_file
from skills_core.disk.folders import ListingBuilder
from skills_core.disk.sources import directory_error
from skills_core.live.library import load_catalog
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library, Skill


posix = pytest.mark.skipif(os.name == "nt", reason="needs links and names of bytes in the file system")

IGNORED = [".git", ".DS_Store", ".hidden", "__pycache__", "node_modules", "a~", "#a#", ".a.swp", "a.swp", "a.swo"]
IGNORED += ["a.bak", "a.orig", "a.rej", "4913", "___jb_tmp___", "___jb_old___", "Thumbs.db", "desktop.ini"]
ORDINARY = [
    "index.json",
    "_manifest",
    "a b",
    "100%",
    "#1",
    "what?.md",
    "a.b.c",
    "~a",
    "bak",
    "SKILL",
    "LICENSE",
    "ü",
    "😀",
]


def bounded(root: Path, bounds: ScanBounds) -> Library:
    sources = [replace(source, bounds=bounds) for source in explicit_sources([root])]
    return Library(sources, lambda: Environment(os="linux", has_bin=lambda _: True))


@pytest.mark.parametrize("name", IGNORED)
def test_ignored_names_are_not_part_of_a_skill(
    name: str, tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", files={name: "x", f"sub/{name}": "x"})
    write_skill(tmp_path, f"b/{name}", name="hidden")
    (skill,) = load(tmp_path).catalog.skills
    assert list(skill.content.files) == ["SKILL.md"]


@pytest.mark.parametrize("shelf", [".curated", ".experimental", ".system"])
def test_the_hidden_folders_of_a_public_collection_are_scanned(
    shelf: str, tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, f"skills/{shelf}/a", files={".env": "x"})
    write_skill(tmp_path, f"skills/{shelf}s/b")
    (skill,) = load(tmp_path).catalog.active
    assert (skill.content.folder, list(skill.content.files)) == (f"skills/{shelf}/a", ["SKILL.md"])


@pytest.mark.parametrize("name", ORDINARY)
def test_files_of_any_other_name_are_served(
    name: str, tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    if os.name == "nt" and "?" in name:
        pytest.skip("no such names on this system")
    write_skill(tmp_path, "a", files={name: "x"})
    assert list(load(tmp_path).catalog.skill("a").content.files) == ["SKILL.md", name]


@posix
@pytest.mark.parametrize(
    "raw", [b"caf\xe9", b"\xff\xfe", b"a\nb", b"a\tb", b"\x01", b"<b>&\"'", b"%2e%2e", b"-rf", b"*"]
)
def test_odd_file_and_folder_names_are_served(
    raw: bytes, tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    name = os.fsdecode(raw)
    write_skill(tmp_path, name, name="a", files={name: "x", f"{name}2/{name}": "y"})
    catalog = load(tmp_path).catalog
    skill = catalog.skill("a")
    assert len(skill.content.files) == 3
    for path, file in skill.content.files.items():
        assert catalog.file(skill.file_uri(path)) == (skill, file)
    for found in catalog.problems + skill.diagnostics:
        str(found).encode("utf-8")


@posix
def test_a_folder_name_that_is_not_utf8_is_shown_as_printable_text(
    tmp_path: Path, load: Callable[..., Library]
) -> None:
    folder = tmp_path / os.fsdecode(b"b\xff")
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\ndescription: d\n---\n", encoding="utf-8")
    catalog = load(tmp_path).catalog
    (skill,) = catalog.active
    skill.key.encode("utf-8")
    skill.name.encode("utf-8")
    assert catalog.skill(skill.key) is catalog.skill(skill.uri) is skill


def test_a_root_that_is_a_skill_itself_is_served(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    root = write_skill(tmp_path, "root", files={"sub/data": "x"})
    skill = load(root).catalog.skill("root")
    assert (skill.content.folder, list(skill.content.files)) == ("", ["SKILL.md", "sub/data"])


def test_the_skill_file_comes_first_among_the_files(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", files={"A": "", "Z": "", "a/x": "", "0": ""})
    assert next(iter(load(tmp_path).catalog.skill("a").content.files)) == "SKILL.md"


def test_nested_skills_are_also_in_the_manifest_of_the_enclosing_skill(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "outer")
    write_skill(tmp_path, "outer/inner", files={"data": "x"})
    catalog = load(tmp_path).catalog
    assert [skill.path for skill in catalog.active] == ["outer/inner", "outer"]
    assert list(catalog.skill("outer").content.files) == ["SKILL.md", "inner/SKILL.md", "inner/data"]
    assert catalog.skill("outer/inner").digest == catalog.skill("outer").content.files["inner/SKILL.md"].digest


@pytest.mark.parametrize("other", ["skill.md", "SKILL.md"])
def test_the_skill_file_may_be_spelled_in_lower_case_with_a_warning(
    other: str, tmp_path: Path, load: Callable[..., Library]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / other).write_text("---\nname: a\ndescription: d\n---\n", encoding="utf-8")
    skill = load(tmp_path).catalog.skill("a")
    told = [Reason.FILE_NAME_CASE, Reason.NOT_PUBLISHED] if other == "skill.md" else []
    assert [found.code for found in skill.diagnostics] == told
    assert skill.uri == f"skill://a/{other}"


def test_a_folder_named_as_the_skill_file_makes_no_skill(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    (tmp_path / "a" / "SKILL.md").mkdir(parents=True)
    write_skill(tmp_path, "b")
    assert [skill.name for skill in load(tmp_path).catalog.skills] == ["b"]


@posix
@pytest.mark.parametrize("target", ["../outside/linked", "b", ".", "loop", "absent", "/"])
def test_a_linked_folder_is_not_followed_and_has_a_diagnostic(
    target: str, tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path / "outside", "linked")
    write_skill(tmp_path / "root", "b")
    (tmp_path / "root" / "loop").symlink_to(target)
    catalog = load(tmp_path / "root").catalog
    assert [skill.name for skill in catalog.skills] == ["b"]
    assert [(found.code, found.path) for found in catalog.problems] == [
        (Reason.SYMLINK, str((tmp_path / "root").resolve() / "loop"))
    ]


@posix
def test_a_root_may_be_named_by_a_link(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path / "real", "a")
    (tmp_path / "link").symlink_to("real")
    assert [skill.source.root for skill in load(tmp_path / "link").catalog.active] == [(tmp_path / "real").resolve()]


@pytest.mark.parametrize(
    ("depth", "names"), [(0, []), (1, ["one"]), (2, ["one", "two"]), (32, ["one", "three", "two"])]
)
def test_folders_deeper_than_the_bound_are_not_scanned_and_have_a_diagnostic(
    depth: int, names: list[str], tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path, "one")
    write_skill(tmp_path, "x/two")
    write_skill(tmp_path, "x/y/three")
    catalog = bounded(tmp_path, ScanBounds(depth=depth)).catalog
    assert [skill.name for skill in catalog.skills] == names
    assert {found.code for found in catalog.problems} == ({Reason.SCAN_LIMIT} if len(names) < 3 else set())


def test_folders_beyond_the_bound_are_not_scanned_and_have_a_diagnostic(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    for number in range(10):
        write_skill(tmp_path, f"s{number}")
    catalog = bounded(tmp_path, ScanBounds(folders=4)).catalog
    assert [skill.name for skill in catalog.skills] == ["s0", "s1", "s2"]
    assert [found.code for found in catalog.problems] == [Reason.SCAN_LIMIT] * 7


def test_a_folder_with_more_entries_than_the_bound_is_not_scanned_and_has_a_diagnostic(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path, "a-small")
    write_skill(tmp_path, "b-huge", files={f"f{number}": "" for number in range(20)})
    catalog = bounded(tmp_path, ScanBounds(entries=10)).catalog
    assert [skill.name for skill in catalog.skills] == ["a-small"]
    assert [(found.code, Path(found.path).name) for found in catalog.problems] == [(Reason.SCAN_LIMIT, "b-huge")]
    catalog = bounded(tmp_path, ScanBounds(entries=1)).catalog
    assert [found.path for found in catalog.problems] == [str(tmp_path)]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bound=st.integers(0, 30), steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=4))
def test_a_reload_near_the_bounds_equals_a_fresh_load(
    bound: int,
    steps: list[tuple[int, int]],
    tmp_path_factory: pytest.TempPathFactory,
    write_skill: Callable[..., Path],
) -> None:
    root = tmp_path_factory.mktemp("source")
    for number in range(5):
        write_skill(root, f"s{number}")
    library = bounded(root, ScanBounds(entries=bound))
    for number, count in steps:
        shutil.rmtree(root / f"s{number}")
        folder = write_skill(root, f"s{number}", files={f"f{each}": "" for each in range(count)})
        library.reload([folder.resolve()])
        fresh = bounded(root, ScanBounds(entries=bound)).catalog
        assert [(s.key, sorted(s.content.files)) for s in library.catalog.skills] == [
            (s.key, sorted(s.content.files)) for s in fresh.skills
        ]
        assert library.catalog.problems == fresh.problems


def test_of_many_folders_beyond_a_bound_the_first_have_diagnostics_and_the_others_are_counted(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"d{number:04}").mkdir()
    problems = bounded(tmp_path, ScanBounds(folders=10)).catalog.problems
    assert len(problems) == 21
    assert problems[-1].message == "and 2971 more of this kind"


def test_a_bound_reached_inside_a_skill_is_a_diagnostic_of_the_skill(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path, "a", files={"x/y/z": "deep", "x/ok": "fine"})
    catalog = bounded(tmp_path, ScanBounds(depth=2)).catalog
    assert catalog.problems == ()
    assert [found.code for found in catalog.skill("a").diagnostics] == [
        Reason.SCAN_LIMIT,
        Reason.NOT_PUBLISHED,
    ]
    assert list(catalog.skill("a").content.files) == ["SKILL.md", "x/ok"]


@posix
def test_a_tree_of_hundreds_of_levels_is_scanned_within_bounds(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "good")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(400):
            os.mkdir("d", dir_fd=handle)
            below = os.open("d", os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = below
    finally:
        os.close(handle)
    catalog = load(tmp_path).catalog
    assert [skill.key for skill in catalog.active] == ["good"]
    assert [found.code for found in catalog.problems] == [Reason.SCAN_LIMIT]


def test_a_skill_with_too_many_files_is_served_in_part_with_a_diagnostic(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", files={f"f{number:04}": "" for number in range(4200)})
    skill = load(tmp_path).catalog.skill("a")
    assert len(skill.content.files) == 4096
    assert [found.code for found in skill.diagnostics] == [Reason.TOO_MANY_FILES, Reason.NOT_PUBLISHED]


def test_a_missing_root_is_a_problem_and_the_other_sources_are_served(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path / "there", "a")
    sources = [Source(tmp_path / "gone"), Source(tmp_path / "there")]
    catalog = Library(sources, lambda: Environment(os="linux", has_bin=lambda _: True)).catalog
    assert [skill.key for skill in catalog.active] == ["a"]
    assert [(found.code, found.path) for found in catalog.problems] == [
        (Reason.MISSING_DIRECTORY, str(tmp_path / "gone"))
    ]


@posix
def test_an_unreadable_folder_outside_of_every_skill_is_a_problem(
    unprivileged: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(unprivileged, "a")
    (unprivileged / "shut").mkdir()
    (unprivileged / "shut").chmod(0)
    catalog = load(unprivileged).catalog
    assert [skill.key for skill in catalog.active] == ["a"]
    assert [(found.code, found.path) for found in catalog.problems] == [
        (Reason.PERMISSION_DENIED, str(unprivileged / "shut"))
    ]


def test_a_named_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidSourceError) as caught:
        explicit_sources([tmp_path / "absent"])
    assert (caught.value.reason, caught.value.root) == (Reason.MISSING_DIRECTORY, tmp_path / "absent")


def test_a_file_named_as_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidSourceError) as caught:
        explicit_sources([tmp_path / "file"])
    assert caught.value.reason is Reason.NOT_A_DIRECTORY


def test_a_directory_named_twice_counts_once_at_its_first_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    sources = explicit_sources([tmp_path / "b", ".", tmp_path / "a", "../b", tmp_path / "a" / ".." / "b"])
    assert [source.root for source in sources] == [(tmp_path / "b").resolve(), (tmp_path / "a").resolve()]


def test_strictness_holds_for_every_named_directory(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path, "a", fields="colour: red")
    sources = explicit_sources([tmp_path], Strictness.STRICT)
    (skill,) = Library(sources, lambda: Environment(os="linux", has_bin=lambda _: True)).catalog.skills
    assert (skill.state, skill.reason) == (State.INVALID, Reason.UNKNOWN_FIELD)


_names = st.text(st.characters(exclude_characters="/\0"), min_size=1)


@given(st.lists(_names, unique=True), st.text())
def test_a_listing_finds_each_of_its_files_and_no_other(names: list[str], other: str) -> None:
    entries = ListingBuilder(files=[(name, None) for name in names])
    listing = entries.listing()
    assert {name: listing.file(name) for name in [*names, other]} == {
        name: (name, None) if name in names else None for name in [*names, other]
    }


pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")

SECRET = b"SECRET"


@pytest.fixture
def space(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    """Make a source with the skill `a`, a skill folder outside of it, and something secret."""
    write_skill(tmp_path / "root", "a", files={"docs/guide.md": "guide"})
    write_skill(tmp_path / "repository", "linked", files={"docs/guide.md": "linked guide", ".env": SECRET})
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(SECRET)
    return tmp_path.resolve()


@pytest.fixture
def follow(space: Path, load: Callable[..., Library]) -> Callable[[], Library]:
    return lambda: load(space / "root", follow_symlinks=True)


def link(path: Path, target: Path | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def served(skill: Skill) -> dict[str, bytes]:
    return {path: read_file(skill.location(file))[0] for path, file in skill.content.files.items()}


def told(library: Library) -> set[tuple[Reason, str]]:
    of_skills = [diagnostic for skill in library.catalog.skills for diagnostic in skill.diagnostics]
    # What a skill lacks keeps it from being published: `test_publication` holds that rule.
    of_files = [each for each in (*library.catalog.problems, *of_skills) if each.code is not Reason.NOT_PUBLISHED]
    return {(diagnostic.code, diagnostic.path) for diagnostic in of_files}


def test_links_are_not_followed_by_default(space: Path, load: Callable[..., Library]) -> None:
    link(space / "root" / "linked", space / "repository" / "linked")
    link(space / "root" / "a" / "more.md", "docs/guide.md")
    library = load(space / "root")
    assert [skill.key for skill in library.catalog.active] == ["a"]
    assert told(library) == {
        (Reason.SYMLINK, str(space / "root" / "linked")),
        (Reason.SYMLINK, str(space / "root" / "a" / "more.md")),
    }


@pytest.mark.parametrize("place", ["linked", "team/tools/linked"])
def test_a_link_to_a_skill_folder_elsewhere_serves_that_skill(
    place: str, space: Path, follow: Callable[[], Library]
) -> None:
    link(space / "root" / place, space / "repository" / "linked")
    library = follow()
    skill = library.catalog.skill("linked")
    assert skill.uri == f"skill://{place}/SKILL.md"
    assert set(served(skill)) == {"SKILL.md", "docs/guide.md"}
    assert served(skill)["docs/guide.md"] == b"linked guide"
    assert told(library) == set()


def test_a_chain_of_links_leads_to_its_last_target(space: Path, follow: Callable[[], Library]) -> None:
    link(space / "second", space / "repository" / "linked")
    link(space / "first", space / "second")
    link(space / "root" / "linked", space / "first")
    assert served(follow().catalog.skill("linked"))["docs/guide.md"] == b"linked guide"


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ("a/more.md", "docs/guide.md"),
        ("a/more.md", "../a/docs/guide.md"),
        ("a/more.md", "{space}/root/a/docs/guide.md"),
    ],
)
def test_a_link_that_stays_in_the_source_is_followed(
    place: str, target: str, space: Path, follow: Callable[[], Library]
) -> None:
    link(space / "root" / place, target.format(space=space))
    library = follow()
    assert served(library.catalog.skill("a"))["more.md"] == b"guide"
    assert told(library) == set()


def test_a_linked_folder_of_a_skill_is_served_under_both_of_its_names(
    space: Path, follow: Callable[[], Library]
) -> None:
    link(space / "root" / "a" / "reference", "docs")
    files = served(follow().catalog.skill("a"))
    assert files["reference/guide.md"] == files["docs/guide.md"] == b"guide"


ESCAPES = {
    "a file outside": ("a/key", "{space}/secret/key"),
    "a file outside, relative": ("a/key", "../../secret/key"),
    "a folder outside": ("a/more", "{space}/secret"),
    "a folder that is no skill": ("more", "{space}/secret"),
    "the root of the system": ("more", "/"),
    "a skill folder, from within a skill": ("a/more", "{space}/repository/linked"),
    "above the source": ("more", "{space}"),
    "the source itself": ("more", "."),
    "the folder it stands in": ("a/more", "."),
    "the folder above": ("a/docs/more", ".."),
    "nothing": ("a/more", "absent"),
    "itself": ("a/more", "more"),
    "the environment of the process": ("a/more", "/proc/self/environ"),
    "a device": ("a/more", "/dev/zero"),
    "what is hidden": ("a/more", ".env"),
    "what is hidden, in a folder": ("a/more", ".git/config"),
}


@pytest.mark.parametrize(("place", "target"), ESCAPES.values(), ids=ESCAPES)
def test_a_link_may_not_lead_to(place: str, target: str, space: Path, follow: Callable[[], Library]) -> None:
    (space / "root" / "a" / ".git").mkdir()
    for hidden in (".env", ".git/config"):
        (space / "root" / "a" / hidden).write_bytes(SECRET)
    before = [skill.uri for skill in follow().catalog.active]
    link(space / "root" / place, target.format(space=space))
    library = follow()
    assert [skill.uri for skill in library.catalog.active] == before
    assert set(served(library.catalog.skill("a"))) == {"SKILL.md", "docs/guide.md"}
    assert told(library) == {(Reason.SYMLINK_OUTSIDE, str(space / "root" / place))}


@pytest.mark.parametrize("target", ["{space}/secret/key", "../../root/a/docs/guide.md", "../.env", ".."])
def test_a_linked_skill_stays_within_the_folder_that_is_linked(
    target: str, space: Path, follow: Callable[[], Library]
) -> None:
    link(space / "root" / "linked", space / "repository" / "linked")
    link(space / "repository" / "linked" / "docs" / "more", target.format(space=space))
    library = follow()
    assert set(served(library.catalog.skill("linked"))) == {"SKILL.md", "docs/guide.md"}
    assert told(library) == {(Reason.SYMLINK_OUTSIDE, str(space / "root" / "linked" / "docs" / "more"))}


def test_a_linked_skill_may_link_within_itself(space: Path, follow: Callable[[], Library]) -> None:
    link(space / "root" / "linked", space / "repository" / "linked")
    link(space / "repository" / "linked" / "more.md", "docs/guide.md")
    link(space / "repository" / "linked" / "reference", "docs")
    files = served(follow().catalog.skill("linked"))
    assert files["more.md"] == files["reference/guide.md"] == b"linked guide"


def test_a_linked_skill_file_cannot_leave_the_source(space: Path, follow: Callable[[], Library]) -> None:
    (space / "root" / "b").mkdir()
    link(space / "root" / "b" / "SKILL.md", space / "repository" / "linked" / "SKILL.md")
    (invalid,) = [skill for skill in follow().catalog.skills if skill.state is not State.ACTIVE]
    assert (invalid.state, invalid.reason) == (State.INVALID, Reason.SYMLINK_OUTSIDE)


def test_the_scan_of_folders_that_link_to_each_other_ends(space: Path, follow: Callable[[], Library]) -> None:
    folders = [space / "root" / f"f{number}" for number in range(8)]
    for folder in folders:
        for other in folders:
            if other != folder:
                link(folder / other.name, other)
    library = follow()
    assert [skill.key for skill in library.catalog.active] == ["a"]
    assert {code for code, _ in told(library)} == {Reason.SYMLINK_OUTSIDE}


def test_a_link_changed_after_the_scan_cannot_leave_its_root(space: Path, follow: Callable[[], Library]) -> None:
    link(space / "root" / "linked", space / "repository" / "linked")
    skill = follow().catalog.skill("linked")
    shutil.rmtree(space / "repository" / "linked" / "docs")
    (space / "repository" / "linked" / "docs").symlink_to(space / "secret")
    (space / "secret" / "guide.md").write_bytes(SECRET)
    with pytest.raises(FileRefusedError):
        read_file(skill.location(skill.content.files["docs/guide.md"]))
    (space / "root" / "linked").unlink()
    (space / "root" / "linked").symlink_to(space / "secret")
    assert read_file(skill.location(skill.content.files["SKILL.md"]))[0] != SECRET


def test_an_edit_behind_a_link_is_found_by_the_path_of_the_file_itself(
    space: Path, write_skill: Callable[..., Path], follow: Callable[[], Library]
) -> None:
    link(space / "root" / "one", space / "repository" / "linked")
    link(space / "root" / "two", space / "repository" / "linked")
    library = follow()
    assert set(library.roots) == {space / "root", space / "repository" / "linked"}
    write_skill(space / "repository", "linked", description="Edited.")
    change = library.reload([space / "repository" / "linked" / "SKILL.md"])
    assert {(after.path, after.description) for _, after in change.updated} == {
        ("linked", "Edited."),
        ("two/linked", "Edited."),
    }


def test_a_new_or_deleted_link_changes_the_roots_to_watch(space: Path, follow: Callable[[], Library]) -> None:
    library = follow()
    link(space / "root" / "linked", space / "repository" / "linked")
    change = library.reload([space / "root" / "linked"])
    assert [skill.key for skill in change.added] == ["linked"]
    assert space / "repository" / "linked" in library.roots
    (space / "root" / "linked").unlink()
    change = library.reload([space / "root" / "linked"])
    assert [skill.key for skill in change.removed] == ["linked"]
    assert library.roots == (space / "root",)


def test_an_awaited_directory_is_a_source_with_its_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "here").mkdir()
    found = explicit_sources([tmp_path / "gone", tmp_path / "file", tmp_path / "here"], awaited=True)
    assert [source.root.name for source in found] == ["gone", "file", "here"]
    assert "there is no such directory" in found[0].fault
    assert "this is a file" in found[1].fault
    assert found[2].fault == ""
    assert load_catalog(found, Environment(os="linux", has_bin=lambda _: False)).skills == ()


@pytest.mark.parametrize("name", ["", "nul\0"])
def test_what_can_never_be_a_directory_is_not_awaited(name: str) -> None:
    with pytest.raises(InvalidSourceError):
        explicit_sources([name], awaited=True)


@pytest.mark.parametrize(
    ("named", "meant"),
    [("skils", "skills"), ("Skills/team", "skills/team"), ("skils/none", "skills"), ("skills/taem", "skills/team")],
)
def test_a_missing_directory_is_told_with_the_one_that_it_may_be(named: str, meant: str, tmp_path: Path) -> None:
    (tmp_path / "skills" / "team").mkdir(parents=True)
    (tmp_path / "skil").touch()
    if (tmp_path / named).exists():  # names that differ in case alone are the same here
        return
    message = str(directory_error(tmp_path / named))
    assert message.endswith(f"Did you mean {str(tmp_path / meant)!r}?")


def test_no_neighbour_is_invented(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert str(directory_error(tmp_path / "skills")).endswith("create it or correct the path")
