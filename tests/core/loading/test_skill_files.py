"""Files named `*.skill.md` are skills: adk-skill "recursively scans the workspace for .skill.md and skill.md files".

The cost of hostile or odd input is bounded, and it never gains permissions.

What looks like a skill among the eval files of a skill is an input of its tests, and is not loaded.

Copies of skills in a workspace of test results are not skills; its marker identifies it, not its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from skills_core import Environment, Library, Reason, Recipient, Skill, Source, State, render_activation
from skills_core.disk.folders import NOT_A_SOURCE
from skills_core.disk.sources import Places, SkillKind, default_sources, explicit_sources
from skills_core.loading.discovery import find_skill_files, load_source, reload_source
from skills_core.skills.skill import decode_path, file_uri
from skills_core.skills.withheld_files import is_withheld_from_models
from tests.core.loading.test_seed_examples import EXPERT


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


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Bash(echo (x)) Read", ("Bash(echo (x))", "Read")),
        ("Bash(git log:*),Read", ("Bash(git log:*)", "Read")),
        ("'a) b'", ("a)", "b")),
        ("[Read, 1]", ("Read",)),
        ("[Read, [Write]]", ("Read",)),
        ("{Read: true}", ()),
        ("7", ()),
        ("[]", ()),
    ],
)
def test_a_mistake_in_allowed_tools_never_allows_more_tools(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
    written: str,
    tools: tuple[str, ...],
) -> None:
    write_skill(tmp_path, "a", fields=f"allowed-tools: {written}")
    assert only(load(tmp_path)).frontmatter.allowed_tools == tools


def test_ten_thousand_open_parentheses_are_one_tool(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    write_skill(tmp_path, "a", fields="allowed-tools: '" + "a(" * 50_000 + "'")
    assert len(only(load(tmp_path)).frontmatter.allowed_tools or ()) == 1


def test_thousands_of_unknown_fields_are_reported_in_few_diagnostics(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    write_skill(tmp_path, "a", fields="\n".join(f"field{number}: x" for number in range(5000)))
    told = only(load(tmp_path)).diagnostics
    assert {diagnostic.code for diagnostic in told} == {Reason.UNKNOWN_FIELD}
    assert len(told) < 30
    assert "4980 more" in told[-1].message


def test_the_instructions_follow_the_file_that_is_read_when_one_spelling_replaces_the_other(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name, description in (("SKILL.md", "one"), ("skill.md", "two")):
        (folder / name).write_text(f"---\nname: a\ndescription: {description}\n---\n", encoding="utf-8")
        os.utime(folder / name, (1, 1))
    library = load(tmp_path)
    (folder / "SKILL.md").unlink()
    library.reload()
    assert only(library).description == "two"


def test_a_touch_changes_nothing_and_takes_no_memory(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    folder = write_skill(tmp_path, "a")
    library = load(tmp_path)
    loaded = only(library).content
    os.utime(folder / "SKILL.md", (1, 1))
    assert not library.reload()
    assert not library.reload([folder / "SKILL.md"])
    assert not library.reload()
    assert only(library).content is not loaded
    assert only(library).content.instructions is loaded.instructions


@pytest.mark.skipif(os.name == "nt", reason="a backslash separates there")
def test_a_file_with_a_backslash_in_its_name_has_a_uri_that_leads_back(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", files={"b\\c": "x"})
    catalog = load(tmp_path).catalog
    found = catalog.file(catalog.skill("a").file_uri("b\\c"))
    assert found is not None
    assert found[1].path == "b\\c"


def test_a_lone_surrogate_in_a_uri_is_refused_without_an_exception() -> None:
    assert decode_path("skill://a/\udcff") is None
    assert decode_path(file_uri("a", "b")) == "a/b"


def test_names_and_folders_cannot_close_the_tags_of_an_activation(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    write_skill(tmp_path / "<" / "skill_content>\n", "a")
    skill = only(load(tmp_path))
    text = render_activation(skill, {"</skill_content>": "</skill_content >"}, recipient=Recipient(local=True))
    assert text.count("</skill_content") == 1
    assert text.endswith("</skill_content>")
    assert "\n/a" not in text


def test_two_skills_never_share_a_key(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "0", name="a/x")
    write_skill(tmp_path, "a/x", name="x")
    write_skill(tmp_path, "b/x", name="x")
    catalog = load(tmp_path).catalog
    assert len({skill.key for skill in catalog.active}) == 3
    assert all(catalog.skill(skill.key) is skill for skill in catalog.active)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_skill_file_replaced_by_a_link_is_not_served(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    folder = write_skill(tmp_path, "a", files={"b": "x"})
    library = load(tmp_path)
    (folder / "SKILL.md").rename(folder / "moved.md")
    (folder / "SKILL.md").symlink_to("moved.md")
    library.reload()
    assert only(library).reason is Reason.SYMLINK


def test_a_skill_among_the_eval_files_of_a_skill_is_none(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    inputs = ["a/evals/files/x", "a/evals/y", "a/Evals/z", "b/inner/evals/w"]
    for folder in ("a", "b/inner", *inputs):
        write_skill(tmp_path, folder)
    # Folders of a collection, a skill of that name, and a folder that is not directly in a skill's.
    others = ["evals/c", "deep/evals/d", "b/evals", "b/evals/e", "a/examples/evals/f"]
    for folder in others:
        write_skill(tmp_path, folder)
    library = load(tmp_path)
    paths = {skill.content.place for skill in library.catalog.skills}
    assert paths == {"a", "b/inner", *others}
    assert set(find_skill_files(explicit_sources([tmp_path])[0])) == {f"{path}/SKILL.md" for path in paths}


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_among_the_eval_files_is_settled_again_when_the_skill_comes_or_goes(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    whole: bool,  # noqa: FBT001 - a case of the table
) -> None:
    loaded = load_source(explicit_sources([tmp_path])[0])

    def places(paths: Sequence[str]) -> list[str]:
        nonlocal loaded
        loaded = reload_source(loaded, None if whole else paths)
        assert loaded.contents.keys() == load_source(loaded.source).contents.keys()
        return sorted(loaded.contents)

    write_skill(tmp_path, "a/evals/files/x")
    assert places(["a/evals/files/x/SKILL.md"]) == ["a/evals/files/x"]
    write_skill(tmp_path, "a")
    assert places(["a/SKILL.md"]) == ["a"]
    write_skill(tmp_path, "a/evals")
    assert places(["a/evals/SKILL.md"]) == ["a", "a/evals", "a/evals/files/x"]
    (tmp_path / "a" / "evals" / "SKILL.md").unlink()
    assert places(["a/evals/SKILL.md"]) == ["a"]
    (tmp_path / "a" / "SKILL.md").unlink()
    assert places(["a/SKILL.md"]) == ["a/evals/files/x"]


COPIES = ("x-workspace/snapshots/iteration-1/x", "x-workspace/iteration-1/eval-1/with_skill/outputs/made")


@pytest.fixture
def served(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    for folder in ("x", *COPIES):
        write_skill(tmp_path, folder)
    return tmp_path


def mark(folder: Path) -> Path:
    marker = folder / NOT_A_SOURCE
    marker.write_text("{}\n")
    return marker


def test_only_a_folder_with_the_marker_is_left_out(served: Path, load: Callable[..., Library]) -> None:
    assert {skill.content.place for skill in load(served).catalog.skills} == {"x", *COPIES}
    mark(served / "x-workspace")
    assert [skill.content.place for skill in load(served).catalog.skills] == ["x"]
    assert [*find_skill_files(explicit_sources([served])[0])] == ["x/SKILL.md"]


def test_the_marker_hides_neither_a_skill_nor_a_folder_that_the_user_names(served: Path) -> None:
    mark(served / "x")
    workspace = served / "x-workspace"
    mark(workspace)
    assert [*find_skill_files(explicit_sources([served])[0])] == ["x/SKILL.md"]
    assert len([*find_skill_files(explicit_sources([workspace])[0])]) == len(COPIES)


def test_a_link_is_no_marker(served: Path) -> None:
    target = mark(served)
    (served / "x-workspace" / NOT_A_SOURCE).symlink_to(target)
    assert len([*find_skill_files(explicit_sources([served])[0])]) == 1 + len(COPIES)


@pytest.mark.parametrize("whole", [False, True])
def test_a_reload_follows_the_marker(served: Path, whole: bool) -> None:  # noqa: FBT001 - a case of the table
    loaded = load_source(explicit_sources([served])[0])
    path = f"x-workspace/{NOT_A_SOURCE}"
    marker = mark(served / "x-workspace")
    loaded = reload_source(loaded, None if whole else [path])
    assert [*loaded.contents] == ["x"]
    marker.unlink()
    loaded = reload_source(loaded, None if whole else [path])
    assert {*loaded.contents} == {"x", *COPIES}
