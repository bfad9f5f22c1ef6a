"""The words of queries and skills, and their stems.

Words are folded so that case, accents and letter forms do not matter. SQLite's FTS5 tells what a word is, and its stem.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from skills_core.skills.skill import SkillContent


MAX_WORDS = 64
"""Maximum number of words of a query that count: a pasted page must not delay other searches."""

# Words of conversation with an assistant, which say nothing about the task. One string, because a list would be a page
# of quotes and commas.
_STOP_WORD_TEXT = (
    "a about able above actually after again all almost already also although always am an and another any anyone "
    "anything are around as ask asked asking at away back basically be because been before being best better between "
    "both but by came can cannot could did do does doing done dont down each either else enough even ever every "
    "everything exactly few first for from get gets getting give given gives go goes going gonna good got guess guys "
    "had happen has have having he hello help helps her here hey hi him his how however i id if ill im in instead "
    "into is isnt it its ive just keep keeps kind know last least let lets like little look looking looks lot made "
    "make makes making many may maybe me might mine more most much must my myself need needed needs never new next "
    "no not now of off okay on once one only onto or other our out over own perhaps please pretty probably quickly "
    "quite rather really right said same say saying see seem seems shall she should show so some somebody someone "
    "something soon sort still stuff such sure take takes tell than thank thanks that thats the their them then "
    "there these they thing things think this those though through to today together too tried try trying two under "
    "until up us use used useful uses using very via wanna want wanted wants was way we well went were what whatever "
    "whats when where whether which while who whole whose why will wish with within without wont would yes yet you "
    "your yours"
)
_STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())

_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_APOSTROPHE = re.compile("(?<=[a-z])['\u2019](?=[a-z])")
# Thai to Khmer, kana and ideographs, Hangul: scripts whose words are not, or not always, separated by spaces.
_UNSPACED_LETTER = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_UNSPACED = re.compile(f"{_UNSPACED_LETTER}+")
# A sign is a piece of its own, so that "c" and "c++" differ; hyphens and underscores separate like spaces.
_PIECE = re.compile(rf"{_UNSPACED_LETTER}|(?:(?!{_UNSPACED_LETTER})[^\W_])+|[^\w\s-]")

# Words end at every ASCII character but letters and digits; of other characters, FTS5 tells where.
_INDEXED_PIECE = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")
_ENDS = {code: " " for code in range(128) if not chr(code).isalnum()}

FIELDS = ("name", "description", "tags", "body")


def fold(text: str) -> str:
    """Return the text in lower case, without accents, and with variant forms of a letter as the plain letter."""
    text = text.lower()
    if text.isascii():
        return text
    # YAML can spell a lone surrogate, which the index does not accept.
    text = text.encode("utf-8", "replace").decode("utf-8")
    # Folded again: normalization turns variant capitals, such as mathematical letters, into plain capitals.
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold())).casefold()
    return unicodedata.normalize("NFC", plain)


def index_text(text: str) -> str:
    """Return the folded text, with unspaced scripts split into letters and pairs of letters."""
    text = fold(text)
    return text if text.isascii() else _UNSPACED.sub(_split_unspaced, text)


def phrase(text: str) -> str:
    """Return the folded words and signs of a text, each between spaces, so that `in` finds whole phrases.

    Every letter of an unspaced script is a word of its own.
    """
    return f" {' '.join(_PIECE.findall(fold(text)))} "


def query_words(query: str) -> list[str]:
    """Return the distinct folded words of a query, in order; at most `MAX_WORDS`.

    Stop words count only if there are no others.
    """
    return list(dict.fromkeys(content_words(query)))[:MAX_WORDS]


def content_words(text: str) -> list[str]:
    """Return the folded words of a text in order, repeated ones too; stop words only if there are no others."""
    text = _APOSTROPHE.sub("", fold(text))
    text = text if text.isascii() else _UNSPACED.sub(_pair_unspaced, text)
    words = _WORD.findall(text)
    return [word for word in words if word not in _STOP_WORDS] or words


Pieces: TypeAlias = "Sequence[Mapping[str, int]]"
"""The pieces of each text of a content, in the order of `FIELDS`, and how often each comes.

