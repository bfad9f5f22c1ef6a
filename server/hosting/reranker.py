"""Load the reranker that a setting names, such as one by embeddings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from server.config.settings import ConfigurationError

if TYPE_CHECKING:
    from skills_core.selection import Reranker

__all__ = ["load_reranker"]


def load_reranker(name: str | None) -> Reranker | None:
    """Import the reranker `package.module:name`; return None without a name.

    Raises:
        ConfigurationError: the module does not exist or fails to import, or the name is not callable.
    """
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        # Importing a third-party module may raise anything.
        raise ConfigurationError(f"reranker: {name}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ConfigurationError(f"reranker: {name}: expected a function of a query and skills, not {found!r:.100}")
    reranker: Reranker = found
    return reranker
