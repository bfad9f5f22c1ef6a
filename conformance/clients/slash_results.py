"""What of a typed slash command reached the model: read off a recording, and kept in slash.json."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.clients.slash_ways import NATIVE_MARK, SERVED_MARK, WORDS, Way

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.clients.dialects.messages import Json
    from conformance.clients.recording import Recording

__all__ = ["SLASH_RESULTS", "Arrival", "Typing", "Whose", "arrival_in", "keep", "kept"]

SLASH_RESULTS = Path(__file__).resolve().parent / "slash.json"


class Whose(StrEnum):
    """Whose skill the model received."""

    SERVED = "served skill"
    OWN = "own skill"
    NONE = "no skill"


@dataclass(frozen=True, slots=True)
class Arrival:
    """What the model received: whose skill, which of the words, and whether they stand in the skill's text."""

    skill: Whose
    words: tuple[str, ...]
    filled: bool

    def __str__(self) -> str:
        """Return it as a line."""
        count = "all words" if self.words == WORDS else f"{len(self.words)} of {len(WORDS)} words"
        return f"{self.skill}, {count}{', filled' if self.filled else ''}"


@dataclass(frozen=True, slots=True)
class Typing:
    """What was found for a client on a day (ISO 8601).

    Each way has what arrived in its attempts, each different arrival once; None stands for a model that was not asked.
    """

    version: str
    day: str
    arrivals: Mapping[Way, Sequence[Arrival | None]]


def arrival_in(recording: Recording) -> Arrival | None:
    """Return what arrived in the first request that has the skill, else in the first with the words, else None."""
    texts = [exchange.request.text for exchange in recording.exchanges]
    marked = [text for text in texts if SERVED_MARK in text or NATIVE_MARK in text]
    said = marked or [text for text in texts if any(word in text for word in WORDS)]
    if not said:
        return None
    text = said[0]
    skill = Whose.SERVED if SERVED_MARK in text else Whose.OWN if NATIVE_MARK in text else Whose.NONE
    return Arrival(skill, tuple(word for word in WORDS if word in text), f"[{' '.join(WORDS)}]" in text)


def kept(path: Path = SLASH_RESULTS) -> dict[str, Typing]:
    """Return the results that were kept last, by the names of the clients."""
    if not path.exists():
        return {}
    return {name: _typing(raw) for name, raw in json.loads(path.read_text(encoding="utf-8")).items()}


def keep(client: str, typing: Typing, path: Path = SLASH_RESULTS) -> None:
    """Write the results of a client; those of others remain, and those of its other ways if the version is the same."""
    before = kept(path)
    if (known := before.get(client)) and known.version == typing.version:
        typing = replace(typing, arrivals={**known.arrivals, **typing.arrivals})
    found = {name: _raw(each) for name, each in sorted({**before, client: typing}.items())}
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _typing(raw: Json) -> Typing:
    arrivals = {Way(way): tuple(map(_arrival, found)) for way, found in raw["arrivals"].items()}
    return Typing(raw["version"], raw["day"], arrivals)


def _arrival(raw: Json | None) -> Arrival | None:
    return None if raw is None else Arrival(Whose(raw["skill"]), tuple(raw["words"]), raw["filled"])


def _raw(typing: Typing) -> Json:
    arrivals = {
        way.value: [
            None if each is None else {"skill": each.skill.value, "words": list(each.words), "filled": each.filled}
            for each in found
        ]
        for way, found in typing.arrivals.items()
    }
    return {"version": typing.version, "day": typing.day, "arrivals": arrivals}
