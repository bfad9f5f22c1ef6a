"""A diff is accepted by `git apply` and by `patch -p1`, whatever the texts contain."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core.evals.proposals import unified_diff
from tests.thoroughness import examples

PROGRAMS = [
    pytest.param(
        program, marks=pytest.mark.skipif(not shutil.which(program[0]), reason=f"needs {program[0]}"), id=program[0]
    )
    for program in (["git", "apply", "proposal.diff"], ["patch", "-p1", "-s", "-i", "proposal.diff"])
]

TEXTS = [
    ("one line to another", "a\n", "b\n"),
    ("no newline at the end of both", "a\nb", "a\nc"),
    ("a newline added at the end", "a", "a\n"),
    ("a newline removed at the end", "a\n", "a"),
    ("all lines gone but one", "a\n" * 50, "a\n"),
    ("lines that look like headers are removed", "x\n-- a/SKILL.md\n++ b/other\ny\n", "x\ny\n"),
    ("lines that look like headers are added", "x\ny\n", "x\n++ b/../../outside\n-- a/outside\n@@ -1 +1 @@\ny\n"),
    ("a whole diff is the text", "x\n", "x\n--- a/SKILL.md\n+++ b/outside\n@@ -0,0 +1 @@\n+evil\ndiff --git a/x b/x\n"),
    ("CRLF", "a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
    ("mixed line ends", "a\r\nb\nc\r\n", "a\r\nb\nd\n"),
    ("separators of Unicode and form feeds within a line", "a\x0cb\u2028c\n\x85\n", "a\x0cb\u2028d\n\x85\n"),
    ("a far away line", "".join(f"{n}\n" for n in range(5000)), "".join(f"{n}\n" for n in range(5000) if n != 2500)),
    ("two hunks", "".join(f"{n}\n" for n in range(40)), "new\n" + "".join(f"{n}\n" for n in range(39))),
    ("no newline, with the words of the marker", "a\n\\ No newline at end of file", "b\n\\ No newline at end of file"),
]


def apply(program: list[str], folder: Path, before: str | None, after: str) -> bytes:
    folder.mkdir(exist_ok=True)
    if before is not None:
        (folder / "SKILL.md").write_bytes(before.encode())
    (folder / "proposal.diff").write_bytes(unified_diff("SKILL.md", before, after).encode())
    done = subprocess.run(program, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return (folder / "SKILL.md").read_bytes()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("before", "after"), [pair for _, *pair in TEXTS], ids=[name for name, *_ in TEXTS])
def test_applied_to_the_old_text_a_diff_makes_the_new_one(
    program: list[str], before: str, after: str, tmp_path: Path
) -> None:
    assert apply(program, tmp_path / "skill", before, after) == after.encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["skill"]
    assert {path.name for path in (tmp_path / "skill").iterdir()} <= {"SKILL.md", "proposal.diff", "SKILL.md.orig"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_new_file_is_created(program: list[str], tmp_path: Path) -> None:
    assert apply(program, tmp_path, None, "one\ntwo\n") == b"one\ntwo\n"


def test_equal_texts_have_an_empty_diff() -> None:
    assert unified_diff("SKILL.md", "a\nb", "a\nb") == ""


LINES = st.lists(st.sampled_from(["a", "b", "-- a/x", "++ b/x", "@@ -1 +1 @@", "c\r", "", "\\ No"]), max_size=12)


TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@settings(max_examples=examples(40))
@given(TEXT.filter(bool), TEXT.filter(bool))
def test_any_two_texts_have_a_diff_that_can_be_applied(before: str, after: str) -> None:
    if before == after:
        return
    with TemporaryDirectory() as folder:
        assert apply(["git", "apply", "proposal.diff"], Path(folder), before, after) == after.encode()
