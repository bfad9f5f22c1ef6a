"""Views inside clients, by the extension MCP Apps: a page for each of some tools, which the client shows in a frame.

A page searches skills, shows the text of one, shows what an activation has given to the model, or asks for consent to a
step of a run. Its tools answer as ever; what the page needs besides stands in `_meta` of their results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.apps.settings import SECTION, AppsMode, AppsSettings
from server.capability import Capability, ClientExtension

if TYPE_CHECKING:
    from server.config.settings.model import Settings

EXTENSION: Final = "io.modelcontextprotocol/ui"
"""The name of MCP Apps in the capabilities of clients."""

MIME_TYPE: Final = "text/html;profile=mcp-app"
"""The MIME type of pages, which a client that shows them declares."""

_PREFIX: Final = "ui://skillserve/"

TOOLS: Final = frozenset({"find_skills", "activate_skill", "run_skill", "run_workflow"})
"""The tools that have a page."""


def _includes(declared: Mapping[str, Any] | None, settings: Settings) -> bool:
    mode = settings.section(AppsSettings).mode
    if mode is not AppsMode.AUTO:
        return mode is AppsMode.ON
    types = declared.get("mimeTypes") if declared is not None else None
    return isinstance(types, list | tuple) and MIME_TYPE in types


def _tool_meta(tool: str) -> Mapping[str, Any]:
    """Return the address of a tool's page, also in the form that clients read before the extension was final."""
    if tool not in TOOLS:
        return {}
    return {"ui": {"resourceUri": _PREFIX + tool}, "ui/resourceUri": _PREFIX + tool}


async def _read(uri: str) -> dict[str, Any] | None:
    tool = uri.removeprefix(_PREFIX)
    if tool not in TOOLS or not uri.startswith(_PREFIX):
        return None
    import anyio.to_thread

    from server.capabilities.apps.pages import page_of

    text = await anyio.to_thread.run_sync(page_of, tool)
    return {"uri": uri, "mimeType": MIME_TYPE, "text": text, "_meta": {"ui": {"prefersBorder": True}}}


CAPABILITY: Final = Capability(
    name="apps",
    sections=(SECTION,),
    extension=ClientExtension(EXTENSION, _includes, _tool_meta, _read),
)
