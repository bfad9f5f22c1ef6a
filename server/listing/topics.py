"""The topics of a catalog: a short list of words that says what its skills are about.

A model that sees only a part of the catalog learns from them what else to search for, and the tool searches of clients
find our tools by them.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.rendering import texts_within, utf16_length
from skills_core.rendering.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skills_core.skill import Skill

__all__ = ["MAX_SKILLS", "TOPICS", "shortened_topics", "topic_of", "topics_within"]

MAX_SKILLS = 2000
"""Most skills whose names are read: every reload waits for it."""

TOPICS = "Skills on"
"""What stands before topics in a text."""

_SEPARATOR = ", "
_MAX_TOPIC = 60
_MAX_LEADING = 3
_WORD = re.compile(r"[^\W\d_]{2,}")
_COMMON = frozenset(
    "a an and as at by for from in into is it of on or skill skills the this to use using with".split()  # noqa: SIM905
)


def topics_within(room: int, skills: Iterable[Skill], first: Sequence[Skill] = ()) -> str:
    """Return topics of `skills`, separated by commas, within `room` characters.

    If their names fit, the topics are the names. Else they are the names of some skills that are `first`, and the words
    of names and triggers, those of most skills first.
    """
    read = tuple(islice(skills, MAX_SKILLS))
    if names := _names_if_all_fit(room, read):
        return names
    leading = [topic_of(skill) for skill in first[:_MAX_LEADING]]
    said = {word for name in leading for word in name.lower().split()}
    words = _words_of(tuple((skill.key, skill.frontmatter.triggers) for skill in read))
    # Names of symbols, of digits or of single letters have no words.
    others = (word for word in words if word not in said) if words else map(topic_of, read)
    return _joined(room, chain(leading, others))


def shortened_topics(topics: str, room: int) -> str:
    """Return the first of `topics` within `room` characters."""
    return _joined(room, topics.split(_SEPARATOR))


def topic_of(skill: Skill) -> str:
    """Return a skill's name as words; its key may be a path."""
    words = re.split(r"[\s_/.-]+", one_line(skill.key[:_MAX_TOPIC]))
    # Two words may be one of our tags where the name is none.
    return escape_line(" ".join(words).strip())


def _names_if_all_fit(room: int, skills: Iterable[Skill]) -> str:
    """Return the names of all skills, or nothing if they exceed the room."""
    names: dict[str, None] = {}
    left = room + len(_SEPARATOR)
    for name in filter(None, map(topic_of, skills)):
        if name not in names:
            left -= utf16_length(name) + len(_SEPARATOR)
            if left < 0:
                return ""
            names[name] = None
    return _SEPARATOR.join(names)


# Cached because several texts for several kinds of clients list the same words, and most edits change none of them.
@lru_cache(16)
def _words_of(named: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    """Return the words of names and triggers, those of most skills first."""
    counts: Counter[str] = Counter()
    for name, triggers in named:
        counts.update(_distinct_words(name, triggers))
    # `most_common` keeps the order of words that are equally frequent, but a set has no order.
    return tuple(word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


@lru_cache(MAX_SKILLS)
def _distinct_words(name: str, triggers: tuple[str, ...]) -> frozenset[str]:
    texts = (name, *(trigger for trigger in triggers if len(trigger) <= _MAX_TOPIC))
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    return frozenset(word for word in words if word not in _COMMON and len(word) <= _MAX_TOPIC)


def _joined(room: int, topics: Iterable[str]) -> str:
    """Return the first distinct topics that fit.

    A topic that exceeds the whole room is skipped, so that it does not hide the others.
    """
    distinct = dict.fromkeys(filter(None, topics))
    # No separator follows the last one.
    chosen = texts_within(room + len(_SEPARATOR), distinct, lambda topic: utf16_length(topic) + len(_SEPARATOR))
    return _SEPARATOR.join(chosen)
