"""What the docs show is true: their examples run as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.run.scripts.running import FOUND
from tests.model_endpoint import ModelEndpoint

REPOSITORY = Path(__file__).parents[1]

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = EXAMPLE.findall((REPOSITORY / "docs/guides/test-skills.md").read_text(encoding="utf-8"))


BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = [
    line.removeprefix("$ ")
    for page in ("run-skills", "run-workflows", "run-scripts", "guard-tool-calls", "give-runs-tools")
    for block in BLOCK.findall((REPOSITORY / f"docs/guides/{page}.md").read_text(encoding="utf-8"))
    for line in re.sub(r"\\\n +", "", block).splitlines()
    if re.match(r"(\$ .*\| )?skillserve ", line)
]


SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_each_example_of_a_test_passes(example: str, tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(example, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", tmp_path / "pytest.ini", tmp_path],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_examples_of_everything_that_can_be_tested() -> None:
    assert len(EXAMPLES) >= 5


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder like this repository as the docs see it."""
    folder = tmp_path / "project"
    shutil.copytree(REPOSITORY / "sample_skills", folder / "sample_skills")
    shutil.copytree(REPOSITORY / "docs/workflows", folder / "docs/workflows")
    (folder / "sales.csv").write_text("month,amount\n1,2\n2,3\n")
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/skillserve"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m server "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="the docs write for a POSIX shell")
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_of_the_docs_does_what_it_is_for(command: str, project: Path, endpoint: ModelEndpoint) -> None:
    # An answer that is a good score too, by as many criteria as the one skill has that is scored.
    scores = [{"score": 1.0}] * 5
    endpoint.script = [json.dumps({"overall": 1.0, "criteria": scores, "finding": ""})]
    above = project.parent
    if "sample_skills" not in command:
        shutil.copytree(project / "sample_skills", above / "config/skillserve/skills")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    places = {"HOME": above, "XDG_CONFIG_HOME": above / "config", "XDG_STATE_HOME": above / "state"}
    done = subprocess.run(
        ["sh", "-c", command.replace("anthropic:NAME", shlex.quote(endpoint.model))],
        cwd=project,
        env={
            **environment,
            **{name: str(place) for name, place in places.items()},
            "PATH": f"{above / 'bin'}{os.pathsep}{environment['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if re.search("WARNING|ERROR|Traceback", line)]
    if "--require-sandbox" in command and FOUND.fault:
        # Without a whole sandbox the server says that it offers no scripts, once, and goes on.
        assert said.pop().endswith("None is run, as a sandbox is required."), done.stderr
    assert said == [], done.stderr
    assert bool(endpoint.requests) == bool(re.match(r"skillserve (run|workflow run) ", command))


def test_there_are_commands_of_everything_that_performs() -> None:
    begun = {re.sub(r".*skillserve ", "", command).split()[0] for command in COMMANDS}
    assert begun >= {"guard", "run", "runs", "script", "serve", "workflow"}
