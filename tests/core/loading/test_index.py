from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Environment, Library, Source
from skills_core.disk.files import Fingerprint, Reader
from skills_core.disk.sources import SkillKind, Strictness
from skills_core.disk.tree import Tree
from skills_core.live import library as library_module
from skills_core.loading import index as index_module
from skills_core.loading.discovery import LoadedSource, load_source, reload_source
from skills_core.loading.index import SourceIndex
from skills_core.skills.skill import SkillFiles
from tests.core.live.test_reload import OPERATIONS, Disk
from tests.temporary import TEMPORARY
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core import Catalog

SAMPLES = Path(__file__).parents[3] / "sample_skills"
POSIX = os.name != "nt"
NUMBERS = ["size", "mtime_ns", "ctime_ns", "inode"]

EVERY_FIELD = """\
license: MIT
compatibility: any
version: 1.2.0
tags: [a, b]
references: [references/data.md, absent.md]
allowed-tools: [Read, Write]
hint: h
triggers: [do, "re:x+"]
requires: [other]
argument-hint: "[x]"
when_to_use: "When: needed"
user-invocable: false
disable-model-invocation: true
when: {os: [linux], requires: {bins: [sh], env: [HOME], config: [a.b]}}
evaluation: {enabled: true, minScore: 0.5, maxRetries: 1, criteria: [good], allowSideEffects: false}
tools: [{name: t, description: d, parameters: {type: object, properties: {n: {type: number, default: 1.0}}}}]
danger_patterns: ["rm -rf"]
confirm_patterns: ["rm"]
metadata: {jdai: {always: true, skillKey: k, primaryEnv: TOKEN, requires: {config: {x: [1, true, 1.5, null]}}}}
nested: {deep: [1, 1.0, true, null, "x", {y: []}]}
unknown-field: 12345678901234567890"""


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the clock an hour ahead of the file system's, so that files count as written long ago."""
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + 3_600_000_000_000)
    return iter(())


