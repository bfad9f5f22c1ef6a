from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core import FileRefusedError, Reason, State
from skills_core.disk.files import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library, Skill

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
