"""Bodies of skills: in memory as far as they fit, else read from the file that was loaded, and from no other."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Library, Skill
from skills_core.disk.files import Fingerprint
from skills_core.disk.sources import SkillKind, Strictness
from skills_core.errors import FileUnavailableError, SkillChangedError
from skills_core.format.instructions import Instructions, parse_convention, parse_instructions
from skills_core.loading import loader
from skills_core.selection.ranking import SkillSearch
from skills_core.skills import bodies, skill
from skills_core.skills.bodies import Bodies
from tests.core.test_system_faults import Faults

LoadOne = Callable[..., Skill]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Bodies:
    """Let the process keep no bodies at all."""
    none = Bodies(0)
    monkeypatch.setattr(skill, "BODIES", none)
    monkeypatch.setattr(loader, "BODIES", none)
    return none


def on_disk(loaded: Skill) -> Path:
    assert loaded.content.main is not None
    return loaded.location(loaded.content.main).path


@pytest.fixture
def one(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Callable[[], Library]:
    write_skill(tmp_path, "one", body="Do {{this}}.")
    return lambda: load(tmp_path)


def test_a_body_in_memory_is_used_without_the_disk(one: Callable[[], Library]) -> None:
    library = one()
    found = library.catalog.skill("one")
    on_disk(found).unlink()
    assert found.body == "Do {{this}}."


@pytest.mark.usefixtures("small")
def test_another_body_is_read_when_it_is_used(one: Callable[[], Library]) -> None:
    found = one().catalog.skill("one")
    assert found.content.kept_body is None
    assert (found.body, found.body_length, found.parameters) == ("Do {{this}}.", 12, ("this",))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("how", ["edited", "gone", "a folder", "a link"])
def test_a_file_that_is_not_the_one_that_was_loaded_has_no_body(
    how: str, one: Callable[[], Library], tmp_path: Path
) -> None:
    library = one()
    found = library.catalog.skill("one")
    path = on_disk(found)
    raw = path.read_bytes()
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how == "a link":
        (tmp_path / "other").write_bytes(raw)
        path.symlink_to(tmp_path / "other")
    elif how != "gone":
        path.write_bytes(raw.replace(b"Do", b"Un"))
    with pytest.raises(SkillChangedError) as caught:
        _ = found.body
    assert caught.value.paths == (path,)
    library.reload(caught.value.paths)
    assert [each.body for each in library.catalog.active] == (["Un {{this}}."] if how == "edited" else [])


@pytest.mark.usefixtures("small")
def test_other_bytes_with_the_same_metadata_are_refused(one: Callable[[], Library]) -> None:
    content = one().catalog.skill("one").content
    assert content.main is not None
    path = content.root / "one" / "SKILL.md"
    path.write_bytes(path.read_bytes().replace(b"Do", b"Un"))
    seen = replace(content.main, fingerprint=Fingerprint.of(path.stat()))
    with pytest.raises(SkillChangedError):
        _ = replace(content, files=skill.SkillFiles.of([seen])).body


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_a_file_that_cannot_be_read_now_is_neither_changed_nor_gone(number: int, one: Callable[[], Library]) -> None:
    found = one().catalog.skill("one")
    with Faults(number).striking(), pytest.raises(FileUnavailableError):
        _ = found.body
    assert found.body == "Do {{this}}."


@pytest.mark.usefixtures("small")
def test_a_body_that_cannot_be_read_is_empty_for_what_is_derived_beside_requests(one: Callable[[], Library]) -> None:
    library = one()
    found = library.catalog.skill("one")
    on_disk(found).write_text("---\nname: one\ndescription: Does a thing.\n---\nUndo it.\n")
    assert found.content.readable_body == ""
    search = SkillSearch()
    search.select(library.catalog.offered, "undo")
    library.reload()
    assert [match.skill.name for match in search.select(library.catalog.offered, "undo")] == ["one"]


@pytest.mark.usefixtures("small")
def test_a_search_forgets_what_a_skill_said_before(one: Callable[[], Library]) -> None:
    library = one()
    search = SkillSearch()
    assert search.select(library.catalog.offered, "do this")
    on_disk(library.catalog.skill("one")).write_text("---\nname: one\ndescription: Does a thing.\n---\nUndo it.\n")
    library.reload()
    found = search.select(library.catalog.offered, "undo")
    assert [(match.skill.name, match.skill.body) for match in found] == [("one", "Undo it.")]
    assert not search.select(library.catalog.offered, "this")


@pytest.mark.usefixtures("small")
def test_contents_are_equal_by_their_digests(one: Callable[[], Library]) -> None:
    library = one()
    before = library.catalog.skill("one")
    path = on_disk(before)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"Do", b"Un"))
    assert library.reload([path]).updated
    assert library.catalog.skill("one").content != before.content
    path.write_bytes(raw)
    assert library.reload([path]).updated
    assert library.catalog.skill("one").content == before.content


def test_a_text_that_does_not_fit_takes_the_place_of_the_one_used_longest_ago() -> None:
    texts = {(bytes([number]), 0): str(number) * 1000 for number in range(4)}
    first, second, third, fourth = texts
    kept = Bodies(3 * 1500)
    for key in (first, second, third):
        kept.keep(key, texts[key])
    assert kept.find(first) == texts[first]
    kept.keep(fourth, texts[fourth])
    assert [kept.find(key) for key in texts] == [texts[first], None, texts[third], texts[fourth]]


@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=300)), max_size=40), st.integers(0, 3000))
def test_texts_that_are_kept_are_those_that_were_given_and_never_more_than_fit(
    steps: list[tuple[int, str]], budget: int
) -> None:
    kept, given_last = Bodies(budget), dict[bodies.BodyKey, str]()
    for number, text in steps:
        key = bytes([number]), number
        # Equal keys mean equal texts.
        given_last.setdefault(key, text)
        kept.keep(key, given_last[key])
    found = {key: kept_text for key in given_last if (kept_text := kept.find(key)) is not None}
    assert found.items() <= given_last.items()
    assert sum(map(len, found.values())) <= budget


FRONT = "---\nname: a\ndescription: d\n---\n"


@pytest.mark.usefixtures("small")
@given(
    text=st.text(st.sampled_from("ab \n\r\t-{}$:\ufeff😀\x0b\x85\u2028"), max_size=80),
    front=st.sampled_from(["", FRONT, "\ufeff" + FRONT, FRONT.replace("\n", "\r\n")]),
    kind=st.sampled_from([SkillKind.FOLDER, SkillKind.CONVENTION]),
)
def test_the_body_that_is_read_is_the_one_that_was_parsed(text: str, front: str, kind: SkillKind) -> None:
    raw = (front + text).encode("utf-8", "replace")
    name = "SKILL.md" if kind is SkillKind.FOLDER else "AGENTS.md"
    if kind is SkillKind.FOLDER:
        parsed = parse_instructions(raw, "a", name, Strictness.LENIENT)
    else:
        parsed = parse_convention(raw, name, name)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / name).write_bytes(raw)
        fingerprint = Fingerprint.of((root / name).stat())
        main = skill.SkillFile(name, len(raw), sha256(raw).digest(), True, fingerprint, True)
        content = skill.SkillContent("", parsed.head, skill.SkillFiles.of([main]), name, root=root)
        assert content.body == parsed.body
    whole = replace(content, instructions=parsed)
    assert isinstance(whole.instructions, Instructions)
    assert whole.body == parsed.body
