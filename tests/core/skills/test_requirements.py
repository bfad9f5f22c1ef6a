from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Environment, Exclusion, Reason, State, render_activation
from skills_core.skills.gates import Requiring, unmet_requirements

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skills_core import Library, Skill

UNMET, CIRCULAR = Reason.UNMET_REQUIREMENT, Reason.CIRCULAR_REQUIREMENT

CASES: dict[str, tuple[dict[str, list[str]], dict[str, tuple[Reason, str]]]] = {
    "nothing": ({"a": []}, {}),
    "what is there": ({"a": ["b"], "b": []}, {}),
    "a diamond": ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, {}),
    "what is missing": ({"a": ["x"]}, {"a": (UNMET, "requires x, which does not exist")}),
    "what is excluded": ({"a": ["off"]}, {"a": (UNMET, "requires off, which is excluded (no git)")}),
    "a chain to what is missing": (
        {"a": ["b"], "b": ["c"], "c": ["x"]},
        {
            "a": (UNMET, "requires b → c → x, which does not exist"),
            "b": (UNMET, "requires c → x, which does not exist"),
            "c": (UNMET, "requires x, which does not exist"),
        },
    ),
    "itself": ({"a": ["a"]}, {"a": (CIRCULAR, "requires itself: a → a")}),
    "a circle": (
        {"a": ["b"], "b": ["a"]},
        {"a": (CIRCULAR, "requires itself: a → b → a"), "b": (CIRCULAR, "requires itself: b → a → b")},
    ),
    "what is in a circle": (
        {"a": ["b"], "b": ["c"], "c": ["b"], "d": []},
        {
            "a": (UNMET, "requires b → c, which is part of a circular requirement"),
            "b": (CIRCULAR, "requires itself: b → c → b"),
            "c": (CIRCULAR, "requires itself: c → b → c"),
        },
    ),
    "what a circle requires": (
        {"a": ["b", "c"], "b": ["a"], "c": []},
        {"a": (CIRCULAR, "requires itself: a → b → a"), "b": (CIRCULAR, "requires itself: b → a → b")},
    ),
}


@pytest.mark.parametrize(("requires", "expected"), CASES.values(), ids=CASES)
def test_the_requirements_of_a_skill_decide_its_state(
    requires: dict[str, list[str]], expected: dict[str, tuple[Reason, str]]
) -> None:
    found = unmet(requires, {"off": "is excluded (no git)"})
    assert {name: (exclusion.reason, exclusion.detail) for name, exclusion in found.items()} == expected


def unmet(requires: dict[str, list[str]], unserved: dict[str, str]) -> dict[str, Exclusion]:
    """Return the exclusions of skills of which each has a name of its own."""
    served = [Requiring((name,), tuple(needed)) for name, needed in requires.items()]
    return {served[number].names[0]: each for number, each in unmet_requirements(served, unserved).items()}


NAMES = st.sampled_from("abcdefg")


def reaches(requires: dict[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(requires.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += requires.get(name, ())
    return seen


@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=3)))
def test_a_skill_is_served_if_all_its_requirements_are_served_and_none_is_circular(
    requires: dict[str, list[str]],
) -> None:
    bad = {
        name
        for name in requires
        if any(each not in requires or each in reaches(requires, each) for each in {name} | reaches(requires, name))
    }
    assert unmet(requires, {}).keys() == bad


SKILLS = st.lists(
    st.builds(
        Requiring,
        st.lists(NAMES, min_size=1, max_size=2).map(tuple),
        st.lists(NAMES, max_size=3).map(tuple),
    ),
    max_size=8,
)


@given(SKILLS)
def test_of_several_skills_with_a_name_one_that_is_served_is_enough(skills: list[Requiring]) -> None:
    served: set[int] = set()
    for _ in skills:
        names = {name for number in served for name in skills[number].names}
        served = {number for number, skill in enumerate(skills) if names.issuperset(skill.requires)}
    assert unmet_requirements(skills, {}).keys() == set(range(len(skills))) - served


def test_a_chain_that_is_cut_says_nothing_of_its_end() -> None:
    requires = {f"s{number}": [f"s{number + 1}"] for number in range(20)}
    assert unmet(requires, {})["s0"].detail.endswith("→ s10, which is not served either")
    assert unmet(requires, {})["s15"].detail.endswith("→ s20, which does not exist")


def test_each_of_two_skills_with_a_name_has_its_own_requirements(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path / "one", "twin", fields="requires: [absent]")
    write_skill(tmp_path / "two", "twin")
    write_skill(tmp_path, "user", fields="requires: [twin]")
    states = {skill.key: (skill.state, skill.reason) for skill in load(tmp_path).catalog.skills}
    assert states == {
        "one/twin": (State.EXCLUDED, UNMET),
        "two/twin": (State.ACTIVE, None),
        "user": (State.ACTIVE, None),
    }


def test_a_skill_may_be_required_by_its_stable_key(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "user", fields="requires: [reviews]")
    other = write_skill(tmp_path, "code-review", fields="metadata: {jdai: {skillKey: reviews}}")
    library = load(tmp_path)
    assert [skill.key for skill in library.catalog.active] == ["code-review", "user"]
    (other / "SKILL.md").write_text((other / "SKILL.md").read_text().replace("skillKey: reviews", "skillKey: other"))
    library.reload([other / "SKILL.md"])
    assert [skill.key for skill in library.catalog.active] == ["code-review"]


def test_a_chain_of_ten_thousand_skills_is_decided_with_short_details() -> None:
    requires = {f"s{number}": [f"s{number + 1}"] for number in range(10_000)}
    found = unmet(requires, {})
    assert len(found) == 10_000
    assert all(len(exclusion.detail) < 200 for exclusion in found.values())


def test_a_skill_is_served_while_its_requirements_are(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", fields="requires: [b]")
    write_skill(tmp_path, "b", fields="when: {requires: {env: [KEY]}}")
    variables: dict[str, str] = {}
    library = load(tmp_path, environment=Environment("linux", lambda _: True, variables))
    states = {skill.key: (skill.state, skill.reason) for skill in library.catalog.skills}
    assert states == {"a": (State.EXCLUDED, UNMET), "b": (State.EXCLUDED, Reason.MISSING_ENV)}
    variables["KEY"] = "x"
    library.reload([])
    assert [skill.key for skill in library.catalog.active] == ["a", "b"]


def test_activation_names_what_a_skill_requires(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", fields="requires: [b]")
    write_skill(tmp_path, "b")
    catalog = load(tmp_path).catalog
    assert "builds on others; activate them too if you have not: b." in render_activation(catalog.skill("a"))
    assert "builds on others" not in render_activation(catalog.skill("b"))


def test_activation_lists_references_first(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    files = {"a.md": "", "refs/b.json": "", "z.md": ""}
    write_skill(tmp_path, "a", fields="references: [./z.md, refs/b.json]", files=files)
    skill = only(load(tmp_path))
    listed = [line for line in render_activation(skill).splitlines() if line.startswith("<file>")]
    assert listed == [f"<file>{path}</file>" for path in ("z.md", "refs/b.json", "a.md")]
    assert skill.diagnostics == ()


@pytest.mark.parametrize("reference", ["absent.md", "../b/SKILL.md", "/etc/passwd", "docs/absent.md"])
def test_a_reference_to_a_missing_file_has_a_diagnostic(
    reference: str,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    write_skill(tmp_path, "a", fields=f"references: [docs, {reference}]", files={"docs/x.md": ""})
    skill = only(load(tmp_path))
    assert (skill.state, [each.code for each in skill.diagnostics]) == (State.ACTIVE, [Reason.MISSING_REFERENCE])
