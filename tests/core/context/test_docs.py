"""The example in the documentation works as described."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_example_for_programs_runs_and_prints_what_it_says() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    section = page.partition("\n## Contexts for programs\n")[2]
    example = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert example
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-W", "error", "-c", example[1]],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        0,
        "context: release-notes is used without its missing tools: Write\n",
    )
    for part in (
        "[skill:csv-insights]\n",
        "[skill:git-bisect-guide]\n",
        '<skill_content name="release-notes"',
        "<skills>",
    ):
        assert part in done.stdout
    assert done.stdout.startswith("release-notes ('Bash(git:*)', 'Read') ('Write',)\n[skill:release-notes]\n")
