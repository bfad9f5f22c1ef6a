"""Skills that replace the fixtures of the official suite, and a skill that is repeatedly added and removed.

The suite expects a fixture server with prompts of fixed names. This server offers skills as prompts, so skills of these
names provide them. Like the suite's names, they violate the naming rules.
"""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

__all__ = ["skills_coming_and_going", "write_fixtures"]

FIXTURES = {
    "test_simple_prompt": "This is a simple prompt for testing.",
    "test_prompt_with_arguments": "Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'",
}

VISITOR = "comes-and-goes"
INTERVAL = 0.3
"""In seconds: short enough for several changes in the suite's wait of 1.5 s, and longer than the debounce."""


def write_fixtures(root: Path) -> None:
    """Write the skills that the suite requests by name."""
    for name, body in FIXTURES.items():
        _write(root, name, body)


@asynccontextmanager
async def skills_coming_and_going(root: Path) -> AsyncGenerator[None]:
    """Repeatedly add and remove a skill while the body runs."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_come_and_go, root)
        yield
        tasks.cancel_scope.cancel()


async def _come_and_go(root: Path) -> None:
    while True:
        _write(root, VISITOR, "Here for a moment.")
        await anyio.sleep(INTERVAL)
        shutil.rmtree(root / VISITOR)
        await anyio.sleep(INTERVAL)


def _write(root: Path, name: str, body: str) -> None:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: Stands in for a fixture of the conformance suite.\n---\n\n{body}\n"
    (folder / "SKILL.md").write_bytes(text.encode())
