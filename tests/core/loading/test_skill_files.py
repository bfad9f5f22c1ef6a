"""Files named `*.skill.md` are skills: adk-skill "recursively scans the workspace for .skill.md and skill.md files"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skills_core import Environment, Library, Reason, Source, State
from skills_core.disk.sources import Places, SkillKind, default_sources
from skills_core.skills.withheld_files import is_withheld_from_models
from tests.core.loading.test_seed_examples import EXPERT

if TYPE_CHECKING:
    from collections.abc import Callable


def put(root: Path, path: str, text: str = EXPERT) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file.resolve()


def places(library: Library) -> set[str]:
    return {skill.content.place for skill in library.catalog.skills}


def test_a_file_named_skill_md_is_a_single_file_skill(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Any]
) -> None:
    put(tmp_path, "tools/expert.skill.md")
    skill = only(load(tmp_path))
    assert (skill.name, skill.state) == ("search-expert", State.ACTIVE)
    assert skill.frontmatter.allowed_tools == ("knowledge", "web_search")
    assert skill.body == "Use tools to find information..."
    assert skill.uri == "skill://tools/search-expert/expert.skill.md"
    assert [file.path for file in skill.content.files.values()] == ["expert.skill.md"]
    assert not skill.content.published


def test_such_files_are_found_anywhere_but_in_skills_and_in_build_output(
    tmp_path: Path, load: Callable[..., Library], write_skill: Callable[..., Path]
) -> None:
    for path in ("a.skill.md", "x/y/B.SKILL.md", ".skills/c.skill.md", "lower/skill.md"):
        put(tmp_path, path, EXPERT.replace("search-expert", "x"))
    for path in ("dist/d.skill.md", "node_modules/e.skill.md", ".skills/references/f.skill.md", "g.skill.txt"):
        put(tmp_path, path)
    put(tmp_path, ".skill.md")  # hidden
    write_skill(tmp_path, "folder", files={"sub/h.skill.md": EXPERT})
    assert places(load(tmp_path)) == {"a.skill.md", "x/y/B.SKILL.md", ".skills/c.skill.md", "lower", "folder"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\ndescription: d\n---\n", Reason.MISSING_NAME),
        ("---\nname: a\n---\n", Reason.MISSING_DESCRIPTION),
        ("---\nname: a\n", Reason.UNCLOSED_FRONTMATTER),
        ("# No frontmatter\n", Reason.MISSING_FRONTMATTER),
        ("", Reason.EMPTY),
    ],
)
@pytest.mark.parametrize("folder", ["", ".skills/"])
def test_name_and_description_are_required(
    folder: str, text: str, reason: Reason, tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Any]
) -> None:
    put(tmp_path, f"{folder}bad.skill.md", text)
    skill = only(load(tmp_path))
    assert (skill.state, skill.reason) == (State.INVALID, reason)
    assert skill.name in {"a", "bad"}


def test_changes_and_renames_are_followed(tmp_path: Path, load: Callable[..., Library]) -> None:
    library = load(tmp_path)
    file = put(tmp_path, "a.skill.md")
    assert [skill.key for skill in library.reload([file]).added] == ["search-expert"]
    put(tmp_path, "a.skill.md", EXPERT.replace("Use tools", "Use other tools"))
    ((_, after),) = library.reload([file]).updated
    assert after.body.startswith("Use other tools")
    other = file.rename(tmp_path / "a.md")
    assert [skill.key for skill in library.reload([file, other]).removed] == ["search-expert"]
    again = other.rename(tmp_path / "b.skill.md")
    assert [skill.key for skill in library.reload([other, again]).added] == ["search-expert"]
    put(tmp_path, "SKILL.md", EXPERT)
    library.reload([tmp_path.resolve() / "SKILL.md"])
    assert places(library) == {""}


def test_every_source_that_is_searched_for_single_files_has_them(tmp_path: Path) -> None:
    put(tmp_path, "a.skill.md")
    put(tmp_path, ".skills/b.skill.md")
    found = {
        (SkillKind.FOLDER,): set(),
        (SkillKind.FOLDER, SkillKind.DOCUMENT): {"a.skill.md", ".skills/b.skill.md"},
        (SkillKind.CONVENTION,): {"a.skill.md"},
    }
    for kinds, expected in found.items():
        source = Source(tmp_path.resolve(), kinds=frozenset(kinds))
        assert places(Library([source], lambda: Environment(os="linux", has_bin=lambda _: True))) == expected


def test_a_project_that_is_searched_for_convention_files_has_them_once(tmp_path: Path) -> None:
    project = tmp_path.resolve() / "project"
    put(project, "docs/a.skill.md")
    put(project, ".skills/b.skill.md", EXPERT.replace("search-expert", "other"))
    where = Places(tmp_path / "home", project, tmp_path / "home")
    for conventions, expected in [(True, {"docs/a.skill.md", "b.skill.md"}), (False, {"b.skill.md"})]:
        library = Library(
            default_sources(where, conventions=conventions), lambda: Environment(os="linux", has_bin=lambda _: True)
        )
        assert places(library) == expected
        assert {skill.state for skill in library.catalog.skills} == {State.ACTIVE}


@pytest.mark.parametrize("name", ["b.md", "b.skill.md", "B.MD"])
@pytest.mark.parametrize("main", [".skills/a.md", "a.skill.md", "AGENTS.md"])
def test_a_reference_that_only_users_may_invoke_is_withheld_from_models(
    main: str, name: str, tmp_path: Path, load: Callable[..., Library]
) -> None:
    hidden = "---\nname: b\ndescription: d\ndisable-model-invocation: true\n---\nBody\n"
    file = put(tmp_path, main, EXPERT.replace("---\nUse", f"references: [{name}]\n---\nUse"))
    file.with_name(name).write_text(hidden)
    skill = load(tmp_path).catalog.skill("search-expert")
    assert is_withheld_from_models(skill, skill.content.files[name], hidden.encode())
