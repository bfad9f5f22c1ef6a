from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core import Environment, Library, Reason, Scope, State
from skills_core.disk.sources import PREVIEW_BOUNDS, Places, default_sources, explicit_sources, project_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog

PRECEDENCE = [
    "project/sub/.jdai/skills",
    "project/sub/.agents/skills",
    "project/sub/.skills",
    "project/.jdai/skills",
    "project/.agents/skills",
    "project/.skills",
    "home/.jdai/skills",
    "config/skillserve/skills",
    "home/.agents/skills",
    "home/.jdai/plugins/some-plugin/skills",
    "bundled",
    "home/.config/agenvoy/skills",
    "home/.claude/skills",
    "project/sub/.claude/skills",
    "project/.claude/skills",
]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A user with a home, working in a folder of a git repository."""
    space = tmp_path.resolve()
    (space / "project" / ".git").mkdir(parents=True)
    (space / "project" / "sub").mkdir()
    return Places(space / "home", space / "project" / "sub", space / "config", space / "bundled")


@pytest.fixture
def find(places: Places) -> Callable[..., Catalog]:
    def find(trusts: Callable[[Path], bool] = lambda _: True) -> Catalog:
        machine = Environment(os="linux", has_bin=lambda _: True, trusts=trusts)
        return Library(default_sources(places), lambda: machine).catalog

    return find


@pytest.mark.parametrize("first", range(len(PRECEDENCE)), ids=PRECEDENCE)
def test_the_skill_of_the_highest_source_wins_its_name(
    first: int, places: Places, write_skill: Callable[..., Path], find: Callable[..., Catalog]
) -> None:
    space = places.home.parent
    for place in PRECEDENCE[first:]:
        write_skill(space / place, "same")
    catalog = find()
    (active,) = catalog.active
    assert active.source.root / active.content.folder == space / PRECEDENCE[first] / "same"
    assert {skill.reason for skill in catalog.skills if skill is not active} <= {Reason.SHADOWED}
    assert len(catalog.skills) == len(PRECEDENCE) - first


def test_missing_default_sources_are_no_problem_and_load_when_created(
    places: Places, write_skill: Callable[..., Path]
) -> None:
    library = Library(default_sources(places), lambda: Environment(os="linux", has_bin=lambda _: True))
    assert (library.catalog.skills, library.catalog.problems) == ((), ())
    folder = write_skill(places.home / ".agents" / "skills", "late")
    assert [skill.key for skill in library.reload([folder.parent]).added] == ["late"]


def test_outside_of_a_repository_the_folders_above_are_no_sources(tmp_path: Path) -> None:
    space = tmp_path.resolve()
    (space / "a" / "b").mkdir(parents=True)
    roots = {source.root for source in default_sources(Places(space / "home", space / "a" / "b", space / "config"))}
    assert space / "a" / "b" / ".agents" / "skills" in roots
    assert not any(root.is_relative_to(space / "a") and not root.is_relative_to(space / "a" / "b") for root in roots)
    assert project_of(space / "a" / "b", space / "home") == space / "a" / "b"


def test_a_worktree_whose_git_is_a_file_is_a_repository_too(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")
    assert project_of(tmp_path / "a" / "b", tmp_path / "home") == tmp_path / "a"


@pytest.mark.parametrize("here", ["home", "home/work/new"])
def test_a_home_directory_in_git_is_no_project(here: str, tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    space = tmp_path.resolve()
    (space / "home" / ".git").mkdir(parents=True)
    (space / here).mkdir(parents=True, exist_ok=True)
    write_skill(space / "home" / ".agents" / "skills", "mine")
    write_skill(space / "home" / ".claude" / "skills", "old")
    machine = Environment(os="linux", has_bin=lambda _: True, trusts=lambda _: False)
    sources = default_sources(Places(space / "home", space / here, space / "config"))
    catalog = Library(sources, lambda: machine).catalog
    assert {(skill.key, skill.source.scope) for skill in catalog.active} == {
        ("mine", Scope.MANAGED),
        ("old", Scope.LEGACY),
    }


def test_untrusted_skills_are_listed_but_not_served_and_take_no_name(
    places: Places, write_skill: Callable[..., Path], find: Callable[..., Catalog]
) -> None:
    space = places.home.parent
    write_skill(space / "project" / ".agents" / "skills", "same")
    write_skill(space / "project" / ".claude" / "skills", "other")
    write_skill(space / "home" / ".agents" / "skills", "same")
    asked: list[Path] = []

    def trusts(folder: Path) -> bool:
        asked.append(folder)
        return False

    catalog = find(trusts)
    assert {(skill.name, skill.state, skill.reason, skill.source.scope) for skill in catalog.skills} == {
        ("same", State.EXCLUDED, Reason.UNTRUSTED, Scope.WORKSPACE),
        ("other", State.EXCLUDED, Reason.UNTRUSTED, Scope.LEGACY),
        ("same", State.ACTIVE, None, Scope.MANAGED),
    }
    assert set(asked) == {space / "project"}


def test_only_main_files_of_an_untrusted_project_are_read(places: Places, write_skill: Callable[..., Path]) -> None:
    project = places.home.parent / "project"
    folder = write_skill(project / ".agents" / "skills", "same")
    (folder / "large.bin").write_bytes(b"x")
    (project / ".skills").mkdir()
    (project / ".skills" / "table.json").write_text("{}")
    (project / ".skills" / "doc.md").write_text("---\nname: doc\ndescription: d\nreferences: [table.json]\n---\n")
    trusted = False
    machine = Environment(os="linux", has_bin=lambda _: True)
    library = Library(default_sources(places), lambda: replace(machine, trusts={project: trusted}.__getitem__))

    def read() -> dict[str, set[str]]:
        return {skill.name: set(skill.content.files) for skill in library.catalog.skills}

    assert read() == {"same": {"SKILL.md"}, "doc": {"doc.md"}}
    library.reload([folder / "large.bin"])
    library.reload()
    assert read() == {"same": {"SKILL.md"}, "doc": {"doc.md"}}
    trusted = True
    assert {new.state for _, new in library.reload([]).updated} == {State.ACTIVE}
    assert read() == {"same": {"SKILL.md", "large.bin"}, "doc": {"doc.md", "table.json"}}
    trusted = False
    library.reload([])
    assert read() == {"same": {"SKILL.md"}, "doc": {"doc.md"}}


def test_an_untrusted_project_is_scanned_within_preview_bounds(
    places: Places, write_skill: Callable[..., Path]
) -> None:
    root = places.home.parent / "project" / ".agents" / "skills"
    many = PREVIEW_BOUNDS.folders + 50
    for number in range(many):
        write_skill(root, f"s{number}")
    trusted = False
    machine = Environment(os="linux", has_bin=lambda _: True)
    library = Library(default_sources(places), lambda: replace(machine, trusts=lambda _: trusted))
    assert 0 < len(library.catalog.skills) < PREVIEW_BOUNDS.folders
    assert {problem.code for problem in library.catalog.problems} == {Reason.SCAN_LIMIT}
    for state, count in ((True, many), (False, PREVIEW_BOUNDS.folders - 1), (True, many)):
        trusted = state
        library.reload([])
        assert len(library.catalog.skills) == count
    assert library.catalog.problems == ()


def test_only_the_skills_folder_of_a_plugin_is_scanned(
    places: Places, write_skill: Callable[..., Path], find: Callable[..., Catalog]
) -> None:
    plugins = places.home / ".jdai" / "plugins"
    write_skill(plugins / "one" / "skills", "a", files={"docs/x.md": "x"})
    write_skill(plugins / "two" / "skills", "b")
    write_skill(plugins / "two" / "other", "c")
    write_skill(plugins / "three", "d")
    write_skill(plugins, "four")
    catalog = find()
    assert {skill.key: skill.path for skill in catalog.skills} == {"a": "one/skills/a", "b": "two/skills/b"}
    assert list(catalog.skill("a").content.files) == ["SKILL.md", "docs/x.md"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_folder_named_by_two_sources_counts_once_at_the_higher(
    places: Places, write_skill: Callable[..., Path], find: Callable[..., Catalog]
) -> None:
    write_skill(places.home / ".agents" / "skills", "a")
    (places.home / ".claude").mkdir()
    (places.home / ".claude" / "skills").symlink_to(places.home / ".agents" / "skills")
    (skill,) = find().skills
    assert (skill.state, skill.source.scope) == (State.ACTIVE, Scope.MANAGED)


@pytest.mark.parametrize(
    ("place", "state", "reason"),
    [
        ("home/.jdai/skills", State.INVALID, Reason.MISSING_NAME),
        ("project/.skills", State.INVALID, Reason.MISSING_NAME),
        ("home/.agents/skills", State.ACTIVE, None),
    ],
)
def test_a_missing_name_makes_a_skill_invalid_where_names_are_required(
    place: str, state: State, reason: Reason | None, places: Places, find: Callable[..., Catalog]
) -> None:
    folder = places.home.parent / place / "a"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: d\n---\nx")
    (skill,) = find().skills
    assert (skill.state, skill.reason) == (state, reason)


@pytest.mark.parametrize(("place", "state"), [("home/.jdai/skills", State.INVALID), ("project/.skills", State.ACTIVE)])
def test_an_unknown_field_makes_a_skill_invalid_in_strict_sources_only(
    place: str, state: State, places: Places, write_skill: Callable[..., Path], find: Callable[..., Catalog]
) -> None:
    write_skill(places.home.parent / place, "a", fields="nobody-knows: 1")
    (skill,) = find().skills
    assert skill.state is state


@pytest.mark.parametrize("named", ["home/.config/agenvoy/skills", "home/.config/agenvoy", ""])
def test_scheduler_skills_of_agenvoy_are_not_served_however_their_folder_is_found(
    named: str, places: Places, write_skill: Callable[..., Path]
) -> None:
    own = places.home / ".config" / "agenvoy" / "skills"
    write_skill(own, "code-reviewer")
    write_skill(own / ".system", "plan")
    write_skill(own / "scheduler", "news-0a1b2c3d")
    sources = explicit_sources([places.home.parent / named]) if named else default_sources(places)
    library = Library(sources, lambda: Environment(os="linux", has_bin=lambda _: True))
    assert {skill.name for skill in library.catalog.skills} == {"code-reviewer", "plan"}
    late = write_skill(own / "scheduler", "late-0a1b2c3d")
    changes = library.reload([late, late / "SKILL.md"])
    assert not changes.added
    assert library.reload().added == ()


def test_a_folder_of_schedules_that_a_user_names_is_served(places: Places, write_skill: Callable[..., Path]) -> None:
    tree = places.home / ".config" / "agenvoy" / "skills" / "scheduler"
    write_skill(tree, "news-0a1b2c3d")
    write_skill(places.home / "skills" / "scheduler", "other")
    machine = Environment(os="linux", has_bin=lambda _: True)
    for named, name in ((tree, "news-0a1b2c3d"), (places.home / "skills", "other")):
        assert [skill.name for skill in Library(explicit_sources([named]), lambda: machine).catalog.active] == [name]
