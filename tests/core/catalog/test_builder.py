"""An update of the catalog decides as a full build does, and costs less where it can."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skills_core import Environment, Library, Reason, SkillEntry, Source, State
from skills_core.catalog import builder as catalog_builder
from tests.temporary import TEMPORARY
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog, Skill

PLACES = ["high/a", "high/b", "high/a/b", "low/a"]
NAMES = [None, None, None, "a", "c"]

FIELDS = [
    "",
    "requires: [a]",
    "requires: [b]",
    "requires: [absent]",
    "when: {requires: {bins: [git]}}",
    "when: {requires: {env: [TOKEN]}}",
    "when: {os: windows}",
    "metadata: {jdai: {primaryEnv: TOKEN, skillKey: key}}",
    "metadata: {jdai: {always: true}}",
    "disable-model-invocation: true",
    "tags: [draft]",
    "danger_patterns: ['(']",
]

ENVIRONMENT = Environment(os="linux", has_bin=lambda _: True)

CHANGES: dict[str, list[Any]] = {
    "os": ["linux", "windows"],
    "has_bin": [lambda _: True, lambda _: False],
    "variables": [{}, {"TOKEN": "x"}],
    "enabled": [(), ("a", "source:explicit")],
    "disabled": [(), ("b",), ("tag:draft",), ("key",)],
    "entries": [{}, {"key": SkillEntry(has_credential=True)}, {"a": SkillEntry(enabled=False)}],
    "trusts": [lambda _: True, lambda _: False],
}

EDITS = st.tuples(st.sampled_from(PLACES), st.sampled_from(NAMES), st.sampled_from(FIELDS), st.sampled_from("xy"))
SETTINGS = st.sampled_from([*CHANGES]).flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(CHANGES[name])))


def _has_another_name(name: str, skill: Skill) -> bool:
    return skill.name != name


def decided(catalog: Catalog, seen: Callable[[Catalog], Any]) -> Any:
    """Return what users see of a catalog, the order of its lists, and the whole outcome of conflicts over names."""
    lists = (catalog.skills, catalog.active, catalog.offered, catalog.conditional)
    names = {name for skill in catalog.skills for name in (skill.path, *skill.content.names, *skill.path.split("/"))}
    return (
        seen(catalog),
        [[(str(skill.source.root), skill.path) for skill in skills] for skills in lists],
        {name: found.key for name in names if (found := catalog.get(name))},
        {name: list(folder.children) for name in names if (folder := catalog.directory(f"skill://{name}"))},
        [repr(catalog.restricted(partial(_has_another_name, name))) for name in sorted(names)],
        catalog.settlement,
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    start=st.lists(EDITS, min_size=2, max_size=6),
    steps=st.lists(st.one_of(EDITS, EDITS, SETTINGS), min_size=4, max_size=12),
)
def test_an_update_decides_as_a_full_build_does(
    start: list[tuple[str, str | None, str, str]],
    steps: list[tuple[Any, ...]],
    write_skill: Callable[..., Path],
    seen: Callable[[Catalog], Any],
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        root = Path(space).resolve()
        sources = [Source(root / "high", optional=True, project=root), Source(root / "low", optional=True)]
        here = [ENVIRONMENT]

        def write(place: str, name: str | None, fields: str, body: str) -> Path:
            return write_skill(root, place, name=name, fields=fields, body=body)

        for edit in start:
            write(*edit)
        library = Library(sources, lambda: here[0])
        for step in steps:
            if len(step) == len(("name", "value")):
                here[0] = replace(here[0], **{step[0]: step[1]})
                library.reload([])
            else:
                library.reload([write(*step)])
            full = Library(sources, lambda: here[0]).catalog
            assert decided(library.catalog, seen) == decided(full, seen)


WIDE = [*PLACES, "high", "high/c", "high/c/d/e", "high/x/c", "high/x/key", "high/y/x", "low/b", "low/x/a", "low/x/a/c"]

COMINGS = st.tuples(
    st.sampled_from(WIDE),
    st.sampled_from([*NAMES, None, "x", "d", "KEY"]),
    st.sampled_from(FIELDS),
    st.sampled_from("xy"),
)
BURSTS = st.lists(st.one_of(COMINGS, COMINGS, st.sampled_from(WIDE)), min_size=1, max_size=3)


@settings(max_examples=examples(80), deadline=None)
@example(
    # Two skills have the name that one of them requires: which one is to blame depends on their places alone.
    bursts=[
        [("high/a", None, "", "x"), ("high/a/b", None, "", "x")],
        [("high/b", None, "requires: [a]", "x")],
        ["high/a", ("high/a/b", None, "requires: [b]", "x")],
    ]
)
@given(bursts=st.lists(BURSTS, min_size=4, max_size=14))
def test_skills_that_come_and_go_are_decided_as_by_a_full_build(
    bursts: list[list[Any]], write_skill: Callable[..., Path], seen: Callable[[Catalog], Any]
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        root = Path(space).resolve()
        sources = [Source(root / "high", optional=True), Source(root / "low", optional=True)]
        library = Library(sources, lambda: ENVIRONMENT)
        for burst in bursts:
            changed: list[Path] = []
            for each in burst:
                if isinstance(each, str):
                    (root / each / "SKILL.md").unlink(missing_ok=True)
                    changed.append(root / each / "SKILL.md")
                else:
                    place, name, fields, body = each
                    folder = write_skill(root, place, name=name, fields=fields, body=body)
                    changed += [folder, folder / "SKILL.md"]
            library.reload(changed)
            full = Library(sources, lambda: ENVIRONMENT).catalog
            assert decided(library.catalog, seen) == decided(full, seen)


def test_skills_that_concern_no_others_come_and_go_without_a_full_build(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("a", "twins/1/twin", "twins/2/twin"):
        write_skill(tmp_path, place)
    write_skill(tmp_path, "gated", fields="when: {os: windows}")
    write_skill(tmp_path, "needs", fields="requires: [a]")
    library = load(tmp_path)
    monkeypatch.delattr(catalog_builder, "build_catalog")
    new = [write_skill(tmp_path, place).resolve() for place in ("b", "team/c", "twins/3/twin", "other-folder")]
    write_skill(tmp_path, "other-folder", name="named")
    assert len(library.reload(new).added) == 4
    assert {"b", "c", "named", "twins/3/twin"} <= {skill.key for skill in library.catalog.active}
    (tmp_path / "b" / "SKILL.md").write_text("---\nname: d\ndescription: Is renamed.\n---\nBody")
    assert library.reload([new[0] / "SKILL.md"]).updated
    for folder in new:
        shutil.rmtree(folder)
    assert len(library.reload(new).removed) == 4


KEYED = "metadata: {jdai: {skillKey: x}}"


@pytest.mark.parametrize("others", [{}, {"apart": ""}, {"gated": "when: {os: windows}"}, {"needs": "requires: [x]"}])
@pytest.mark.parametrize(
    "places",
    [
        {"x": "x", "a/x": "x"},  # each one alone has the name as its key
        {"x": "x", "a/x": "x", "b/x": "x"},
        {"x": "x", "y": "x"},  # the folder decides which one has the path
        {"x": "x", "x/y": "y", "x/z/y": "y"},
        {"x": "x", "": "y"},
        {"a/x": "x", "a": "y", "y/x": "x"},
        {"x": "x", "keyed": "keyed", "keyed-too": "keyed-too"},  # a `skillKey` counts unless it is a name
        {"X": "X", "keyed": "keyed"},
        {"a\tb/x": "x", "x": "x"},
        {"a/b": "x/y", "x/y": "y"},
    ],
)
def test_each_skill_that_comes_or_goes_is_decided_as_by_a_full_build(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    seen: Callable[[Catalog], Any],
    places: dict[str, str],
    others: dict[str, str],
) -> None:
    root = tmp_path.resolve()
    for name, fields in others.items():
        write_skill(root, name, fields=fields)
    library = load(tmp_path)
    folders = {
        write_skill(root, place, name=name, fields=KEYED if name.startswith("keyed") else ""): name
        for place, name in places.items()
    }
    library.reload([*folders])
    for folder in folders:
        text = (folder / "SKILL.md").read_text()
        for is_there in (False, True):
            if is_there:
                (folder / "SKILL.md").write_text(text)
            else:
                (folder / "SKILL.md").unlink()
            library.reload([folder / "SKILL.md"])
            assert decided(library.catalog, seen) == decided(load(tmp_path).catalog, seen)


@pytest.mark.parametrize(
    ("fields", "state", "reason"),
    [
        ("", State.ACTIVE, None),
        ("when: {requires: {bins: [git]}}", State.ACTIVE, None),
        ("when: {os: windows}", State.EXCLUDED, Reason.OS_MISMATCH),
        ("requires: [other]", State.ACTIVE, None),
        ("requires: [absent]", State.EXCLUDED, Reason.UNMET_REQUIREMENT),
        ("danger_patterns: ['(']", State.INVALID, Reason.INVALID_PATTERN),
    ],
)
def test_an_edit_of_a_text_is_decided_without_a_full_build(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    monkeypatch: pytest.MonkeyPatch,
    fields: str,
    state: State,
    reason: Reason | None,
) -> None:
    write_skill(tmp_path, "other", fields="when: {requires: {bins: [git]}}")
    path = write_skill(tmp_path, "one", fields=fields).resolve() / "SKILL.md"
    library = load(tmp_path)
    monkeypatch.delattr(catalog_builder, "build_catalog")
    write_skill(tmp_path, "one", fields=fields, body="Edited.")
    ((_, skill),) = library.reload([path]).updated
    assert (skill.state, skill.reason) == (state, reason)


def test_a_nested_skill_moves_when_a_file_takes_the_path_that_it_was_given(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], seen: Callable[[Catalog], Any]
) -> None:
    write_skill(tmp_path, "", name="a")
    write_skill(tmp_path, "b", name="a")
    library = load(tmp_path)
    assert {skill.path for skill in library.catalog.active} == {"a", "a/a"}
    (tmp_path / "a").write_text("data", encoding="utf-8")
    library.reload([tmp_path.resolve() / "a"])
    assert decided(library.catalog, seen) == decided(load(tmp_path).catalog, seen)
