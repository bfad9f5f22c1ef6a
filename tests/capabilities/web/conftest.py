"""Two skills, and the identity provider of a server's page."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.capabilities.login.static_tokens import TokenFile
from server.config.machine import tokens_file
from tests.capabilities.web.visiting import PageProvider
from tests.conftest import MakeSkill


@pytest.fixture
def two(make_skill: MakeSkill, skills: Path) -> Path:
    """A folder with the skills `one` and `two`."""
    make_skill("one", description="Sings songs. Use for singing.", body="First secret.")
    make_skill("two", description="Sings psalms. Use for singing.", body="Second secret.", files={"more.md": b"Third"})
    return skills


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    """The file of static tokens of servers in this process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return TokenFile(tokens_file())


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> PageProvider:
    """The identity provider of servers in this process."""
    found = PageProvider()
    monkeypatch.setattr("server.capabilities.login.login.Provider", lambda: found)
    return found


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer refused logins at once."""
    monkeypatch.setattr("server.transport.bodies._REFUSAL_SECONDS", (0.0, 0.0))
