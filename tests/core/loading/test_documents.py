from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Environment, Library, Reason, Scope, Source, State, Strictness
from skills_core.disk.sources import SkillKind
from tests.thoroughness import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skills_core import Catalog

DOCUMENT = "---\nname: {name}\ndescription: Search the docs.\n---\nUse rg first.\n"


def put(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file.resolve()


def keys(catalog: Catalog) -> dict[str, str]:
    return {skill.key: skill.content.place for skill in catalog.active}


@pytest.mark.parametrize(
    ("file", "name", "tag"),
    [
        ("AGENTS.md", "agents", "agents-md"),
        ("AGENT.md", "agents", "agents-md"),
        ("CLAUDE.md", "claude", "claude-md"),
        ("GEMINI.md", "gemini", "gemini-md"),
        ("COPILOT.md", "copilot", "copilot-md"),
        ("SKILLS.md", "skills", "skills-md"),
        ("SOUL.md", "soul", "soul-md"),
        ("soul.MD", "soul", "soul-md"),
    ],
)
def test_a_convention_file_is_a_skill_without_frontmatter(
    file: str, name: str, tag: str, tmp_path: Path, load: Callable[..., Library]
) -> None:
    put(tmp_path, file, "\n# Project Instructions\n\nAlways prefer rg over grep.\n")
    (skill,) = load(tmp_path).catalog.active
    assert (skill.name, skill.description) == (name, "Project Instructions")
    assert skill.frontmatter.tags == ("convention", tag)
    assert skill.body.endswith("Always prefer rg over grep.")
    assert skill.uri == f"skill://{name}/{file}"
    assert not skill.content.published


def test_convention_files_are_found_anywhere_and_soul_at_the_root_only(
    tmp_path: Path, load: Callable[..., Library]
) -> None:
    for path in ("AGENTS.md", "a/b/AGENTS.md", "a/SOUL.md", "dist/CLAUDE.md", "a/node_modules/x/GEMINI.md"):
        put(tmp_path, path, f"Of {path}")
    catalog = load(tmp_path).catalog
    assert keys(catalog) == {"agents": "AGENTS.md", "a/b/agents": "a/b/AGENTS.md"}


def test_files_in_a_skill_folder_belong_to_that_skill(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "one", files={"AGENTS.md": "x", "deep/CLAUDE.md": "y"})
    (skill,) = load(tmp_path).catalog.skills
    assert set(skill.content.files) == {"SKILL.md", "AGENTS.md", "deep/CLAUDE.md"}


def test_frontmatter_of_a_convention_file_counts_if_it_has_name_and_description(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Any]
) -> None:
    put(tmp_path, "AGENTS.md", DOCUMENT.format(name="ours"))
    skill = only(load(tmp_path))
    assert (skill.name, skill.body, skill.frontmatter.tags) == ("ours", "Use rg first.", ())
    put(tmp_path, "AGENTS.md", "---\ndescription: [\n---\nBody.\n")
    skill = only(load(tmp_path))
    assert (skill.name, skill.state) == ("agents", State.ACTIVE)
    assert skill.body == "---\ndescription: [\n---\nBody."
    assert [d.code for d in skill.diagnostics] == [Reason.MISSING_FRONTMATTER, Reason.NOT_PUBLISHED]


def test_a_convention_file_without_a_heading_is_described_by_its_first_line(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Any]
) -> None:
    put(tmp_path, "AGENTS.md", "x" * 500)
    assert only(load(tmp_path)).description == "x" * 120
    put(tmp_path, "AGENTS.md", "##\n")
    assert only(load(tmp_path)).description == "##"


def test_an_empty_convention_file_is_no_skill(tmp_path: Path, load: Callable[..., Library]) -> None:
    put(tmp_path, "AGENTS.md", " \n")
    assert load(tmp_path).catalog.skills == ()


def test_a_convention_file_that_is_not_utf8_is_invalid(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Any]
) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\xfe")
    assert only(load(tmp_path)).reason is Reason.NOT_UTF8