Most pieces are one word, `Stems.known` tells which words.
"""


def pieces_of(texts: Iterable[str]) -> Pieces:
    """Return the pieces of index texts."""
    # Of ASCII, which most texts are, a translation takes less time.
    return [
        Counter(text.translate(_ENDS).split() if text.isascii() else _INDEXED_PIECE.findall(text)) for text in texts
    ]


def _split_unspaced(run: re.Match[str]) -> str:
    return f" {' '.join([*run[0], *_pairs(run[0])])} "


def _pair_unspaced(run: re.Match[str]) -> str:
    return f" {' '.join(_pairs(run[0]) or run[0])} "


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def texts_of(content: SkillContent) -> tuple[str, ...]:
    """Return the index texts in the order of `FIELDS`; the description includes `when_to_use` and the triggers.

    Raises:
        SkillChangedError: the body is not on disk any more.
        FileUnavailableError: it cannot be read now.
    """
    return (*_texts_of_front(content), index_text(content.body))


def texts_without_body(content: SkillContent) -> tuple[str, ...]:
    """Return the index texts of a content whose file cannot be read."""
    return (*_texts_of_front(content), "")


def _texts_of_front(content: SkillContent) -> Iterator[str]:
    front = content.instructions.frontmatter
    description = "\n".join((front.description, front.when_to_use or "", *front.triggers))
    return map(index_text, (content.name, description, "\n".join(front.tags)))


_TOKENIZE = "tokenize='porter unicode61'"
_STEM_TABLES = (
    f"CREATE VIRTUAL TABLE probe USING fts5(word, content='', {_TOKENIZE})",
    "CREATE VIRTUAL TABLE stems USING fts5vocab(probe, instance)",
)

MAX_STEMS = 50_000
"""Maximum number of cached stems; queries bring new words without end."""


class Stems:
    """A cache of word stems, as FTS5 computes them. Threads may share it and only wait for unknown words."""

    def __init__(self) -> None:
        """Start with an empty cache.

        Raises:
            sqlite3.Error: this build of SQLite has no FTS5.
        """
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._db.close)
        for table in _STEM_TABLES:
            self._db.execute(table)
        self._lock = Lock()
        self._known: dict[str, tuple[str, ...]] = {}

    def of(self, words: Iterable[str]) -> dict[str, str]:
        """Return the stem of each word that has one, in the order of the words."""
        listed = list(dict.fromkeys(words))
        known = self.known(listed)
        return {word: known[word][-1] for word in listed if known[word]}

    def known(self, pieces: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return a mapping with the stems of each of these distinct pieces, in their order; it may have others."""
        known = self._known
        if new := [piece for piece in pieces if piece not in known]:
            # Another thread may forget the others.
            known = {**{piece: known[piece] for piece in pieces if piece in known}, **self._found(new)}
        return known

    def _found(self, pieces: list[str]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = dict.fromkeys(pieces, ())
        # Those of ASCII are one word each, so they can be one text, of which the words are in their order.
        words = [piece for piece in pieces if piece.isascii()]
        others = [piece for piece in pieces if not piece.isascii()]
        with self._lock:
            self._db.execute("BEGIN")
            try:
                self._db.executemany(
                    "INSERT INTO probe(rowid, word) VALUES (?, ?)", enumerate([" ".join(words), *others])
                )
                rows = self._db.execute("SELECT doc, offset, term FROM stems").fetchall()
            finally:
                self._db.execute("ROLLBACK")
            for row, offset, term in sorted(rows):
                found[others[row - 1] if row else words[offset]] += (term,)
            if len(self._known) >= MAX_STEMS:
                # Replaced rather than cleared, because another thread may be reading it.
                self._known = {}
            self._known |= found
        return found
