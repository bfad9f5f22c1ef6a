"""The pages of views: one file each that requests nothing, with its own style sheet and script in it.

No text of a skill is in a page; its script receives them and sets them as text. The content security policy allows this
script alone, by its digest, so even markup that came in all the same would not run. Clients have policies of their own,
and some add styles, which it allows.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).with_name("page")


@cache
def page_of(tool: str) -> str:
    """Return the page of a tool; this reads files."""
    script = "\n" + _part("view.js")
    parts = {"policy": _policy(script), "style": _part("view.css"), "script": script[1:], "tool": tool}
    page = _part("view.html")
    for name, text in parts.items():
        page = page.replace("{{ " + name + " }}", text)
    return page


def _part(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{digest}'",
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)
