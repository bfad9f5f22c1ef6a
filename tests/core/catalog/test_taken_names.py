"""No `skillKey` takes what belongs to the skill that has it as its name, even while that one is not served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skills_core import Environment, Library, Reason, State, UnknownSkillError
from skills_core.disk.sources import Source
from skills_core.skills.gates import SkillEntry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skills_core import Catalog


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
    assert catalog.required("deploy") is None


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
