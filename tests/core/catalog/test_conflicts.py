"""The names by which an active skill is found: its key, its path, its name and its `skillKey`.

No `skillKey` takes what belongs to the skill that has it as its name, even while that one is not served.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core import (
    AmbiguousSkillError,
    ByName,
    Catalog,
    ContextCoordinator,
    Environment,
    Library,
    Reason,
    State,
    UnknownSkillError,
    activation_of,
    match_skill_call,
)
from skills_core.disk.sources import Source
from skills_core.skills.gates import SkillEntry
from tests.thoroughness import examples


def states(catalog: Catalog) -> list[tuple[str, State, Reason | None]]:
    return [(skill.source.root.name, skill.state, skill.reason) for skill in catalog.skills]


def test_a_skill_of_higher_precedence_shadows_the_same_name(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for source in ("high", "middle", "low"):
        write_skill(tmp_path / source, "a", description=source)
    catalog = load(tmp_path / "high", tmp_path / "middle", tmp_path / "low").catalog
    assert catalog.skill("a").description == "high"
    assert sorted(states(catalog)) == [
        ("high", State.ACTIVE, None),
        ("low", State.SHADOWED, Reason.SHADOWED),
        ("middle", State.SHADOWED, Reason.SHADOWED),
    ]


def test_a_skill_of_higher_precedence_shadows_the_same_name_even_when_gated_out(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path / "high", "a", fields="when:\n  os: windows")
    write_skill(tmp_path / "low", "a")
    environment = Environment(os="linux", has_bin=lambda _: True)
    catalog = load(tmp_path / "high", tmp_path / "low", environment=environment).catalog
    assert catalog.active == ()
    assert sorted(states(catalog)) == [
        ("high", State.EXCLUDED, Reason.OS_MISMATCH),
        ("low", State.SHADOWED, Reason.SHADOWED),
    ]


def test_what_is_of_one_skill_alone_is_kept_once(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for folder in ("alone", "one/twin", "two/twin"):
        write_skill(tmp_path, folder)
    settlement = load(tmp_path).catalog.settlement
    assert settlement.wanted["alone"] is settlement.holders["alone"]
    assert [*map(len, (settlement.holders["twin"], settlement.wanted["one/twin"]))] == [2, 1]


@pytest.mark.parametrize("taken", [["explicit-2"], ["explicit-2", "explicit-2-2"]])
def test_a_free_path_is_found_whichever_names_are_taken(
    taken: list[str], tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for folder in (*taken, "a"):
        write_skill(tmp_path / "one", folder)
    write_skill(tmp_path / "two", "a/b")
    skill = load(tmp_path / "one", tmp_path / "two").catalog.skill("b")
    assert skill.path.rpartition("/")[2] == "b"


def test_an_invalid_skill_shadows_nothing(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path / "high", "a", description="''")
    write_skill(tmp_path / "low", "a")
    assert sorted(states(load(tmp_path / "high", tmp_path / "low").catalog)) == [
        ("high", State.INVALID, Reason.MISSING_DESCRIPTION),
        ("low", State.ACTIVE, None),
    ]


def test_the_detail_of_a_shadowed_skill_names_the_winner(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path / "high", "x/y", name="a")
    write_skill(tmp_path / "low", "a")
    catalog = load(tmp_path / "high", tmp_path / "low").catalog
    (shadowed,) = [skill for skill in catalog.skills if skill.state is State.SHADOWED]
    assert str((tmp_path / "high" / "x" / "y").resolve()) in shadowed.detail


def test_names_are_case_sensitive(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path / "high", "a", name="Name")
    write_skill(tmp_path / "low", "b", name="name")
    assert [skill.key for skill in load(tmp_path / "high", tmp_path / "low").catalog.active] == ["Name", "name"]


PLACED: list[tuple[str, list[dict[str, str]], dict[str, str]]] = [
    # What it shows; the folders of each source with their names; the key of each active skill with its path.
    ("a folder named as the skill", [{"a": "a"}], {"a": "a"}),
    ("a folder below another", [{"x/a": "a"}], {"a": "x/a"}),
    ("a folder named otherwise", [{"owner--repo--a": "a"}], {"a": "a"}),
    ("a folder named otherwise, below another", [{"x/y": "a"}], {"a": "x/a"}),
    ("a name twice in one source", [{"x/a": "a", "y/a": "a"}], {"x/a": "x/a", "y/a": "y/a"}),
    ("a folder that bears the name wins the path", [{"0": "a", "a": "a"}], {"a": "a", "0/a": "0/a"}),
    ("two folders named otherwise", [{"p": "a", "q": "a"}], {"a": "a", "q/a": "q/a"}),
    ("a root that is a skill", [{"": "a"}], {"a": "a"}),
    ("a skill below a root that is one", [{"": "a", "b": "b"}], {"a": "a", "b": "a/b"}),
    ("a nested skill", [{"a": "a", "a/b": "b"}], {"a": "a", "b": "a/b"}),
    ("a skill nested in one that is mapped", [{"x": "a", "x/b": "b"}], {"a": "a", "b": "a/b"}),
    ("a skill nested deeper in one that is mapped", [{"x": "a", "x/y/z": "b"}], {"a": "a", "b": "a/y/b"}),
    ("a nested skill of the same name", [{"a": "a", "a/a": "a"}], {"a": "a", "a/a": "a/a"}),
    ("a name that is no segment", [{"x": "a/b"}], {"a/b": "x"}),
    ("a name that leads upwards", [{"x": "..", "y": "."}], {"..": "x", ".": "y"}),
    ("different names in two sources", [{"a": "a"}, {"b": "b"}], {"a": "a", "b": "b"}),
]


@pytest.mark.parametrize(("sources", "placed"), [case[1:] for case in PLACED], ids=[case[0] for case in PLACED])
def test_skills_get_their_paths(
    sources: list[dict[str, str]],
    placed: dict[str, str],
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    for number, folders in enumerate(sources):
        for folder, name in folders.items():
            write_skill(tmp_path / str(number), folder, name=f"'{name}'")
    catalog = load(*(tmp_path / str(number) for number in range(len(sources)))).catalog
    assert {skill.key: skill.path for skill in catalog.active} == placed


@pytest.mark.parametrize(
    "sources",
    [
        [{"x/a": "a", "x/b": "b"}, {"x": "x"}],
        [{"x": "x"}, {"x/a": "a"}],
        [{"a": "b"}, {"b": "c", "b/d": "d"}],
        [{"a": "a"}, {"b": "b", "b/a": "c"}],
    ],
)
def test_no_skill_has_a_path_below_a_skill_of_another_source(
    sources: list[dict[str, str]], tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for number, folders in enumerate(sources):
        for folder, name in folders.items():
            write_skill(tmp_path / str(number), folder, name=name)
    active = load(*(tmp_path / str(number) for number in range(len(sources)))).catalog.active
    for one in active:
        for other in active:
            assert one.source == other.source or not one.path.startswith(f"{other.path}/")


def test_both_skills_of_a_duplicate_name_in_one_source_have_a_diagnostic(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "x/refunds")
    write_skill(tmp_path, "y/refunds")
    catalog = load(tmp_path).catalog
    assert [[found.code for found in skill.diagnostics] for skill in catalog.active] == [[Reason.DUPLICATE_NAME]] * 2
    assert [skill.name for skill in catalog.active] == ["refunds", "refunds"]


def test_a_duplicate_name_in_a_higher_source_shadows_all_in_lower_ones(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for folder in ("high/x/a", "high/y/a", "low/a", "low/z/a"):
        write_skill(tmp_path, folder)
    catalog = load(tmp_path / "high", tmp_path / "low").catalog
    assert [skill.key for skill in catalog.active] == ["x/a", "y/a"]
    assert sum(skill.state is State.SHADOWED for skill in catalog.skills) == 2


@settings(max_examples=examples(80), deadline=None)
@given(
    sources=st.lists(
        st.dictionaries(
            st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map("/".join),
            st.sampled_from(["a", "b", "c", "d"]),
            max_size=5,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_every_active_skill_is_found_by_its_own_path_and_key(
    sources: list[dict[str, str]], write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    with tempfile.TemporaryDirectory() as space:
        roots = [Path(space).resolve() / f"r{number}" for number in range(len(sources))]
        for root, folders in zip(roots, sources, strict=True):
            root.mkdir()
            for folder, name in folders.items():
                write_skill(root, folder, name=f"'{name}'")
        catalog = load(*roots).catalog
    active = catalog.active
    assert len({skill.path for skill in active}) == len({skill.key for skill in active}) == len(active)
    for skill in active:
        assert catalog.skill(skill.key) is skill
        assert catalog.skill(skill.path) is skill
        assert catalog.skill(skill.uri) is skill
        assert skill.path.rpartition("/")[2] == skill.name


LETTERS = st.sampled_from(["a", "b", "c"])
FOLDERS = st.lists(LETTERS, max_size=3).map("/".join)


@settings(max_examples=examples(60), deadline=None)
@given(names=st.dictionaries(FOLDERS, LETTERS, max_size=4), data=st.lists(FOLDERS, max_size=3))
def test_every_uri_of_a_catalog_names_one_file(
    names: dict[str, str], data: list[str], write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    with tempfile.TemporaryDirectory() as space:
        root = Path(space).resolve() / "root"
        root.mkdir()
        for folder, name in names.items():
            write_skill(root, folder, name=name)
        for folder in data:
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / "data").write_text(folder, encoding="utf-8")
        catalog = load(root).catalog
    for skill in catalog.active:
        for path, file in skill.content.files.items():
            found = catalog.file(skill.file_uri(path))
            assert found is not None
            assert found[1].digest == file.digest


KEYED = "metadata: {jdai: {skillKey: stable-key}}"


class Tools:
    def resolve(self, name: str) -> object | None:
        """Return a tool for any name."""
        return name


@pytest.fixture
def keyed(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Catalog:
    """A catalog with a skill that has a stable key, and two of one name."""
    write_skill(tmp_path, "review-v2", fields=KEYED)
    write_skill(tmp_path / "a", "architect", description="Plan a house")
    write_skill(tmp_path / "b", "architect", description="Plan a system\u202e")
    return load(tmp_path).catalog


def test_a_stable_key_names_a_skill_wherever_a_name_is_taken(keyed: Catalog) -> None:
    skill = keyed.skill("review-v2")
    assert keyed.skill("stable-key") is keyed.get("stable-key") is keyed.offer("stable-key") is skill
    call = match_skill_call("@stable-key now", keyed)
    assert call is not None
    assert call.skill is skill
    assert activation_of(call) == activation_of(match_skill_call("/review-v2 now", keyed) or call)
    found = ContextCoordinator(keyed.skills, Tools()).resolve([ByName("stable-key")])
    assert found.context is not None
    assert found.context.skill is skill


def test_a_stable_key_never_takes_the_name_of_another_skill(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "thief", fields="metadata: {jdai: {skillKey: victim}}")
    write_skill(tmp_path, "victim")
    assert load(tmp_path).catalog.skill("victim").name == "victim"


def test_a_key_of_two_skills_names_neither(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "one", fields=KEYED)
    write_skill(tmp_path, "two", fields=KEYED)
    catalog = load(tmp_path).catalog
    assert catalog.get("stable-key") is None
    assert ContextCoordinator(catalog.skills, Tools()).build_context_by_name("stable-key") is None
    with pytest.raises(AmbiguousSkillError) as caught:
        catalog.skill("stable-key")
    assert set(caught.value.choices) == {"one", "two"}


def test_a_bare_name_of_two_skills_is_answered_with_their_full_names(keyed: Catalog) -> None:
    with pytest.raises(AmbiguousSkillError) as caught:
        keyed.skill("architect")
    assert str(caught.value) == (
        "2 skills are named 'architect'. Use the full name of the one that you mean:\n"
        "- a/architect: Plan a house\n"
        "- b/architect: Plan a system\\u202e"
    )


def test_a_bare_name_of_two_skills_reveals_only_those_that_are_suggested(keyed: Catalog) -> None:
    one = keyed.skill("a/architect")
    with pytest.raises(UnknownSkillError) as caught:
        keyed.skill("architect", [one])
    assert str(caught.value) == "There is no active skill 'architect'. Did you mean 'a/architect'?"
    with pytest.raises(UnknownSkillError, match=r"^There is no active skill 'architect'\.$"):
        keyed.skill("architect", [])


def test_an_error_lists_ten_of_a_hundred_skills_with_a_name(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for number in range(12):
        write_skill(tmp_path / f"p{number:02}", "twin", description="x" * 900)
    with pytest.raises(AmbiguousSkillError) as caught:
        load(tmp_path).catalog.skill("twin")
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (12, "- and 2 more")
    assert max(map(len, lines)) < 250


def test_a_replaced_skill_is_found_by_its_new_stable_key(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    main = write_skill(tmp_path, "one", fields=KEYED) / "SKILL.md"
    library = load(tmp_path)
    main.write_text(main.read_text().replace("stable-key", "other-key"))
    library.reload([main])
    assert library.catalog.get("stable-key") is None
    assert library.catalog.skill("other-key").name == "one"
    main.write_text(f"{main.read_text()}\nMore.\n")
    library.reload([main])
    assert library.catalog.skill("other-key").body.endswith("More.")


def test_the_error_for_an_inactive_skill_gives_the_reason_by_either_name(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "off", fields=f"{KEYED}\nwhen: {{os: windows}}")
    catalog = load(tmp_path).catalog
    for name in ("off", "stable-key"):
        with pytest.raises(UnknownSkillError, match=f"no active skill '{name}': it is excluded"):
            catalog.skill(name)


@pytest.fixture
def catalog_of(tmp_path: Path, write_skill: Callable[..., Path]) -> Callable[..., Catalog]:
    """Load `deploy` of a source, and of a later one `thief`, whose key is `deploy`."""

    def load(condition: str = "{os: windows}", key: str = "deploy", **settings: object) -> Catalog:
        write_skill(tmp_path / "first", "deploy", fields=f"when: {condition}")
        write_skill(tmp_path / "first", "user", fields="requires: [deploy]")
        fields = f"metadata: {{jdai: {{skillKey: {key}, primaryEnv: TOKEN}}}}"
        write_skill(tmp_path / "second", "thief", fields=fields)
        environment = Environment(os="linux", has_bin=lambda _: False, **settings)  # type: ignore[arg-type]
        sources = [Source(tmp_path / "first"), Source(tmp_path / "second")]
        return Library(sources, lambda: environment).catalog

    return load


def test_a_key_finds_no_skill_while_that_of_this_name_is_excluded(catalog_of: Callable[..., Catalog]) -> None:
    with pytest.raises(UnknownSkillError, match="excluded"):
        catalog_of().skill("deploy")


def test_a_key_meets_no_requirement_of_the_name(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of()
    (user,) = (skill for skill in catalog.skills if skill.name == "user")
    assert (user.state, user.reason) == (State.EXCLUDED, Reason.UNMET_REQUIREMENT)
    assert catalog.provider("deploy") is None


def test_a_key_is_not_enabled_as_the_name(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of("{os: linux}", enabled=("deploy",))
    assert [skill.name for skill in catalog.active] == ["deploy"]


@pytest.mark.parametrize("key", ["deploy", "Deploy"])
def test_a_key_gets_no_credential_of_the_name(catalog_of: Callable[..., Catalog], key: str) -> None:
    catalog = catalog_of(key=key, entries={"deploy": SkillEntry(has_credential=True)})
    thief = catalog.skill("thief")
    assert thief.skill_key == "thief"
    assert thief.credential is not None
    assert not thief.credential.is_set


@pytest.mark.parametrize("settings", [{"disabled": ("deploy",)}, {"entries": {"deploy": SkillEntry(enabled=False)}}])
def test_a_key_is_disabled_with_the_name(catalog_of: Callable[..., Catalog], settings: dict[str, object]) -> None:
    assert not [skill for skill in catalog_of(**settings).active if skill.name in {"deploy", "thief"}]


def test_a_caller_who_does_not_see_the_skill_of_the_name_finds_that_of_the_key(
    catalog_of: Callable[..., Catalog],
) -> None:
    view = catalog_of().restricted(lambda skill: skill.name != "deploy")
    assert view.skill("deploy").name == "thief"


def test_a_key_takes_no_uri(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of("{os: linux}", key="skill://deploy/SKILL.md")
    assert catalog.skill("skill://deploy/SKILL.md").name == "deploy"
