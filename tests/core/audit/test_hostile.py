"""Texts made to be slow, and folders made to be read wrongly."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from skills_core.audit import skill as skill_module
from skills_core.audit.engine import audit
from skills_core.audit.skill import AuditedFile, SkillUnderAudit, read_file_of_skill, read_folder
from tests.permissions import CAN_BE_BOUND, bound_by_permissions
from tests.thoroughness import EVERY_CASE

if TYPE_CHECKING:
    from pathlib import Path

PIECES = [
    "ignore all previous ",
    "do not tell the user ",
    "<!-- ",
    "<!--x-->",
    "[a](",
    "[](a.md) ",
    "!`x",
    "`",
    "curl ",
    "| base64 -d ",
    "send the conversation to ",
    "\\\n",
    " ",
    "\n",
    "\u200b",
    "\U000e0041",
    "use a, b, ",
    "skillserve-audit: ",
    "# skillserve-audit: ignore x",
    "$(",
    "a.md ",
    "references/a.md\n",
    '"',
    "never ",
    "\u0430",
]


def calls_of_an_audit(piece: str, size: int) -> int:
    """Audit a skill whose files repeat a piece up to a size; return how many functions were called."""
    text = piece * (size // len(piece))
    files = [
        AuditedFile("SKILL.md", f"---\nname: x\ndescription: d\n---\n{text}".encode()[: size - 100]),
        AuditedFile("references/a.md", text.encode()),
        AuditedFile("scripts/a.sh", text.encode()),
    ]
    skill, calls = SkillUnderAudit.of("x", files), 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        audit(skill)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("piece", PIECES)
def test_the_work_of_an_audit_grows_with_its_text_and_not_with_the_square(piece: str) -> None:
    # Four times the text is four times the calls; the square would be sixteen times.
    size = (8 if EVERY_CASE else 4) * 1024
    assert calls_of_an_audit(piece, 4 * size) < 6 * calls_of_an_audit(piece, size)


def test_a_long_word_with_dashes_is_read_once() -> None:
    # With a search that begins anew at each dash, this takes hours.
    text = f"---\nname: x\ndescription: d\n---\n{'sk-' * 300_000}"
    scripts = [AuditedFile(f"scripts/{letter}.sh", b"echo") for letter in "ab"]
    audit(SkillUnderAudit.of("x", [AuditedFile("SKILL.md", text.encode()), *scripts]))


def test_every_file_of_a_folder_is_read_also_those_that_are_never_served(tmp_path: Path) -> None:
    for path in ("SKILL.md", "__pycache__/x.pyc", ".hidden/y", "node_modules/z.js", "a/b/c.bin", ".env"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    assert {*read_folder(tmp_path).files} == {
        *("SKILL.md", "__pycache__/x.pyc", ".hidden/y", "node_modules/z.js", "a/b/c.bin", ".env")
    }


def test_the_database_of_a_repository_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    assert not read_folder(tmp_path).files


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("secret")
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill" / "a").symlink_to("../out")
    (tmp_path / "skill" / "b").symlink_to("..", target_is_directory=True)
    files = read_folder(tmp_path / "skill").files
    assert [(each.path, each.raw, each.link) for each in files.values()] == [("a", b"", "../out"), ("b", b"", "..")]
    assert all(each.fault for each in files.values())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_special_file_is_a_finding_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (found,) = audit(read_folder(tmp_path))
    assert (found.rule, found.path) == ("unread-file", "pipe")


@pytest.mark.skipif(not CAN_BE_BOUND, reason="permissions do not bind this user")
def test_an_unreadable_file_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: x\ndescription: Use when asked to do some x.\n---\nSee x.py\n")
    (tmp_path / "x.py").write_text("x")
    (tmp_path / "x.py").chmod(0)
    with bound_by_permissions():
        found = audit(read_folder(tmp_path))
    assert [(each.rule, each.path) for each in found if each.severity == "error"] == [("unread-file", "x.py")]


@pytest.mark.parametrize(("bound", "value"), [("MAX_FILES", 3), ("MAX_BYTES", 3), ("MAX_FOLDERS", 2), ("MAX_DEPTH", 1)])
def test_what_lies_beyond_a_bound_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(skill_module, bound, value)
    for number in range(5):
        (tmp_path / str(number) / "a").mkdir(parents=True)
        (tmp_path / str(number) / "f").write_bytes(b"x")
    assert "unread-file" in {each.rule for each in audit(read_folder(tmp_path))}


def test_a_single_file_can_be_a_skill(tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text("Be kind.\n")
    skill = read_file_of_skill(file)
    assert skill.main is not None
    assert skill.body == "Be kind.\n"
