"""Which skills of a search are alike, kept current: a change compares what came with what may be alike to it.

All are compared only at first, and where very many changed. After that the skills that came are looked up by the bands
of their signatures, and with the groups of those that are found, and of those that went, they are grouped again. Where
no bucket of a band is crowded this finds what a comparison of all would find; in a crowded one neither compares all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_core.layered import differing
from skills_core.selection.bm25 import signature_of
from skills_core.selection.twins import NO_TWINS, Twins, alike

if TYPE_CHECKING:
    from threading import Lock

    from skills_core.selection.bm25 import SkillRows
    from skills_core.skills.skill import Skill

_SIGNATURES: Final = 128
# Signatures that are read at once.

_FEW: Final = 64
_SHARE: Final = 16
# Up to so many skills that changed, or this part of all, are compared with those that may be alike, and not all.


class _Differences(NamedTuple):
    gone: list[Skill]
    come: list[Skill]


class TwinComparison:
    """The alike ones among the skills of one search, `twins`; threads take turns to compare."""

    def __init__(self) -> None:
        """Begin with none."""
        self.twins: Twins = NO_TWINS
        self._compared: tuple[Skill, ...] = ()
        # Of the index, when all were compared; what is known of its bands is lost with it.
        self._generation: int | None = None

    def follow(self, index: SkillRows, lock: Lock, pause: Callable[[], None]) -> None:
        """Compare the skills of an index, where they changed; `pause` is called often and may block.

        `lock` is held while the index is read.
        """
        with lock:
            skills, generation = index.skills, index.texts.generation
        if self._compared is skills and self._generation == generation:
            return
        found = None
        if self._generation == generation:
            changed = _differences(self._compared, skills)
            if len(changed.gone) + len(changed.come) <= max(_FEW, len(skills) // _SHARE):
                found = self._updated(index, changed, lock, pause)
        self.twins = found if found is not None else self._all(index, lock, pause)
        self._compared, self._generation = skills, generation

    def _all(self, index: SkillRows, lock: Lock, pause: Callable[[], None]) -> Twins:
        with lock:
            found = index.indexed()
        signatures = _signatures(index, found, pause)
        groups = alike(signatures, pause)
        return Twins([[found[member][0] for member in group.members] for group in groups])

    def _updated(self, index: SkillRows, changed: _Differences, lock: Lock, pause: Callable[[], None]) -> Twins | None:
        """Return the groups after few skills changed; None if these concern too many others."""
        gone = {id(skill) for skill in changed.gone}
        with lock:
            come = index.indexed(changed.come)
        concerned = {id(skill): skill for skill, _ in come}
        others = [*changed.gone]
        for signed in {*_signatures(index, come, pause)} - {b""}:
            pause()
            rows = index.texts.bands.sharing(signed)
            with lock:
                others += (skill for row in rows for skill in index.skills_at(row))
        for other in others:
            concerned.update((id(each), each) for each in self.twins.group_of(other) or (other,))
        left = [skill for key, skill in concerned.items() if key not in gone]
        if len(left) > max(_FEW, len(self._compared) // _SHARE):
            return None
        with lock:
            found = index.indexed(left)
        groups = alike(_signatures(index, found, pause), pause)
        regrouped = [[found[member][0] for member in group.members] for group in groups]
        return self.twins.updated([*changed.gone, *left], regrouped)


def _differences(before: tuple[Skill, ...], now: tuple[Skill, ...]) -> _Differences:
    """Return the skills that went and those that came."""
    part_before, part_now = differing(before, now)
    old, new = before[part_before], now[part_now]
    known, there = set(map(id, old)), set(map(id, new))
    gone = [skill for skill in old if id(skill) not in there]
    return _Differences(gone, [skill for skill in new if id(skill) not in known])


def _signatures(index: SkillRows, found: Sequence[tuple[Skill, int]], pause: Callable[[], None]) -> list[bytes]:
    """Return the signatures of skills in the rows of an index, and note their bands."""
    signatures: list[bytes] = []
    for begin in range(0, len(found), _SIGNATURES):
        pause()
        batch = found[begin : begin + _SIGNATURES]
        signed = _signatures_of(index, batch, pause)
        index.texts.bands.add([row for _, row in batch], signed)
        signatures += signed
    return signatures


def _signatures_of(index: SkillRows, found: Sequence[tuple[Skill, int]], pause: Callable[[], None]) -> list[bytes]:
    """Return signatures, with those that the index lacks, as searches make none."""
    known = index.texts.signatures_of([row for _, row in found])
    made: dict[int, bytes] = {}
    for (skill, row), signed in zip(found, known, strict=True):
        if signed is None and row not in made:
            pause()
            # A body that cannot be read now has no signature yet.
            if (made_now := signature_of(skill.content)) is not None:
                made[row] = made_now
    if made:
        index.texts.sign(made)
    return [signed or made.get(row, b"") for (_, row), signed in zip(found, known, strict=True)]
