"""A git repository of skills with a branch, and the command `review` in it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_skill
from tests.server.cli.test_cli import run

QUERIES = [
    *({"query": f"draw the monthly csv sales, number {number}", "should_trigger": True} for number in range(8)),
    *({"query": f"rotate the picture of dog {number}", "should_trigger": False} for number in range(8)),
]
"""Queries that find a skill about charts, and no skill about pictures."""

DESCRIPTIONS = {
    "charts": "Draws a chart of monthly sales from a csv file. Use when asked for a chart.",
    "pictures": "Rotates and crops a picture of a dog. Use when asked to edit a picture.",
}
DESCRIPTION = "Does a thing. Use when the thing is to be done."


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Branch:
    """A repository with two skills on `main`, and a work tree on the branch `topic`."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.skills = top / "skills"
        top.mkdir()
        git(top, "init", "-q", "-b", "main")
        self.write("charts")
        self.write("pictures")
        self.write_queries("charts", QUERIES)
        self.commit()
        git(top, "checkout", "-q", "-b", "topic")

    def write(self, name: str, description: str = "", **more: Any) -> Path:
        return write_skill(self.skills, name, description or DESCRIPTIONS.get(name, DESCRIPTION), **more)

    def write_queries(self, name: str, queries: list[dict[str, Any]]) -> None:
        folder = self.skills / name / "evals"
        folder.mkdir(exist_ok=True)
        (folder / "eval_queries.json").write_text(json.dumps(queries), encoding="utf-8")

    def commit(self) -> None:
        git(self.top, "add", "-A")
        git(self.top, "commit", "-q", "-m", "A change")

    def run(self, *flags: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return run("review", self.top, *flags, **environment)

    def report(self, *flags: object, **environment: str) -> dict[str, Any]:
        return self.report_of(self.top, *flags, **environment)

    def report_of(self, place: Path, *flags: object, **environment: str) -> dict[str, Any]:
        done = run("review", place, "--json", *flags, **environment)
        assert done.returncode in {0, 1}, done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    def states(self) -> dict[str, str]:
        return {each["path"]: each["state"] for each in self.report()["skills"]}


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    return Branch(tmp_path / "repository")
