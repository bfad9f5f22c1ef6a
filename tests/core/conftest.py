"""Folders of skills as data: how the tests of the core write them, load them and look at the result."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skills_core import Environment, Library, Strictness, explicit_sources
from tests.permissions import CAN_BE_BOUND, bound_by_permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skills_core import Catalog, Skill


@pytest.fixture(scope="session")
def write_skill() -> Callable[..., Path]:
    """Write one skill folder; `fields` are lines of YAML, `files` maps further paths to text or bytes."""

    def write(
        root: Path,
        folder: str,
        *,
        name: str | None = None,
        description: str = "Does a thing.",
        fields: str = "",
        body: str = "Do it.",
        files: Mapping[str, str | bytes] | None = None,
    ) -> Path:
        where = root / folder if folder else root
        where.mkdir(parents=True, exist_ok=True)
        lines = ["---", f"name: {where.name if name is None else name}", f"description: {description}"]
        lines += [fields] if fields else []
        (where / "SKILL.md").write_bytes("\n".join([*lines, "---", body, ""]).encode())
        for path, content in (files or {}).items():
            target = where / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        return where

    return write


@pytest.fixture(scope="session")
def load() -> Callable[..., Library]:
    """Load directories as explicit sources, the first with the highest precedence."""

    def make(
        *roots: Path,
        strictness: Strictness = Strictness.LENIENT,
        follow_symlinks: bool = False,
        environment: Environment | None = None,
    ) -> Library:
        machine = environment or Environment(os="linux", has_bin=lambda _: True)
        return Library(explicit_sources(roots, strictness, follow_symlinks=follow_symlinks), lambda: machine)

    return make


@pytest.fixture(scope="session")
def only() -> Callable[[Library], Skill]:
    """Return the one skill of a library."""

    def take(library: Library) -> Skill:
        (skill,) = library.catalog.skills
        return skill

    return take


@pytest.fixture(scope="session")
def seen() -> Callable[[Catalog], Any]:
    """Show everything a user can see of a catalog, as values that can be compared."""

    def show(catalog: Catalog) -> Any:
        skills = [
            {
                "place": (str(skill.source.root), skill.content.folder),
                "name": (skill.name, skill.key, skill.path, skill.uri),
                "state": (skill.state, skill.reason, skill.detail),
                "text": (skill.description, skill.body, skill.digest),
                "files": [(file.path, file.size, file.digest, file.text) for file in skill.content.files.values()],
                "credential": (skill.skill_key, skill.credential),
                "diagnostics": skill.diagnostics,
            }
            for skill in catalog.skills
        ]
        active = [skill.key for skill in catalog.active]
        return {"skills": skills, "problems": catalog.problems, "sources": catalog.sources, "active": active}

    return show


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """Yield a folder as users see it whom permissions bind: the tests may run as root, whom they do not."""
    folder = Path(tempfile.mkdtemp()).resolve()
    folder.chmod(0o777)
    if not CAN_BE_BOUND:
        pytest.skip("permissions bind nobody here")
    try:
        with bound_by_permissions():
            yield folder
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o777)
        shutil.rmtree(folder)


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
