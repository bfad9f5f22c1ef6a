"""The commands that conditions of other tools become, run by the shell as evals run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core.evals.importing import checks
from skills_core.evals.importing.checks import SCRIPT, NotCarriedError, check_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="checks are commands for sh")


class Run:
    """The folder of a run with outputs and an answer."""

    def __init__(self, root: Path) -> None:
        self.outputs = root / "outputs"
        self.evals = root / "evals"
        self.answer = root / "answer.txt"
        for folder in (self.outputs, self.evals):
            folder.mkdir()
        shutil.copy(Path(checks.__file__).parent / SCRIPT, self.evals)

    def code(self, command: str) -> int:
        found = {"ANSWER": str(self.answer), "EVALS": str(self.evals), "PATH": os.environ["PATH"]}
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.outputs, env=found, capture_output=True, check=False, timeout=60
        )
        return done.returncode

    def holds(self, condition: str, *values: object, denied: bool = False) -> bool:
        code = self.code(check_of(condition, values, denied=denied)["check"])
        assert code in {0, 1}
        return code == 0


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run(tmp_path)
    made.answer.write_text("Oslo has 3 degrees.\nÄrger ahead.\n")
    (made.outputs / "deep").mkdir()
    (made.outputs / "deep/report.md").write_text("# Report\nIt's raining, $5 & more\n")
    (made.outputs / "image.png").write_bytes(b"\x89PNG\xff")
    return made


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("contains", ["Oslo"], True),
        ("contains", ["oslo"], False),
        ("contains", ["It's raining, $5 &"], True),
        ("contains", ["degrees.\nÄrger"], True),
        ("contains", [3], True),
        ("icontains", ["ärger"], True),
        ("contains-all", ["Oslo", "Report"], True),
        ("contains-all", ["Oslo", "sun"], False),
        ("contains-any", ["sun", "raining"], True),
        ("icontains-any", ["sun", "snow"], False),
        ("matches", [r"\d degrees"], True),
        ("matches", ["^Ärger"], False),
        ("imatches", ["OSLO"], True),
        ("equals", ["Oslo"], False),
        ("starts-with", ["Oslo has"], True),
        ("is-json", [], False),
        ("exists", ["report.md"], True),
        ("exists", ["*.md"], True),
        ("exists", ["deep/*.txt"], False),
        ("file-contains", ["report.md", "raining"], True),
        ("file-matches", ["**/*.md", "^# Rep"], True),
        ("file-matches", ["*.md", "sun"], False),
    ],
)
def test_a_condition_and_its_denial(run: Run, condition: str, values: list[object], *, expected: bool) -> None:
    assert run.holds(condition, *values) is expected
    assert run.holds(condition, *values, denied=True) is not expected


def test_json_is_compared_as_json(run: Run) -> None:
    run.answer.write_text('{"a": 1,\n "b": 2}')
    assert run.holds("is-json")
    assert run.holds("equals-json", '{"b": 2, "a": 1}')
    assert not run.holds("equals-json", '{"a": 1}')


def test_a_file_that_is_missing_neither_has_nor_lacks_anything(run: Run) -> None:
    assert not run.holds("file-contains", "none.md", "x")
    assert not run.holds("file-contains", "none.md", "x", denied=True)


def test_without_an_answer_nothing_is_decided(run: Run) -> None:
    run.answer.unlink()
    assert run.code(check_of("contains", ["x"])["check"]) == 126


HOSTILE = (
    "'; touch hit; '",
    "$(touch hit)",
    "`touch hit`",
    '"; touch hit #',
    "\\'; touch hit",
    "a\ntouch hit\n",
    "-c",
    "--",
)


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("condition", ["contains", "equals", "file-contains", "exists"])
def test_a_value_is_never_a_command(run: Run, condition: str, value: str) -> None:
    # A path with a backslash is refused.
    path = value.replace("\\", "")
    values = {"file-contains": [path, value], "exists": [path]}.get(condition, [value])
    assert not run.holds(condition, *values)
    assert not [path for path in run.outputs.parent.rglob("*") if path.name == "hit"]
    run.answer.write_text(value)
    assert run.holds("contains", value)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1, max_size=30))
def test_any_text_reaches_the_condition_as_it_is(run: Run, text: str) -> None:
    run.answer.write_bytes(f"before {text} after".encode())
    assert run.holds("contains", text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: check_of("contains", []),
        lambda: check_of("contains", [""]),
        lambda: check_of("contains", ["a\0b"]),
        lambda: check_of("contains", [["a"]]),
        lambda: check_of("contains", [True]),
        lambda: check_of("contains", ["x" * 30_000]),
        lambda: check_of("matches", ["("]),
        lambda: check_of("matches", ["a(?i)b"]),
        lambda: check_of("exists", ["../x"]),
        lambda: check_of("file-contains", ["/etc/passwd", "root"]),
    ],
)
def test_what_cannot_be_a_command_is_not_carried_over(make: Callable[[], object]) -> None:
    with pytest.raises(NotCarriedError):
        make()
