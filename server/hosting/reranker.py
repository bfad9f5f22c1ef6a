"""The second opinion on a search that a setting names, such as one by embeddings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from server.config.settings import ConfigurationError

if TYPE_CHECKING:
    from skills_core.selection import Reranker

__all__ = ["load_reranker"]


def load_reranker(name: str | None) -> Reranker | None:
    """Return the reranker that `name` stands for, `package.module:name` in this Python; None for None.

    Raises:
        ConfigurationError: there is no such module, it fails when it is imported, or the name is nothing to call.
    """
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        # Whatever a module of somebody else does when it is imported.
        raise ConfigurationError(f"reranker: {name}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ConfigurationError(f"reranker: {name}: expected a function of a query and skills, not {found!r:.100}")
    reranker: Reranker = found
    return reranker
