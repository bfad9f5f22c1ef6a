"""Markdown of strangers as HTML: without markup of its own and without images, and its links lead where they may."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from server.html.environment import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_RENDERED: Final = 200_000
"""Characters of a text that is rendered; a longer one is shown as it is."""

_DEEPEST: Final = 6
_BELOW: Final = 2
# The page has the first two levels of headings itself.

_TAGS: Final = frozenset(
    {
        *("p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "hr", "br"),
        *("table", "thead", "tbody", "tr", "th", "td", "a"),
    }
)
_ATTRIBUTES: Final = {"a": {"href"}, "ol": {"start"}}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})


def render_markdown(text: str, link: Callable[[str], str | None]) -> Markup:
    """Return a text as sanitized HTML; one of more than `MAX_RENDERED` characters becomes a `<pre>`.

    `link` returns the address for a link that is not one of the web, None to show its words alone. An image becomes a
    link: the page requests nothing that a skill names.
    """
    if len(text) > MAX_RENDERED:
        return Markup('<pre dir="auto">{}</pre>').format(visible(text[:MAX_RENDERED]))
    import nh3  # noqa: PLC0415 - most servers render nothing

    parser = _parser()
    tokens = parser.parse(visible(text))
    _lower_headings(tokens)
    for token in tokens:
        if token.children:
            token.children = _with_links(token.children, link)
    html = parser.renderer.render(tokens, parser.options, {})
    clean = nh3.clean(
        html,
        tags={*_TAGS},
        attributes={tag: {*names} for tag, names in _ATTRIBUTES.items()},
        url_schemes={*_SCHEMES},
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(clean)  # noqa: S704 - sanitized


def _lower_headings(tokens: Iterable[Token]) -> None:
    """Put the headings below those of the page, and none more than a level below the one before it."""
    level = _BELOW
    for token in tokens:
        if token.type == "heading_open":
            level = min(_DEEPEST, int(token.tag[1:]) + _BELOW, level + 1)
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{level}"


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - most servers render nothing

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _with_links(tokens: list[Token], link: Callable[[str], str | None]) -> list[Token]:
    """Return the pieces of a line with each address judged, and images as links."""
    found: list[Token] = []
    for token in tokens:
        if token.type == "image":
            found += _link_to_image(token, link)
        elif token.type == "link_open":
            target = _target(str(token.attrs.get("href", "")), link)
            token.attrs = {} if target is None else {"href": target}
            found.append(token)
        else:
            found.append(token)
    return found


def _link_to_image(image: Token, link: Callable[[str], str | None]) -> list[Token]:
    from markdown_it.token import Token  # noqa: PLC0415 - as above

    source = str(image.attrs.get("src", ""))
    target = _target(source, link)
    words = Token("text", "", 0, content=f"image: {image.content or source}")
    begin = Token("link_open", "a", 1, attrs={} if target is None else {"href": target})
    return [begin, words, Token("link_close", "a", -1)]


def _target(address: str, link: Callable[[str], str | None]) -> str | None:
    scheme = address.partition(":")[0].lower()
    return address if scheme in _SCHEMES and ":" in address else link(address)
