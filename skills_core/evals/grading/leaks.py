"""Finds in what a run left behind the answers that only the evals have.

An agent that solves a case rightly writes much of what is expected: names, numbers, terms. So words count only in a
long verbatim run that is neither in the prompt nor in the input files nor in the skill, and that no one quotes as a
literal of the output. Such a run is copied; nobody hits on it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skills_core.evals.grading.cases import EvalCase

CANARY_PREFIX: Final = "skillserve-canary-"
_CANARY: Final = re.compile(rf"{CANARY_PREFIX}[0-9a-f]{{32}}")

_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
# Chinese, Japanese and Korean have no blanks between words, so each character counts as one.

_ESCAPE: Final = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrt\"/])")
# JSON that is shown as it stands in a file.

_KEY: Final = re.compile(r'(?<!\\)"([^"\\]+)"\s*:')

_LITERAL: Final = re.compile(r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|「[^」\n]*」", re.DOTALL)
# What an assertion quotes is for the output to contain.

_MIN_WORDS: Final = 8
_MIN_ASSERTED: Final = 60
_MIN_EXPECTED: Final = 120
# Letters of the words together. Of an expected output more are asked: it may be the very words that a right run finds.

_Run = tuple[str, ...]
_WIDE: Final = 3
# Letters for which a character of Chinese, Japanese or Korean counts.

_EXCERPT: Final = 160


class LeakReason(StrEnum):
    """What shows that a run had the evals, or results of other runs."""

    CANARY = "canary_seen"
    PATH = "evals_path_named"
    EXPECTED = "expected_text_copied"


@dataclass(frozen=True, slots=True)
class Leak:
    """Where a run shows that it had what only the evals or other runs have; `text` is the passage."""

    reason: LeakReason
    where: str
    text: str

    def __str__(self) -> str:
        """Return the reason for people."""
        said = {
            LeakReason.CANARY: "has the canary of results that no run is given",
            LeakReason.PATH: "names a folder that no run is given",
            LeakReason.EXPECTED: "repeats what only the evals say",
        }[self.reason]
        return f"this run does not count: {self.where} {said}: {self.text!r}"


def new_canary() -> str:
    """Return a random text for files that no run may read."""
    return f"{CANARY_PREFIX}{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """What a run cannot know: `places` are paths, `asserted` and `expected` runs of words of the evals.

    Canaries are known by their form; `given` are those in what a run is given, such as results as an input file.
    """

    places: frozenset[str] = frozenset()
    asserted: frozenset[_Run] = frozenset()
    expected: frozenset[_Run] = frozenset()
    given: frozenset[str] = frozenset()

    @classmethod
    def of(cls, cases: Iterable[EvalCase], raw: str, places: Iterable[str]) -> AnswerKey:
        """Return the key of a set, whose file is `raw`, and of paths that no run is given.

        Of the file itself, words around its keys count: an agent that has shown it has them, however short its texts.
        """
        listed = list(cases)
        texts = (each.text for case in listed for each in case.assertions if not _is_expected(each.text, case))
        asserted = _runs_in(texts) | _runs_at_keys(raw)
        return cls(frozenset(places), asserted, _runs_in(case.expected_output for case in listed))

    def without(self, given: Iterable[str]) -> AnswerKey:
        """Return the key without what is in texts that a run is given."""
        places, asserted, expected = set(self.places), set(self.asserted), set(self.expected)
        canaries = set(self.given)
        for text in given:
            canaries.update(_CANARY.findall(text))
            places = {each for each in places if each not in text}
            for run in _runs(_words(text)):
                asserted.discard(run)
                expected.discard(run)
        return AnswerKey(frozenset(places), frozenset(asserted), frozenset(expected), frozenset(canaries))

    def find(self, where: str, text: str) -> Leak | None:
        """Return what a text shows, None if it is nothing; `where` names it."""
        if canary := next((each for each in _CANARY.findall(text) if each not in self.given), None):
            return Leak(LeakReason.CANARY, where, canary)
        for place in sorted(self.places):
            if place in text:
                return Leak(LeakReason.PATH, where, place)
        words = _words(text)
        copied = _copied(words, self.asserted, _MIN_ASSERTED) or _copied(words, self.expected, _MIN_EXPECTED)
        return Leak(LeakReason.EXPECTED, where, copied) if copied else None


def _is_expected(assertion: str, case: EvalCase) -> bool:
    """Tell whether an assertion stands for the expected output, as the only one of a case that has none."""
    return len(case.assertions) == 1 and bool(case.expected_output) and assertion.endswith(case.expected_output)


def _copied(words: list[str], passages: frozenset[_Run], least: int) -> str:
    """Return the first passage of so many letters at least, empty if there is none."""
    firsts = {run[0] for run in passages}
    begin = end = 0
    for position, word in enumerate(words):
        if word not in firsts or tuple(words[position : position + _MIN_WORDS]) not in passages:
            continue
        if position > end:
            begin = position
        end = position + _MIN_WORDS
        if sum(map(_weight, words[begin:end])) >= least:
            return " ".join(words[begin:end])[:_EXCERPT]
    return ""


def _runs_in(texts: Iterable[str]) -> frozenset[_Run]:
    return frozenset(run for text in texts for part in _LITERAL.split(text) for run in _runs(_words(part)))


def _runs_at_keys(raw: str) -> frozenset[_Run]:
    words, at_key = list[str](), list[bool]()
    for number, part in enumerate(_KEY.split(raw)):
        found = _words(part)
        words += found
        at_key += [number % 2 == 1] * len(found)
    return frozenset(run for begin, run in enumerate(_runs(words)) if any(at_key[begin : begin + _MIN_WORDS]))


def _words(text: str) -> list[str]:
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
    return _WORD.findall(plain.casefold())


def _runs(words: list[str]) -> Iterator[_Run]:
    return (tuple(words[begin : begin + _MIN_WORDS]) for begin in range(len(words) - _MIN_WORDS + 1))


def _weight(word: str) -> int:
    return _WIDE if len(word) == 1 and not word.isascii() else len(word)
