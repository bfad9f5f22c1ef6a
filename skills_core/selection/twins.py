"""Skills that are nearly the same: forks and copies of one text, found without comparing each with each.

A text becomes the set of its runs of three words (shingles; Broder, 1997). How much two sets have in common, the
Jaccard similarity, is estimated from a signature of fixed size: the smallest hash in each of a number of bins (one
permutation hashing; Li, Owen and Zhang, 2012), where an empty bin takes what another one has (Shrivastava, 2017).
Signatures that agree in a band of neighbouring bins are compared, so that the time grows with the number of texts.

Skills of one template have most of their text in common, and are for different things: these their descriptions tell.
So a signature also has the smallest hashes of the words of the description, of most descriptions all.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from operator import attrgetter, eq
from struct import pack
from sys import byteorder
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from skills_core.layered import Layered

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill

ALIKE: Final = 0.6
"""Least similarity of two texts that are alike.

Chosen on a generated catalog whose forks are known and on public skills; between .5 and .7 little changes.
"""

ALIKE_DESCRIPTIONS: Final = 0.4
"""Least share of common words in the descriptions of two skills that are alike.

Among 1,976 public skills, forks have .95 and more, and skills of one template at most .28.
"""

BINS: Final = 128
"""Hashes of 16 bits in a signature; the standard error of a similarity of .6 is .043."""

_BAND: Final = 4
# Bins of a band. Of 32 bands, two texts with a similarity of .6 share one in 99 of 100 cases, with .2 in 5.

_WORDS: Final = 64
# Hashes of 16 bits for the words of a description.

_path_of = attrgetter("path")

_WORD: Final = re.compile(r"\w+")

_SHINGLE: Final = 3
_MIN_SHINGLES: Final = 30
# Short texts are alike by chance, as those of a template are.

_NONE: Final = 1 << 32
# Stands for the smallest hash of an empty bin.

_FACTOR: Final = 0x45D9F3B
# Spreads the bits of a number of 32 bits.

_LOW_HALVES: Final = int.from_bytes(array("Q", [0xFFFFFFFF] * BINS).tobytes(), byteorder)

_KNOWN_WORDS: Final = 10_000
# Words of descriptions whose hashes are kept: most are in many descriptions.

_MAX_COMPARED: Final = 4
# Signatures of a bucket with which others are compared.

_PAUSED: Final = 500
# Texts after which others may go on.


class Alike(NamedTuple):
    """Numbers of texts that are alike, in order, and the smallest similarity that connects them."""

    members: tuple[int, ...]
    least: float


def signature(description: str, body: str) -> bytes:
    """Return the signature of a skill by its folded texts; empty if there is no body, or too little text to tell."""
    words = f"{description} {body}".encode("utf-8", "replace").split() if body else []
    shingles = set(map(crc32, map(b" ".join, zip(*(words[start:] for start in range(_SHINGLE)), strict=False))))
    if len(shingles) < _MIN_SHINGLES:
        return b""
    least = [_NONE] * BINS
    # The bits that choose the bin are not those of the order.
    for shingle in shingles:
        if shingle < least[number := shingle % BINS]:
            least[number] = shingle
    # The high bits of a minimum are mostly 0; mixed, they differ.
    bins = _low_bits_mixed(least)
    if _NONE in least:
        filled = {number for number, value in enumerate(least) if value != _NONE}
        bins = [bins[next(filter(filled.__contains__, _walk(number)))] for number in range(BINS)]
    words_said = sorted(set(map(_hash_of_word, _WORD.findall(description))))[:_WORDS]
    return pack(f">{BINS + len(words_said)}H", *bins, *words_said)


def checked_signature(found: object) -> bytes:
    """Return what a file has as a signature.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(found, bytes) or (found and len(found) not in range(2 * BINS, 2 * (BINS + _WORDS) + 1, 2)):
        raise ValueError("no signature")
    return found


def _mixed(number: int) -> int:
    """Spread the bits of a number of 32 bits."""
    number = (number ^ number >> 16) * _FACTOR & 0xFFFFFFFF
    number = (number ^ number >> 16) * _FACTOR & 0xFFFFFFFF
    return number ^ number >> 16


