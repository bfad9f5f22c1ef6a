"""`skillserve validate`: advice, several paths, and the changes that `--fix` writes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.authoring.writing import apply_fixes
from server.config.machine import current_environment
from skills_core import Library, Reason, explicit_sources
from tests.conftest import MakeSkill, write_skill
from tests.permissions import CAN_BE_BOUND
from tests.server.cli.test_cli import run, run_bound_by_permissions

FAULTY = """\
---
# what it is
name: Wrong_Name
description: Use when: the user asks
version: 1.0
licence: MIT  # the usual
---
Body\u200b: {}
"""

FIXED = """\
---
# what it is
name: faulty
description: "Use when: the user asks"
version: "1.0"
license: MIT  # the usual
---
Body\u200b: {}
"""


@pytest.fixture
def faulty(skills: Path) -> Path:
    file = skills / "faulty" / "skill.md"
    file.parent.mkdir()
    file.write_bytes(FAULTY.encode())
    return file


def validate_json(*arguments: object) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run("validate", "--json", *arguments).stdout)
    return result


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_diagnostic_is_followed_by_advice_on_how_to_fix_it(skills: Path, make_skill: MakeSkill) -> None:
    folder = make_skill("broken", description="''")
    lines = run("validate", skills).stdout.splitlines()
    assert lines[0].startswith(f"{folder / 'SKILL.md'}:3: error[missing_description]:")
    assert lines[1] == "  fix: Add a description that says what the skill does and when to use it."
    (diagnostic,) = validate_json(skills)["results"][0]["diagnostics"]
    assert f"  fix: {diagnostic['fix']}" == lines[1]
    assert run("show", "broken", skills).stdout.splitlines()[-1] == lines[1]


def test_a_missing_path_has_a_result_of_its_own_and_other_paths_are_checked(
    tmp_path: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("fine")
    (skills / "notes.txt").write_text("x")
    done = run("validate", skills / "fine", tmp_path / "nowhere", skills / "notes.txt", "--json")
    results = json.loads(done.stdout)["results"]
    assert [(result["valid"], [each["code"] for each in result["diagnostics"]]) for result in results] == [
        (True, []),
        (False, ["missing_directory"]),
        (False, ["not_a_directory"]),
    ]
    assert results[1]["path"] == str(tmp_path / "nowhere")
    assert done.returncode == 1


def test_without_a_path_it_checks_the_folder_where_it_starts(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("fine")
    command = [sys.executable, "-m", "server", "validate"]
    done = subprocess.run(command, cwd=skills, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 checked: 1 valid, 0 invalid\n")


def test_it_is_a_usage_error_if_no_path_can_be_checked(tmp_path: Path) -> None:
    done = run("validate", tmp_path / "nowhere", tmp_path / "nor" / "here")
    assert done.returncode == 2
    assert done.stdout.count("error[missing_directory]") == 2
    assert "Traceback" not in done.stderr


def test_fix_applies_and_reports_mechanical_fixes_and_validates_again(faulty: Path) -> None:
    done = run("validate", faulty.parent, "--fix", "--strict")
    main = faulty.with_name("SKILL.md")
    assert done.stdout.splitlines()[:5] == [
        f"fixed: {main}:1: renamed skill.md to SKILL.md",
        f"fixed: {main}:3: set the name to the folder's, 'faulty', not 'Wrong_Name'",
        f"fixed: {main}:4: wrote the value of 'description' as YAML",
        f"fixed: {main}:5: put the value of 'version' in quotes",
        f"fixed: {main}:6: renamed the field 'licence' to 'license'",
    ]
    assert done.returncode == 0
    assert files_below(faulty.parent) == {"SKILL.md": FIXED.encode()}
    again = run("validate", faulty.parent, "--fix")
    assert "fixed:" not in again.stdout


def test_without_fix_nothing_is_written(faulty: Path) -> None:
    before = files_below(faulty.parent)
    assert validate_json(faulty.parent)["fixed"] == []
    assert files_below(faulty.parent) == before


def test_json_output_lists_the_fixes_and_the_remaining_diagnostics(faulty: Path) -> None:
    faulty.write_bytes(faulty.read_bytes().replace(b"---\n# what", b"---\nnobody: knows\n# what"))
    output = validate_json(faulty, "--fix")
    codes = [fix["code"] for fix in output["fixed"]]
    assert codes == ["file_name_case", "name_mismatch", "yaml_repaired", "invalid_field", "unknown_field"]
    assert {fix["path"] for fix in output["fixed"]} == {str(faulty.with_name("SKILL.md"))}
    assert [fix["line"] for fix in output["fixed"]] == [1, 4, 5, 6, 7]
    (result,) = output["results"]
    found = ["unknown_field", "invalid_version", "hidden_characters"]
    assert [each["code"] for each in result["diagnostics"]] == found


def test_the_exit_code_depends_on_the_remaining_errors(faulty: Path) -> None:
    faulty.write_bytes(faulty.read_bytes().replace(b"description", b"x-description"))
    assert run("validate", faulty.parent, "--fix").returncode == 1


@pytest.mark.skipif(os.name == "nt", reason="modes are of other systems")
def test_a_fixed_file_keeps_its_mode_and_leaves_no_temporary_file(faulty: Path) -> None:
    faulty.chmod(0o640)
    run("validate", faulty.parent, "--fix")
    assert stat.S_IMODE(faulty.with_name("SKILL.md").stat().st_mode) == 0o640
    assert list(faulty.parent.iterdir()) == [faulty.with_name("SKILL.md")]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
@pytest.mark.parametrize("follow", ["false", "true"])
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, skills: Path, faulty: Path, follow: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "linked").mkdir()
    (outside / "linked" / "SKILL.md").write_bytes(FAULTY.encode())
    (skills / "linked").symlink_to(outside / "linked")
    (skills / "file").mkdir()
    (skills / "file" / "SKILL.md").symlink_to(outside / "linked" / "SKILL.md")
    inner = skills / "within"
    inner.symlink_to(faulty.parent)
    output = json.loads(run("validate", "--json", skills, "--fix", SKILLSERVE_FOLLOW_SYMLINKS=follow).stdout)
    assert len(output["results"]) == (4 if follow == "true" else 2)
    assert {fix["path"] for fix in output["fixed"]} == {str(faulty.with_name("SKILL.md"))}
    assert files_below(outside) == {"linked/SKILL.md": FAULTY.encode()}
    assert (skills / "file" / "SKILL.md").is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="names differ in more than case there")
def test_a_lower_case_skill_file_beside_skill_md_stays_unchanged(skills: Path, faulty: Path) -> None:
    main = faulty.with_name("SKILL.md")
    main.write_bytes(FAULTY.encode())
    if faulty.samefile(main):
        pytest.skip("this disk ignores case")
    run("validate", skills, "--fix")
    assert faulty.read_bytes() == FAULTY.encode()
    assert main.read_bytes() == FIXED.encode()


def test_every_skill_below_the_paths_is_fixed_once(skills: Path, make_skill: MakeSkill, faulty: Path) -> None:
    make_skill("outer/inner", fields="version: 2")
    output = validate_json(skills, skills / "outer", faulty.parent, "--fix")
    assert sorted(fix["code"] for fix in output["fixed"] if "inner" in fix["path"]) == ["invalid_field"]
    assert len(output["fixed"]) == 6


def test_a_file_created_meanwhile_is_not_overwritten(skills: Path, faulty: Path) -> None:
    (skill,) = Library(explicit_sources([skills]), current_environment).catalog.skills
    main = faulty.with_name("SKILL.md")
    if main.exists():
        pytest.skip("this disk ignores case")
    main.write_bytes(b"new")
    applied = apply_fixes(skill)
    assert applied is not None
    assert applied.fault is not None
    assert (applied.fault.code, applied.fixes) == (Reason.UNWRITABLE, ())
    assert files_below(faulty.parent) == {"skill.md": FAULTY.encode(), "SKILL.md": b"new"}


@pytest.mark.skipif(not CAN_BE_BOUND, reason="needs a user whom permissions bind")
def test_a_read_only_folder_is_reported_and_exits_with_1(faulty: Path) -> None:
    faulty.parent.chmod(0o555)
    try:
        done = run_bound_by_permissions("validate", faulty.parent, "--fix")
    finally:
        faulty.parent.chmod(0o755)
    assert "error[unwritable]" in done.stdout
    assert done.returncode == 1
    assert faulty.read_bytes() == FAULTY.encode()


def test_single_documents_and_convention_files_can_be_validated(tmp_path: Path) -> None:
    (tmp_path / ".skills").mkdir()
    paths = {name: tmp_path / ".skills" / f"{name}.md" for name in ("good", "bad", "text")}
    paths["good"].write_text("---\nname: good\ndescription: d\n---\n", encoding="utf-8")
    paths["bad"].write_text("---\nname: bad\n---\n", encoding="utf-8")
    paths["text"].write_text("# Supporting text\n", encoding="utf-8")
    (tmp_path / "AGENTS.md").write_text("# How we work\n", encoding="utf-8")
    (tmp_path / "a.skill.md").write_text("# No frontmatter\n", encoding="utf-8")
    found = validate_json(*paths.values(), tmp_path / "AGENTS.md", tmp_path / "a.skill.md")["results"]
    assert [(Path(each["path"]).name, each["valid"]) for each in found] == [
        ("good.md", True),
        ("bad.md", False),
        ("text.md", False),
        ("AGENTS.md", True),
        ("a.skill.md", False),
    ]
    assert [each["code"] for each in found[1]["diagnostics"]] == ["missing_description"]
    assert [each["code"] for each in found[2]["diagnostics"]] == ["missing_skill_file"]
    assert [each["code"] for each in found[4]["diagnostics"]] == ["missing_frontmatter"]


def test_any_other_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("---\nname: a\ndescription: d\n---\n", encoding="utf-8")
    assert run("validate", tmp_path / "notes.md").returncode == 2


def test_skills_in_a_folder_of_jdai_are_validated_as_strictly_as_they_are_served(tmp_path: Path) -> None:
    for place in (".jdai/skills", "elsewhere"):
        write_skill(tmp_path / place, "one", fields="colour: red")
    assert run("validate", tmp_path / "elsewhere").returncode == 0
    assert run("validate", tmp_path / ".jdai" / "skills").returncode == 1
    assert run("validate", tmp_path / ".jdai" / "skills" / "one" / "SKILL.md").returncode == 1


def test_a_name_of_its_own_is_valid_in_a_folder_of_jdai_unless_it_is_validated_strictly(tmp_path: Path) -> None:
    folder = tmp_path / ".jdai" / "skills" / "review"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: CodeReview\ndescription: d\n---\n", encoding="utf-8")
    assert run("validate", folder).returncode == 0
    assert run("validate", "--strict", folder).returncode == 1
