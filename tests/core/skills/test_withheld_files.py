"""Tools withhold from models eval files, and the instructions of skills that only users may invoke, in any state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core.skills.withheld_files import files_for_models, is_eval_file, is_withheld_from_models

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library

NESTED = [
    ("---\nname: b\ndescription: d\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\ntrigger: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\ndisable-model-invocation: yes\n---\nBody\n", True),
    ("---\nname: b\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndisable-model-invocation: true\nBody without an end\n", True),
    (f"---\nname: {'[' * 500}\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\n- disable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: \udcff\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\n---\nBody\n", False),
    ("---\nname: b\nBody without an end\n", False),
    ("What disable-model-invocation means.\n", False),
    ("", False),
]


@pytest.mark.parametrize(("text", "withheld"), NESTED)
@pytest.mark.parametrize("name", ["SKILL.md", "skill.md"])
def test_a_nested_skill_is_withheld_if_only_users_may_invoke_it_or_that_is_unclear(
    name: str,
    text: str,
    withheld: bool,  # noqa: FBT001 - a case of the table
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    folder = write_skill(tmp_path, "a", files={"b/notes.md": "x"})
    (folder / "b" / name).write_bytes(raw)
    skill = load(tmp_path).catalog.skill("a")
    assert is_withheld_from_models(skill, skill.content.files[f"b/{name}"], raw) is withheld
    assert not is_withheld_from_models(skill, skill.content.files["b/notes.md"], raw)


EVALS = ["evals/evals.json", "evals/files/customers.csv", "Evals/x.md", "EVALS/deep/er/x", "evals/SKILL.txt"]
OTHERS = ["evals", "evals.json", "eval/x.md", "references/evals/x.md", "my-evals/x", "evals-workspace/x", "a/evals.md"]


@pytest.mark.parametrize(("path", "is_one"), [*((path, True) for path in EVALS), *((path, False) for path in OTHERS)])
@pytest.mark.parametrize("nested", ["", "inner/", "deep/inner/"])
def test_eval_files_are_those_in_the_folder_evals_of_a_skill_or_of_one_in_it(
    path: str,
    is_one: bool,  # noqa: FBT001 - a case of the table
    nested: str,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    folder = write_skill(tmp_path, "a", files={f"{nested}{path}": "answer"})
    if nested:
        # In any state: the files of a skill that is not served are files of the enclosing one.
        (folder / nested / "SKILL.md").write_text("no skill")
    content = load(tmp_path).catalog.skill("a").content
    assert is_eval_file(content, content.files[f"{nested}{path}"]) is is_one
    assert (f"{nested}{path}" in files_for_models(content)) is not is_one
    assert "SKILL.md" in files_for_models(content)


def test_without_eval_files_a_models_files_are_the_skills_own_mapping(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", files={"references/evals/x.md": "no test of this skill"})
    content = load(tmp_path).catalog.skill("a").content
    assert files_for_models(content) is content.files


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_a_link_to_an_eval_file_is_one(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    collection = tmp_path / "skills" / "evals"
    folder = write_skill(collection, "a", files={"evals/x.json": "answer", "docs/d.md": "doc"})
    write_skill(collection, "b", files={"evals/y.json": "answer"})
    (folder / "answers").symlink_to("evals")
    (folder / "one.json").symlink_to("evals/x.json")
    (folder / "theirs").symlink_to("../b/evals")
    (folder / "more").symlink_to("docs")
    content = load(tmp_path / "skills", follow_symlinks=True).catalog.skill("a").content
    assert {"answers/x.json", "one.json", "theirs/y.json", "more/d.md"} <= content.files.keys()
    assert files_for_models(content).keys() == {"SKILL.md", "docs/d.md", "more/d.md"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_a_skill_that_is_linked_into_place_has_eval_files_too(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    real = write_skill(tmp_path / "evals", "a", files={"evals/x.json": "answer", "docs/d.md": "doc"})
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "a").symlink_to(real)
    content = load(tmp_path / "skills", follow_symlinks=True).catalog.skill("a").content
    assert files_for_models(content).keys() == {"SKILL.md", "docs/d.md"}