def _low_bits_mixed(numbers: Sequence[int]) -> Sequence[int]:
    """Return the low 16 bits of each of `BINS` numbers of 32 bits, mixed all at once: as 64-bit parts of one number."""
    packed = int.from_bytes(array("Q", numbers).tobytes(), byteorder)
    packed = ((packed ^ packed >> 16) & _LOW_HALVES) * _FACTOR & _LOW_HALVES
    packed = ((packed ^ packed >> 16) & _LOW_HALVES) * _FACTOR & _LOW_HALVES
    mixed = array("Q", (packed ^ packed >> 16).to_bytes(8 * BINS, byteorder))
    return [number & 0xFFFF for number in mixed]


@lru_cache(_KNOWN_WORDS)
def _hash_of_word(word: str) -> int:
    return _mixed(crc32(word.encode("utf-8", "replace"))) & 0xFFFF


@cache
def _walk(number: int) -> Sequence[int]:
    """Return all bins in the order in which one looks for a hash, itself first; another order for each bin."""
    return sorted(range(BINS), key=lambda other: (other != number, _mixed(number * BINS + other + 1)))


def similarity(one: bytes, other: bytes) -> float:
    """Return the estimated Jaccard similarity of two texts by their signatures, from 0 to 1."""
    equal: int = sum(map(eq, memoryview(one)[: 2 * BINS].cast("H"), memoryview(other)[: 2 * BINS].cast("H")))
    return equal / BINS


def similarity_of_descriptions(one: bytes, other: bytes) -> float:
    """Return the share of common words in two descriptions by the signatures, from 0 to 1; of long ones, estimated."""
    mine, others = ({*memoryview(each)[2 * BINS :].cast("H")} for each in (one, other))
    least = sorted(mine | others)[:_WORDS]
    return sum(each in mine and each in others for each in least) / len(least) if least else 1.0


def alike(signatures: Sequence[bytes], pause: Callable[[], None] = lambda: None) -> list[Alike]:
    """Return the groups of texts that are alike, each by its number, in order; empty signatures are alike to none.

    Each text of a group is alike to another one of it. Which groups there are does not depend on the order of the
    texts. `pause` is called often, and may block.
    """
    having: dict[bytes, list[int]] = defaultdict(list)
    for number, each in enumerate(signatures):
        if each:
            having[each].append(number)
    # Sorted, so that the order of the texts tells nothing.
    distinct = sorted(having)
    joined, least = array("l", range(len(distinct))), [1.0] * len(distinct)
    width = 2 * _BAND
    for start in range(0, 2 * BINS, width):
        buckets: dict[bytes, tuple[int, ...]] = {}
        for number, each in enumerate(distinct):
            if number % _PAUSED == 0:
                pause()
            band = each[start : start + width]
            others = buckets.get(band, ())
            for other in others:
                _join(number, other, distinct, joined, least)
            # The latest: where bodies are equal, neighbours have the same first words of their descriptions.
            buckets[band] = (*others, number)[-_MAX_COMPARED:]
    groups: dict[int, list[int]] = defaultdict(list)
    for number, each in enumerate(distinct):
        groups[_root(joined, number)] += having[each]
    found = [Alike(tuple(sorted(members)), least[root]) for root, members in groups.items() if len(members) > 1]
    return sorted(found)


def _join(number: int, other: int, signatures: Sequence[bytes], joined: array[int], least: list[float]) -> None:
    """Put two texts into one group if they are alike."""
    one, two = _root(joined, number), _root(joined, other)
    if one == two:
        return
    share = similarity(signatures[number], signatures[other])
    if share < ALIKE or similarity_of_descriptions(signatures[number], signatures[other]) < ALIKE_DESCRIPTIONS:
        return
    joined[max(one, two)] = min(one, two)
    least[min(one, two)] = min(share, least[one], least[two])


def _root(joined: array[int], number: int) -> int:
    while joined[number] != number:
        joined[number] = joined[joined[number]]
        number = joined[number]
    return number