def test_below_dot_skills_every_markdown_file_with_frontmatter_is_a_skill(
    tmp_path: Path, load: Callable[..., Library], write_skill: Callable[..., Path]
) -> None:
    put(tmp_path, ".skills/search.md", DOCUMENT.format(name="search"))
    put(tmp_path, ".skills/nested/Other.MD", DOCUMENT.format(name="other-name"))
    put(tmp_path, ".skills/notes.md", "# Supporting text\n")
    put(tmp_path, ".skills/notes.txt", DOCUMENT.format(name="no-markdown"))
    put(tmp_path, ".skills/references/read.md", DOCUMENT.format(name="for-reading"))
    write_skill(tmp_path, ".skills/folder", files={"more.md": DOCUMENT.format(name="of-the-folder")})
    for root, prefix in ((tmp_path, ".skills/"), (tmp_path / ".skills", "")):
        library = load(root)
        assert keys(library.catalog) == {
            "folder": f"{prefix}folder",
            "other-name": f"{prefix}nested/Other.MD",
            "search": f"{prefix}search.md",
        }
        assert len(library.catalog.skills) == 3


def test_below_claude_skills_loose_markdown_with_frontmatter_is_a_skill(
    tmp_path: Path, load: Callable[..., Library], write_skill: Callable[..., Path]
) -> None:
    root = tmp_path / ".claude" / "skills"
    put(root, "search.md", DOCUMENT.format(name="search"))
    put(root, "group/Other.MD", DOCUMENT.format(name="other-name"))
    put(root, "README.md", "# What lies here\n")
    for folder in ("references", "agents", "Scripts"):
        put(root, f"group/{folder}/read.md", DOCUMENT.format(name="for-reading"))
    put(root, "group/nameless.md", "---\ndescription: d\n---\n")
    put(tmp_path, ".claude/agents/helper.md", DOCUMENT.format(name="helper"))
    put(tmp_path, "docs/skills/guide.md", DOCUMENT.format(name="guide"))
    write_skill(root, "folder", files={"more.md": DOCUMENT.format(name="of-the-folder")})
    (root / "unnamed").mkdir()
    (root / "unnamed" / "SKILL.md").write_text("---\ndescription: d\n---\n")
    catalog = load(root).catalog
    assert keys(catalog) == {
        "folder": "folder",
        "other-name": "group/Other.MD",
        "search": "search.md",
        "unnamed": "unnamed",
    }
    assert [(skill.content.place, skill.reason) for skill in catalog.skills if skill.state is not State.ACTIVE] == [
        ("group/nameless.md", Reason.MISSING_NAME)
    ]
    assert not load(tmp_path).catalog.skills


def test_a_convention_file_below_claude_skills_needs_no_frontmatter(
    tmp_path: Path, load: Callable[..., Library]
) -> None:
    put(tmp_path, ".claude/skills/CLAUDE.md", "# Rules\n")
    assert keys(load(tmp_path / ".claude" / "skills").catalog) == {"claude": "CLAUDE.md"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('---\nname: ""\ndescription: d\n---\n', Reason.MISSING_NAME),
        ("---\nname: a\n---\n", Reason.MISSING_DESCRIPTION),
        ("---\nname: a\n", Reason.UNCLOSED_FRONTMATTER),
        ("---\n- name\n---\n", Reason.INVALID_YAML),
    ],
)
def test_below_dot_skills_name_and_description_are_required(
    text: str, reason: Reason, tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Any]
) -> None:
    put(tmp_path, ".skills/bad.md", text)
    skill = only(load(tmp_path))
    assert (skill.state, skill.reason) == (State.INVALID, reason)


def test_the_name_of_a_document_may_differ_from_its_file(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Any]
) -> None:
    put(tmp_path, ".skills/any file.md", DOCUMENT.format(name="search"))
    assert [d.code for d in only(load(tmp_path)).diagnostics] == [Reason.NOT_PUBLISHED]


def test_the_files_of_a_document_are_its_references(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Any]
) -> None:
    fields = "references:\n  - references/staff.json\n  - ../secret\n  - absent.md\n---\n"
    put(tmp_path, ".skills/voice.md", DOCUMENT.format(name="voice").replace("---\nUse", fields + "Use"))
    put(tmp_path, ".skills/references/staff.json", "[1]")
    put(tmp_path, ".skills/references/other.json", "[2]")
    put(tmp_path, "secret", "s")
    library = load(tmp_path)
    skill = only(library)
    assert list(skill.content.files) == ["voice.md", "references/staff.json"]
    assert [d.code for d in skill.diagnostics].count(Reason.MISSING_REFERENCE) == 2
    assert library.catalog.file("skill://.skills/voice/references/staff.json") is not None
    changed = put(tmp_path, ".skills/references/staff.json", "[10]")
    ((_, after),) = library.reload([changed]).updated
    assert after.content.files["references/staff.json"].size == 4


