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
from typing import Final

CANARY_PREFIX: Final = "skillserve-canary-"
_CANARY: Final = re.compile(rf"{CANARY_PREFIX}[0-9a-f]{{32}}")

_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
# Chinese, Japanese and Korean have no blanks between words, so each character counts as one.

_ESCAPE: Final = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrt\"/])")
# JSON that is shown as it stands in a file.

_LITERAL: Final = re.compile(r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|「[^」\n]*」", re.DOTALL)
# What an assertion quotes is for the output to contain.

_MIN_WORDS: Final = 10
_MIN_WEIGHT: Final = 60
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
        return f"the run is no result: {self.where} {said}: {self.text!r}"


def new_canary() -> str:
    """Return a random text for files that no run may read."""
    return f"{CANARY_PREFIX}{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """What a run cannot know: `places` are paths, and `passages` runs of words of the evals."""

    places: tuple[str, ...]
    passages: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, expected: Iterable[str], given: Iterable[str], places: Iterable[str]) -> AnswerKey:
        """Return the key of a case: what is in `expected`, without what a run is `given`; the same for paths."""
        known, texts = set[tuple[str, ...]](), list(given)
        for text in texts:
            known.update(_runs(_words(text)))
        passages = {run for text in expected for part in _LITERAL.split(text) for run in _runs(_words(part))}
        unknown = (each for each in places if not any(each in text for text in texts))
        return cls(tuple(unknown), frozenset(passages - known))

    def find(self, where: str, text: str) -> Leak | None:
        """Return what a text shows, None if it is nothing; `where` names it."""
        if found := _CANARY.search(text):
            return Leak(LeakReason.CANARY, where, found[0])
        for place in self.places:
            if place in text:
                return Leak(LeakReason.PATH, where, place)
        if self.passages and (copied := self._copied(text)):
            return Leak(LeakReason.EXPECTED, where, copied)
        return None

    def _copied(self, text: str) -> str:
        words = _words(text)
        firsts = {run[0] for run in self.passages}
        begin = end = 0
        for position, word in enumerate(words):
            if word not in firsts or tuple(words[position : position + _MIN_WORDS]) not in self.passages:
                continue
            if position >= end:
                begin = position
            end = position + _MIN_WORDS
            if sum(map(_weight, words[begin:end])) >= _MIN_WEIGHT:
                return " ".join(words[begin:end])[:_EXCERPT]
        return ""


def _words(text: str) -> list[str]:
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
    return _WORD.findall(plain.casefold())


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[begin : begin + _MIN_WORDS]) for begin in range(len(words) - _MIN_WORDS + 1))


def _weight(word: str) -> int:
    return _WIDE if len(word) == 1 and not word.isascii() else len(word)
