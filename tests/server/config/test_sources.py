from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from server.config.files import ConfigurationError
from server.config.project_file import ProjectFile
from server.config.settings.layers import from_flags, load_settings
from server.config.settings.model import Settings
from server.config.settings.skills import Conventions
from server.config.sources import sources_of
from skills_core import Environment, Library, Reason, Scope, Source, State, Strictness
from skills_core.disk.sources import Places
from tests.conftest import write_skill
from tests.server.settings import make_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A user in a project, both with an empty configuration, and no bundled skills."""
    space = tmp_path.resolve()
    (space / "project" / ".git").mkdir(parents=True)
    (space / "home" / ".config" / "skillserve").mkdir(parents=True)
    return Places(space / "home", space / "project", space / "home" / ".config")


@pytest.fixture
def configured(places: Places) -> Callable[..., Settings]:
    """Return the settings of a user with these files, in a trusted project, under these flags."""

    def load(own: str = "", project: str = "", **flags: object) -> Settings:
        (places.config_home / "skillserve" / "skillserve.toml").write_text(own)
        (places.working_directory / "skillserve.toml").write_text(project)
        settings = load_settings(flags, {}, places.config_home)
        return replace(settings, project=ProjectFile(places).trusted(from_flags(flags)).settings)

    return load


def catalog_of(sources: tuple[Source, ...], *, trusted: bool = False) -> Catalog:
    machine = Environment(os="linux", has_bin=lambda _: True, trusts=lambda _: trusted)
    return Library(sources, lambda: machine).catalog


def states(catalog: Catalog) -> dict[str, tuple[State, Reason | None]]:
    return {skill.source.root.name: (skill.state, skill.reason) for skill in catalog.skills}


def test_a_source_of_the_user_stands_before_the_others_of_its_scope(
    places: Places, configured: Callable[..., Settings]
) -> None:
    write_skill(places.home / "team", "same")
    write_skill(places.home / ".agents" / "skills", "same")
    given = configured(own='[[discovery.sources]]\npath = "../../team"\n')
    assert states(catalog_of(sources_of(None, given, places))) == {
        "team": (State.ACTIVE, None),
        "skills": (State.SHADOWED, Reason.SHADOWED),
    }


def test_the_order_of_scopes_can_be_another_one(places: Places, configured: Callable[..., Settings]) -> None:
    write_skill(places.home / ".claude" / "skills", "same")
    write_skill(places.home / ".agents" / "skills", "same")
    for order, first in (("", ".agents"), ('discovery.precedence = ["legacy", "managed"]', ".claude")):
        (active,) = catalog_of(sources_of(None, configured(own=order), places)).active
        assert active.source.root.parent.name == first


def test_each_source_may_have_its_own_strictness_even_one_of_the_usual_ones(
    places: Places, configured: Callable[..., Settings]
) -> None:
    write_skill(places.home / "loose", "a", fields="wrong: 1")
    write_skill(places.home / ".agents" / "skills", "b", fields="wrong: 1")
    own = f'[[discovery.sources]]\npath = "{(places.home / ".agents" / "skills").as_posix()}"\nstrictness = "strict"\n'
    own += f'[[discovery.sources]]\npath = "{(places.home / "loose").as_posix()}"\n'
    assert states(catalog_of(sources_of(None, configured(own=own), places))) == {
        "skills": (State.INVALID, Reason.UNKNOWN_FIELD),
        "loose": (State.ACTIVE, None),
    }


def test_all_that_can_be_said_of_a_source_reaches_it(places: Places, configured: Callable[..., Settings]) -> None:
    own = """
    discovery.sources = [
        {path = "s", scope = "plugin", strictness = "required", follow_symlinks = true, gitignore = true},
        {path = "t", conventions = false},
        "u",
    ]
    """
    here = places.config_home / "skillserve"
    found = [source for source in sources_of(None, configured(own=own), places) if source.root.parent == here]
    by_name = {source.root.name: source for source in found}
    assert by_name["s"].scope is Scope.PLUGIN
    assert by_name["s"].strictness is Strictness.REQUIRED
    assert by_name["s"].follow_symlinks
    assert by_name["s"].gitignore
    assert by_name["t"].kinds < by_name["u"].kinds


def test_a_source_of_the_project_needs_trust_like_all_of_the_project(
    places: Places, configured: Callable[..., Settings]
) -> None:
    write_skill(places.working_directory / "know-how", "theirs")
    given = configured(project='discovery.sources = ["know-how"]')
    sources = sources_of(None, given, places)
    assert states(catalog_of(sources)) == {"know-how": (State.EXCLUDED, Reason.UNTRUSTED)}
    assert states(catalog_of(sources, trusted=True)) == {"know-how": (State.ACTIVE, None)}
    given = configured(project='discovery.sources = ["know-how"]', trust_workspace=True)
    assert states(catalog_of(sources_of(None, given, places))) == {"know-how": (State.ACTIVE, None)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('project = ["/"]', "project: unknown"),
        ('[[discovery.sources]]\npath = ""', r"discovery\.sources\.0\.path"),
        ('[[discovery.sources]]\npath = "x"\nscoop = "managed"', r"discovery\.sources\.0\.scoop"),
        ("discovery.sources = [1]", r"discovery\.sources\.0"),
        ("discovery.scan_depth = -1", "discovery.scan_depth: -1"),
        ("discovery = 1", "discovery: expected the table"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_file(text: str, told: str, configured: Callable[..., Settings]) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        configured(project=text)
    assert "skillserve.toml" in str(raised.value)


def test_directories_that_are_named_stand_alone(places: Places, configured: Callable[..., Settings]) -> None:
    named = places.home / "named"
    named.mkdir()
    given = configured(own='discovery.sources = ["other"]', gitignore=True, conventions="off")
    (source,) = sources_of([named], given, places)
    assert (source.root, source.gitignore, source.scope) == (named, True, Scope.EXPLICIT)
    assert source.kinds == Source(Path()).kinds


def test_convention_files_of_the_whole_project_on_request_and_trust(places: Places) -> None:
    (places.working_directory / "docs").mkdir()
    (places.working_directory / "docs" / "AGENTS.md").write_text("# How we write")
    write_skill(places.working_directory / "docs" / "inner", "no-source")
    for conventions, found in ((Conventions.NAMED, set()), (Conventions.PROJECT, {"agents"})):
        sources = sources_of(None, make_settings(conventions=conventions), places)
        assert {skill.key for skill in catalog_of(sources, trusted=True).active} == found
        assert catalog_of(sources).active == ()


def test_the_bounds_of_the_usual_places_can_be_others(places: Places) -> None:
    write_skill(places.home / ".agents" / "skills" / "a" / "b", "deep")
    for depth, found in ((2, set()), (3, {"deep"})):
        catalog = catalog_of(sources_of(None, make_settings(scan_depth=depth), places))
        assert {skill.key for skill in catalog.active} == found
        assert (Reason.SCAN_LIMIT in {problem.code for problem in catalog.problems}) == (not found)


def test_strict_is_for_every_source(places: Places) -> None:
    write_skill(places.home / ".agents" / "skills", "b", fields="wrong: 1")
    sources = sources_of(None, make_settings(strictness=Strictness.STRICT), places)
    assert states(catalog_of(sources)) == {"skills": (State.INVALID, Reason.UNKNOWN_FIELD)}
