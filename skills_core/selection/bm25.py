"""BM25 over the skills of one search: which of an index's contents they are, their scores for words, and the reasons.

Counts and lengths are those of these skills alone, whatever else is in the index. Words are taken from the rarest to
the most frequent. As soon as a skill without the words so far can no longer be among the best, the other words only
count for the skills that were found, and of those only as long as they can be among the best.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nlargest
from itertools import accumulate, compress, islice
from math import log
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from skills_core.diagnostics import one_line
from skills_core.errors import FileUnavailableError, SkillChangedError
from skills_core.layered import differing
from skills_core.selection.fulltext import FIELDS, pieces_of, texts_of, texts_without_body
from skills_core.selection.policy import Band
from skills_core.selection.postings import FIELD_BITS
from skills_core.selection.twins import signature

if TYPE_CHECKING:
    from skills_core.selection.fulltext import Pieces
    from skills_core.selection.policy import SelectionPolicy
    from skills_core.selection.postings import Counts, Postings, TextIndex
    from skills_core.skills.skill import Skill, SkillContent

logger = logging.getLogger(__name__)

# Minimum shares of the query for each band, tuned on the first half of the labelled queries.
_HIGH, _SPECIFIC, _BROAD = 0.6, 0.35, 0.12
_BROAD_ANYWHERE = 0.5

_COMMON_COUNT, _COMMON_SHARE = 500, 0.25
"""A word is ignored if more skills than both this number and this share of all contain it."""

_SATURATION, _LENGTH = 1.2, 0.75
# BM25's k1 and b.

_MAX_POSTINGS = 20_000
# After so many, the words that remain, which are the most frequent ones, count for skills that were found already.

_MAX_FOUND, _MAX_LOOKED_UP = 2_000, 8_000
# Of these, the best so far: the first number, or more while that takes no more than the second in look-ups.

_LEADING = 64
# Skills found so far whose scores are completed first: they tell which of the others can still be among the best.

_KEPT_GAINS = 4
# What words add to scores is kept for so many times the number of skills, in 12 bytes each: some are in many queries.

_COUNTED = 32
# Contents whose words are counted at once: each brings some unknown words, and to ask for their stems takes a while.

_MANY_GAPS = 16
# Looking up a row that is no member costs as much as looking at this many rows.

_MANY_WANTED = 8
# Looking for one row takes longer than going over so many postings: the rows that are not there are left out first.

_DESCRIPTION, _BODY = FIELDS.index("description"), FIELDS.index("body")
_ANY_FIELD, _BEFORE_BODY = (1 << FIELD_BITS) - 1, (1 << _BODY) - 1
# Bits of packed counts.

Indexed: TypeAlias = "tuple[bytes, Counts, bytes | None]"
"""What the index needs of a content: its key, the counts of its stems, and the signature of its description and body.

