"""What a person writes on the page reaches the proposal, wherever the case lies and whatever the file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.capabilities.evals.proposals import find_iteration, read_cases
from server.capabilities.evals.report.serving import save_feedback
from server.capabilities.evals.report.workspace import read_workspace
from tests.capabilities.evals.report.workspaces import creator_workspace, grading, write, write_case, write_run


def read_by_both(root: Path) -> tuple[list[str], list[str]]:
    """Return the feedback on each case as the page shows it, and as a proposal is told."""
    shown = [case.feedback or "" for case in read_workspace(root).iterations[-1].cases]
    return shown, [case.feedback for case in read_cases(find_iteration(root))]


@pytest.mark.parametrize(
    "case", ["iteration-1/eval-a", "iteration-1/runs/eval-a", "iteration-1/alpha", "iteration-03/eval-a"]
)
def test_words_that_the_page_saves_are_in_the_proposal(tmp_path: Path, case: str) -> None:
    write(tmp_path / case / "eval_metadata.json", {"eval_id": "a", "prompt": "Paint."})
    for folder in (tmp_path / case, write_case(tmp_path / "iteration-1", "b")):
        write_run(folder / "with_skill", grading(True))
    newest = read_workspace(tmp_path).iterations[-1]
    for each in newest.cases:
        save_feedback(tmp_path, newest.folder, each.key, "too blue", each.outputs_digest)
    shown, told = read_by_both(tmp_path)
    assert told == shown == ["too blue"] * len(newest.cases)


def test_reviews_of_another_arm_and_stray_bytes_are_read_alike(tmp_path: Path) -> None:
    root = creator_workspace(tmp_path)
    shown, told = read_by_both(root)
    assert told == shown == ["new_skill-run-1: too blue", ""]
    write(root / "iteration-1/feedback.json", b'{"eval-0": "the caf\xe9 is missing"}')
    shown, told = read_by_both(root)
    assert told == shown == ["the caf\ufffd is missing", ""]
