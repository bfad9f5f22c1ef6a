r"""Fill a body with values: `{{parameters}}`, and the hosts' placeholders for the words of a slash command.

The placeholders are those of Claude Code (code.claude.com/docs/en/skills, and measured with its version 2.1.330):
`$ARGUMENTS` is all that the user typed after the command, as typed; `$ARGUMENTS[N]` and `$N` are its words, counted
from 0 and quoted as in a shell; `$name` is the word at the place that the field `arguments` gives this name. A word
that was not typed leaves its placeholder as it is, and `\$` stands for a literal `$`. All is done in one pass, so
values are never searched for placeholders.

Two rules differ, for skills that only show shell code or prices. Without words, nothing is filled and no byte changes.
And in a skill that does not say that it takes arguments, neither by `$ARGUMENTS` in its body nor by `argument-hint`,
`hint` or `arguments` in its frontmatter, `$N` within code is the code's own, as in `awk '{print $1}'`; so is `$1.50`
everywhere.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.format.placeholders import INDEX, NAME, NUMBER, PARAMETER, PLACE, before, is_parameter

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill


FREE_ARGUMENT = "arguments"
"""The prompt argument for the text that a user typed after the command."""

MAX_FILLED = 1_000_000
"""Maximum characters that values add to a body: a skill may repeat a placeholder any number of times."""

_SPAN = re.compile(r"`[^`\n]*`")

MAX_NAMED = 100
# Most names of words that a skill may declare.


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of what a user typed, quoted as in a shell; split at blanks if a quote has no end."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


@dataclass(frozen=True, slots=True)
class Placeholders:
    """Which placeholders for words a skill has: `names` are those of its frontmatter, in order.

    `declared` tells that the skill says that it takes arguments.
    """

    declared: bool
    names: tuple[str, ...]

    @classmethod
    def of(cls, skill: Skill) -> Placeholders:
        """Return those of a skill."""
        front = skill.frontmatter
        written = front.raw.get("arguments")
        listed = written.split() if isinstance(written, str) else written if isinstance(written, list) else []
        names = tuple(name for name in listed[:MAX_NAMED] if isinstance(name, str))
        declared = bool(names or front.argument_hint or front.hint) or _has_arguments(skill.body)
        return cls(declared, names)

    def matches(self, body: str) -> Iterator[re.Match[str]]:
        """Yield the placeholders for words in a body, or in the beginning of one; with those that are escaped."""
        if "$" not in body:
            return
        prose = ""
        for match in PLACE.finditer(body):
            if match[PARAMETER] is not None or before(match) == "$" or self._is_other_name(match):
                continue
            # Looked for only now, because it takes long, and most bodies with a dollar sign have no placeholder.
            prose = prose or (body if self.declared else _without_code(body))
            if prose[match.start()] == "$":
                yield match

    def _is_other_name(self, match: re.Match[str]) -> bool:
        return match[NAME] is not None and match[NAME] not in self.names

    def position(self, match: re.Match[str]) -> int | None:
        """Return the position of the word that a placeholder stands for, None for all words."""
        if match[NAME] is not None:
            return self.names.index(match[NAME])
        number = match[INDEX] or match[NUMBER]
        return None if number is None else int(number)


def _has_arguments(body: str) -> bool:
    return "$ARGUMENTS" in body and any(
        match[0].startswith("$ARGUMENTS") and before(match) not in {"$", "\\"}
        for match in PLACE.finditer(body)
        if match[NAME] is None
    )


def _without_code(body: str) -> str:
    # Imported here because few bodies have placeholders for words, and every start would load it.
    from skills_core.mentions.markdown import without_fences  # noqa: PLC0415

    return _SPAN.sub(lambda span: " " * len(span[0]), without_fences(body))


def word_placeholders(skill: Skill) -> dict[str, int | None]:
    """Return the placeholders for words in a skill's body, with the position of each word, None for all words."""
    form = Placeholders.of(skill)
    return {match[0]: form.position(match) for match in form.matches(skill.body) if before(match) != "\\"}


def value_names(skill: Skill) -> frozenset[str]:
    """Return the names of values that fill something in a skill's body."""
    names = set(skill.parameters)
    if placeholders := word_placeholders(skill):
        names |= {FREE_ARGUMENT, *(str(at) for at in placeholders.values() if at is not None)}
        names |= {name for name in Placeholders.of(skill).names if f"${name}" in placeholders}
    return frozenset(names)


def filled_placeholders(skill: Skill, values: Mapping[str, str]) -> dict[str, str | None]:
    """Return what each placeholder of a skill's body stands for, None where `values` has nothing for it.

    The `{{parameters}}` go by their names. A word that is given by its position or its name counts before that of
    `arguments`.
    """
    found: dict[str, str | None] = {name: values.get(name) for name in skill.parameters}
    typed, names = values.get(FREE_ARGUMENT), Placeholders.of(skill).names
    words = words_of(typed) if typed else ()
    for placeholder, position in word_placeholders(skill).items():
        if position is None:
            found[placeholder] = typed
            continue
        own = names[position] if position < len(names) else ""
        given = values.get(str(position), values.get(own))
        found[placeholder] = words[position] if given is None and position < len(words) else given
    return found


def fill_body(skill: Skill, values: Mapping[str, str], body: str) -> str:
    """Return the body of a skill, or the beginning of it, with the values filled in."""
    pieces, end = [], 0
    for start, stop, text in _replacements(skill, values, body):
        pieces += [body[end:start], text]
        end = stop
    return "".join([*pieces, body[end:]])


def filled_length(skill: Skill, values: Mapping[str, str]) -> int:
    """Return how many characters `values` add to the body of a skill."""
    return sum(len(text) for _, _, text in _replacements(skill, values, skill.body))


def _replacements(skill: Skill, values: Mapping[str, str], body: str) -> Iterator[tuple[int, int, str]]:
    """Yield where a body is replaced, and by what."""
    if not values:
        return
    known = filled_placeholders(skill, values)
    form = Placeholders.of(skill)
    has_words = any(known[each] is not None for each in word_placeholders(skill))
    words = {match.start() for match in form.matches(body)} if has_words else set()
    for match in PLACE.finditer(body):
        start = match.start()
        if start in words:
            if before(match) == "\\":
                yield start - 1, start, ""
            elif (value := known.get(match[0])) is not None:
                yield start, match.end(), value
        elif is_parameter(match) and match[PARAMETER] in values:
            yield start, match.end(), values[match[PARAMETER]]
