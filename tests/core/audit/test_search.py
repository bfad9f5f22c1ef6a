"""A text that lacks the words of a pattern is not searched for it, and nothing that would match is lost."""

from __future__ import annotations

import pytest

from skills_core.audit import search
from skills_core.audit.search import SearchedText, find

PATTERNS = (r"\bignore\s+all\b", r"(?:curl|wget)\s[^\n]*\|\s*sh", r"k{2}", r"x?", r"^a|b$", r"(?-i:AKIA)\d", r"\d{3}")
TEXTS = (
    "",
    "nothing of it",
    "Please IGNORE  all of it",
    "curl x | sh\nwget y | sh",
    "\u212ak and k\u212a",  # the Kelvin sign is a k of another case
    "akia1 AKIA1",
    "b\na",
    "\u0130gnore all, \u017f, \U0001d4d0",
    "\ud800 ignore all",
    "\0 ignore all \0",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_searched_text_has_the_same_matches(text: str) -> None:
    for _ in range(2):  # the second time, the patterns are known
        searched = SearchedText(text)
        assert [list(find(pattern, searched)) for pattern in PATTERNS] == [
            list(find(pattern, text)) for pattern in PATTERNS
        ]


def test_a_known_pattern_without_its_words_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = r"\bzyxwv\s+utsrq\b"
    assert not list(find(pattern, SearchedText("learn it")))

    def fail(_: str) -> None:
        raise AssertionError

    monkeypatch.setattr(search, "_compiled", fail)
    assert not list(find(pattern, SearchedText("other words")))
    with pytest.raises(AssertionError):
        list(find(pattern, SearchedText("zyxwv utsrq")))


def test_a_failure_to_read_a_text_for_words_excludes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def Match(self, text: str, *, potential: bool) -> None:  # noqa: N802 - a name of the library
            assert text
            assert potential

    pattern = r"\bvutsr\s+zyxwq\b"
    list(find(pattern, SearchedText("learn it")))
    assert SearchedText("other words").excludes([pattern])
    monkeypatch.setattr(search, "_word_filter", lambda _: Failing())
    list(find(r"\banother\s+to\s+compile\s+again\b", SearchedText("learn it")))
    assert not SearchedText("other words").excludes([pattern])
