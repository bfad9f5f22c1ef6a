"""Tools withhold from models the instructions of skills that only users may invoke, in any state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core.withheld_files import is_withheld_from_models

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library

NESTED = [
    ("---\nname: b\ndescription: d\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\ntrigger: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\ndisable-model-invocation: yes\n---\nBody\n", True),
    ("---\nname: b\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndisable-model-invocation: true\nBody without an end\n", True),
    (f"---\nname: {'[' * 500}\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\n- disable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: \udcff\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\n---\nBody\n", False),
    ("---\nname: b\nBody without an end\n", False),
    ("What disable-model-invocation means.\n", False),
    ("", False),
]


@pytest.mark.parametrize(("text", "withheld"), NESTED)
@pytest.mark.parametrize("name", ["SKILL.md", "skill.md"])
def test_a_nested_skill_is_withheld_if_only_users_may_invoke_it_or_that_is_unclear(
    name: str,
    text: str,
    withheld: bool,  # noqa: FBT001 - a case of the table
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    folder = write_skill(tmp_path, "a", files={"b/notes.md": "x"})
    (folder / "b" / name).write_bytes(raw)
    skill = load(tmp_path).catalog.skill("a")
    assert is_withheld_from_models(skill, skill.content.files[f"b/{name}"], raw) is withheld
    assert not is_withheld_from_models(skill, skill.content.files["b/notes.md"], raw)
