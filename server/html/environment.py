"""Templates that show texts of strangers: everything is escaped, and what is hidden in a text is shown.

A content security policy by digests or origins stands behind the escaping: even markup that escaped it would not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from server.html.charts import draw_bars, draw_chart
from server.html.words import date_text, dollars, duration_text, moment_text, percent, size_text
from skills_core.diagnostics import counted, without_lone_surrogates
from skills_core.texts import with_hidden_shown

_ROOM: Final = "server.html"

# Unicode's noncharacters, which a parser of HTML reports as errors.
_FORBIDDEN: Final = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")


def template_environment(loader: BaseLoader, names: Mapping[str, Any]) -> Environment:
    """Return an environment for the templates of `loader`, which may import `parts.html` of this room.

    Its templates may call `names`, and the functions for charts, counts, dates and sizes.
    """
    environment = Environment(
        loader=ChoiceLoader([loader, PackageLoader(_ROOM)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {
        "counted": counted,
        "date_text": date_text,
        "dollars": dollars,
        "draw_bars": draw_bars,
        "draw_chart": draw_chart,
        "duration_text": duration_text,
        "moment_text": moment_text,
        "percent": percent,
        "size_text": size_text,
        "zip": zip,
        **names,
    }
    return environment


def visible(value: Any) -> Any:  # noqa: ANN401 - what a template shows
    """Return a text with what is hidden in it shown, for the template to escape; markup of ours stays as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    shown = with_hidden_shown(without_lone_surrogates(value).replace("\r\n", "\n"))
    return _FORBIDDEN.sub("\ufffd", shown)
