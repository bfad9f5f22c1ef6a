"""The reranker of docs/guides/search.md runs as it stands; only the model is another."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from skills_core import Library, Skill, SkillSearch
from tests.core.selection.hashing_encoder import encode

GUIDE = (Path(__file__).parents[3] / "docs/guides/search.md").read_text(encoding="utf-8")
(SENTENCE_TRANSFORMERS,) = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)

Skills = tuple[Skill, ...]


@pytest.fixture
def skills(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Skills:
    write_skill(tmp_path / "skills", "travelling", description="Plan a trip.")
    write_skill(tmp_path / "skills", "invoices", description="Read bills.")
    return load(tmp_path / "skills").catalog.offered


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))


def found(recipe: str, skills: Skills, query: str) -> list[str]:
    module = ModuleType("rerankers")
    exec(compile(recipe, "rerankers.py", "exec"), module.__dict__)  # noqa: S102 - it is our own documentation
    return [match.skill.name for match in SkillSearch(module.rerank).select(skills, query)]


def test_the_recipe_for_sentence_transformers(skills: Skills, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class SentenceTransformer:
        def __init__(self, model_name_or_path: str) -> None:
            assert model_name_or_path == "sentence-transformers/all-MiniLM-L6-v2"

        def encode(self, inputs: list[str]) -> list[list[float]]:
            return encode(inputs)

    library = ModuleType("sentence_transformers")
    monkeypatch.setattr(library, "SentenceTransformer", SentenceTransformer, raising=False)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    assert found(SENTENCE_TRANSFORMERS, skills, "travelin")[0] == "travelling"
    assert len([*(tmp_path / ".cache/skillserve").iterdir()]) == 1
