"""The tool `new_skills_N`, which is there while there is news of the list of skills, for clients such as Claude Code.

Their models see a tool of a new name in the next request, but no changed definition of a known one. So the description
of this tool brings the news to a model that calls none of our tools; the next result repeats them, as a client need not
show the list that it has fetched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from server.listing.envelope import text_block, tool_result
from server.listing.schemas import hints

if TYPE_CHECKING:
    from server.hosting.views import View
    from server.protocol.conversations import Conversation
    from server.protocol.tool_call import ToolCall


_NAME = re.compile(r"new_skills_\d{1,18}", re.ASCII)


def is_news_tool(name: str) -> bool:
    """Tell whether a call is one of this tool, under its current or an earlier number."""
    return _NAME.fullmatch(name) is not None


def with_news_tool(listed: dict[str, Any], conversation: Conversation, view: View) -> dict[str, Any]:
    """Return the result of `tools/list`, with this tool if there is news that the conversation has not heard."""
    news = conversation.pending(view.catalog, view.changes)
    if not news or not view.catalog.offered:
        return listed
    entry = {
        "name": f"new_skills_{view.changes.last}",
        "title": "News of skills",
        "description": "\n".join([*news, "This tool only brings this news: there is no need to call it."]),
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": hints("News of skills"),
        "_meta": {"anthropic/alwaysLoad": True},
    }
    return {**listed, "tools": [*listed["tools"], entry]}


async def tell_news(call: ToolCall) -> dict[str, Any]:
    """Handle a call; the news themselves follow, as they do in each result."""
    news = call.conversation.pending(call.view.catalog, call.view.changes)
    return tool_result([text_block("This is new:" if news else "There is no further news of skills.")])