class Bands:
    """Finds the texts whose signatures have a band in common with another one: 128 bytes a text, by their numbers.

    Of each band it has 4 bytes, so that few of very many texts are found by chance. One thread at a time adds texts.
    """

    def __init__(self) -> None:
        """Begin without texts."""
        self._columns = [bytearray() for _ in range(BINS // _BAND)]
        self._numbers = array("I")
        # A byte for each number, 1 if it has been added: a set of numbers takes a hundred times as much.
        self._known = bytearray()

    def add(self, numbers: Sequence[int], signatures: Sequence[bytes]) -> None:
        """Add texts that may be known already; those without a signature are left out."""
        folded = array("I")
        self._known.extend(bytes(max(0, max(numbers, default=0) + 1 - len(self._known))))
        for number, each in zip(numbers, signatures, strict=True):
            if each and not self._known[number]:
                self._known[number] = 1
                self._numbers.append(number)
                folded += _folded_bands(each)
        for place, column in enumerate(self._columns):
            column.extend(folded[place :: len(self._columns)].tobytes())

    def sharing(self, signature: bytes) -> set[int]:
        """Return the numbers of the texts that may have a band in common with a signature."""
        found: set[int] = set()
        for band, column in zip(_folded_bands(signature), self._columns, strict=True):
            wanted = band.to_bytes(4, byteorder)
            at = column.find(wanted)
            while at >= 0:
                if not at % 4:
                    found.add(self._numbers[at // 4])
                at = column.find(wanted, at + 1)
        return found


def _folded_bands(signature: bytes) -> array[int]:
    """Return for each band a number of 32 bits, in which the halves of the band are mixed."""
    bins = int.from_bytes(signature[: 2 * BINS], "big")
    return array("I", (bins ^ bins >> 32).to_bytes(2 * BINS, "big"))[1::2]


class Twins:
    """The alike ones among the skills of one search."""

    def __init__(self, groups: Iterable[Sequence[Skill]] = ()) -> None:
        """Take groups of skills, of which no skill is in two."""
        self._of: Layered[str, Sequence[Skill]] = Layered(_by_path(groups))
        # The same object where the groups have the same paths.
        self._paths = object()

    def __bool__(self) -> bool:
        """Whether any skills are alike."""
        return bool(self._of)

    def updated(self, leaving: Iterable[Skill], groups: Iterable[Sequence[Skill]]) -> Twins:
        """Return these groups without some skills and with further groups; the same object if that makes no difference.

        A group of which one skill leaves must leave as a whole.
        """
        before = {path: group for each in leaving if (group := self._of.get(path := each.path))}
        after = _by_path(groups)
        if _values(before, id) == _values(after, id):
            return self
        known = self._of.copy()
        for path in before:
            del known[path]
        known.update(after)
        has_same_paths = _values(before, _path_of) == _values(after, _path_of)
        return Twins._made(known, self._paths if has_same_paths else object())

    @classmethod
    def _made(cls, of: Layered[str, Sequence[Skill]], paths: object) -> Twins:
        twins = cls()
        twins._of, twins._paths = of, paths
        return twins

    def fold_as(self, other: Twins) -> bool:
        """Tell whether the groups are known to consist of skills with the same paths, whatever else has changed."""
        return self._paths is other._paths

    def of(self, skill: Skill) -> Sequence[Skill]:
        """Return all skills that are alike to this one, with itself, in their order; it alone if none is.

        A skill that has been edited since the groups were made is alone.
        """
        group = self._of.get(skill.path, ())
        return group if any(each is skill for each in group) else (skill,)

    def group_of(self, skill: Skill) -> Sequence[Skill]:
        """Return the skills that were alike to this one, with itself, when the groups were made; none if none was.

        A skill that has been edited since then stays with its group until they are made again.
        """
        return self._of.get(skill.path, ())

    def folded(self, skills: Iterable[Skill]) -> Mapping[str, tuple[Skill, ...]]:
        """Return those of `skills` that stand for others of them, by path in their order, each with the others.

        The first one of a group stands for all.
        """
        groups: dict[int, list[Skill]] = defaultdict(list)
        for skill in skills if self._of else ():
            if group := self.group_of(skill):
                groups[id(group)].append(skill)
        return {head.path: tuple(others) for head, *others in groups.values() if others}


def _by_path(groups: Iterable[Sequence[Skill]]) -> dict[str, Sequence[Skill]]:
    return {skill.path: group for group in groups for skill in group}


def _values(groups: Mapping[str, Sequence[Skill]], of: Callable[[Skill], object]) -> dict[str, list[object]]:
    return {path: [*map(of, group)] for path, group in groups.items()}


def heads(skills: Iterable[Skill], folded: Mapping[str, Sequence[Skill]]) -> list[Skill]:
    """Return those of `skills` for which no other one stands by `Twins.folded`."""
    away = {id(skill) for others in folded.values() for skill in others}
    return [skill for skill in skills if id(skill) not in away]


NO_TWINS: Final = Twins()
"""None are alike, or not known to be."""
