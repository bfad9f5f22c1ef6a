"""Rules of principals, roles and profiles: who asks, what the skills of a role are, and how roles add up."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.access import LOCAL, Principal, PrincipalKind, ProfileFault, Profiles, Roles, principal_of
from server.config.machine import current_environment
from server.config.settings.access import AccessSettings
from server.config.values import InvalidValueError, read
from skills_core import Library, Skill, explicit_sources
from tests.conftest import write_skill

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext


ANNA = Principal("anna", PrincipalKind.JWT, frozenset({"editor"}))


def context(request: object) -> ServerRequestContext[Any, Any]:
    return cast("ServerRequestContext[Any, Any]", SimpleNamespace(request=request))


def with_user(user: object) -> ServerRequestContext[Any, Any]:
    return context(SimpleNamespace(scope={"user": user}))


def test_stdio_and_servers_without_login_have_the_local_principal() -> None:
    assert principal_of(context(None)) is LOCAL
    assert principal_of(context(SimpleNamespace(scope={}))) is LOCAL


def test_the_principal_of_the_requests_own_token_counts() -> None:
    assert principal_of(with_user(SimpleNamespace(access_token=SimpleNamespace(principal=ANNA)))) is ANNA


@pytest.mark.parametrize("user", [None, "anna", SimpleNamespace(access_token=None), SimpleNamespace(principal=ANNA)])
def test_what_the_login_did_not_leave_is_no_principal(user: object) -> None:
    assert principal_of(with_user(user)) is LOCAL


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
    roles = Roles(choices, (), {})
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
    roles = Roles({"reader": ["*"], "common": ["pdf"]}, ["common"], {})
    held = roles.of(Principal("anna", PrincipalKind.JWT, frozenset({"reader", "x", "y"})))
    assert held == {"reader", "common"}
    assert roles.of(LOCAL) == {"common"}


@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", max_size=8))
def test_asterisks_stand_for_any_characters(choice: str, name: str) -> None:
    skill: Any = SimpleNamespace(content=SimpleNamespace(name=name), source=None)
    assert Roles({"reader": [choice]}, (), {}).show(frozenset({"reader"}), skill) == fnmatchcase(name, choice)


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
    assert Roles({"reader": ["pdf"]}, (), {}).allow(frozenset(), "reload_skills")
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


PROFILES = Profiles({"eng": ["a", "b"], "none": []})


@pytest.mark.parametrize(
    ("in_path", "in_headers", "expected"),
    [
        (None, [], None),
        ("eng", [], "eng"),
        (None, ["eng"], "eng"),
        ("eng", ["eng"], "eng"),
        ("eng", ["none"], ProfileFault.AMBIGUOUS),
        ("eng", [""], ProfileFault.AMBIGUOUS),
        ("eng", ["other"], ProfileFault.AMBIGUOUS),
        (None, ["eng", "eng"], ProfileFault.AMBIGUOUS),
        (None, ["eng", "none"], ProfileFault.AMBIGUOUS),
        (None, ["eng, none"], ProfileFault.UNKNOWN),
        (None, ["ENG"], ProfileFault.UNKNOWN),
        (None, [""], ProfileFault.UNKNOWN),
        (None, [" eng"], ProfileFault.UNKNOWN),
        ("other", [], ProfileFault.UNKNOWN),
    ],
)
def test_a_request_names_one_profile_or_none(in_path: str | None, in_headers: list[str], expected: str | None) -> None:
    assert PROFILES.choose(in_path, in_headers) is expected or PROFILES.choose(in_path, in_headers) == expected


HELD_ROLES = st.frozensets(st.sampled_from("abc"))


@given(held=HELD_ROLES, profile=st.none() | st.sampled_from(["eng", "none", "other"]))
def test_a_profile_adds_no_role(held: frozenset[str], profile: str | None) -> None:
    narrowed = PROFILES.narrowed(held, profile)
    assert narrowed <= held
    assert (narrowed == held) or profile is not None
    if profile == "eng":
        assert narrowed == held & {"a", "b"}
    elif profile is not None:
        assert narrowed == frozenset()


@pytest.mark.parametrize("name", ["", "Eng", "a/b", "..", ".", "a b", "é", "a%2f", "-a", "a" * 65, "a\n"])
def test_the_name_of_a_profile_is_the_same_however_it_is_sent(name: str) -> None:
    with pytest.raises(InvalidValueError):
        read(AccessSettings, {"profiles": {name: []}})
