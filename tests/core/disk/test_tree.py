"""A tree has the listings that were entered, whichever of its folders are packed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.diagnostics import Reason
from skills_core.disk.files import UNKNOWN_FINGERPRINT, Fingerprint
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE, Listing, find_main
from skills_core.disk.tree import Branch, Tree, join, parent

_FOLDERS = ("", "a", "a/b", "a/b/c", "a/b/c/a", "a/c", "ab", "b", "b/a", "b/a/a")
_FILES = (MAIN_FILE, MAIN_FILE_LOWERCASE, "A", "Z", "b.md", "é\n\udcff")

_fingerprints = st.integers(0, 2).map(lambda number: Fingerprint(bytes(31) + bytes([number])))
_listings = st.builds(
    lambda files, own, refused: replace(
        Listing.of(sorted(files.items()), refused=refused), fingerprints=b"".join((own, *_sorted(files)))
    ),
    st.dictionaries(st.sampled_from(_FILES), _fingerprints),
    _fingerprints,
    st.sampled_from([(), (), (), (("link", Reason.SYMLINK_OUTSIDE),)]),
)
_steps = st.lists(st.tuples(st.sampled_from(("enter", "drop", "pack", "copy")), st.sampled_from(_FOLDERS), _listings))


def _sorted(files: dict[str, Fingerprint]) -> list[Fingerprint]:
    return [fingerprint for _, fingerprint in sorted(files.items())]


def _whole(tree: dict[str, Listing]) -> dict[str, Listing]:
    """Return listings that have the folders of the tree."""
    below: dict[str, list[str]] = {folder: [] for folder in tree}
    for folder in sorted(tree):
        if folder and parent(folder) in below:
            below[parent(folder)].append(folder.rpartition("/")[2])
    return {folder: replace(listing, folders=tuple(below[folder])) for folder, listing in tree.items()}


def _agrees(tree: Tree, plain: dict[str, Listing]) -> bool:
    return (
        dict(tree) == plain
        and len(tree) == len(plain)
        and {*tree} == {*plain}
        and all((each in tree) == (each in plain) and tree.get(each) == plain.get(each) for each in _FOLDERS)
        and all(tree.main_of(each) == (find_main(plain[each]) if each in plain else None) for each in _FOLDERS)
        and tree.refusing == tree.linking == {folder for folder, listing in plain.items() if listing.refused}
    )


@given(_steps)
def test_a_tree_has_what_was_entered_whatever_is_packed(steps: list[tuple[str, str, Listing]]) -> None:
    tree, plain = Tree(), dict[str, Listing]()
    former, known = Tree(), dict[str, Listing]()
    for what, folder, listing in steps:
        if what == "copy":
            former, known = Tree(tree), dict(plain)
        elif what == "pack":
            tree.pack(folder, "", b"")
        elif what == "drop":
            assert tree.drop(folder) == plain.pop(folder, None)
        else:
            plain[folder] = listing
            tree.enter(folder, listing)
        for each, changed in _whole(plain).items():
            if changed != plain[each]:
                plain[each] = changed
                tree.enter(each, changed)
        assert _agrees(tree, plain)
    # A change in a tree is not one in the tree that it was copied from.
    assert _agrees(former, known)
    assert tree.differing(former) == {each for each in _FOLDERS if plain.get(each) != known.get(each)}


def _skill() -> dict[str, Listing]:
    one, two, own = (Fingerprint(bytes([number]) * 32) for number in (1, 2, 3))
    main = Listing(f"A/{MAIN_FILE}/", own + one + two, ("references",))
    return {"": main, "references": Listing("x.md/", one + two)}


def test_the_main_file_comes_first_and_the_files_are_the_objects_that_are_given() -> None:
    listings = _skill()
    paths = f"\0{MAIN_FILE}\0A\0references/x.md\0"
    fingerprints = b"".join(bytes([number]) * 32 for number in (2, 1, 2))
    branch = Branch.of(listings, paths, fingerprints)
    assert branch.paths is paths
    assert branch.fingerprints is fingerprints
    assert branch.listings() == listings


def test_files_that_differ_from_those_of_the_skill_are_kept_beside_them() -> None:
    listings = _skill()
    branch = Branch.of(listings, f"\0{MAIN_FILE}\0", b"2" * 32)
    assert branch.listings() == listings


def test_a_folder_with_a_folder_that_is_not_in_the_tree_is_not_packed() -> None:
    tree = Tree()
    tree.enter("a", Listing(folders=("gone",)))
    tree.pack("a", "", b"")
    assert not tree.branches
    assert dict(tree) == {"a": Listing(folders=("gone",))}


def test_a_skill_around_packed_skills_has_all_of_them_in_its_branch() -> None:
    tree = Tree()
    tree.enter("a", Listing(folders=("b", "c")))
    tree.enter("a/b", Listing())
    tree.enter("a/c", Listing())
    for folder in ("a/b", "a", "a/c"):
        tree.pack(folder, "", b"")
    assert [*tree.branches] == ["a"]
    assert {*tree} == {"a", "a/b", "a/c"}


def test_parts_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="fingerprint"):
        Branch("\0a\0", b"", "", UNKNOWN_FINGERPRINT)
    with pytest.raises(ValueError, match="fingerprint"):
        Branch("", b"", f"{join('a', 'b')}\0", UNKNOWN_FINGERPRINT)
