"""Render the catalog: for a model, a rule and one entry per skill within a budget; for agents without a server, all."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from skills_core.catalog.catalog import MAX_ENTRY
from skills_core.diagnostics import printable
from skills_core.rendering.escaping import escape_line

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


ACTIVATION_TOOL = "activate_skill"

SHORTEST = 40
"""Fewest characters of a description that is shortened: fewer say little more than the name."""

_NONE_ALIKE: Final[Mapping[str, int]] = MappingProxyType({})

_OPENING = re.compile(
    r"(?:this skill (?:is|can be|should be|must be)(?: used)?|(?:always )?use(?: this skill)?|triggers?)"
    r" (?:when|whenever|if|for|to|on)\b(?: the user (?:asks|wants|needs|says)(?: you)?(?: to| for)?\b)?[ :]*",
    re.IGNORECASE,
)
# How descriptions of many skills begin, which tells none apart.


def activation_rule(tool: str = ACTIVATION_TOOL, reader: str | None = None) -> str:
    """Return the rule that tells a model when to activate a skill; `tool` is what the model calls our tool.

    With a `reader`, the model's tool for resources, the activation returns a link to the instructions.
    """
    then = f"read the resource that it links with {reader}, and follow that" if reader else "follow what it returns"
    return (
        f"When a task matches one of these skills, call {tool} with its name before anything else, then {then} as "
        "expert guidance for the task. Do not guess names."
    )


RULE = activation_rule()


@dataclass(frozen=True, slots=True)
class CatalogText:
    """The catalog's text, and how many skills it shows and hides."""

    text: str
    shown: int
    hidden: int


def render_catalog(
    catalog: Catalog,
    budget: int,
    first: Sequence[Skill] = (),
    longest: int = MAX_ENTRY,
    rule: str = RULE,
) -> CatalogText:
    """Return the rule and the entries of the skills that `catalog` offers to models, within `budget` characters.

    The skills of `first` come first, in their order, then those that are always on, then the others by name. What a
    skill's entry says has at most `longest` characters, and fewer if the entries of all skills fit only then. The text
    counts the hidden skills.
    """
    (entries,) = fit_entries([entries_budget(budget, rule)], listing_order(catalog, first), longest)
    hidden = len(catalog.offered) - len(entries)
    return CatalogText("\n".join([rule, *render_entries(entries, hidden)]), len(entries), hidden)


def render_entries(entries: Sequence[str], hidden: int) -> list[str]:
    """Return the lines of the element `available_skills`, and one that counts the `hidden` skills, if any."""
    lines = ["<available_skills>", *entries, "</available_skills>"]
    if hidden:
        lines.append(f"{hidden} more skills are not shown here: find_skills finds them by what they do.")
    return lines


def entries_budget(budget: int, rule: str = RULE) -> int:
    """Return the characters that a budget leaves for entries, besides the rule, the tags and the count of the rest."""
    return budget - utf16_length(rule) - 160


def listing_order(catalog: Catalog, first: Sequence[Skill] = ()) -> Iterator[Skill]:
    """Yield the skills that `catalog` offers to models, those of `first` before the others."""
    yield from first
    known = {skill.path for skill in first}
    yield from (skill for skill in catalog.offered if skill.path not in known)


