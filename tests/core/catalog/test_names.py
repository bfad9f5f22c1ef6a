"""The names by which an active skill is found: its key, its path, its name and its `skillKey`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skills_core import (
    AmbiguousSkillError,
    ByName,
    ContextCoordinator,
    UnknownSkillError,
    activation_of,
    match_skill_call,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skills_core import Catalog, Library

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
