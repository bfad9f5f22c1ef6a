"""Serve with a login in this process, on a socket whose address is the audience."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from server.requests import Records
from tests.server import serving as http


def write_skill(folder: Path) -> Path:
    skill = folder / "greeting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greeting\ndescription: Greets.\n---\nSay hello.\n", encoding="utf-8")
    return folder


@asynccontextmanager
async def serving(skills: Path, **options: Any) -> AsyncIterator[str]:
    """Yield the URL of the MCP endpoint; `records` may be among the options, otherwise nothing is recorded."""
    async with http.serving(skills, **{"records": Records(), **options}) as served:
        yield served.url
