"""What the specifications demand (tests/requirements.toml): each rule names tests, and these tests exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TESTS = Path(__file__).parent
REQUIREMENTS = tomllib.loads((TESTS / "requirements.toml").read_text(encoding="utf-8"))


def test_every_requirement_has_a_source_a_rule_and_tests() -> None:
    assert REQUIREMENTS
    for name, entry in REQUIREMENTS.items():
        assert entry.keys() == {"source", "rule", "tests"}, name
        assert all(entry.values()), name


def test_every_named_test_exists() -> None:
    known = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    missing = {name: absent for name, entry in REQUIREMENTS.items() if (absent := set(entry["tests"]) - known)}
    assert missing == {}
