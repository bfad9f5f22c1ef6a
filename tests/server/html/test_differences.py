"""The lines of a unified diff."""

from __future__ import annotations

import difflib

from server.html.differences import diff_lines

HEAD = "--- a/SKILL.md\n+++ b/SKILL.md\n"


def test_lines_that_look_like_names_of_files_are_lines_of_the_texts() -> None:
    before = ["---", "name: x", "---", "-- a", "", "last"]
    after = ["name: x", "++ b", "+++ c", "", "last"]
    diff = "".join(f"{line}\n" for line in difflib.unified_diff(before, after, "a/x", "b/x", lineterm=""))
    lines = diff_lines(diff * 2)
    assert [line for kind, line in lines if kind == "removed"] == ["----", "----", "--- a"] * 2
    assert [line for kind, line in lines if kind == "added"] == ["+++ b", "++++ c"] * 2
    assert [line for kind, line in lines if kind == "kept"][:3] == ["--- a/x", "+++ b/x", "@@ -1,6 +1,5 @@"]


def test_a_line_of_a_text_cannot_look_like_one_of_the_diff() -> None:
    lines = diff_lines(f"{HEAD}@@ -1 +1 @@\n-one\u2028+two\r+three\n\\ No newline at end of file\n+new\n")
    assert [kind for kind, _ in lines] == ["kept", "kept", "kept", "removed", "kept", "added"]


def test_an_empty_diff_has_no_lines() -> None:
    assert diff_lines("") == []
