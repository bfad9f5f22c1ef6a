"""What a caller sees who may not see all skills: nothing says that there are others."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Environment, Library, Reason, State, UnknownSkillError, explicit_sources
from skills_core.disk.sources import SkillKind
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skills_core import Catalog, Skill


def environment() -> Environment:
    return Environment(os="linux", has_bin=lambda _: True)


def texts_in(value: Any, seen: set[int] | None = None) -> Iterator[str]:
    """Yield every text that can be reached from a value, keys of mappings included."""
    seen = set() if seen is None else seen
    if isinstance(value, (str, Path)):
        yield str(value)
        return
    if id(value) in seen or value is None:
        return
    seen.add(id(value))
    if is_dataclass(value):
        yield from chain.from_iterable(texts_in(getattr(value, each.name), seen) for each in fields(value))
    elif hasattr(value, "items"):
        yield from chain.from_iterable(texts_in(part, seen) for item in value.items() for part in item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from chain.from_iterable(texts_in(part, seen) for part in value)


def paths_of(catalog: Catalog, state: State = State.ACTIVE) -> list[str]:
    return [skill.path for skill in catalog.skills if skill.state is state]


def without(catalog: Catalog, *names: str) -> Catalog:
    return catalog.restricted(lambda skill: skill.name not in names)


def test_a_catalog_without_restriction_is_the_same_object(tmp_path: Path, write_skill: Any, load: Any) -> None:
    write_skill(tmp_path, "a")
    catalog = load(tmp_path).catalog
    assert catalog.restricted(lambda _: True) is catalog


def test_a_hidden_skill_is_as_unknown_as_one_that_does_not_exist(tmp_path: Path, write_skill: Any, load: Any) -> None:
    write_skill(tmp_path, "plain")
    write_skill(tmp_path, "zebra-secret", files={"data.txt": "D"})
    catalog = without(load(tmp_path).catalog, "zebra-secret")
    for name in ("zebra-secret", "zebra-secrets", "skill://zebra-secret/SKILL.md"):
        with pytest.raises(UnknownSkillError) as caught:
            catalog.skill(name)
        assert caught.value.similar == ()
        assert str(caught.value) == f"There is no active skill {name!r}."
    assert catalog.file("skill://zebra-secret/data.txt") is None
    assert catalog.directory("skill://zebra-secret") is None
    assert (catalog.offer("zebra-secret"), catalog.at("zebra-secret")) == (None, None)
    assert "zebra" not in "".join(texts_in(catalog))


def test_a_hidden_skill_that_is_not_active_has_no_reason_to_tell(tmp_path: Path, write_skill: Any, load: Any) -> None:
    write_skill(tmp_path, "plain")
    write_skill(tmp_path, "gated", fields="when:\n  os: windows")
    catalog = load(tmp_path).catalog
    with pytest.raises(UnknownSkillError, match="excluded"):
        catalog.skill("gated")
    with pytest.raises(UnknownSkillError) as caught:
        without(catalog, "gated").skill("gated")
    assert "excluded" not in str(caught.value)


def test_what_a_hidden_skill_shadows_is_hidden_as_well(tmp_path: Path, write_skill: Any, load: Any) -> None:
    write_skill(tmp_path / "high", "x/refunds")
    write_skill(tmp_path / "high", "y/refunds")
    write_skill(tmp_path / "low", "refunds", description="The one that is shadowed.")
    catalog = load(tmp_path / "high", tmp_path / "low").catalog
    assert paths_of(catalog, State.SHADOWED) == ["refunds"]
    seen = catalog.restricted(lambda skill: skill.path != "x/refunds")
    assert [skill.path for skill in seen.skills] == ["y/refunds"]


def test_a_shared_name_is_not_told_where_the_other_skill_is_hidden(tmp_path: Path, write_skill: Any, load: Any) -> None:
    for place in ("x", "y", "z"):
        write_skill(tmp_path, f"{place}/refunds")
    catalog = load(tmp_path).catalog
    two = catalog.restricted(lambda skill: skill.path != "x/refunds")
    assert all(skill.notes[0].code is Reason.DUPLICATE_NAME for skill in two.active)
    (one,) = two.restricted(lambda skill: skill.path != "y/refunds").active
    # Its name is its own; settings and records name it as ever.
    assert (one.key, one.notes, one.settings_key) == ("refunds", (), "z/refunds")
    assert two.restricted(lambda _: True) is two


@pytest.mark.parametrize("hidden", ["base", "middle"])
def test_what_requires_a_hidden_skill_is_hidden_as_well(
    hidden: str, tmp_path: Path, write_skill: Any, load: Any
) -> None:
    write_skill(tmp_path, "base")
    write_skill(tmp_path, "middle", fields="requires: [base]")
    write_skill(tmp_path, "top", fields="requires: [middle]")
    write_skill(tmp_path, "alone", fields="requires: [nothing-of-the-kind]")
    seen = without(load(tmp_path).catalog, hidden)
    assert "top" not in {skill.name for skill in seen.skills}
    (alone,) = (skill for skill in seen.skills if skill.name == "alone")
    assert "does not exist" in alone.detail


def test_a_reason_that_names_a_hidden_requirement_is_hidden_with_its_skill(
    tmp_path: Path, write_skill: Any, load: Any
) -> None:
    write_skill(tmp_path, "base", fields="when:\n  os: windows")
    write_skill(tmp_path, "top", fields="requires: [base]")
    write_skill(tmp_path, "ring-a", fields="requires: [ring-b]")
    write_skill(tmp_path, "ring-b", fields="requires: [ring-a]")
    seen = without(load(tmp_path).catalog, "base", "ring-a")
    assert seen.skills == ()


def test_a_requirement_that_another_skill_of_the_name_meets_is_met(tmp_path: Path, write_skill: Any, load: Any) -> None:
    write_skill(tmp_path, "x/base")
    write_skill(tmp_path, "y/base")
    write_skill(tmp_path, "top", fields="requires: [base]")
    catalog = load(tmp_path).catalog
    assert "top" in paths_of(catalog.restricted(lambda skill: skill.path != "x/base"))


def test_the_files_of_a_hidden_skill_are_no_files_of_the_one_around_it(
    tmp_path: Path, write_skill: Any, load: Any
) -> None:
    write_skill(tmp_path, "outer", files={"own.txt": "O"})
    write_skill(tmp_path, "outer/sub/inner", files={"deep/data.txt": "D"})
    catalog = load(tmp_path).catalog
    assert "sub/inner/deep/data.txt" in catalog.skill("outer").content.files
    seen = without(catalog, "inner")
    assert sorted(seen.skill("outer").content.files) == ["SKILL.md", "own.txt"]
    assert seen.skill("outer").content.folders == set()
    assert seen.file("skill://outer/sub/inner/deep/data.txt") is None
    assert seen.file("skill://outer/own.txt") is not None
    assert seen.directory("skill://outer/sub") is None


def test_a_folder_is_hidden_that_holds_nothing_but_hidden_skills(tmp_path: Path, write_skill: Any, load: Any) -> None:
    outer = write_skill(tmp_path, "outer", files={"mixed/own.txt": "O"})
    write_skill(tmp_path, "outer/shut/deep/inner")
    write_skill(tmp_path, "outer/mixed/other")
    (outer / "empty").mkdir()
    (outer / "half" / "empty").mkdir(parents=True)
    write_skill(tmp_path, "outer/half/third")
    seen = without(load(tmp_path).catalog, "inner", "other", "third")
    assert seen.skill("outer").content.folders == {"mixed", "empty", "half", "half/empty"}


def test_a_link_into_a_hidden_skill_is_no_file(tmp_path: Path, write_skill: Any, load: Any) -> None:
    outer = write_skill(tmp_path, "outer")
    write_skill(tmp_path, "outer/inner", files={"data.txt": "D"})
    with suppress(OSError, NotImplementedError):
        (outer / "alias.txt").symlink_to(outer / "inner" / "data.txt")
    seen = without(load(tmp_path).catalog, "inner")
    assert sorted(seen.skill("outer").content.files) == ["SKILL.md"]


def test_what_lies_in_the_folder_of_a_hidden_skill_is_hidden_as_well(
    tmp_path: Path, write_skill: Any, load: Any
) -> None:
    write_skill(tmp_path, "outer")
    write_skill(tmp_path, "outer/inner")
    assert without(load(tmp_path).catalog, "outer").skills == ()


def test_diagnostics_of_a_skill_around_a_hidden_one_say_nothing_of_it(
    tmp_path: Path, write_skill: Any, load: Any
) -> None:
    write_skill(tmp_path, "outer")
    inner = write_skill(tmp_path, "outer/inner")
    with suppress(OSError, NotImplementedError):
        (inner / "zebra.txt").symlink_to("/nowhere")
    assert "zebra" not in "".join(texts_in(without(load(tmp_path).catalog, "inner")))


def test_sources_count_what_is_seen_and_problems_go_with_the_first_hidden_skill(
    tmp_path: Path, write_skill: Any
) -> None:
    for place in ("open", "mixed", "shut", "empty"):
        (tmp_path / place).mkdir()
    write_skill(tmp_path / "open", "a")
    write_skill(tmp_path / "mixed", "b")
    write_skill(tmp_path / "mixed", "hidden-c")
    write_skill(tmp_path / "shut", "hidden-d")
    sources = explicit_sources([tmp_path / each for each in ("open", "mixed", "shut", "empty")])
    catalog = Library(sources, environment).catalog
    seen = catalog.restricted(lambda skill: not skill.name.startswith("hidden"))
    found = {each.source.root.name: each.skills for each in seen.sources}
    assert found == {"open": 1, "mixed": 1, "empty": 0}
    assert seen.problems == ()


NAMES = ("a", "b", "c", "d")
TREES = st.dictionaries(
    st.tuples(st.sampled_from(["high", "low"]), st.sampled_from([*NAMES, *(f"{x}/{y}" for x in NAMES for y in NAMES)])),
    st.tuples(st.sets(st.sampled_from(NAMES), max_size=2), st.booleans(), st.booleans()),
    max_size=9,
)
CHOICES = st.sets(st.tuples(st.sampled_from(["high", "low"]), st.sampled_from(NAMES)))


def chosen(choice: set[tuple[str, str]]) -> Callable[[Skill], bool]:
    return lambda skill: (skill.source.root.name, skill.name) not in choice


def loaded(root: Path, tree: Mapping[tuple[str, str], Any], write_skill: Any) -> Catalog:
    """Write and load skills; each has a marker in its body, description and file, so that traces can be found."""
    return library_of(root, tree, write_skill).catalog


def library_of(root: Path, tree: Mapping[tuple[str, str], Any], write_skill: Any) -> Library:
    """Return the library of the skills that `loaded` writes."""
    for source in ("high", "low"):
        (root / source).mkdir(parents=True)
    for (source, place), (requires, is_gated, has_folder_name) in tree.items():
        marker = f"marker-{source}-{place.replace('/', '-')}-end"
        lines = [f"requires: [{', '.join(sorted(requires - {place[-1]}))}]"] if requires - {place[-1]} else []
        lines += ["when:\n  os: windows"] if is_gated else []
        name = None if has_folder_name else place[-1]
        write_skill(
            root / source, place, name=name, description=marker, fields="\n".join(lines), files={f"{marker}.txt": "x"}
        )
    return Library(explicit_sources([root / "high", root / "low"]), environment)


EDITS = (
    *(f"---\nname: {name}\ndescription: Edited.\n---\nBody" for name in NAMES),
    "---\nname: a\ndescription: Edited.\nrequires: [b]\n---\nBody",
    "---\nname: b\ndescription: Edited.\nwhen:\n  os: windows\n---\nBody",
    "---\nbroken",
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(tree=TREES, one=CHOICES, other=CHOICES)
def test_restricting_leaves_no_trace_and_restricting_twice_is_restricting_by_both(
    tree: dict[tuple[str, str], Any], one: set[tuple[str, str]], other: set[tuple[str, str]], write_skill: Any
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        catalog = loaded(root, tree, write_skill)
        twice = catalog.restricted(chosen(one)).restricted(chosen(other))
        both = catalog.restricted(chosen(one | other))
        assert twice == both
        assert (both.offered, both.conditional) == (twice.offered, twice.conditional)
        assert_no_trace(catalog, both)
        assert_alike(both, loaded(root / "rest", {key: tree[key] for key in places_in(both)}, write_skill))
        assert all(chosen(one | other)(skill) for skill in both.skills)
    finally:
        shutil.rmtree(root)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(tree=TREES.filter(bool), choice=CHOICES, texts=st.lists(st.sampled_from(EDITS), max_size=4), data=st.data())
def test_what_is_known_to_be_shown_after_edits_is_what_is_shown_of_the_new_catalog(
    tree: dict[tuple[str, str], Any],
    choice: set[tuple[str, str]],
    texts: list[str],
    data: st.DataObject,
    write_skill: Any,
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        library, admits = library_of(root, tree, write_skill), chosen(choice)
        shown = library.catalog.restricted(admits)
        for text in texts:
            before = library.catalog
            source, place = data.draw(st.sampled_from(sorted(tree)))
            (root / source / place / "SKILL.md").write_text(text)
            library.reload([root / source / place / "SKILL.md"])
            found, known = library.catalog.restricted(admits), library.catalog.restricted_after(before, shown, admits)
            shown = known or found
            assert shown == found
            for name in ("offered", "conditional", "requiring", "keyed", "_by_key", "_by_path", "_keys_of", "_keys"):
                assert getattr(shown, name) == getattr(found, name)
    finally:
        shutil.rmtree(root)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    tree=TREES.filter(bool),
    choice=CHOICES,
    steps=st.lists(st.tuples(st.sampled_from([None, *EDITS]), st.integers(0, 9)), min_size=1, max_size=4),
)
def test_what_is_admitted_after_changes_is_what_is_admitted_of_the_new_catalog(
    tree: dict[tuple[str, str], Any],
    choice: set[tuple[str, str]],
    steps: list[tuple[str | None, int]],
    write_skill: Any,
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        library, admits = library_of(root, tree, write_skill), chosen(choice)
        known = library.catalog.admitted(admits)
        places = [*sorted(tree), ("high", "new"), ("low", "a/new")]
        for text, number in steps:
            source, place = places[number % len(places)]
            folder = root / source / place
            if text is None:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "SKILL.md").write_text(text)
            library.reload([folder / "SKILL.md" if text else folder])
            known = library.catalog.admitted(admits, known)
            assert known == library.catalog.admitted(admits)
            assert library.catalog.restricted(admits, known) == library.catalog.restricted(admits)
    finally:
        shutil.rmtree(root)


def test_only_what_changed_is_asked_for_after_a_change(tmp_path: Path, write_skill: Any, load: Any) -> None:
    for name in "abcde":
        write_skill(tmp_path, name)
    library, asked = load(tmp_path), list[str]()

    def admits(skill: Skill) -> bool:
        asked.append(skill.name)
        return skill.name != "b"

    known = library.catalog.admitted(admits)
    asked.clear()
    write_skill(tmp_path, "new")
    library.reload([tmp_path / "new"])
    known = library.catalog.admitted(admits, known)
    assert asked == ["new"]
    assert [skill.name for skill in known.skills] == ["a", "c", "d", "e", "new"]


def test_what_is_shown_after_an_edit_is_known_and_after_other_changes_is_not(
    tmp_path: Path, write_skill: Any, load: Any
) -> None:
    write_skill(tmp_path, "open")
    write_skill(tmp_path, "hidden")
    library = load(tmp_path)

    def admits(skill: Skill) -> bool:
        return skill.name != "hidden"

    shown = library.catalog.restricted(admits)

    def known_after(*changed: str) -> Catalog | None:
        before = library.catalog
        library.reload([tmp_path / name for name in changed])
        found: Catalog | None = library.catalog.restricted_after(before, shown, admits)
        return found

    write_skill(tmp_path, "hidden", description="Another one.")
    assert known_after("hidden/SKILL.md") is shown
    write_skill(tmp_path, "open", description="Another one.")
    known = known_after("open/SKILL.md")
    assert known is not None
    assert [skill.description for skill in known.skills] == ["Another one."]
    shown = known
    write_skill(tmp_path, "new")
    assert known_after("new") is None
    shown = library.catalog.restricted(admits)
    shutil.rmtree(tmp_path / "hidden")
    assert known_after("hidden") is None


def test_a_link_to_a_hidden_skill_that_an_edit_adds_is_not_shown(tmp_path: Path, write_skill: Any) -> None:
    write_skill(tmp_path, "open")
    write_skill(tmp_path, "hidden", files={"secret.txt": "x"})
    library = Library(explicit_sources([tmp_path], follow_symlinks=True), environment)

    def admits(skill: Skill) -> bool:
        return skill.name != "hidden"

    before, shown = library.catalog, library.catalog.restricted(admits)
    (tmp_path / "open" / "note.txt").symlink_to("../hidden/secret.txt")
    library.reload([tmp_path / "open" / "note.txt"])
    assert "note.txt" in library.catalog.skill("open").content.files
    assert library.catalog.restricted_after(before, shown, admits) is None
    assert "note.txt" not in library.catalog.restricted(admits).skill("open").content.files


def places_in(catalog: Catalog) -> list[tuple[str, str]]:
    return [(skill.source.root.name, skill.content.place) for skill in catalog.skills]


def assert_alike(seen: Catalog, rest: Catalog) -> None:
    """Check that a catalog is what another one is of a disk that has nothing else."""
    for one, other in zip(seen.skills, rest.skills, strict=True):
        assert (one.key, one.path, one.state, one.reason) == (other.key, other.path, other.state, other.reason)
        assert [(note.code, note.message) for note in one.notes] == [(note.code, note.message) for note in other.notes]


def assert_no_trace(catalog: Catalog, seen: Catalog) -> None:
    left = {skill.description for skill in seen.skills}
    gone = {skill.description for skill in catalog.skills} - left
    everything = "\n".join(texts_in(seen))
    assert not [marker for marker in gone if marker in everything]
    for skill in catalog.skills:
        if skill.description in gone and skill.state is State.ACTIVE:
            assert seen.file(skill.uri) is None
            # Its path may be the name of a skill that is left.
            assert (named := seen.get(skill.path)) is None or named.description in left
    # Each skill that is left stands as it stood, and settings name it as ever.
    known = {(skill.source.root, skill.content.place): skill for skill in catalog.skills}
    for skill in seen.skills:
        same = known[skill.source.root, skill.content.place]
        assert (skill.settings_key, skill.state, skill.reason, skill.detail) == (
            same.key,
            same.state,
            same.reason,
            same.detail,
        )
        assert seen.shown(same) is (skill if skill.state is State.ACTIVE else None)
    served, active = {skill.name for skill in catalog.active}, {skill.name for skill in seen.active}
    assert all(active.issuperset(served.intersection(skill.frontmatter.requires)) for skill in seen.active)
    there = [f"{skill.source.root}/{skill.content.place}" for skill in seen.skills]
    shadowed = [skill for skill in seen.skills if skill.state is State.SHADOWED]
    assert all(skill.detail.removeprefix("shadowed by ") in there for skill in shadowed)
    assert sum(found.skills for found in seen.sources) == len(seen.skills)
    assert all(skill.content.kind is SkillKind.FOLDER for skill in seen.skills)
