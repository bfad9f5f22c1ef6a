"""Skills for the tests of contexts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog, Library


@pytest.fixture(scope="session")
def catalog_of(
    tmp_path_factory: pytest.TempPathFactory, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> Callable[..., Catalog]:
    """Write skills, by folder, and load them: a text is a description, a mapping holds what `write_skill` takes."""

    def make(**skills: str | dict[str, object]) -> Catalog:
        root = tmp_path_factory.mktemp("skills")
        for folder, options in skills.items():
            given = {"description": options} if isinstance(options, str) else options
            write_skill(root, folder.replace("__", "/").replace("_", "-"), **given)
        return load(root).catalog

    return make
