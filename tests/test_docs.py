"""What the docs show is true: their examples run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = EXAMPLE.findall((REPOSITORY / "docs/testing.md").read_text(encoding="utf-8"))


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
