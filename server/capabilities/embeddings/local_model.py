"""Load a model for embeddings with the library fastembed, which fetches it at its first use.

A model is a name that the library knows, or a folder with the files of one. Models that were fetched are kept in the
user's folder for state; only the first use of a name needs the network.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from server.config.machine import state_home
from server.config.values import home_path
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError
from skills_core.installation import extra_advice, missing_modules

if TYPE_CHECKING:
    from skills_core.selection.embeddings import Encoder


AVERAGING: Final = "sentence-transformers/all-MiniLM-L6-v2"
"""The model by whose description a folder is loaded: the vector of a text is the mean of those of its words."""

_FILES: Final = ("model.onnx", "tokenizer.json", "tokenizer_config.json")
_FETCHED: Final = "models--*"


class ModelUnavailableError(SkillsError):
    """A model cannot be loaded; the message says why and what to do."""


class LocalModel(NamedTuple):
    """A loaded model, and what identifies it: other files or another version of the library give other vectors."""

    encode: Encoder
    identity: str


def search_home() -> Path:
    """Return the user's folder for what searches keep: models that were fetched, and vectors."""
    return state_home() / "search"


def model_folder(model: str) -> Path | None:
    """Return the folder that a setting names, None if it is the name of a model."""
    path = home_path(model)
    return path if model.startswith(("~", ".")) or path.is_absolute() else None


def missing_file(model: str) -> str:
    """Return the path of a file that a folder with a model lacks; empty if it lacks none, or if it is a name."""
    folder = model_folder(model)
    missing = (folder / name for name in _FILES if not (folder / name).is_file()) if folder else ()
    return next((one_line(str(path)) for path in missing), "")


def is_fetched(model: str) -> bool:
    """Tell whether a model is on this machine, without loading a library; of a name, whether any was fetched."""
    if model_folder(model) is not None:
        return not missing_file(model)
    return any((search_home() / "models").glob(f"{_FETCHED}/snapshots/*/*.onnx"))


def require_files(model: str) -> None:
    """Check that the library and the files of a folder are there, without loading any.

    Raises:
        ModelUnavailableError: something is missing.
    """
    if missing_modules("embeddings"):
        raise ModelUnavailableError(f"it needs the extra `embeddings`; {extra_advice('embeddings')}")
    if missing := missing_file(model):
        raise ModelUnavailableError(f"{missing} is missing")


def load_model(model: str) -> LocalModel:
    """Load a model; it is fetched if it is not on this machine yet, which may take minutes.

    Raises:
        ModelUnavailableError: the library or a file is missing, or the model cannot be fetched or loaded.
    """
    require_files(model)
    import fastembed
    from loguru import logger as log_of_library

    # It would write to stderr, past the log of the server; failures are raised as well.
    log_of_library.disable("fastembed")
    folder = model_folder(model)
    try:
        loaded = fastembed.TextEmbedding(
            AVERAGING if folder else model,
            cache_dir=str(search_home() / "models"),
            threads=max(1, (os.cpu_count() or 1) // 2),
            specific_model_path=str(folder) if folder else None,
        )
    except Exception as error:
        # A library for models and one for downloads may raise anything.
        why = f"{type(error).__name__}: {one_line(str(error))[:300]}"
        advice = "fetch it once with a network, or name a folder with a model in search.embeddings_model"
        raise ModelUnavailableError(f"{why}; {advice}") from error
    known_by = _digest(folder / "model.onnx") if folder else model

    def encode(texts: list[str]) -> Iterable[Iterable[float]]:
        return loaded.embed(texts)

    return LocalModel(encode, f"fastembed {fastembed.__version__} {known_by}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
