"""The log of what changed in the skills that a view offers: merged, bounded, and without catalogs."""

from __future__ import annotations

import gc
import shutil
import weakref
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.hosting import changes as offer_changes
from server.hosting.changes import OfferChanges, OfferNews
from skills_core import Library, explicit_sources
from skills_core.rendering.catalog import render_entry
from skills_core.skills.gates import Environment
from tests.conftest import write_skill
from tests.server.hosting.two_views import WORDS, host_of, write_skills
from tests.thoroughness import examples

RED, BLUE = frozenset({"red"}), frozenset({"blue"})


class Shelf:
    """A folder of skills with the log of its changes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.library = Library(explicit_sources([root]), lambda: Environment(os="linux", has_bin=lambda _: True))
        self.log = OfferChanges()

    def reload(self) -> None:
        self.log.record(self.library.reload())

    def since(self, number: int = 0) -> tuple[list[str], list[str], list[str]] | None:
        news = self.log.since(number, self.library.catalog)
        return None if news is None else keys_of(news)


def keys_of(news: OfferNews) -> tuple[list[str], list[str], list[str]]:
    return [each.key for each in news.added], [each.key for each in news.changed], [*news.removed]


@pytest.fixture
def shelf(skills: Path) -> Shelf:
    for name in ("a", "b", "c"):
        write_skill(skills, name)
    return Shelf(skills)


def test_new_changed_and_removed_skills_are_told_apart(shelf: Shelf) -> None:
    write_skill(shelf.root, "d")
    write_skill(shelf.root, "a", "Does other things.")
    shutil.rmtree(shelf.root / "b")
    shelf.reload()
    assert shelf.since() == (["d"], ["a"], ["b"])
    assert shelf.since(shelf.log.last) == ([], [], [])


def test_what_cancels_out_is_no_news(shelf: Shelf) -> None:
    write_skill(shelf.root, "d")
    write_skill(shelf.root, "a", "Does other things.")
    shutil.rmtree(shelf.root / "b")
    shelf.reload()
    seen = shelf.log.last
    shutil.rmtree(shelf.root / "d")
    write_skill(shelf.root, "a")
    write_skill(shelf.root, "b")
    shelf.reload()
    assert shelf.since() == ([], [], [])
    assert shelf.since(seen) == (["b"], ["a"], ["d"])


@pytest.mark.parametrize("fields", ["license: MIT", "metadata: {x: y}"])
def test_what_the_list_does_not_show_is_no_news(shelf: Shelf, fields: str) -> None:
    write_skill(shelf.root, "a", body="Another body.", fields=fields, files={"new.md": b"new"})
    shelf.reload()
    assert shelf.since() == ([], [], [])


def test_triggers_are_part_of_what_the_list_shows(shelf: Shelf) -> None:
    write_skill(shelf.root, "a", fields="triggers: [beta]")
    shelf.reload()
    assert shelf.since() == ([], ["a"], [])


def test_a_skill_that_models_may_no_longer_use_is_removed(shelf: Shelf) -> None:
    write_skill(shelf.root, "a", fields="disable-model-invocation: true")
    write_skill(shelf.root, "b", "''")
    shelf.reload()
    assert shelf.since() == ([], [], ["a", "b"])


def test_a_name_that_became_ambiguous_is_gone_and_the_paths_are_new(shelf: Shelf) -> None:
    write_skill(shelf.root / "one", "x")
    shelf.reload()
    seen = shelf.log.last
    write_skill(shelf.root / "two", "x")
    shelf.reload()
    assert shelf.since(seen) == (["one/x", "two/x"], [], ["x"])


def test_a_skill_in_another_folder_with_the_same_name_and_text_is_no_news(shelf: Shelf) -> None:
    (shelf.root / "one").mkdir()
    (shelf.root / "a").rename(shelf.root / "one" / "a")
    shelf.reload()
    assert shelf.since() == ([], [], [])


def test_the_log_forgets_the_oldest_changes_and_says_so(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer_changes, "MAX_CHANGES", 3)
    for number in range(4):
        write_skill(shelf.root, "a", f"Does thing {number}.")
        shelf.reload()
    assert shelf.since(0) is None
    assert shelf.since(1) == ([], ["a"], [])


def test_a_change_of_more_than_the_log_remembers_is_told_as_such(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer_changes, "MAX_CHANGES", 3)
    for number in range(4):
        write_skill(shelf.root, f"n{number}")
    shelf.reload()
    assert shelf.since(0) is None
    assert shelf.since(shelf.log.last) == ([], [], [])
    write_skill(shelf.root, "later")
    shelf.reload()
    assert shelf.since(shelf.log.last - 1) == (["later"], [], [])


def test_the_log_keeps_no_catalog_and_no_skill(shelf: Shelf) -> None:
    former = weakref.ref(shelf.library.catalog)
    write_skill(shelf.root, "a", "Does other things.")
    shelf.reload()
    gc.collect()
    assert former() is None


STEPS = st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), max_size=3), min_size=1, max_size=6)


@given(steps=STEPS, start=st.integers(0, 6))
@settings(max_examples=examples(40))
def test_news_are_the_difference_between_two_states(
    steps: list[list[tuple[str, int]]], start: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shelf = Shelf(tmp_path_factory.mktemp("skills"))
    states: list[tuple[dict[str, str], int]] = [({}, 0)]
    for step in steps:
        for name, state in step:
            shutil.rmtree(shelf.root / name, ignore_errors=True)
            if state:
                write_skill(shelf.root, name, f"Does thing {state}.")
        shelf.reload()
        states.append(({skill.key: render_entry(skill) for skill in shelf.library.catalog.offered}, shelf.log.last))
    (before, number), (after, _) = states[min(start, len(states) - 1)], states[-1]
    assert shelf.since(number) == (
        sorted(after.keys() - before.keys()),
        sorted(key for key in after.keys() & before.keys() if after[key] != before[key]),
        sorted(before.keys() - after.keys()),
    )


def test_each_view_has_news_of_its_own_skills_alone(tmp_path: Path) -> None:
    high, low = write_skills(tmp_path)
    host = host_of((high, low))
    before = {view: host.view_called(view).changes.last for view in (RED, BLUE)}
    write_skill(high / "red", "quokka-new")
    write_skill(high / "common", "everyone")
    host.library.reload()
    told = {}
    for view in (RED, BLUE):
        shown = host.view_called(view)
        news = shown.changes.since(before[view], shown.catalog)
        assert news is not None
        told[view] = keys_of(news)
    assert told == {RED: (["everyone", "quokka-new"], [], []), BLUE: (["everyone"], [], [])}


def test_what_only_others_see_does_not_move_the_numbers_of_a_view(tmp_path: Path) -> None:
    high, low = write_skills(tmp_path)
    host = host_of((high, low))
    last = host.view_called(BLUE).changes.last
    for number in range(3):
        write_skill(high / "red", f"{WORDS['red']}-{number}")
        host.library.reload()
        assert host.view_called(BLUE).changes.last == last
