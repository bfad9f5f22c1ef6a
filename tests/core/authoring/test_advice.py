from __future__ import annotations

import ast
from pathlib import Path

import pytest

import skills_core
from skills_core import Reason
from skills_core.authoring.advice import ADVICE

ROOT = Path(skills_core.__file__).parents[1]

CHECKING = [
    *(path for room in ("disk", "format", "loading") for path in (ROOT / "skills_core" / room).glob("*.py")),
    ROOT / "server" / "commands" / "validating.py",
]
"""The modules whose every reason may come up when a skill is checked."""

ALSO = [ROOT / "skills_core" / "decisions.py", ROOT / "skills_core" / "gates.py", ROOT / "server" / "mending.py"]
"""Modules that say more than that: of them only the reasons of diagnostics count."""


def given_in(tree: ast.AST) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason"
    }


def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def calls(tree: ast.AST) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Diagnostic"
    ]


def test_each_reason_that_the_check_of_a_skill_can_give_has_its_advice_and_no_other_has() -> None:
    given = set().union(*(given_in(tree_of(module)) for module in CHECKING))
    given |= set().union(*(given_in(call) for module in ALSO for call in calls(tree_of(module))))
    assert {reason.name for reason in ADVICE} == given


@pytest.mark.parametrize("reason", list(ADVICE))
def test_advice_is_one_short_sentence(reason: Reason) -> None:
    advice = ADVICE[reason]
    assert advice[0].isupper()
    assert advice.endswith(".")
    assert ". " not in advice
    assert advice.isprintable()
    assert len(advice) <= 100
