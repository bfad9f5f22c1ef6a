"""Rules of roles: what the skills of a role are, and how roles add up."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.access import LOCAL, Principal, PrincipalKind, Roles
from server.config.machine import current_environment
from server.config.settings.access import AccessSettings
from server.config.values import InvalidValueError
from skills_core import Library, Skill, explicit_sources
from tests.conftest import write_skill


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Skill]:
    folder = tmp_path_factory.mktemp("skills")
    write_skill(folder / "public", "pdf-forms", "Fills forms.", fields="tags: [Office]")
    write_skill(folder / "public", "pdf", "Reads.")
    write_skill(folder / "ops", "deploy", "Deploys.", fields="tags: [ops]")
    (folder / "ops" / "broken").mkdir()
    (folder / "ops" / "broken" / "SKILL.md").write_text("---\nname: broken\ntags: [ops\n---\n", encoding="utf-8")
    sources = explicit_sources([folder / "public", folder / "ops"])
    return {skill.content.place: skill for skill in Library(sources, current_environment).catalog.skills}


def seen(skills: dict[str, Skill], choices: dict[str, list[str]], held: frozenset[str]) -> set[str]:
    roles = Roles(choices)
    held = roles.of(Principal("anna", PrincipalKind.TOKEN, held))
    return {name for name, skill in skills.items() if roles.show(held, skill)}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("pdf", {"pdf"}),
        ("pdf*", {"pdf", "pdf-forms"}),
        ("*-forms", {"pdf-forms"}),
        ("p*f*s", {"pdf-forms"}),
        ("PDF", set()),
        ("p.f", set()),
        ("*", {"pdf", "pdf-forms", "deploy", "broken"}),
        ("tag:office", {"pdf-forms"}),
        ("tag:ops", {"deploy"}),
        ("tag:*", set()),
        ("source:explicit", {"pdf", "pdf-forms", "deploy", "broken"}),
        ("source:public", set()),
        ("nothing", set()),
    ],
)
def test_a_choice_selects(skills: dict[str, Skill], choice: str, expected: set[str]) -> None:
    assert seen(skills, {"reader": [choice]}, frozenset({"reader"})) == expected


def test_a_source_is_chosen_by_its_path(skills: dict[str, Skill]) -> None:
    root: Path = skills["deploy"].source.root
    assert seen(skills, {"ops": [f"source:{root}"]}, frozenset({"ops"})) == {"deploy", "broken"}
    assert seen(skills, {"ops": [f"source:{root.parent}"]}, frozenset({"ops"})) == set()


CHOICES = {"a": ["pdf"], "b": ["tag:ops"], "c": ["pdf*", "deploy"], "d": []}
HELD = st.frozensets(st.sampled_from([*CHOICES, "unknown", ""]))


@given(one=HELD, other=HELD)
def test_roles_add_up(skills: dict[str, Skill], one: frozenset[str], other: frozenset[str]) -> None:
    both = seen(skills, CHOICES, one | other)
    assert both == seen(skills, CHOICES, one) | seen(skills, CHOICES, other)


def test_without_a_role_nothing_is_seen(skills: dict[str, Skill]) -> None:
    assert seen(skills, CHOICES, frozenset()) == set()
    assert seen(skills, CHOICES, frozenset({"unknown", "admin"})) == set()


def test_unknown_roles_make_no_view_of_their_own() -> None:
    roles = Roles({"reader": ["*"], "common": ["pdf"]}, ["common"])
    held = roles.of(Principal("anna", PrincipalKind.JWT, frozenset({"reader", "x", "y"})))
    assert held == {"reader", "common"}
    assert roles.of(LOCAL) == {"common"}


@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", max_size=8))
def test_asterisks_stand_for_any_characters(choice: str, name: str) -> None:
    skill: Any = SimpleNamespace(content=SimpleNamespace(name=name), source=None)
    assert Roles({"reader": [choice]}).show(frozenset({"reader"}), skill) == fnmatchcase(name, choice)


def test_a_default_role_must_be_one_of_the_roles() -> None:
    with pytest.raises(InvalidValueError) as fault:
        AccessSettings(roles={"reader": ("*",)}, default_roles=("raeder",))
    assert fault.value.path == ("default_roles", "0")
    assert "which has: reader" in fault.value.message


TOOLS = {"operator": ["*_skills", "skills_status"], "author": ["deploy__*"], "guest": []}


@pytest.mark.parametrize(
    ("held", "tool", "expected"),
    [
        ({"operator"}, "reload_skills", True),
        ({"operator"}, "skills_status", True),
        ({"operator"}, "run_skill", False),
        ({"operator", "author"}, "deploy__check", True),
        ({"author"}, "Deploy__check", False),
        ({"guest"}, "reload_skills", False),
        ({"unknown"}, "reload_skills", False),
        (set(), "reload_skills", False),
    ],
)
def test_roles_allow_tools(held: set[str], tool: str, *, expected: bool) -> None:
    assert Roles({}, (), TOOLS).allow(frozenset(held), tool) is expected


def test_without_a_table_of_tools_all_are_allowed_and_without_one_of_skills_all_are_seen(
    skills: dict[str, Skill],
) -> None:
    assert Roles({"reader": ["pdf"]}).allow(frozenset(), "reload_skills")
    assert all(Roles({}, (), TOOLS).show(frozenset(), skill) for skill in skills.values())
    assert Roles({}, (), TOOLS).of(Principal("anna", PrincipalKind.JWT, frozenset({"guest", "x"}))) == {"guest"}


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        ({"tools": {"reader": ("reload_skill",)}}, ("tools", "reader", "0"), "'reload_skill': expected SKILL__TOOL"),
        ({"tools": {"reader": ("activate_skill",)}}, ("tools", "reader", "0"), "run_skill"),
        ({"roles": {"a": ("*",)}, "tools": {"b": ()}}, ("tools", "b"), "'b': expected a role of 'roles', which has: a"),
        ({"tools": {"b": ()}, "default_roles": ("a",)}, ("default_roles", "0"), "of 'tools', which has: b"),
        ({"roles": {"a": ("*",)}, "profiles": {"p": ("b",)}}, ("profiles", "p", "0"), "which has: a"),
        ({"profiles": {"p": ("b",)}}, ("profiles", "p", "0"), "which has: none"),
    ],
)
def test_settings_name_no_tool_and_no_role_that_there_cannot_be(
    given: dict[str, Any], path: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidValueError) as fault:
        AccessSettings(**given)
    assert fault.value.path == path
    assert message in fault.value.message
