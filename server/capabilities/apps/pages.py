"""The pages of views: one file each that requests nothing, with its own style sheet and script in it.

No text of a skill is in a page; its script receives them and sets them as text. The content security policy allows this
script alone, by its digest, so even markup that came in all the same would not run. Clients have policies of their own,
and some add styles, which it allows.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Final

from server.html.asset_files import asset, source_digest

_file: Final = partial(asset, "server.capabilities.apps")


@cache
def page_of(tool: str) -> str:
    """Return the page of a tool; this reads files."""
    script = "\n" + _file("view.js")
    parts = {"policy": _policy(script), "style": _file("view.css"), "script": script[1:], "tool": tool}
    page = _file("view.html")
    for name, text in parts.items():
        page = page.replace("{{ " + name + " }}", text)
    return page


def _policy(script: str) -> str:
    rules = [
        "default-src 'none'",
        f"script-src '{source_digest(script)}'",
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)
