"""Write the news of the list of skills for a tool's result: short, whatever has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.rendering.catalog import ACTIVATION_TOOL, entry_text
from skills_core.rendering.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from server.hosting.offer_changes import OfferNews
    from skills_core.skills.skill import Skill

__all__ = ["MAX_NEWS", "TOO_MUCH", "news_of_list", "within_limit"]

MAX_NEWS = 2000
"""Most characters of all news in one result. An activation that is cut to a client's limit leaves room for them."""

TOO_MUCH = "The list of skills has changed much since you received it: find_skills finds what is there."

_MORE = "More skills have changed: find_skills finds what is there."

_DESCRIBED = 3
# Most skills whose descriptions the news contains.
_NAMED = 10
_MAX_DESCRIPTION = 200
_MAX_NAME = 100
# A longer name is counted instead of shown: half a name cannot be called.


def news_of_list(news: OfferNews | None) -> list[str]:
    """Return the news as one text, if there are any; None stands for more than is remembered."""
    if news is None:
        return [TOO_MUCH]
    if not news:
        return []
    lines = ["The list of skills has changed since you received it.", *_described(news)]
    if news.added:
        lines.append(f"{ACTIVATION_TOOL} takes the new names too.")
    return ["\n".join(lines)]


def within_limit(texts: Sequence[str]) -> list[str]:
    """Return the first of the texts that fit `MAX_NEWS`, and say so if some do not."""
    if sum(map(len, texts)) <= MAX_NEWS:
        return [*texts]
    left, fitting = MAX_NEWS - len(_MORE), []
    for text in texts:
        left -= len(text)
        if left < 0:
            break
        fitting.append(text)
    return [*fitting, _MORE]


def _described(news: OfferNews) -> Iterator[str]:
    left = _NAMED
    short = len(news.added) + len(news.changed) > _DESCRIBED
    for title, skills in (("New", news.added), ("Changed", news.changed)):
        if short:
            keys = [skill.key for skill in skills]
            yield from _names(title, keys, left)
            left -= len(keys)
        else:
            yield from (_entry(title, skill) for skill in skills)
    yield from _names("Removed", news.removed, left)


def _entry(title: str, skill: Skill) -> str:
    if len(skill.key) > _MAX_NAME:
        return f"{title}: 1, which find_skills finds."
    return f"{title}: {escape_line(skill.key)}: {escape_line(entry_text(skill, _MAX_DESCRIPTION))}"


def _names(title: str, keys: Sequence[str], limit: int) -> Iterator[str]:
    if not keys:
        return
    shown = [escape_line(key) for key in keys if len(key) <= _MAX_NAME][: max(limit, 0)]
    more = len(keys) - len(shown)
    found = "" if title == "Removed" else ": find_skills finds them"
    if more:
        shown.append(f"{more} more{found}" if shown else f"{more}{found}")
    yield f"{title}: {', '.join(shown)}."
