"""The whole page: head, navigation and sections in one file that requests nothing from outside.

The content security policy allows the page's own style sheet and script by their digests, images as data, and
connections only to the server that serves the page. So even markup that escaped our escaping would not run.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from server.evals.report.html.cases import cases_section
from server.evals.report.html.cost import cost_section
from server.evals.report.html.markup import Html, foreign, join, raw_text, tag
from server.evals.report.html.summary import patterns_section, problems_section, summary_section
from server.evals.report.html.triggers import triggers_section
from server.evals.report.workspace import STALE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from server.evals.report.gates import Gate
    from server.evals.report.model import Workspace

__all__ = ["REFRESH_SECONDS", "PageOptions", "content_policy", "render_page"]

REFRESH_SECONDS: Final = 5
"""How often the page looks for new results while the work runs."""

_SECTIONS = (
    ("summary", "Summary"),
    ("patterns", "Patterns"),
    ("cases", "Cases"),
    ("triggers", "Triggers"),
    ("cost", "Cost"),
    ("problems", "Problems"),
)


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How a page is made: `served` pages save feedback; `running` ones refresh themselves."""

    generated: datetime
    served: bool = False
    running: bool = False
    gates: Sequence[Gate] = ()


def render_page(workspace: Workspace, options: PageOptions) -> str:
    """Return the page."""
    sections = _sections(workspace, options)
    return (
        f"<!DOCTYPE html>\n{tag('html', _head(workspace, options), _body(workspace, options, sections), lang='en')}\n"
    )


def _sections(workspace: Workspace, options: PageOptions) -> dict[str, Html]:
    found: dict[str, Html | None] = {"summary": summary_section(workspace, options.gates)}
    if workspace.iterations:
        newest = workspace.iterations[-1]
        earlier = workspace.iterations[-2] if len(workspace.iterations) > 1 else None
        found["patterns"] = patterns_section(newest)
        found["cases"] = cases_section(newest, earlier, editable=options.served)
    found["triggers"] = triggers_section(workspace.triggers)
    found["cost"] = cost_section(workspace)
    found["problems"] = problems_section(workspace.problems)
    return {name: part for name, part in found.items() if part is not None}


def _head(workspace: Workspace, options: PageOptions) -> Html:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        # Nothing before it may load anything.
        tag("meta", http_equiv="Content-Security-Policy", content=content_policy(served=options.served)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="same-origin"),
        tag("title", f"{workspace.skill}: evaluation report"),
        raw_text("style", _asset("report.css")),
    )


def _body(workspace: Workspace, options: PageOptions, sections: dict[str, Html]) -> Html:
    skip = tag("a", "Skip to the results", href="#main", class_="skip")
    made = f"{options.generated:%Y-%m-%d %H:%M:%S UTC}"
    state = "Complete."
    if options.running:
        state = f"The work is running; this page shows what there was at {made}."
    elif workspace.running:
        state = "Not complete: the work was interrupted."
    pause = tag("button", "Pause refreshing", type="button", id="pause", aria_pressed="false", hidden=True)
    header = tag(
        "header",
        tag("h1", foreign("span", workspace.skill), ": evaluation report"),
        tag("p", tag("span", state, id="state", role="status"), " ", pause if options.running else None),
        tag("p", f"Made {made}", class_="note"),
    )
    links = (tag("li", tag("a", title, href=f"#{name}")) for name, title in _SECTIONS if name in sections)
    navigation = tag("nav", tag("ul", *links), aria_label="Sections")
    main = tag("main", *sections.values(), id="main", tabindex=-1)
    return tag(
        "body",
        join(skip, header, navigation, main, tag("footer", tag("p", "Written by skillserve report."))),
        raw_text("script", _asset("report.js")),
        data_served=options.served,
        data_running=options.running,
        data_refresh=REFRESH_SECONDS,
        data_made=options.generated.timestamp(),
        data_stale=STALE_SECONDS,
    )


def content_policy(*, served: bool) -> str:
    """Return the content security policy of a page."""
    connections = "'self'" if served else "'none'"
    rules = [
        "default-src 'none'",
        "img-src data:",
        f"style-src '{_digest(_asset('report.css'))}'",
        f"script-src '{_digest(_asset('report.js'))}'",
        f"connect-src {connections}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


@cache
def _asset(name: str) -> str:
    content = (files("server.evals.report.html") / "assets" / name).read_text(encoding="utf-8")
    # The parser of HTML turns line ends into \n before the browser compares the digest.
    return content.replace("\r\n", "\n")


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}"
