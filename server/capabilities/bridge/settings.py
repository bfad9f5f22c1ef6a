"""Which clients have stubs of the skills in their own folders."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from server.config.settings.section import Section


class Bridged(StrEnum):
    """The clients, by their keys for `connect`."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI_CLI = "gemini-cli"
    QWEN_CODE = "qwen-code"
    OPENCODE = "opencode"
    COPILOT_CLI = "copilot-cli"
    CURSOR = "cursor"


class BridgeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stubs of the skills in the folders where clients look for skills of their own."""

    clients: tuple[Bridged, ...] = ()
    """Clients whose own folder gets a stub for each skill, which the server keeps in step with the skills while it
    runs: name and description, and how to load the skill from this server. `skillserve bridge --remove` removes
    them."""


SECTION: Final = Section(name="bridge", kind=BridgeSettings, options={"clients": "bridge"})
