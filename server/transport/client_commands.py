"""The command lines that connect a client to a server over HTTP: its terminal and its page print the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from server.capabilities import CAPABILITIES

if TYPE_CHECKING:
    from server.config.settings.model import Settings

USUAL_NAME: Final = "skills"
"""What clients call this server if nobody gives it another name."""

TOKEN_HEADER: Final = "Authorization: Bearer TOKEN"  # noqa: S105 - a placeholder
"""The header of a client with a login, before its user has a token."""


def login_header(settings: Settings) -> str:
    """Return the header, with a placeholder, that users give their clients; empty where clients need none.

    Clients that log in by themselves need none.
    """
    headers = (each.login_header(settings) for each in CAPABILITIES if each.login_header is not None)
    return next(filter(None, headers), "")


class TerminalCommand(NamedTuple):
    """The command line of a client that adds a server; `note` says what else to do, empty if nothing is left."""

    title: str
    line: str
    note: str = ""


def terminal_commands(url: str, header: str = "") -> tuple[TerminalCommand, ...]:
    """Return the commands of clients that have one; `header` is sent with a token in it."""
    entry: dict[str, object] = {"name": USUAL_NAME, "type": "http", "url": url}
    if header:
        entry["headers"] = dict([header.split(": ")])
    variable = " --bearer-token-env-var SKILLS_TOKEN" if header else ""
    required = f"Then add required = true below [mcp_servers.{USUAL_NAME}] in ~/.codex/config.toml"
    codex = f"codex mcp add {USUAL_NAME} --url {url}{variable}"
    gemini = f"gemini mcp add --transport http {USUAL_NAME} {url}{header_option(header)}"
    return (
        TerminalCommand("Claude Code", claude_command(url, header)),
        TerminalCommand("VS Code", f"code --add-mcp '{json.dumps(entry)}'"),
        TerminalCommand("Codex", codex, f"{required}: otherwise Codex waits a second for the server."),
        TerminalCommand("Gemini CLI", gemini),
    )


def claude_command(url: str, header: str = "") -> str:
    """Return the command of Claude Code."""
    return f"claude mcp add --transport http {USUAL_NAME} {url}{header_option(header)}"


def connect_command(url: str, header: str = "", *, program: str = "skillserve") -> str:
    """Return our own command, for all clients; `program` is what this user types to run it."""
    return f"{program} connect --http {url}{header_option(header)}"


def header_option(header: str) -> str:
    """Return the option with a header, empty without one; every shell knows double quotes, also that of Windows."""
    return f' --header "{header}"' if header else ""
