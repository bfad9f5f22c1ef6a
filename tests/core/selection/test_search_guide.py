"""The rerankers of docs/guides/search.md run as they stand; only the models are others."""

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
SENTENCE_TRANSFORMERS, ONNX = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
WORDS = ("plan", "trip", "read", "bills", "holiday")

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


def test_the_recipe_for_onnx(skills: Skills, tmp_path: Path) -> None:
    for name in ("numpy", "onnx", "onnxruntime", "tokenizers"):
        pytest.importorskip(name)
    _write_model(tmp_path / "minilm")
    assert found(ONNX, skills, "holiday")[0] == "travelling"
    assert len([*(tmp_path / ".cache/skillserve").iterdir()]) == 1


def _write_model(folder: Path) -> None:
    """Write a model whose vector for a token is a row of a table, in which holiday is between plan and trip."""
    import numpy as np  # noqa: PLC0415
    from onnx import TensorProto, helper, numpy_helper, save  # noqa: PLC0415
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: PLC0415

    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(("[UNK]", *WORDS))}, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(folder / "tokenizer.json"))
    rows = [[0, 0, 0, 0.01], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 0]]
    names = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in names],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", 4])],
        [numpy_helper.from_array(np.array(rows, np.float32), "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, folder / "model.onnx")