The signature is None where it is not made: searches do not need it, and background work makes it later.
"""


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A query's words by stem, with the weight of each stem and the number of contents that have it."""

    words: Mapping[str, str]
    weights: Mapping[str, float]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Which words of the query each field contains.

    `front` is the share of the query's weight, from 0 to 1, that the name, description and tags contain; `whole` is the
    share that all fields contain.
    """

    fields: tuple[tuple[str, tuple[str, ...]], ...]
    front: float
    whole: float

    @property
    def band(self) -> Band:
        """The band of the match, from "high" (the front has most of the query) to "trace" (hardly any of it)."""
        if self.front >= _HIGH:
            return Band.HIGH
        if self.front >= _SPECIFIC:
            return Band.SPECIFIC
        return Band.BROAD if self.front >= _BROAD or self.whole >= _BROAD_ANYWHERE else Band.TRACE


@dataclass(frozen=True, slots=True)
class Hit:
    """A skill with its score, and the row of its content."""

    score: float
    skill: Skill
    row: int


class _Gains(NamedTuple):
    """The rows of the skills that have a stem, in order, and what it adds to the score of each."""

    rows: array[int]
    gains: array[float]


def key_of(content: SkillContent, *, has_body: bool = True) -> bytes:
    """Return the key under which a content is indexed: a digest of all that makes its texts."""
    front = content.instructions.frontmatter
    digest = blake2b(digest_size=16)
    body = content.main.digest if content.main is not None else content.readable_body
    for text in (content.name, front.description, front.when_to_use or "", *front.triggers, "", *front.tags):
        # No text of a file contains the separator.
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    digest.update(body.encode("utf-8", "surrogatepass") if has_body else b"\0")
    return digest.digest()


def signature_of(content: SkillContent) -> bytes | None:
    """Return the signature of the description and body of a content; None if the body cannot be read now."""
    try:
        texts = texts_of(content)
    except (SkillChangedError, FileUnavailableError):
        return None
    return signature(texts[_DESCRIPTION], texts[_BODY])


def _read(content: SkillContent, *, sign: bool) -> tuple[bytes, Pieces, bytes | None]:
    """Return the key and the pieces of a content, and its signature if it can be made."""
    try:
        texts = texts_of(content)
    except (SkillChangedError, FileUnavailableError) as error:
        # The reload that is due brings another content.
        logger.info("%s is searched without its instructions: %s", one_line(content.name), error)
        return key_of(content, has_body=False), pieces_of(texts_without_body(content)), None
    signed = signature(texts[_DESCRIPTION], texts[_BODY]) if sign else None
    return key_of(content), pieces_of(texts), signed


class SkillRows:
    """The skills of one search, and the rows of their contents in an index. It is used by one thread at a time."""

    def __init__(self, texts: TextIndex) -> None:
        """Start without skills, with an index of texts."""
        self.texts = texts
        self._forget()

    def _forget(self) -> None:
        self._generation = self.texts.generation
        self._skills: tuple[Skill, ...] = ()
        # In the order of the skills: the row of each, 0 if it is not known, or the content is not indexed.
        self._rows = array("q")
        self._at: dict[int, tuple[Skill, ...]] = {}
        # A byte for each row of the index, 1 if it is one of these.
        self._members = bytearray()
        self._missing = 0
        self._words = 0
        self._counts: dict[str, int] = {}
        self._gains: dict[str, _Gains] = {}
        self._kept = 0
        self._row_of_skill: dict[int, int] | None = None

    @property
    def generation(self) -> int:
        """That of the index at the last update."""
        return self._generation

    @property
    def is_current(self) -> bool:
        """Whether the index still has what it had at the last update."""
        return self._generation == self.texts.generation

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills of the last update."""
        return self._skills

    @property
    def missing(self) -> int:
        """The number of skills that are not searched yet, because the rows of their contents are not known."""
        return self._missing

    def update(self, skills: tuple[Skill, ...]) -> None:
        """Search `skills` from now on; those whose contents are new only once `place` has been called for them.

        It neither reads files nor the index, as others wait for their searches meanwhile.
        """
        if self.texts.follow() != self._generation:
            self._forget()
        before = self._skills
        if before is skills:
            return
        was, now = differing(before, skills)
        old, old_rows, new = before[was], self._rows[was], skills[now]
        known = {id(skill.content): row for skill, row in zip(old, old_rows, strict=True) if row}
        new_rows = array("q", (known.get(id(skill.content), 0) for skill in new))
        stay = {id(skill) for skill, row in zip(old, old_rows, strict=True) if row} & {*map(id, new)}
        for skill, row in zip(old, old_rows, strict=True):
            if row and id(skill) not in stay:
                self._leave(skill, row)
        for skill, row in zip(new, new_rows, strict=True):
            if row and id(skill) not in stay:
                self._join(skill, row)
        self._rows[was] = new_rows
        self._skills = skills
        self._missing += new_rows.count(0) - old_rows.count(0)
        self._changed()

    def lacking(self, most: int | None = None) -> list[SkillContent]:
        """Return the contents of up to `most` skills that are not searched yet, None for all; each content once."""
        lacking = (self._skills[place].content for place in islice(self._gaps(), most))
        return [*{id(content): content for content in lacking}.values()]

    def _gaps(self) -> Iterator[int]:
        """Yield the place of each skill that is not searched yet, in order."""
        place = -1
        for _ in range(self._missing):
            place = self._rows.index(0, place + 1)
            yield place

    def look_up(self, contents: Sequence[SkillContent]) -> list[int]:
        """Return the rows of contents, 0 for those that are not indexed. Any thread may call it."""
        return self.texts.rows_of([*map(key_of, contents)])

    def read(
        self, contents: Sequence[SkillContent], pause: Callable[[], None] = lambda: None, *, sign: bool = False
    ) -> list[Indexed]:
        """Return what to index of contents, without a body that cannot be read. Any thread may call it."""
        read: list[Indexed] = []
        for begin in range(0, len(contents), _COUNTED):
            found: list[tuple[bytes, Pieces, bytes | None]] = []
            for content in contents[begin : begin + _COUNTED]:
                pause()
                found.append(_read(content, sign=sign))
            counts = self.texts.count([pieces for _, pieces, _ in found])
            read += ((key, count, signed) for (key, _, signed), count in zip(found, counts, strict=True))
        return read

    def index(self, read: Sequence[Indexed]) -> list[int]:
        """Index what was read of contents, and return their rows. Any thread may call it."""
        known = {key: counts for key, counts, _ in read}
        signatures = {key: signed for key, _, signed in read if signed is not None}
        rows = dict(zip(known, self.texts.add(known, signatures), strict=True))
        return [rows[key] for key, _, _ in read]

    def place(self, contents: Sequence[SkillContent], rows: Sequence[int], generation: int) -> None:
        """Search contents from now on, as far as they are lacking, by their rows in a generation of the index.

        A row of 0 is not known.
        """
        if not generation == self._generation == self.texts.generation:
            return
        found = {id(content): row for content, row in zip(contents, rows, strict=True) if row}
        seen: set[int] = set()
        for place in self._gaps():
            skill = self._skills[place]
            if row := found.get(id(skill.content), 0):
                self._rows[place] = row
                self._missing -= 1
                self._join(skill, row)
                seen.add(id(skill.content))
            elif len(seen) == len(found):
                break
        self._changed()

    def indexed(self, wanted: Iterable[Skill] | None = None) -> list[tuple[Skill, int]]:
        """Return those of the skills that are indexed, each with its row: all, or those that are `wanted`."""
        pairs = zip(self._skills, self._rows, strict=True)
        if wanted is None:
            return [(skill, row) for skill, row in pairs if row]
        among = set(map(id, wanted))
        return [(skill, row) for skill, row in pairs if row and id(skill) in among] if among else []

    def skills_at(self, row: int) -> Sequence[Skill]:
        """Return the skills whose content is in a row of the index."""
        return self._at.get(row, ())

    def _changed(self) -> None:
        self._counts = {}
        self._gains = {}
        self._kept = 0
        self._row_of_skill = None

    def _join(self, skill: Skill, row: int) -> None:
        self._enlarge()
        if row not in self._at:
            self._members[row] = 1
            self._words += self.texts.lengths[row]
        self._at[row] = (*self._at.get(row, ()), skill)

    def _enlarge(self) -> None:
        """Make room for the rows that the index has."""
        if (more := len(self.texts.lengths) - len(self._members)) > 0:
            self._members.extend(bytes(more))

    def _postings(self, stem: str) -> Postings:
        """Return the postings of a stem, with room for their rows: other searches may add some at any time."""
        postings = self.texts.postings(stem)
        self._enlarge()
        return postings

    def _leave(self, skill: Skill, row: int) -> None:
        others = tuple(other for other in self._at[row] if other is not skill)
        if others:
            self._at[row] = others
        else:
            del self._at[row]
            self._members[row] = 0
            self._words -= self.texts.lengths[row]

    def search(
        self, words: Sequence[str], policy: SelectionPolicy, also: Sequence[Skill] = ()
    ) -> tuple[QueryTerms, list[Hit]]:
        """Return the best hits, then those of `also` that contain a word of the query."""
        terms = self._weigh(words)
        # Tags leave only some of the skills, and `also` can be any.
        top = None if also or policy.has_tags else policy.top_k
        scores = self._scores(terms, top) if words else dict.fromkeys(self._at, 0.0)
        best = self._best(scores, policy)
        known = {hit.skill.path for hit in best}
        rows = ((skill, self._row_of(skill)) for skill in also if skill.path not in known)
        rest = [Hit(scores[row], skill, row) for skill, row in rows if row in scores]
        return terms, [*best, *sorted(rest, key=lambda hit: -hit.score)]

    def _row_of(self, skill: Skill) -> int:
        if self._row_of_skill is None:
            self._row_of_skill = {id(each): row for each, row in zip(self._skills, self._rows, strict=True)}
        return self._row_of_skill.get(id(skill), 0)

    def _weigh(self, words: Iterable[str]) -> QueryTerms:
        """Return the words with their inverse document frequency; words with the same stem are one term."""
        total = len(self._at)
        word_of: dict[str, str] = {}
        for word, stem in self.texts.stems.of(words).items():
            word_of.setdefault(stem, word)
        counts = {stem: self._count(stem) for stem in word_of}
        weights = {stem: log(1 + (total - count + 0.5) / (count + 0.5)) for stem, count in counts.items()}
        return QueryTerms(word_of, weights, counts)

    def _count(self, stem: str) -> int:
        count = self._counts.get(stem)
        if count is None:
            count = count_members(self._postings(stem).rows, self._members, len(self._members) - len(self._at))
            self._counts[stem] = count
        return count

    def _scores(self, terms: QueryTerms, top: int | None) -> dict[int, float]:
        """Return the scores by row; with `top`, those of the rows alone that can be among so many best ones."""
        present = [stem for stem in terms.words if terms.counts[stem]]
        # Words that most skills contain tell little.
        most = max(_COMMON_COUNT, len(self._at) * _COMMON_SHARE)
        selective = [stem for stem in present if terms.counts[stem] <= most] or present
        selective.sort(key=lambda stem: -terms.weights[stem])
        # What a row can gain by the words from each on.
        gains = [*accumulate(terms.weights[stem] * (_SATURATION + 1) for stem in reversed(selective))][::-1]
        scores: dict[int, float] = {}
        done = 0
        for number, stem in enumerate(selective):
            if top is not None and len(scores) >= top:
                least = nlargest(top, scores.values())[-1] - gains[number]
                if least > 0 or done + terms.counts[stem] > _MAX_POSTINGS:
                    return self._completed(scores, selective[number:], terms, top)
            self._add(scores, stem, terms.weights[stem])
            done += terms.counts[stem]
        return scores

    def _norms(self) -> tuple[float, float]:
        """Return the two numbers by which the length of a text weakens its words."""
        average = self._words / max(1, len(self._at)) or 1.0
        return _SATURATION * (1 - _LENGTH), _SATURATION * _LENGTH / average

    def _add(self, scores: dict[int, float], stem: str, weight: float) -> None:
        """Add what a stem gives to the rows that have it."""
        rows, gains = self._gains.get(stem) or self._gained(stem, weight)
        if not scores:
            scores.update(zip(rows, gains, strict=True))
            return
        known = scores.get
        for row, gain in zip(rows, gains, strict=True):
            scores[row] = known(row, 0.0) + gain

    def _gained(self, stem: str, weight: float) -> _Gains:
        """Return what a stem gives, and keep it until the skills change."""
        base, by_length = self._norms()
        weight *= _SATURATION + 1
        rows, packed = self._postings(stem)
        if _gap(rows, self._members) >= 0:
            chosen = bytes(map(self._members.__getitem__, rows))
            rows, packed = array("I", compress(rows, chosen)), array("H", compress(packed, chosen))
        lengths = map(self.texts.lengths.__getitem__, rows)
        gains = [
            weight * (count := each >> FIELD_BITS) / (count + base + by_length * length)
            for each, length in zip(packed, lengths, strict=True)
        ]
        while self._gains and self._kept + len(rows) > _KEPT_GAINS * len(self._at):
            self._kept -= len(self._gains.pop(next(iter(self._gains))).rows)
        self._gains[stem] = found = _Gains(rows, array("d", gains))
        self._kept += len(rows)
        return found

    def _complete(self, scores: dict[int, float], stem: str, weight: float) -> None:
        """Add to the rows with a score what one more stem gives them."""
        base, by_length = self._norms()
        lengths = self.texts.lengths
        weight *= _SATURATION + 1
        postings = self.texts.postings(stem)
        for row, at in _places(postings, [*scores]):
            count = postings.packed[at] >> FIELD_BITS
            scores[row] += weight * count / (count + base + by_length * lengths[row])

    def _completed(
        self, scores: Mapping[int, float], rest: Sequence[str], terms: QueryTerms, top: int
    ) -> dict[int, float]:
        """Return the scores of the rows that can be among the best `top`, with what the `rest` of the stems adds."""
        lead = nlargest(max(top, _LEADING), scores.values())[-1]
        leading = {row: score for row, score in scores.items() if score >= lead}
        for stem in rest:
            self._complete(leading, stem, terms.weights[stem])
        least = nlargest(top, leading.values())[-1]
        gain = (_SATURATION + 1) * sum(terms.weights[stem] for stem in rest)
        others = {row: score for row, score in scores.items() if least - gain <= score < lead}
        if len(others) > (most := max(_MAX_FOUND, _MAX_LOOKED_UP // len(rest))):
            others = dict(nlargest(most, others.items(), key=itemgetter(1)))
        for stem in rest:
            self._complete(others, stem, terms.weights[stem])
            gain -= (_SATURATION + 1) * terms.weights[stem]
            others = {row: score for row, score in others.items() if score >= least - gain}
        return leading | others

    def _best(self, scores: Mapping[int, float], policy: SelectionPolicy) -> list[Hit]:
        admits = policy.admission()
        least = policy.min_score
        if len(scores) > policy.top_k and not policy.has_tags:
            least = max(least, nlargest(policy.top_k, scores.values())[-1])
        kept: list[Hit] = []
        for score, row in sorted(((score, row) for row, score in scores.items() if score >= least), reverse=True):
            # Keep all that tie with the last one, because names and paths order ties.
            if len(kept) >= policy.top_k and score < kept[-1].score:
                break
            kept += [Hit(score, skill, row) for skill in self._at[row] if admits(skill)]
        kept.sort(key=lambda found: (-found.score, found.skill.name, found.skill.path))
        return kept[: policy.top_k]

    def reasons(self, terms: QueryTerms, hits: Sequence[Hit]) -> list[Reasons]:
        """Return the reasons for each of the hits."""
        found: dict[int, dict[str, int]] = {hit.row: {} for hit in hits}
        for stem in terms.words:
            postings = self.texts.postings(stem)
            for row, at in _places(postings, found):
                found[row][stem] = postings.packed[at]
        return [_reasons(found[hit.row], terms) for hit in hits]


def count_members(rows: array[int], members: bytearray, gaps: int) -> int:
    """Return how many of the rows, which are in order, have a 1 in `members`, where `gaps` or fewer have a 0.

    Most often all or almost all have a 1: then only the others are looked up.
    """
    gap = _gap(rows, members)
    if gap >= 0 and gaps > len(rows) // _MANY_GAPS:
        return sum(map(members.__getitem__, rows))
    count = len(rows)
    while gap >= 0:
        at = bisect_left(rows, gap)
        count -= rows[at] == gap
        gap = members.find(0, gap + 1, rows[-1] + 1)
    return count


def _gap(rows: array[int], members: bytearray) -> int:
    """Return the first row that is no member, from the first to the last of `rows`; -1 if all are members."""
    return members.find(0, rows[0], rows[-1] + 1) if rows else -1


def _places(postings: Postings, wanted: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield each wanted row that is in the postings, with its place there; in any order."""
    rows = postings.rows
    if len(rows) < _MANY_WANTED * len(wanted):
        wanted = {*wanted}.intersection(rows)
    for row in wanted:
        at = bisect_left(rows, row)
        if at < len(rows) and rows[at] == row:
            yield row, at


def _reasons(found: Mapping[str, int], terms: QueryTerms) -> Reasons:
    """Return the reasons for a content by its packed count of each stem."""
    total = sum(terms.weights.values()) or 1.0
    front = whole = 0.0
    why: tuple[list[str], ...] = tuple([] for _ in FIELDS)
    for stem, word in terms.words.items():
        packed = found.get(stem, 0)
        if packed & _ANY_FIELD:
            whole += terms.weights[stem]
        if packed & _BEFORE_BODY:
            front += terms.weights[stem]
        for number, words in enumerate(why):
            if packed & 1 << number:
                words.append(word)
    fields = tuple((field, tuple(words)) for field, words in zip(FIELDS, why, strict=True) if words)
    return Reasons(fields, front / total, whole / total)
