"""Attacks on the folder boundary by files, names and races.

The policy is the default one: links are not followed, wherever they lead. Each attack stands next to a secret, and
the rule is always the same: what a catalog holds are the plain files of a skill's folder, and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import threading
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Reason, State, render_activation
from skills_core.disk import files
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog, Library, Skill

MARKER = "S3CRET-0UTSIDE"

posix = pytest.mark.skipif(os.name == "nt", reason="needs links and special files in the file system")


class Swapper(threading.Thread):
    """Swaps a file or folder for a link to a secret one and back, so many times or until it is stopped.

    `aside` is where the plain one lies meanwhile; in the end it is back in its place.
    """

    def __init__(self, place: Path, secret: Path, aside: Path, times: int) -> None:
        super().__init__(daemon=True)
        self.place, self.secret, self.aside, self.times = place, secret, aside, times
        self.swapped = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while self.swapped < self.times and not self.stopping.is_set():
            self.place.rename(self.aside)
            self.place.symlink_to(self.secret)
            self.place.unlink()
            self.aside.rename(self.place)
            self.swapped += 1

    def stop(self) -> None:
        self.stopping.set()
        self.join()


@dataclass(frozen=True)
class Ground:
    """A skill `one` with plain files, and outside of its source a skill of the same layout full of secrets."""

    root: Path
    folder: Path
    secret: Path
    plain: frozenset[str]

    def leaks(self, catalog: Catalog) -> list[str]:
        """Return what a catalog holds beyond the plain files and the words of the plain SKILL.md."""
        digests = {file.digest for skill in catalog.skills for file in skill.content.files.values()}
        words = [f"{skill.name} {skill.description} {skill.body} {skill.frontmatter.raw}" for skill in catalog.skills]
        return sorted(digests - self.plain) + [text for text in words if MARKER in text]


def digests_below(folder: Path) -> frozenset[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return frozenset("sha256:" + hashlib.sha256(path.read_bytes()).hexdigest() for path in files)


@pytest.fixture
def ground(tmp_path: Path, write_skill: Callable[..., Path]) -> Ground:
    root = tmp_path.resolve() / "root"
    folder = write_skill(root, "one", files={"data": "plain", "inner/data": "plain too"})
    (root / "beside").write_text(MARKER, encoding="utf-8")
    secrets = {"data": MARKER, "inner/data": MARKER * 2, "inner/only-there": MARKER, "inner/folder-there/x": MARKER}
    secret = write_skill(tmp_path.resolve() / "secret", "one", description=MARKER, body=MARKER, files=secrets)
    return Ground(root, folder, secret, digests_below(folder))


@pytest.fixture
def library(ground: Ground, load: Callable[..., Library]) -> Library:
    """Load the prepared folders."""
    return load(ground.root)


LINKS: dict[str, dict[str, str]] = {
    "to a file outside": {"link": "{secret}/data"},
    "to a file outside, relative": {"link": "../../secret/one/data"},
    "to a folder outside": {"link": "{secret}/inner"},
    "to a folder outside, below a folder": {"inner/link": "../../../secret/one/inner"},
    "to another skill's folder": {"link": "{secret}"},
    "to a file beside the skill": {"link": "../beside"},
    "to a file of the skill itself": {"link": "data"},
    "to a folder of the skill itself": {"link": "inner"},
    "to the folder it stands in": {"link": "."},
    "to the folder above": {"link": ".."},
    "to the top": {"link": "/"},
    "to the root of the source": {"link": "{root}"},
    "to itself": {"link": "link"},
    "in a circle": {"link": "other", "other": "link"},
    "in a chain out": {"link": "second", "second": "inner/third", "inner/third": "{secret}/data"},
    "in a chain of folders": {"link": "second", "second": "third", "third": "../.."},
    "to nothing": {"link": "absent"},
    "to the environment of the process": {"link": "/proc/self/environ"},
    "to a file that the process has open": {"link": "/proc/self/fd/0"},
    "to the working directory": {"link": "/proc/self/cwd"},
    "to a device": {"link": "/dev/zero"},
    "through a link in its target": {"link": "hop/data", "hop": "{secret}"},
    "with the name of a plain file in another case": {"DATA": "{secret}/data"},
}


@posix
@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS.keys())
def test_a_link_among_the_files_has_a_diagnostic_and_its_target_is_not_loaded(
    links: dict[str, str], ground: Ground, load: Callable[..., Library]
) -> None:
    if (ground.folder / "DATA").exists() and "DATA" in links:
        pytest.skip("this file system has no such two names")
    for name, target in links.items():
        (ground.folder / name).symlink_to(target.format(secret=ground.secret, root=ground.root))
    library = load(ground.root)
    library.reload()
    skill = library.catalog.skill("one")
    assert ground.leaks(library.catalog) == []
    assert digests_below(ground.folder) == {file.digest for file in skill.content.files.values()}
    assert {found.path for found in skill.diagnostics if found.code is Reason.SYMLINK} == {
        str(ground.folder / name) for name in links
    }
    for name in links:
        below = (name, f"{name}/data", f"{name}/inner/data", f"{name}/SKILL.md", f"{name}/..", f"{name}/.")
        found = [library.catalog.file(f"skill://one/{path}") for path in below]
        # The plain file is the only one of this name in any case, since the link is not a file of the skill.
        assert {at[1].path for at in found if at is not None} == ({"data"} if name == "DATA" else set())
        assert library.catalog.directory(f"skill://one/{name}") is None


@posix
@pytest.mark.parametrize("target", ["{secret}/SKILL.md", "../../secret/one/SKILL.md", "/proc/self/environ", "/", ".."])
def test_a_linked_skill_file_contributes_no_text(target: str, ground: Ground, load: Callable[..., Library]) -> None:
    (ground.folder / "SKILL.md").unlink()
    (ground.folder / "SKILL.md").symlink_to(target.format(secret=ground.secret))
    library = load(ground.root)
    (skill,) = library.catalog.skills
    assert (skill.state, skill.reason) == (State.INVALID, Reason.SYMLINK)
    assert ground.leaks(library.catalog) == []


@posix
def test_the_scan_of_two_skills_that_link_to_each_other_ends(
    ground: Ground, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    other = write_skill(ground.root, "two")
    (ground.folder / "to-two").symlink_to(other)
    (other / "to-one").symlink_to(ground.folder)
    catalog = load(ground.root).catalog
    assert {skill.key: sorted(skill.content.folders) for skill in catalog.active} == {"one": ["inner"], "two": []}


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the length of a socket's path is limited
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this user may make no device")


@posix
@pytest.mark.parametrize("name", ["odd", "SKILL.md"])
@pytest.mark.parametrize("make", [os.mkfifo, _socket, _device])
def test_special_files_are_neither_opened_nor_served(
    make: Callable[[Path], None], name: str, ground: Ground, load: Callable[..., Library]
) -> None:
    (ground.folder / name).unlink(missing_ok=True)
    make(ground.folder / name)
    (skill,) = load(ground.root).catalog.skills
    assert (Reason.SPECIAL_FILE, str(ground.folder / name)) in [(d.code, d.path) for d in skill.diagnostics]
    assert name not in skill.content.files
    assert skill.state is (State.INVALID if name == "SKILL.md" else State.ACTIVE)


NAMES = [
    *("../../secret/one", "../one", "..", "one/../../secret", "/etc/passwd", "//host/share", "~", "~/one", "."),
    *("..\\\\..\\\\secret", "C:", "C:\\\\secret", "%2e%2e", "..%2fsecret", "%252e%252e", "%00", "a\\0b", "a\\nb"),
    *("file:///etc/passwd", "skill://two/SKILL.md", "one/SKILL.md", "one/", "/one", "SKILL.md", "one?x", "one#x"),
    *("\uff0e\uff0e\uff0fsecret", "\u2025", "\\ud800", "\\u202e../one", "x" * 5000),
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:20].encode("unicode_escape").decode())
def test_the_uri_of_a_skill_of_any_name_leads_only_to_its_own_files(
    name: str, ground: Ground, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(ground.root, "odd", name=f'"{name}"', files={"mine": "mine"})
    catalog = load(ground.root).catalog
    (skill,) = [skill for skill in catalog.active if skill.content.folder == "odd"]
    assert not {"", ".", ".."} & set(skill.path.split("/"))
    for path, file in skill.content.files.items():
        assert catalog.file(skill.file_uri(path)) == (skill, file)
    assert catalog.skill(skill.key) is skill
    assert catalog.skill("one").content.folder == "one"
    (skill.key + skill.uri + render_activation(skill)).encode("utf-8")


@posix
def test_files_of_similar_names_have_distinct_uris(ground: Ground, load: Callable[..., Library]) -> None:
    twins = [unicodedata.normalize(form, "\ufb01anc\xe9.md") for form in ("NFC", "NFD")]
    for name in twins:
        (ground.folder / name).write_bytes(name.encode())
    if len({path.name for path in ground.folder.iterdir()} & set(twins)) < len(twins):
        pytest.skip("this file system takes the two names for one")
    catalog = load(ground.root).catalog
    for name in twins:
        found = catalog.file(catalog.skill("one").file_uri(name))
        assert found is not None
        assert found[1].digest == "sha256:" + hashlib.sha256(name.encode()).hexdigest()
    assert catalog.file(catalog.skill("one").file_uri(unicodedata.normalize("NFKC", twins[0]))) is None


@posix
@pytest.mark.parametrize(
    "raw", [b"\xc0\xae\xc0\xae", b"x..\xc0\xafdata", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"x..%2fdata"]
)
def test_an_encoded_traversal_in_a_file_name_is_only_a_name(
    raw: bytes, ground: Ground, load: Callable[..., Library]
) -> None:
    uri = "skill://one/" + "".join(f"%{byte:02x}" for byte in raw)
    assert load(ground.root).catalog.file(uri) is None
    try:
        (ground.folder / os.fsdecode(raw)).write_bytes(raw)
    except OSError:
        pytest.skip("this file system has no such name")
    catalog = load(ground.root).catalog
    found = catalog.file(uri)
    assert found is not None
    assert found[1].path == os.fsdecode(raw)
    assert found == catalog.file(catalog.skill("one").file_uri(os.fsdecode(raw)))


PIECES = st.sampled_from(
    [
        *("one", "inner", "data", "SKILL.md", "skill.MD", "beside", "secret", "etc", "passwd"),
        *("/", "/", "/", "//", "..", ".", "%2e%2e", "%2E.", "%252e", "%2f", "%5c", "\\", "%00", "\0", "%", "%zz"),
        *(
            "%c0%af",
            "?",
            "#",
            ":",
            "@",
            " ",
            "+",
            "\uff0e\uff0e",
            "\uff0f",
            "\ud800",
            "\udcff",
            "skill://",
            "file://",
            "localhost",
            "o%6ee",
        ),
    ]
)
URIS = st.lists(PIECES, max_size=8).map("".join).flatmap(lambda tail: st.sampled_from([tail, f"skill://{tail}"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(150))
@given(text=URIS | st.lists(PIECES, max_size=6).map(lambda pieces: "skill://one/" + "".join(pieces)))
def test_no_spelling_of_a_uri_but_its_case_finds_another_file(text: str, library: Library) -> None:
    catalog = library.catalog
    found = catalog.file(text)
    if found is not None:
        assert text.startswith("skill://")
        assert text.startswith(f"skill://{found[0].path}/") or "%" in text
        assert unquote(text).casefold() == f"skill://{found[0].path}/{found[1].path}".casefold()
    folder = catalog.directory(text)
    if folder is not None:
        assert folder.path in {"one", "one/inner"}
        assert unquote(text).casefold() == f"skill://{folder.path}"
    held = catalog.skill("one").content.files
    assert text not in held or catalog.file_of(catalog.skill("one"), text) == held[text]


@posix
@pytest.mark.parametrize("place", ["", "SKILL.md", "data", "inner", "inner/data"])
def test_nothing_behind_a_link_that_is_swapped_in_repeatedly_is_loaded(
    place: str, ground: Ground, tmp_path: Path, load: Callable[..., Library]
) -> None:
    library = load(ground.root)
    # A skill's whole folder is looked at only once a reload, and so must be swapped more often to be hit.
    swapper = Swapper(ground.folder / place, ground.secret / place, tmp_path / "aside", times=300 if place else 1000)
    swapper.start()
    while swapper.is_alive():
        library.reload()
        assert ground.leaks(library.catalog) == []
        library.reload([ground.folder / place])
        assert ground.leaks(library.catalog) == []
        assert ground.leaks(load(ground.root).catalog) == []
    assert swapper.swapped == swapper.times
    library.reload()
    assert {file.digest for file in library.catalog.skill("one").content.files.values()} == ground.plain


@posix
@pytest.mark.parametrize("handles", [True, False], ids=["handles", "checks"])
@pytest.mark.parametrize("place", ["", "inner", "inner/data"])
def test_a_link_swapped_in_while_a_file_is_opened_leaks_nothing(
    place: str,
    handles: bool,  # noqa: FBT001 - a case of two
    ground: Ground,
    tmp_path: Path,
    load: Callable[..., Library],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not handles:
        monkeypatch.setattr(files, "_HANDLES", False)
    opened, real = os.open, ground.folder / place

    def open_swapped(path: Any, *args: Any, **options: Any) -> int:
        """Swap before anything at or below the place is opened, and back as soon as that is done."""
        if Path(path).name not in {"one", "inner", "data"}:
            return opened(path, *args, **options)
        real.rename(tmp_path / "aside")
        real.symlink_to(ground.secret / place)
        try:
            return opened(path, *args, **options)
        finally:
            real.unlink()
            (tmp_path / "aside").rename(real)

    monkeypatch.setattr(os, "open", open_swapped)
    assert ground.leaks(load(ground.root).catalog) == []


@posix
@pytest.mark.parametrize("again", [False, True], ids=["load", "reload"])
def test_a_folder_swapped_for_a_link_while_it_is_listed_leaks_no_names(
    again: bool,  # noqa: FBT001 - a case of two
    ground: Ground,
    tmp_path: Path,
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = load(ground.root) if again else None
    inner = ground.folder / "inner"

    def swapping(call: Callable[..., Any]) -> Callable[..., Any]:
        def swap_before(path: Any, *args: Any, **options: Any) -> Any:
            """Swap the folder in the moment before anything of that name is opened or listed."""
            if not isinstance(path, int) and Path(path).name == "inner" and not inner.is_symlink():
                inner.rename(tmp_path / "elsewhere")
                inner.symlink_to(ground.secret / "inner")
            return call(path, *args, **options)

        return swap_before

    monkeypatch.setattr(os, "scandir", swapping(os.scandir))
    monkeypatch.setattr(os, "open", swapping(os.open))
    if library is None:
        library = load(ground.root)
    else:
        library.reload()
    skill = only(library)
    told = " ".join([*skill.content.folders, *skill.content.files, *map(str, skill.diagnostics)])
    assert inner.is_symlink()
    assert "-there" not in told
