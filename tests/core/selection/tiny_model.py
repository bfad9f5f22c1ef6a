"""A model of a few words that tests write themselves: its vector for a word is a row of a table.

`holiday` lies between `plan` and `trip`, and all other words are alike.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

WORDS = ("plan", "trip", "read", "bills", "holiday")
_ROWS = [[0, 0, 0, 0.01], [0, 0, 0, 0.01], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 0]]


def write_model(folder: Path) -> Path:
    """Write the files of the model, or skip the test if a library for that is missing."""
    for name in ("fastembed", "numpy", "onnx", "tokenizers"):
        pytest.importorskip(name)
    import numpy as np  # noqa: PLC0415
    from onnx import TensorProto, helper, numpy_helper, save  # noqa: PLC0415
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: PLC0415

    folder.mkdir(parents=True)
    known = {word: number for number, word in enumerate(("[UNK]", "[PAD]", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(known, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 128, "pad_token": "[PAD]"}))
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in inputs],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", 4])],
        [numpy_helper.from_array(np.array(_ROWS, np.float32), "table")],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    return folder