def let_the_clock_move_on() -> None:
    """Let the next change have another time, as all that is loaded counts as settled."""
    time.sleep(0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "index.db"


@pytest.fixture
def source(tmp_path: Path, write_skill: Callable[..., Path]) -> Source:
    """Return a source with skills of all kinds, nested ones, files outside of skills, and folders without any."""
    root = (tmp_path / "skills").resolve()
    write_skill(root, "owner/full", fields=EVERY_FIELD, files={"references/data.md": "d", "scripts/deep/x.py": b"\xff"})
    write_skill(root, "owner/nested", files={"inner/SKILL.md": "---\nname: inner\ndescription: d\n---\n"})
    write_skill(root, "owner/invalid", name="Not Valid!", description="")
    write_skill(root, ".skills/not-one", files={"a.md": "no frontmatter"})
    for file, text in {
        "AGENTS.md": "# Rules\n",
        "notes.txt": "n",
        ".skills/doc.md": "---\nname: doc\ndescription: d\nreferences: [notes.md]\n---\nBody\n",
        ".skills/notes.md": "plain",
        "owner/empty/AGENTS.md": "",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text, encoding="utf-8")
    return Source(root, kinds=frozenset(SkillKind))


def saved(source: Source, path: Path, **options: Any) -> LoadedSource:
    loaded = load_source(source)
    SourceIndex(path, least=0, **options).save(loaded)
    return loaded


def restarted(source: Source, path: Path) -> LoadedSource:
    """Return a source as a start loads it."""
    restored = SourceIndex(path, least=0).restore(source)
    return load_source(source) if restored is None else reload_source(restored)


def text_of(loaded: LoadedSource) -> str:
    """Return all of what was loaded as a text; unlike `==`, it tells types and fingerprints apart."""
    parts = [dict(sorted(each.items())) for each in (loaded.tree, loaded.contents, loaded.documents, loaded.texts)]
    texts = [
        repr([replace(each, folders=frozenset()), sorted(each.folders)]) for _, each in sorted(loaded.contents.items())
    ]
    rest = (sorted(loaded.contents), loaded.problems, loaded.unread, loaded.tree.bounded, loaded.tree.faulty)
    return repr((parts[0], texts, sorted(parts[2]), parts[3], rest))


def places_of(restored: LoadedSource | None) -> set[str]:
    assert restored is not None
    return set(restored.contents)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("strictness", Strictness)
def test_what_is_restored_is_what_was_loaded(source: Source, path: Path, strictness: Strictness) -> None:
    for each in (replace(source, strictness=strictness), Source(SAMPLES.resolve(), strictness=strictness)):
        loaded = saved(each, path)
        restored = SourceIndex(path).restore(each)
        assert restored is not None
        assert text_of(restored) == text_of(loaded)
        assert restored == loaded
        # Nothing is read again.
        assert reload_source(restored) is restored or each.kinds != {SkillKind.FOLDER}
        assert all(reload_source(restored).contents[place] is content for place, content in restored.contents.items())


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("below", ["", "owner"])
def test_equal_texts_of_a_skill_are_held_once(below: str, tmp_path: Path, path: Path, write_skill: Any) -> None:
    root = (tmp_path / "skills").resolve()
    # More than the values that are remembered: all folders of a root are listed before a skill is read.
    for number in range(2100 if not below else 1):
        (root / below / f"other-{number}").mkdir(parents=True)
    # No literal, which would be one object anywhere.
    name, version = f"one-{len(below)}", f"1.{len(below)}.0"
    write_skill(root / below, name, fields=f"metadata: {{version: {version}}}")
    loaded = saved(Source(root), path)
    for each in (loaded, SourceIndex(path).restore(loaded.source)):
        assert each is not None
        (content,) = each.contents.values()
        front = content.instructions.frontmatter
        (folder,) = (found for found in each.tree[below].folders if found == name) if below else (content.place,)
        assert (front.name, front.version, front.raw["name"]) == (name, version, name)
        assert all(text is folder for text in (content.name, front.name, front.raw["name"]))


@pytest.mark.usefixtures("later")
def test_only_its_user_can_read_the_file(source: Source, path: Path) -> None:
    saved(source, path)
    assert not POSIX or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not POSIX or stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    state = SourceIndex(path).state()
    assert state is not None
    assert (state.path, state.size) == (path, path.stat().st_size)
    assert state.entries


@contextmanager
def changing_source(*, follow: bool) -> Iterator[tuple[Disk, Source, Path]]:
    """Yield a disk to change, a source of all that is on it, and the path of an index; new for each example."""
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        disk, path = Disk(Path(space).resolve()), Path(space).resolve() / "cache" / "index.db"
        yield disk, Source(disk.root, follow_symlinks=follow, kinds=frozenset(SkillKind)), path


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), min_size=1, max_size=5), follow=st.booleans())
def test_a_start_with_an_index_is_a_start_without(
    steps: list[list[tuple[str, Any, Any]]],
    follow: bool,  # noqa: FBT001 - a drawn example
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
    with changing_source(follow=follow) as (disk, source, path):
        running = SourceIndex(path, least=0)
        loaded = load_source(source)
        for step in steps:
            let_the_clock_move_on()
            running.save(loaded)
            for operation, where, what in step:
                disk.apply(operation, where, what)
            assert text_of(restarted(source, path)) == text_of(load_source(source))
            loaded = reload_source(loaded)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_torn_file_is_as_good_as_none(
    data: st.DataObject, source: Source, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
    path.unlink(missing_ok=True)
    expected = text_of(saved(source, path))
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw) - 1))
        length = data.draw(st.sampled_from([1, 8, 512, 4096]))
        how = data.draw(st.sampled_from(["noise", "zeros", "moved", "cut"]))
        if how == "cut":
            del raw[start:]
            break
        end = min(start + length, len(raw))
        other = data.draw(st.integers(0, len(raw) - (end - start)))
        size = end - start
        noise = data.draw(st.binary(min_size=size, max_size=size)) if size <= 8 else b"\xa5" * size
        raw[start:end] = {"noise": noise, "zeros": bytes(size), "moved": raw[other : other + size]}[how]
        if not raw:
            break
    path.write_bytes(raw)
    assert text_of(restarted(source, path)) == expected
    index = SourceIndex(path, least=0)
    index.restore(source)
    index.save(load_source(source))
    assert text_of(restarted(source, path)) == expected


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("field", [*NUMBERS, "settled", "name"])
def test_an_entry_counts_only_for_the_files_that_it_was_made_of(source: Source, path: Path, field: str) -> None:
    loaded = load_source(source)
    place = "owner/nested"
    content, listing = loaded.contents[place], loaded.tree[place]
    name, found = listing.files[0]
    assert content.main is not None
    assert found is not None
    front = replace(content.instructions.frontmatter, description="forged")
    settled, print_ = field != "settled", found
    if field in NUMBERS:
        # Eight bytes for each of the numbers.
        at = 8 * NUMBERS.index(field)
        print_ = Fingerprint(found[:at] + bytes([found[at] ^ 1]) + found[at + 1 :])
    name = "skill.md" if field == "name" else name
    main = replace(content.main, path=name, sha256=bytes(32), fingerprint=print_, settled=settled)
    forged = replace(
        content,
        instructions=replace(content.instructions, frontmatter=front),
        files=SkillFiles.of([main]),
        main_path=name,
    )
    tree = Tree(loaded.tree)
    tree[place] = listing.with_files([(name, print_)])
    contents = MappingProxyType({**loaded.contents, place: forged})
    SourceIndex(path, least=0).save(replace(loaded, tree=tree, contents=contents))
    assert text_of(restarted(source, path)) == text_of(loaded)


