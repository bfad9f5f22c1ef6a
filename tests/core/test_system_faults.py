"""System errors while skills are read: an unreadable file never counts as deleted, and is read again."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skills_core import Environment, InvalidSourceError, Library, Reason, State, explicit_sources, read_skill
from skills_core.disk.files import Location, read_file
from skills_core.disk.sources import project_of
from skills_core.errors import Fault, FileRefusedError, FileUnavailableError, SkillIoError, fault_of
from skills_core.live.watcher import is_remote
from tests.core.live.test_reload import CONTENTS, LINKS, OPERATIONS, Disk
from tests.temporary import TEMPORARY
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core import Catalog

TRANSIENT = [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.EINTR]
DENIED = [errno.EACCES, errno.EPERM]
CALLS = ["open", "scandir", "read", "fstat", "stat", "lstat", "readlink", "entry"]

posix = pytest.mark.skipif(os.name == "nt", reason="needs limits and permissions of POSIX")


@dataclass
class Faults:
    """Makes system calls of the kinds in `calls` fail: `count` of them, beginning with number `first`."""

    number: int
    calls: frozenset[str] = frozenset(CALLS)
    first: int = 0
    count: int = 1_000_000
    made: int = 0
    failed: int = field(default=0)

    def check(self, call: str) -> None:
        if call in self.calls:
            self.made += 1
            if self.first < self.made <= self.first + self.count:
                self.failed += 1
                raise OSError(self.number, os.strerror(self.number))

    @contextmanager
    def striking(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                if hasattr(os, name):
                    patch.setattr(os, name, self._failing(name, getattr(os, name)))
            # What the core looks these up in when it decides what the system can do.
            patch.setattr(os, "supports_fd", {*os.supports_fd, os.scandir, os.stat})
            patch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, os.open, os.stat})
            yield

    def _failing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*arguments: Any, **named: Any) -> Any:
            self.check(name)
            result = call(*arguments, **named)
            return Entries(result, self) if name == "scandir" else result

        return failing


class Entries:
    """The entries of a folder, with unreadable metadata for some."""

    def __init__(self, entries: Any, faults: Faults) -> None:
        self.entries, self.faults = entries, faults

    def __enter__(self) -> Iterator[Entry]:
        return iter(self)

    def __exit__(self, *_: object) -> None:
        self.entries.close()

    def __iter__(self) -> Iterator[Entry]:
        return (Entry(entry, self.faults) for entry in self.entries)


class Entry:
    def __init__(self, entry: os.DirEntry[str], faults: Faults) -> None:
        self._entry, self._faults = entry, faults
        self.name = entry.name

    def __getattr__(self, name: str) -> Any:
        self._faults.check("entry")
        return getattr(self._entry, name)


def places(catalog: Catalog) -> set[tuple[Path, str]]:
    return {(skill.source.root, skill.content.place) for skill in catalog.skills}


def legible(catalog: Catalog) -> set[tuple[Path, str]]:
    """Return the places of the skills whose main file was read; a link that is refused is not read."""
    return {(skill.source.root, skill.content.place) for skill in catalog.skills if skill.digest is not None}


def manifests(catalog: Catalog) -> dict[tuple[Path, str], frozenset[tuple[str, str]]]:
    """Return the manifest of each published skill: its files and their digests."""
    return {
        (skill.source.root, skill.content.place): frozenset(
            (path, file.digest) for path, file in skill.content.files.items()
        )
        for skill in catalog.skills
        if skill.content.published
    }


def unreadable(catalog: Catalog) -> set[Reason]:
    found = [*catalog.problems, *(each for skill in catalog.skills for each in skill.diagnostics)]
    return {each.code for each in found} & {Reason.UNREADABLE, Reason.PERMISSION_DENIED}


def first(number: int, count: int) -> Faults:
    """Return the fault of so many calls of any kind, from a number on."""
    return Faults(errno.EMFILE, frozenset(CALLS), number, count)


FAULTS = st.builds(
    Faults,
    st.sampled_from([*TRANSIENT, *DENIED]),
    st.one_of(st.just(frozenset(CALLS)), st.frozensets(st.sampled_from(CALLS), min_size=1)),
    st.integers(0, 40),
    st.sampled_from([1, 2, 5, 1_000_000]),
)


BESIDE_A_LINK = [("write", "skill.md", CONTENTS[0]), ("link", "SKILL.md", "a")]
OTHER_SPELLING = [("write", "skill.md", CONTENTS[0]), ("write", "a/SKILL.md", CONTENTS[0])]


@example(
    before=OTHER_SPELLING,
    meanwhile=[("write", "SKILL.md", CONTENTS[0])],
    faults=first(2, 2),
    follow=False,
    told=False,
)
@example(before=OTHER_SPELLING, meanwhile=[("recreate root", None, True)], faults=first(0, 1), follow=False, told=False)
@example(before=OTHER_SPELLING, meanwhile=[("recreate root", None, True)], faults=first(2, 2), follow=False, told=False)
@example(before=BESIDE_A_LINK, meanwhile=[], faults=first(2, 1), follow=False, told=False)
@example(
    before=BESIDE_A_LINK[1:], meanwhile=[("recreate root", None, True)], faults=first(10, 2), follow=False, told=False
)
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=st.lists(OPERATIONS, min_size=1, max_size=8),
    meanwhile=st.lists(OPERATIONS, max_size=4),
    faults=FAULTS,
    follow=st.booleans(),
    told=st.booleans(),
)
def test_no_transient_fault_removes_a_skill_and_after_it_the_catalog_equals_a_fresh_load(
    before: list[tuple[str, Any, Any]],
    meanwhile: list[tuple[str, Any, Any]],
    faults: Faults,
    follow: bool,  # noqa: FBT001 - a drawn example
    told: bool,  # noqa: FBT001 - a drawn example
    load: Callable[..., Library],
    seen: Callable[[Catalog], Any],
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        disk = Disk(Path(space).resolve())
        disk.apply("move in", "a", "---\nname: a\ndescription: one\n---\nBody\n")
        for operation, where, what in before:
            disk.apply(operation, where, what)
        disk.root.mkdir(exist_ok=True)
        disk.reported.clear()
        library = load(disk.root, follow_symlinks=follow)
        known = library.catalog
        for operation, where, what in meanwhile:
            disk.apply(operation, where, what)
        disk.root.mkdir(exist_ok=True)
        with faults.striking():
            during = library.reload(disk.reported if told else None).after
        fresh = load(disk.root, follow_symlinks=follow).catalog
        assert places(known) & places(fresh) <= places(during)
        assert legible(known) & legible(fresh) <= legible(during)
        # What was told of a change and could not be read is owed, even where nobody tells of it again.
        library.reload([])
        assert library.unread == {}
        assert seen(library.catalog) == seen(fresh)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations=st.lists(OPERATIONS, max_size=8), faults=FAULTS, follow=st.booleans())
def test_files_unreadable_at_the_first_load_keep_manifests_unpublished_until_they_are_read(
    operations: list[tuple[str, Any, Any]],
    faults: Faults,
    follow: bool,  # noqa: FBT001 - a drawn example
    load: Callable[..., Library],
    seen: Callable[[Catalog], Any],
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        disk = Disk(Path(space).resolve())
        disk.apply("move in", "a", "---\nname: a\ndescription: one\n---\nBody\n")
        for operation, where, what in operations:
            disk.apply(operation, where, what)
        disk.root.mkdir(exist_ok=True)
        sources = explicit_sources([disk.root], follow_symlinks=follow)
        fresh = load(disk.root, follow_symlinks=follow).catalog
        with faults.striking():
            library = Library(sources, lambda: Environment(os="linux", has_bin=lambda _: True))
            assert manifests(library.catalog).items() <= manifests(fresh).items()
            for whole in (False, True):
                library.reload(None if whole else [])
                assert manifests(library.catalog).items() <= manifests(fresh).items()
        library.reload([])
        assert seen(library.catalog) == seen(fresh)


@pytest.mark.parametrize("number", [*TRANSIENT, *DENIED])
@pytest.mark.parametrize("told", [True, False])
def test_an_edited_skill_that_cannot_be_read_keeps_its_last_content_with_a_diagnostic(
    number: int,
    told: bool,  # noqa: FBT001 - a drawn example
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    root = tmp_path.resolve()
    folder = write_skill(root, "a", body="Old.", files={"data": "old"})
    library = load(root)
    write_skill(root, "a", body="New.", files={"data": "new"})
    with Faults(number).striking():
        library.reload([folder / "SKILL.md", folder / "data"] if told else None)
    kept = library.catalog.skill("a")
    assert "Old." in kept.body
    assert unreadable(library.catalog) == {Reason.PERMISSION_DENIED if number in DENIED else Reason.UNREADABLE}
    assert library.unread
    library.reload([])
    assert "New." in library.catalog.skill("a").body
    assert (unreadable(library.catalog), library.unread) == (set(), {})


EXHAUST = """
import os, resource, sys
from pathlib import Path
from skills_core import Environment, Library, explicit_sources

