"""A skill with evals, and the command `eval` as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeSkill
from tests.server.cli.test_cli import REPOSITORY, run

AGENT = """
echo "$PWD" >> {log}
printf '%s' "$1" > "$3/prompt.txt"
if [ -n "$2" ]; then cat "$2/assets/template.txt" > "$3/out.txt"; else echo plain > "$3/out.txt"; fi
"""
"""An agent that follows the skill if it has one; each of its runs adds a line to a log."""

SAYS_HELLO = 'read -r said < out.txt; case "$said" in *hello*) echo "$said" ;; *) exit 1 ;; esac'
HELLO = {"text": "says hello", "check": SAYS_HELLO}

IN_NEW_SESSION = """python3 -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])'"""
"""`setsid`, which not every machine has."""


class Lab:
    """A skill with evals in a folder of its own, and an agent that logs its runs."""

    def __init__(self, make_skill: MakeSkill, folder: Path) -> None:
        self.folder = folder
        self.skill = make_skill("greeter", body="Copy the template.", files={"assets/template.txt": b"hello\n"})
        self.workspace = self.skill.parent / "greeter-workspace"
        self.log = folder / "log"
        self.state = folder / "state"
        self.isolates = False
        (folder / "tmp").mkdir()
        self.environment = {"XDG_STATE_HOME": str(self.state), "TMPDIR": str(folder / "tmp")}

    def write_evals(self, *cases: dict[str, Any], **files: bytes) -> None:
        folder = self.skill / "evals"
        (folder / "files").mkdir(parents=True, exist_ok=True)
        numbered = [{"id": number, "prompt": "greet", **case} for number, case in enumerate(cases, 1)]
        (folder / "evals.json").write_text(json.dumps({"skill_name": "greeter", "evals": numbered}))
        for name, content in files.items():
            (folder / "files" / name).write_bytes(content)

    def agent(self, script: str = AGENT) -> str:
        """Return the template of an agent with this script."""
        file = self.folder / "agent.sh"
        file.write_text(script.replace("{log}", str(self.log)))
        return f"sh {file} {{prompt}} {{skill}} {{outputs}} {{files}}"

    def run(self, *flags: object, agent: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `eval`; by default with the agent that follows the skill, which writes to a log outside of its run."""
        template = self.agent() if agent is None else agent
        own = ["--agent-command", template] if template else []
        own += [] if self.isolates else ["--no-isolation"]
        return run("eval", self.skill, *own, *flags, **{**self.environment, **environment})

    def report(self, *flags: object, agent: str | None = None) -> dict[str, Any]:
        """Run `eval --json`, and return the object."""
        done = self.run("--json", *flags, agent=agent)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    @contextmanager
    def start(self, *flags: object, agent: str | None = None) -> Iterator[subprocess.Popen[str]]:
        """Start `eval` without waiting for it; it ends with the block."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
        template = self.agent() if agent is None else agent
        own = ["--agent-command", template] if template else []
        own += [] if self.isolates else ["--no-isolation"]
        with subprocess.Popen(
            [sys.executable, "-m", "server", "eval", str(self.skill), *own, *map(str, flags)],
            cwd=REPOSITORY,
            env={**inherited, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def file(self, path: str, iteration: int = 1) -> Any:
        return json.loads((self.workspace / f"iteration-{iteration}" / path).read_text())

    def logged(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def left_over(self) -> list[str]:
        """Return what is left in the temporary folder."""
        return sorted(path.name for path in (self.folder / "tmp").iterdir())


@pytest.fixture
def lab(make_skill: MakeSkill, tmp_path: Path) -> Lab:
    made = Lab(make_skill, tmp_path)
    made.write_evals({"assertions": [HELLO]}, {"assertions": [HELLO]})
    return made


MakeVerdicts = Callable[[Sequence[dict[str, Any]]], str]
