"""A skill behind a login, and a model that loads it if its host offers this server's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.clients.dialects.messages import Call, Text
from conformance.clients.host_tools import call_for, search_for
from conformance.clients.scripted_model import Reply

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.clients.dialects.messages import Request

__all__ = ["BODY", "LoginModel", "write_skill"]

BODY = "Greet with: moin moin."
_SKILL = "greeting"


def write_skill(folder: Path) -> None:
    """Write the skill below `folder`."""
    (folder / _SKILL).mkdir(parents=True)
    text = f"---\nname: {_SKILL}\ndescription: Greets people. Use for greetings.\n---\n{BODY}\n"
    (folder / _SKILL / "SKILL.md").write_text(text, encoding="utf-8")


class LoginModel:
    """Loads the skill once, and keeps no state between requests."""

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        step = Call("activate_skill", {"name": _SKILL})
        call = search_for(step, request.tools) or call_for(step, request.tools)
        if call is None or any(BODY in result for result in request.results):
            return Reply([Text("Moin moin.")])
        return Reply([call], step)