def test_ids_are_name_and_digest_and_order_is_by_name_then_path(tmp_path: Path, load: Callable[..., Library]) -> None:
    text = DOCUMENT.format(name="My_Search tool é 検")
    file = put(tmp_path, ".skills/b.md", text)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    put(tmp_path, "x/AGENTS.md", "a")
    put(tmp_path, "AGENTS.md", "b")
    skills = load(tmp_path).catalog.skills
    assert [(skill.name, skill.path) for skill in skills] == [
        ("My_Search tool é 検", ".skills/My_Search tool é 検"),
        ("agents", "agents"),
        ("agents", "x/agents"),
    ]
    assert skills[0].id == f"my-search-tool-é-検-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    assert skills[0].last_modified == 1_700_000_000


def test_without_conventions_only_skill_folders_and_documents_are_found(tmp_path: Path) -> None:
    put(tmp_path, "AGENTS.md", "a")
    source = Source(tmp_path.resolve(), Scope.EXPLICIT, Strictness.LENIENT)
    library = Library([source], lambda: Environment(os="linux", has_bin=lambda _: True))
    assert library.catalog.skills == ()


def test_a_source_of_convention_files_loads_no_skill_folders(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    put(tmp_path, "AGENTS.md", "a")
    write_skill(tmp_path, "folder", files={"CLAUDE.md": "c"})
    source = Source(tmp_path.resolve(), kinds=frozenset({SkillKind.CONVENTION}))
    library = Library([source], lambda: Environment(os="linux", has_bin=lambda _: True))
    assert [skill.name for skill in library.catalog.skills] == ["agents"]


def test_a_file_may_become_a_skill_and_cease_to_be_one(tmp_path: Path, load: Callable[..., Library]) -> None:
    file = put(tmp_path, ".skills/notes.md", "# Notes\n")
    library = load(tmp_path)
    assert library.catalog.skills == ()
    put(tmp_path, ".skills/notes.md", DOCUMENT.format(name="notes"))
    assert [skill.key for skill in library.reload([file]).added] == ["notes"]
    put(tmp_path, ".skills/notes.md", "# Notes again\n")
    assert [skill.key for skill in library.reload([file]).removed] == ["notes"]


PLACES = ["", "a", "a/b", ".skills", ".skills/x", "a/references", "dist"]
FILES = ["SKILL.md", "x.skill.md", "Y.SKILL.md", "AGENTS.md", "claude.md", "SOUL.md", "doc.md", "data.json"]
TEXTS = ["plain\n", "", DOCUMENT.format(name="one"), DOCUMENT.format(name="two"), "---\nname: x\n---\n"]
REFERRING = DOCUMENT.format(name="three").replace("---\nUse", "references: [data.json]\n---\nUse")

EDIT = st.tuples(st.sampled_from(PLACES), st.sampled_from(FILES), st.sampled_from([*TEXTS, REFERRING, None]))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.lists(EDIT, min_size=1, max_size=3), max_size=6), told=st.booleans())
def test_after_any_edits_a_reload_equals_a_fresh_load(
    edits: list[list[tuple[str, str, str | None]]],
    told: bool,  # noqa: FBT001 - drawn
    tmp_path_factory: pytest.TempPathFactory,
    load: Callable[..., Library],
    seen: Callable[[Catalog], Any],
) -> None:
    root = tmp_path_factory.mktemp("edits").resolve()
    library = load(root)
    for step in edits:
        paths = []
        for place, name, text in step:
            file = root / place / name
            if text is None:
                file.unlink(missing_ok=True)
            else:
                put(root, f"{place}/{name}" if place else name, text)
            paths.append(file)
        library.reload(paths if told else None)
        assert seen(library.catalog) == seen(load(root).catalog)
