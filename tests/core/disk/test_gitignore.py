from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Environment, Library, Reason
from skills_core.disk.sources import explicit_sources
from tests.thoroughness import combined, examples

if TYPE_CHECKING:
    from collections.abc import Callable

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def load(root: Path) -> Library:
    machine = Environment(os="linux", has_bin=lambda _: True)
    return Library(explicit_sources([root], gitignore=True), lambda: machine)


def files(library: Library) -> dict[str, list[str]]:
    return {skill.name: sorted(skill.content.files) for skill in library.catalog.skills}


def test_ignored_files_are_not_part_of_the_source(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    (tmp_path / ".gitignore").write_text("# built\n*.log\ndrafts/\n!kept.log\n")
    write_skill(tmp_path, "one", files={"a.log": "", "kept.log": "", "sub/b.log": "", "ok.md": ""})
    write_skill(tmp_path, "drafts/two")
    assert files(load(tmp_path)) == {"one": ["SKILL.md", "kept.log", "ok.md"]}


def test_the_nearest_ignore_file_decides_and_those_above_the_source_apply(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*.bin\n")
    (tmp_path / ".gitignore").write_text("*.tmp\n/skills/off/\n")
    root = tmp_path / "skills"
    write_skill(root, "one", files={"x.tmp": "", "y.bin": "", "deep/z.tmp": "", "deep/.gitignore": "!z.tmp\n"})
    write_skill(root, "off")
    assert files(load(root)) == {"one": ["SKILL.md", "deep/z.tmp"]}


def test_rules_that_ignore_the_source_itself_do_not_apply(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("local/\n*.log\n")
    write_skill(tmp_path / "local", "one", files={"a.log": ""})
    assert files(load(tmp_path / "local")) == {"one": ["SKILL.md", "a.log"]}


def test_a_negated_folder_is_scanned_and_its_files_are_judged_by_themselves(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    (tmp_path / ".gitignore").write_text("*\n!*/\n!*.md\n")
    write_skill(tmp_path, "one", files={"sub/a.md": "", "sub/b.log": ""})
    assert files(load(tmp_path)) == {"one": ["SKILL.md", "sub/a.md"]}


def test_an_edit_of_an_ignore_file_takes_effect(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path, "a/one", files={"x.log": ""})
    write_skill(tmp_path, "a/two")
    library = load(tmp_path)
    rules = tmp_path.resolve() / "a" / ".gitignore"
    rules.write_text("two\n*.log\n")
    change = library.reload([rules])
    assert ([s.name for s in change.removed], [s.name for _, s in change.updated]) == (["two"], ["one"])
    rules.unlink()
    assert [skill.name for skill in library.reload([rules]).added] == ["two"]
    assert files(library) == files(load(tmp_path))


def test_an_invalid_line_leaves_the_other_patterns_in_effect(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    (tmp_path / ".gitignore").write_text("\\\n[z-a]\n*.log\n")
    write_skill(tmp_path, "one", files={"a.log": "", "b": ""})
    library = load(tmp_path)
    assert files(library) == {"one": ["SKILL.md", "b"]}
    assert library.catalog.problems == ()


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def waiting(path: Path) -> None:
    os.mkfifo(path)


def too_many(path: Path) -> None:
    path.write_text("".join(f"a{number}\n" for number in range(9000)))


PLACES = ["skills", "skills/one", "."]


def too_costly(path: Path) -> None:
    path.write_text("".join(f"*a{number}*b*c*d*\n" for number in range(2000)))


def too_large(path: Path) -> None:
    path.write_bytes(b"#" * 1_000_000)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize(("spoil", "place"), combined([endless, waiting, Path.mkdir], PLACES))
def test_an_ignore_file_that_git_skips_ignores_nothing(
    spoil: Callable[[Path], None], place: str, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    (tmp_path / ".git").mkdir()
    write_skill(tmp_path / "skills", "one", files={"a.log": ""})
    spoil(tmp_path / place / ".gitignore")
    library = load(tmp_path / "skills")
    assert files(library) == {"one": ["SKILL.md", "a.log"]}
    assert [*library.catalog.problems, *library.catalog.skill("one").diagnostics] == []


@pytest.mark.parametrize(("spoil", "place"), combined([too_many, too_costly, too_large], PLACES))
def test_unusable_rules_hide_all_they_may_hide_with_a_diagnostic(
    spoil: Callable[[Path], None], place: str, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    (tmp_path / ".git").mkdir()
    write_skill(tmp_path / "skills", "one", files={"a.log": ""})
    spoil(tmp_path / place / ".gitignore")
    library = load(tmp_path / "skills")
    assert library.catalog.skills == ()
    (problem,) = library.catalog.problems
    assert problem.code is Reason.INVALID_CONFIGURATION
    assert ".gitignore" in problem.path


PATTERNS = ["*.md", "!SKILL.md", "a/", "/a", "a/*", "!a/b/", "**/c.txt", "b/**", "a/b/c.txt", "!*.txt", "[ab]", "\\#x"]
PATTERNS += ["*", "!*/", "!a/", "!**/b/**"]
LINES = st.lists(st.sampled_from(PATTERNS), max_size=4)


@needs_git
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules=st.dictionaries(st.sampled_from(["", "a/", "a/b/"]), LINES))
def test_the_result_equals_that_of_git(
    rules: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory, write_skill: Callable[..., Path]
) -> None:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    paths = ["c.txt", "x.md", "a/c.txt", "a/x.md", "a/b/c.txt", "a/b/x.md", "b/c.txt", "b/a/x.md"]
    write_skill(root, "", name="whole", files=dict.fromkeys(paths, "x"))
    for folder, lines in rules.items():
        (root / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    expected = {path for path in listed.stdout.splitlines() if not path.endswith(".gitignore")}
    assert {path for paths in files(load(root)).values() for path in paths} == (
        expected if "SKILL.md" in expected else set()
    )
