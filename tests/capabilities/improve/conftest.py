"""A model that improves skills, and services whose runs are followed by it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from tests.capabilities.improve.loops import Loop, Model, open_loop
from tests.model_endpoint import ModelEndpoint

OpenLoop = Callable[..., contextlib.AbstractAsyncContextManager[Loop]]


@pytest.fixture
def model(endpoint: ModelEndpoint) -> Model:
    """The model of all runs."""
    endpoint.reply = model = Model()
    return model


@pytest.fixture
def loop(
    endpoint: ModelEndpoint, model: Model, skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OpenLoop:
    """Open a service that improves the skill `tidy`."""
    del model
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    @contextlib.asynccontextmanager
    async def opened(**options: Any) -> AsyncGenerator[Loop]:
        async with open_loop(endpoint, skills, tmp_path, **options) as found:
            yield found

    return opened
