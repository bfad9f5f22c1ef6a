"""An edit keeps the texts of a catalog that they were not made of, and only then."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.config.settings.model import Settings
from server.listing import catalog_texts
from server.listing.layout import ListingLayout
from server.listing.snapshot import Snapshot
from skills_core import Library, explicit_sources
from skills_core.selection.twins import Twins
from skills_core.skills.gates import Environment
from tests.conftest import write_skill
from tests.thoroughness import examples

LAYOUT = ListingLayout(700)
NAMES = [f"s{number:02}" for number in range(60)]
FIELDS = ["", "disable-model-invocation: true", "always: true", "triggers: [word]", "user-invocable: false"]
EDITS = st.tuples(st.sampled_from(NAMES), st.sampled_from(["Does it.", "Does that too."]), st.sampled_from(FIELDS))
GROUP = st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True)


@pytest.fixture(scope="module", autouse=True)
def few_topics() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog_texts, "MAX_SKILLS", 3)
        patch.setattr(catalog_texts, "_MAX_NAMED", 4)
        yield


def library_of(root: Path) -> Library:
    for name in NAMES:
        write_skill(root, name)
    return Library(explicit_sources([root]), lambda: Environment(os="linux", has_bin=lambda _: True))


def successor(before: Snapshot, library: Library) -> Snapshot:
    change = library.reload()
    after = Snapshot(change.after, before.settings, {NAMES[-1]: 1}, twins=before.twins)
    after.keep_texts(before, change)
    return after


@given(st.lists(st.lists(EDITS, min_size=1, max_size=3), max_size=4), GROUP)
@settings(max_examples=examples(60), deadline=None)
def test_texts_are_those_that_would_be_made_anew(rounds: list[list[tuple[str, str, str]]], alike: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(Path(folder))
        by_name = {skill.name: skill for skill in library.catalog.skills}
        twins = Twins([[by_name[name] for name in alike]])
        snapshot = Snapshot(library.catalog, Settings(), {NAMES[-1]: 1}, twins=twins)
        for edits in rounds:
            snapshot.texts(LAYOUT)
            for name, description, fields in edits:
                write_skill(Path(folder), name, description, fields=fields)
            snapshot = successor(snapshot, library)
            assert snapshot.texts(LAYOUT)._replace(read=0) == snapshot.apart().texts(LAYOUT)._replace(read=0)


@pytest.mark.parametrize(("name", "is_kept"), [(NAMES[0], False), (NAMES[-2], True), (NAMES[-1], False)])
def test_an_edit_of_a_skill_that_is_not_shown_keeps_them(tmp_path: Path, name: str, *, is_kept: bool) -> None:
    library = library_of(tmp_path)
    before = Snapshot(library.catalog, Settings(), {NAMES[-1]: 1})
    texts = before.texts(LAYOUT)
    assert 0 < texts.hidden < len(NAMES)
    write_skill(tmp_path, name, "Does that too.")
    assert (successor(before, library).texts(LAYOUT) is texts) is is_kept
