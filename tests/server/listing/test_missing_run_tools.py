"""A server says at its start which of the tools that perform were asked for and are not there, and why."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from server.capabilities.runs.offered import _missing
from tests.conftest import MakeSkill
from tests.core.test_system_faults import Faults
from tests.server.cli.test_cli import run

MODEL = "http://127.0.0.1:9/v1#m"
NO_MODEL = "no model is set; name one with --model"
GONE = "--workflow names files or folders that do not exist: /nowhere/at/all"


def warnings(skills: Path, *flags: str) -> list[str]:
    """Return what a server says that ends at once, as nobody is connected."""
    done = run("serve", skills, "--log-level", "warning", *flags, SKILLSERVE_WATCH="off")
    assert done.returncode == 0, done.stderr
    return [line.partition(" WARNING server.capabilities.runs.offered: ")[2] for line in done.stderr.splitlines()]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--tool", "run_skill"], [f"run_skill is not available: {NO_MODEL}"]),
        (["--workflow", "docs/workflows"], [f"run_workflow is not available: {NO_MODEL}"]),
        (
            ["--workflow", "docs/workflows", "--model", MODEL],
            ["run_workflow is not available: the tool run_workflow is not switched on; do so with --tool run_workflow"],
        ),
        (
            ["--tool", "run_workflow", "--workflow", "/nowhere/at/all", "--model", MODEL],
            [f"run_workflow is not available: {GONE}"],
        ),
        (
            ["--tool", "run_workflow", "--workflow", "docs/workflows", "--workflow", "/nowhere/at/all"],
            [f"run_workflow is not available: {NO_MODEL}", GONE],
        ),
        (
            [
                "--tool",
                "run_workflow",
                "--workflow",
                "docs/workflows",
                "--workflow",
                "/nowhere/at/all",
                "--model",
                MODEL,
            ],
            [GONE],
        ),
        (["--model", MODEL], []),
        ([], []),
    ],
    ids=" ".join,
)
def test_what_was_asked_for_and_is_not_there_is_told_at_the_start(
    skills: Path, make_skill: MakeSkill, flags: list[str], said: list[str]
) -> None:
    make_skill("fine")
    assert warnings(skills, *flags) == said


@pytest.mark.parametrize(("number", "missing"), [(errno.ENOENT, True), (errno.EIO, False), (errno.EACCES, False)])
def test_a_workflow_that_cannot_be_looked_at_is_not_missing(
    number: int,
    missing: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    places = (str(tmp_path),)
    _missing.cache_clear()
    with Faults(number, frozenset({"stat"})).striking():
        assert _missing(places) == (places if missing else ())
    _missing.cache_clear()