def fit_entries(
    rooms: Sequence[int], skills: Iterable[Skill], longest: int = MAX_ENTRY, alike: Mapping[str, int] = _NONE_ALIKE
) -> list[list[str]]:
    """Return the entries of `skills` that fit into texts with as many characters as `rooms` say, each with a line end.

    If not all fit, the longest entries are shortened to one length, but not below `SHORTEST`; only then the last ones
    are left out. A name that exceeds a whole room is skipped, so that it does not hide the others. `alike` counts by
    the path of a skill the others for which its entry stands.
    """
    most = max(rooms, default=0)
    chosen: list[Skill] = []
    left = sum(rooms)
    # No more are looked at than could fit: a catalog may have ten thousand skills.
    for skill in skills:
        size = utf16_length(entry_beginning(skill)) + len(_alike(skill, alike)) + 2
        if size > most:
            continue
        left -= size
        if left < 0:
            break
        chosen.append(skill)
    texts = [entry_text(skill, longest) for skill in chosen]
    length = min(longest, _even_length([len(text) for text in texts], left))
    while True:
        length = max(length, min(SHORTEST, longest))
        entries = [
            _entry(skill, shortened_text(text, length)) + _alike(skill, alike)
            for skill, text in zip(chosen, texts, strict=True)
        ]
        pages = _pages(rooms, entries)
        if sum(map(len, pages)) == len(entries) or length <= SHORTEST:
            return pages
        # The ends of the texts stay empty where no whole entry fits, and escapes need room.
        length = min(length - 1, length * 19 // 20)


def _even_length(lengths: Sequence[int], room: int) -> int:
    """Return the largest length such that texts of these `lengths`, each cut to it, fit into `room` characters."""
    left, others = room, len(lengths)
    for length in sorted(lengths):
        if length * others > left:
            return max(left // others, 0)
        left -= length
        others -= 1
    return max(lengths, default=0)


def _pages(rooms: Sequence[int], entries: Sequence[str]) -> list[list[str]]:
    """Return the entries that fit into each room, in order."""
    pages: list[list[str]] = []
    done = 0
    for room in rooms:
        page = texts_within(room, entries[done:], lambda entry: utf16_length(entry) + 1, skip=False)
        pages.append(page)
        done += len(page)
    return pages


def texts_within(budget: int, texts: Iterable[str], size_of: Callable[[str], int], *, skip: bool = True) -> list[str]:
    """Return the first of `texts` that fit the budget, where `size_of` gives the size of each.

    With `skip`, a text that exceeds the whole budget is left out, so that it does not hide the others.
    """
    fitting: list[str] = []
    left = budget
    for text in texts:
        size = size_of(text)
        if skip and size > budget:
            continue
        left -= size
        if left < 0:
            break
        fitting.append(text)
    return fitting


def utf16_length(text: str) -> int:
    """Return a text's length in UTF-16 code units, as clients written in JavaScript count it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def render_entry(skill: Skill, longest: int = MAX_ENTRY) -> str:
    """Return the catalog's line for one skill, `- name: text`, with a text of at most `longest` characters."""
    return _entry(skill, entry_text(skill, longest))


def _entry(skill: Skill, text: str) -> str:
    return f"{entry_beginning(skill)} {escape_line(text)}" if text else entry_beginning(skill)


def _alike(skill: Skill, alike: Mapping[str, int]) -> str:
    """Return what the line of a skill ends with that stands for others."""
    count = alike.get(skill.path)
    return f" (and {count} alike)" if count else ""


def entry_beginning(skill: Skill) -> str:
    """Return what the line of a skill begins with."""
    return f"- {escape_line(skill.key)}:"


def entry_text(skill: Skill, longest: int = MAX_ENTRY) -> str:
    """Return what the catalog says of a skill, unescaped, on one line of at most `longest` characters."""
    front = skill.frontmatter
    triggers = ", ".join(trigger for trigger in front.triggers if trigger != "*")
    parts = [f"Triggers: {triggers}." if triggers else "", front.description, front.when_to_use or ""]
    return shortened_text(" ".join(" ".join(part.split()) for part in parts if part), longest)


def shortened_text(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters; a longer one loses a usual opening, then its last words."""
    if len(text) > longest:
        text = _OPENING.sub("", text, count=1) if _OPENING.match(text) else text
    if len(text) <= longest:
        return text
    if longest <= 0:
        return ""
    kept = text[: longest - 1]
    words = kept if text[longest - 1].isspace() else kept.rpartition(" ")[0]
    # A text without blanks is cut anywhere.
    return f"{(words if 2 * len(words) > longest else kept).rstrip(' ,;:')}…"


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# XML 1.0 has no way to write the other characters.


def render_available_skills(skills: Iterable[Skill]) -> str:
    """Return the element `available_skills` with the name, the description and the path of each skill's main file.

    Characters that XML does not allow become U+FFFD.
    """
    return "\n".join(
        ["<available_skills>", *(line for skill in skills for line in _reference_lines(skill)), "</available_skills>"]
    )


def _reference_lines(skill: Skill) -> Iterator[str]:
    main = skill.content.main
    path = skill.source.root / skill.within_source(main.path if main else "SKILL.md")
    yield "<skill>"
    for tag, text in (("name", skill.name), ("description", skill.description), ("location", str(path))):
        yield from (f"<{tag}>", html.escape(_NOT_XML.sub("\ufffd", printable(text))), f"</{tag}>")
    yield "</skill>"