@pytest.mark.usefixtures("later")
def test_another_version_or_option_reads_nothing_of_the_file(source: Source, path: Path) -> None:
    saved(source, path, program="1")
    assert SourceIndex(path, "1").restore(source) is not None
    assert SourceIndex(path, "2").restore(source) is None
    for other in (
        replace(source, strictness=Strictness.STRICT),
        replace(source, gitignore=True),
        replace(source, kinds=frozenset({SkillKind.FOLDER})),
        replace(source, root=source.root / "owner"),
    ):
        assert SourceIndex(path, "1").restore(other) is None
    # The one does not disturb the other.
    saved(source, path, program="2")
    assert SourceIndex(path, "1").restore(source) is not None


@pytest.mark.usefixtures("later")
def test_a_file_in_another_format_is_made_anew(source: Source, path: Path) -> None:
    saved(source, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert SourceIndex(path).restore(source) is None
    assert not path.exists()
    saved(source, path)
    assert places_of(SourceIndex(path).restore(source))


@pytest.mark.usefixtures("later")
@pytest.mark.skipif(not POSIX, reason="Windows has other permissions")
def test_a_file_that_others_may_have_written_is_neither_read_nor_written(
    source: Source, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = saved(source, path)
    before = path.read_bytes()

    def is_refused() -> bool:
        index = SourceIndex(path, least=0)
        is_unread = index.restore(source) is None and index.state() is None
        index.save(replace(loaded, contents=MappingProxyType({})))
        return is_unread and path.read_bytes() == before

    for target, mode in ((path, 0o644), (path, 0o660), (path.parent, 0o777), (path.parent, 0o770)):
        normal = stat.S_IMODE(target.stat().st_mode)
        target.chmod(mode)
        assert is_refused()
        target.chmod(normal)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        assert is_refused()
    link = path.with_name("link.db")
    link.symlink_to(path)
    assert SourceIndex(link).restore(source) is None
    assert not is_refused()


@pytest.mark.usefixtures("later")
def test_a_locked_file_is_not_used_and_not_removed(
    source: Source, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(index_module, "_BUSY_SECONDS", 0)
    caplog.set_level("INFO")
    loaded = saved(source, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        index = SourceIndex(path, least=0)
        assert index.restore(source) is None
        index.save(loaded)
        other.execute("ROLLBACK")
    (record,) = [each for each in caplog.records if each.name == index_module.__name__]
    assert record.levelname == "INFO"
    assert "database is locked" in record.getMessage()
    assert places_of(SourceIndex(path).restore(source)) == set(loaded.contents)


@pytest.mark.usefixtures("later")
def test_a_place_that_cannot_be_written_leaves_everything_as_without_an_index(source: Source, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    index = SourceIndex(tmp_path / "file" / "index.db", least=0)
    assert index.restore(source) is None
    index.save(load_source(source))
    assert index.state() is None


@pytest.mark.usefixtures("later")
def test_the_file_may_be_deleted_while_a_server_runs(
    source: Source, path: Path, write_skill: Callable[..., Path]
) -> None:
    index = SourceIndex(path, least=0)
    loaded = load_source(source)
    index.save(loaded)
    path.unlink()
    let_the_clock_move_on()
    write_skill(source.root, "owner/new")
    loaded = reload_source(loaded)
    index.save(loaded)
    assert places_of(SourceIndex(path).restore(source)) == set(loaded.contents)


@pytest.mark.usefixtures("later")
def test_changes_are_written_one_by_one(source: Source, path: Path, write_skill: Callable[..., Path]) -> None:
    index = SourceIndex(path, least=0)
    before = load_source(source)
    index.save(before)
    let_the_clock_move_on()
    write_skill(source.root, "owner/new")
    (source.root / "owner/nested/SKILL.md").unlink()
    (source.root / ".skills/doc.md").unlink()
    after = reload_source(before)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE written (place)")
        connection.execute(
            "CREATE TRIGGER notes AFTER INSERT ON entries BEGIN INSERT INTO written VALUES (new.place); END"
        )
        index.save(after)
        written = [place for (place,) in connection.execute("SELECT place FROM written")]
    assert sorted(written) == [".skills", "owner", "owner/nested", "owner/nested/inner", "owner/new"]
    restored = SourceIndex(path).restore(source)
    assert restored is not None
    assert text_of(restored) == text_of(after)


def test_files_that_may_change_unnoticed_are_not_kept(source: Source, path: Path) -> None:
    saved(source, path)
    assert not places_of(SourceIndex(path).restore(source))


def test_a_file_that_may_change_unnoticed_leaves_the_entries_beside_it(
    source: Source, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
        before = load_source(source)
    (source.root / "AGENTS.md").write_text("# Others\n", encoding="utf-8")
    after = reload_source(before)
    SourceIndex(path, least=0).save(after)
    assert places_of(SourceIndex(path).restore(source)) == set(after.contents) - {"AGENTS.md"}
    # Folders that were written just now are listed again by the next start.
    assert replace(restarted(source, path), tree=after.tree) == after


@pytest.mark.usefixtures("later")
def test_a_small_source_makes_no_file(source: Source, path: Path) -> None:
    index = SourceIndex(path)
    index.save(load_source(source))
    assert not path.parent.exists()
    assert index.restore(source) is None


@pytest.mark.skipif(not POSIX, reason="a name on Windows has no bytes")
@pytest.mark.usefixtures("later")
def test_names_that_are_not_text_are_loaded_from_their_files(source: Source, path: Path) -> None:
    folder = os.fsencode(source.root) + b"/bad-\xff"
    os.mkdir(folder)  # noqa: PTH102 - not a text
    with open(folder + b"/SKILL.md", "wb") as file:  # noqa: PTH123 - not a text
        file.write(b"---\nname: bad\ndescription: d\n---\n")
    loaded = saved(source, path)
    assert places_of(SourceIndex(path).restore(source)) >= {"owner/full", "owner/nested"}
    assert len(loaded.contents) > len(places_of(SourceIndex(path).restore(source)))
    assert text_of(restarted(source, path)) == text_of(loaded)


_WRITER = """
import sys, time
from pathlib import Path
now = time.time_ns
time.time_ns = lambda: now() + 3_600_000_000_000
from skills_core import Source
from skills_core.disk.sources import SkillKind
from skills_core.loading.discovery import load_source
from skills_core.loading.index import SourceIndex
source = Source(Path(sys.argv[1]), kinds=frozenset(SkillKind))
for _ in range(15):
    SourceIndex(Path(sys.argv[2]), least=0).save(load_source(source))
"""


@pytest.mark.usefixtures("later")
def test_processes_may_share_the_file(source: Source, path: Path, write_skill: Callable[..., Path]) -> None:
    for number in range(100):
        write_skill(source.root, f"more/skill-{number}")
    expected = text_of(saved(source, path))
    command = [sys.executable, "-c", _WRITER, str(source.root), str(path)]
    writers = [subprocess.Popen(command) for _ in range(2)]
    while any(each.poll() is None for each in writers):
        assert text_of(restarted(source, path)) == expected
    assert [each.returncode for each in writers] == [0, 0]
    assert text_of(restarted(source, path)) == expected


@pytest.mark.usefixtures("later")
def test_a_library_with_an_index_reviews_and_serves_the_same(
    source: Source, path: Path, seen: Callable[[Catalog], Any]
) -> None:
    machine = Environment(os="linux", has_bin=lambda _: True)
    reviewed: list[str] = []

    class Review:
        def siblings(self, source: Source, contents: Any) -> dict[str, frozenset[str]]:
            del source, contents
            return {}

        def __call__(self, source: Source, content: Any, siblings: frozenset[str]) -> Any:
            del source, siblings
            reviewed.append(content.place)
            return replace(content, published=False)

    def opened(index: SourceIndex | None) -> Library:
        return Library([source], lambda: machine, Review(), index)

    fresh = opened(None)
    first = opened(SourceIndex(path, least=0))
    first.save_index()
    reviewed.clear()
    again = opened(SourceIndex(path, least=0))
    assert sorted(reviewed) == sorted(skill.content.place for skill in again.catalog.skills)
    assert seen(again.catalog) == seen(fresh.catalog)
    (source.root / "owner/full/SKILL.md").write_text("---\nname: full\ndescription: new\n---\n", encoding="utf-8")
    again.reload()
    again.save_index()
    assert seen(opened(SourceIndex(path)).catalog) == seen(again.catalog) == seen(opened(None).catalog)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.lists(OPERATIONS, min_size=1, max_size=4), st.sampled_from(["save", "interrupt", "wait"])),
        min_size=1,
        max_size=6,
    ),
    follow=st.booleans(),
)
def test_saving_what_changed_leaves_what_saving_all_does(
    steps: list[tuple[list[tuple[str, Any, Any]], str]],
    follow: bool,  # noqa: FBT001 - a drawn example
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
    with changing_source(follow=follow) as (disk, source, path):
        machine = Environment(os="linux", has_bin=lambda _: True)
        library = Library([source], lambda: machine, index=SourceIndex(path, least=0))
        library.save_index()

        def interrupt() -> None:
            raise InterruptedError

        for operations, then in (*steps, ([], "save")):
            for operation, where, what in operations:
                disk.apply(operation, where, what)
            library.reload(disk.reported)
            disk.reported.clear()
            if then == "interrupt":
                with suppress(InterruptedError):
                    library.save_index(interrupt)
            elif then == "save":
                library.save_index()
                whole = path.with_name("whole.db")
                whole.unlink(missing_ok=True)
                SourceIndex(whole, least=0).save(library._loaded[0])
                expected, found = (SourceIndex(each).restore(source) for each in (whole, path))
                assert (expected and text_of(expected)) == (found and text_of(found))


@pytest.mark.usefixtures("later")
def test_a_save_looks_only_at_what_changed(
    tmp_path: Path, path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = (tmp_path / "skills").resolve()
    for number in range(40):
        write_skill(root, f"owner/skill-{number}")
    machine = Environment(os="linux", has_bin=lambda _: True)
    library = Library([Source(root)], lambda: machine, index=SourceIndex(path, least=0))
    library.save_index()
    seen: list[str] = []
    differs = index_module._differs

    def noted(before: LoadedSource, loaded: LoadedSource, folder: str) -> bool:
        seen.append(folder)
        return differs(before, loaded, folder)

    monkeypatch.setattr(index_module, "_differs", noted)
    for number in (1, 2):
        write_skill(root, f"owner/skill-{number}", description="Another.")
        library.reload([root / f"owner/skill-{number}/SKILL.md"])
    library.save_index()
    assert sorted(seen) == ["", "owner", "owner/skill-1", "owner/skill-2"]
    library.save_index()
    assert len(seen) == 4


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("is_torn", [False, True])
def test_what_is_restored_in_parts_is_served_and_not_saved_before_it_is_verified(
    source: Source, path: Path, monkeypatch: pytest.MonkeyPatch, seen: Callable[[Catalog], Any], *, is_torn: bool
) -> None:
    monkeypatch.setattr(index_module, "_STEP", 2)
    machine = Environment(os="linux", has_bin=lambda _: True)
    saved(source, path)
    written = path.read_bytes()
    (source.root / "owner/full/SKILL.md").write_text("---\nname: full\ndescription: new\n---\n", encoding="utf-8")
    library = Library([source], lambda: machine, index=SourceIndex(path, least=0), later=True)
    served, parts = set[str](), 0
    while not library.is_complete:
        assert not library.load(0).removed
        library.save_index()
        now = {skill.content.place for skill in library.catalog.skills}
        assert served <= now
        served, parts = now, parts + 1
        if not library.is_complete:
            assert not path.exists() or library._loaded[0].complete or path.read_bytes() == written
            if is_torn and parts == 2:
                path.write_bytes(b"torn" * 1000)
                written = path.read_bytes()
    assert parts > 4
    assert seen(library.catalog) == seen(Library([source], lambda: machine).catalog)
    library.save_index()
    assert text_of(restarted(source, path)) == text_of(load_source(source))


@pytest.mark.usefixtures("later")
def test_what_a_restored_skill_costs_does_not_grow_with_the_source(
    tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "_STEP", 2)
    opened, work = SourceIndex._connect, 0

    def count() -> int:
        nonlocal work
        work += 1
        return 0

    def connect(self: SourceIndex) -> sqlite3.Connection:
        connection = opened(self)
        connection.set_progress_handler(count, 1)
        return connection

    monkeypatch.setattr(SourceIndex, "_connect", connect)
    costs = list[int]()
    for number in (20, 200):
        source = Source((tmp_path / str(number)).resolve())
        for each in range(number):
            write_skill(source.root, f"s-{each}")
        saved(source, path := tmp_path / f"cache-{number}" / "index.db")
        work = 0
        assert len(places_of(SourceIndex(path, least=0).restore(source))) == number
        costs.append(work)
    assert costs[1] < 20 * costs[0]


def until(pauses: int) -> Callable[[], None]:
    """Return what ends a load when it is called for the last time."""
    left = iter(range(pauses))

    def pause() -> None:
        if next(left, None) is None:
            raise InterruptedError

    return pause


@pytest.mark.usefixtures("later")
def test_a_load_that_is_ended_goes_on_at_the_next_start(
    tmp_path: Path, path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "_STAGE", 10)
    root = (tmp_path / "skills").resolve()
    for number in range(60):
        write_skill(root, f"owner/skill-{number:02}", files={"data.txt": "d"})
    machine = Environment(os="linux", has_bin=lambda _: True)
    read: list[str] = []
    read_file = Reader.read

    def noted(reader: Reader, location: Any, *rest: Any) -> Any:
        read.append(location.relative)
        return read_file(reader, location, *rest)

    monkeypatch.setattr(Reader, "read", noted)

    def started() -> Library:
        return Library([Source(root)], lambda: machine, index=SourceIndex(path, least=0), later=True)

    with pytest.raises(InterruptedError):
        started().load(pause=until(60))
    first = {*read}
    assert 40 < len(first) < 80
    kept = places_of(SourceIndex(path, least=0).restore(Source(root)))
    assert len(kept) >= 20
    # The next one is ended as well, and goes further; what it shows first is what was kept.
    second = started()
    second.load(0)
    assert {skill.content.place for skill in second.catalog.skills} == kept
    read.clear()
    with pytest.raises(InterruptedError):
        second.load(pause=until(62 + 30))
    assert not {file.rpartition("/")[0] for file in read} & kept
    assert len(places_of(SourceIndex(path, least=0).restore(Source(root)))) >= len(kept) + 20
    read.clear()
    last = started()
    last.load()
    assert 0 < len(read) < 120 - 2 * len(kept)
    assert last.catalog == Library([Source(root)], lambda: machine).catalog


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.lists(OPERATIONS, min_size=1, max_size=8), st.integers(0, 30)), min_size=1, max_size=5),
    follow=st.booleans(),
    stage=st.integers(1, 4),
)
def test_wherever_loads_are_ended_a_start_is_as_one_without_an_index(
    steps: list[tuple[list[tuple[str, Any, Any]], int]],
    follow: bool,  # noqa: FBT001 - a drawn example
    stage: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skills_core.disk.files._RACY_NS", -3_600_000_000_000)
    monkeypatch.setattr(library_module, "_STAGE", stage)
    with changing_source(follow=follow) as (disk, source, path):
        machine = Environment(os="linux", has_bin=lambda _: True)
        for operations, pauses in steps:
            let_the_clock_move_on()
            for operation, where, what in operations:
                disk.apply(operation, where, what)
            library = Library([source], lambda: machine, index=SourceIndex(path, least=0), later=True)
            with suppress(InterruptedError):
                library.load(pause=until(pauses))
            assert text_of(restarted(source, path)) == text_of(load_source(source))
        library = Library([source], lambda: machine, index=SourceIndex(path, least=0), later=True)
        library.load()
        library.save_index()
        whole = path.with_name("whole.db")
        SourceIndex(whole, least=0).save(load_source(source))
        expected, found = (SourceIndex(each).restore(source) for each in (whole, path))
        assert (expected and text_of(expected)) == (found and text_of(found))
