"""Build HTML in which text is escaped unless it is markup of ours: only `tag` and `join` make `Html`."""

from __future__ import annotations

import html
import re
from typing import Final, TypeAlias

from skills_core.diagnostics import without_lone_surrogates
from skills_core.format.hidden import with_hidden_shown

__all__ = ["Child", "Html", "foreign", "join", "raw_text", "tag"]


class Html(str):
    """Markup of ours."""

    __slots__ = ()


Child: TypeAlias = "Html | str | None"

_VOID: Final = frozenset({"img", "meta"})

# In SVG, an element without an end tag holds what follows.
_CLOSED: Final = frozenset({"circle", "line", "path", "polyline", "rect"})

# Unicode's noncharacters, which a parser of HTML reports as errors.
_FORBIDDEN = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """Return an element. `class_` and `aria_label` stand for `class` and `aria-label`; None and False leave out."""
    words = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in _VOID:
        return Html(f"<{name}{words}>")
    if name in _CLOSED:
        return Html(f"<{name}{words}/>")
    return Html(f"<{name}{words}>{join(*children)}</{name}>")


def _attribute(key: str, value: str | float | bool) -> str:  # noqa: FBT001 - an attribute may be one
    if value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_escaped(str(value))}"'


def join(*children: Child) -> Html:
    """Return the children one after the other, with text escaped."""
    return Html("".join(each if isinstance(each, Html) else _escaped(each) for each in children if each is not None))


def foreign(name: str, text: str, /, **attributes: str | float | bool | None) -> Html:
    """Return an element with a text that is not ours: its writing direction cannot change that of the page."""
    return tag(name, text, **{"dir": "auto", **attributes})


def raw_text(name: str, content: str, **attributes: str | bool | None) -> Html:
    """Return a `style` or `script` element with content of ours.

    Raises:
        ValueError: the content would end the element.
    """
    if f"</{name}" in content.lower() or "<!--" in content:
        raise ValueError(f"the content would end its element {name}")
    words = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    return Html(f"<{name}{words}>{content}</{name}>")


def _escaped(text: str) -> str:
    shown = with_hidden_shown(without_lone_surrogates(text).replace("\r\n", "\n"))
    return html.escape(_FORBIDDEN.sub("\ufffd", shown))