root = Path(sys.argv[1])
library = Library(explicit_sources([root]), lambda: Environment(os="linux", has_bin=lambda _: True))

def shown():
    print(sorted((skill.key, str(skill.state), skill.body.strip()) for skill in library.catalog.skills))

(root / "a" / "SKILL.md").write_text("---\\nname: a\\ndescription: d\\n---\\nNew.\\n")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    for spare in range(int(sys.argv[2])):
        os.close(taken.pop())
library.reload([root / "a" / "SKILL.md"])
shown()
library.reload()
shown()
for descriptor in taken:
    os.close(descriptor)
library.reload([])
shown()
print(library.unread)
"""


@posix
@pytest.mark.parametrize("spare", range(4))
def test_a_process_without_descriptors_keeps_its_skills_until_it_can_read_them(
    spare: int, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    root = tmp_path.resolve()
    write_skill(root, "a", body="Old.")
    write_skill(root, "deep/er/b", body="Other.")
    command = [sys.executable, "-c", EXHAUST, str(root), str(spare)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    *starved, last, unread = done.stdout.splitlines()
    now = "[('a', 'active', 'New.'), ('b', 'active', 'Other.')]"
    # With a few descriptors left, some of it can be read.
    assert all(each in {now, now.replace("New.", "Old.")} for each in starved)
    assert starved[0] != now or spare > 2
    assert (last, unread) == (now, "{}")


def test_a_skill_denied_at_two_loads_is_invalid_until_permission_returns(
    unprivileged: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    main = write_skill(unprivileged, "a", body="Old.") / "SKILL.md"
    library = load(unprivileged)
    main.chmod(0)
    library.reload([main])
    assert library.catalog.skill("a").body.strip() == "Old."
    library.reload([])
    (skill,) = library.catalog.skills
    assert (skill.state, skill.reason) == (State.INVALID, Reason.PERMISSION_DENIED)
    main.chmod(0o600)
    library.reload([])
    assert library.catalog.skill("a").diagnostics == ()


def test_skills_in_a_folder_that_becomes_unreadable_stay_in_the_catalog(
    unprivileged: Path, write_skill: Callable[..., Path], load: Callable[..., Library], seen: Callable[[Catalog], Any]
) -> None:
    write_skill(unprivileged, "shut/a")
    write_skill(unprivileged, "shut/deep/b", files={"AGENTS.md": "x"})
    write_skill(unprivileged, "c")
    (unprivileged / "shut" / "AGENTS.md").write_text("How we work.", encoding="utf-8")
    library = load(unprivileged)
    before = places(library.catalog)
    (unprivileged / "shut").chmod(0)
    for changed in (None, [], [unprivileged / "shut"], []):
        library.reload(changed)
        assert places(library.catalog) == before
        assert Reason.PERMISSION_DENIED in {found.code for found in library.catalog.problems}
    states = {skill.content.place: (skill.state, skill.reason) for skill in library.catalog.skills}
    shut = (State.INVALID, Reason.PERMISSION_DENIED)
    assert states == dict.fromkeys(states, shut) | {"c": (State.ACTIVE, None)}
    (unprivileged / "shut").chmod(0o755)
    library.reload([])
    assert seen(library.catalog) == seen(load(unprivileged).catalog)


@posix
def test_an_inaccessible_root_is_not_a_missing_directory(
    unprivileged: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    root = unprivileged / "above" / "root"
    write_skill(root, "a")
    library = load(root)
    (unprivileged / "above").chmod(0)
    library.reload()
    assert [skill.key for skill in library.catalog.active] == ["a"]
    assert [found.code for found in library.catalog.problems] == [Reason.PERMISSION_DENIED]
    with pytest.raises(InvalidSourceError, match="permission denied") as refused:
        explicit_sources([root])
    assert refused.value.reason is Reason.PERMISSION_DENIED
    with pytest.raises(SkillIoError) as unread:
        read_skill(root / "a")
    assert unread.value.reason is Reason.PERMISSION_DENIED


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
def test_ignored_files_stay_hidden_while_the_ignore_file_cannot_be_read(
    number: int, tmp_path: Path, write_skill: Callable[..., Path], seen: Callable[[Catalog], Any]
) -> None:
    root = tmp_path.resolve() / "root"
    folder = write_skill(root, "a", files={"secret.txt": "x", "plain.txt": "x"})
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("secret.txt\n", encoding="utf-8")
    sources = explicit_sources([root], gitignore=True)

    def make() -> Library:
        return Library(sources, lambda: Environment(os="linux", has_bin=lambda _: True))

    library = make()
    for first in range(12):
        (folder / "plain.txt").write_text(f"y{first}", encoding="utf-8")
        with Faults(number, frozenset({"open"}), first, 1).striking():
            library.reload()
        assert [*library.catalog.skill("a").content.files] == ["SKILL.md", "plain.txt"]
        library.reload([])
        assert seen(library.catalog) == seen(make().catalog)


@pytest.mark.skipif(not LINKS, reason="links need a privilege there")
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_link_with_an_unreadable_target_keeps_its_last_target(
    number: int, tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    root = tmp_path.resolve() / "root"
    write_skill(root, "a")
    (root / "linked").symlink_to(write_skill(tmp_path / "elsewhere", "linked"))
    library = load(root, follow_symlinks=True)
    with Faults(number, frozenset({"lstat", "stat", "readlink"})).striking():
        library.reload()
    assert [skill.key for skill in library.catalog.active] == ["a", "linked"]
    assert library.unread == {root: {"linked"}}


@pytest.mark.parametrize("number", TRANSIENT)
def test_transient_read_errors_differ_from_refusals(number: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with Faults(number).striking(), pytest.raises(FileUnavailableError) as failed:
        read_file(Location(tmp_path.resolve(), "file"))
    assert failed.value.fault is Fault.TRANSIENT
    with pytest.raises(FileRefusedError) as absent:
        read_file(Location(tmp_path.resolve(), "absent"))
    assert absent.value.fault is Fault.ABSENT


def test_every_unknown_error_counts_as_transient() -> None:
    lasting = {
        number for number in errno.errorcode if fault_of(OSError(number, os.strerror(number))) is not Fault.TRANSIENT
    }
    assert {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM} < lasting
    assert lasting.isdisjoint(TRANSIENT)


def test_a_file_locked_by_another_program_is_a_transient_fault() -> None:
    error = PermissionError(errno.EACCES, "The process cannot access the file")
    assert fault_of(error) is Fault.DENIED
    error.winerror = 32  # type: ignore[attr-defined, unused-ignore]
    assert fault_of(error) is Fault.TRANSIENT


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_an_undetectable_repository_makes_the_directory_itself_the_project(number: int, tmp_path: Path) -> None:
    here = tmp_path / "a" / "b"
    here.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    assert project_of(here, Path("/nowhere")) == tmp_path
    with Faults(number, frozenset({"stat"}), 1, 1).striking():
        assert project_of(here, Path("/nowhere")) == here


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the others are not asked")
def test_an_unknown_file_system_is_polled(tmp_path: Path) -> None:
    assert not is_remote(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_, **__: Faults(errno.EMFILE).check("open"))
        assert is_remote(tmp_path)
