"""Compare the JSON text of `json_text` with that of Node, for the same values.

Patterns of skills are matched against this text of a tool call's arguments, so every character matters.
"""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING

from conformance.outcome import Outcome
from conformance.processes import CheckError, Place, run, tail
from conformance.suite import NODE
from skills_core.guard.guard import MAX_DEPTH, json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.format.yaml12 import JsonValue

__all__ = ["compare_with_node"]

GENERATED = 5000

SHOWN = 10
"""Faults that are reported; a wrong rule affects hundreds of values."""

_PROGRAM = """
const lines = require("fs").readFileSync(process.argv[1], "utf8").trimEnd().split("\\n");
process.stdout.write(lines.map((line) => JSON.stringify(JSON.parse(line)) + "\\n").join(""));
"""

_CHARACTERS = (*map(chr, range(0x20)), *'ab"\\/<&\x7f\x80é\u2028\u2029\ufeff\uffff\ud83d\ude00\ud800\udfff😀\U0010ffff')
_KEYS = (
    "10",
    "2",
    "01",
    "-1",
    "1.5",
    "4294967294",
    "4294967295",
    "4294967296",
    "__proto__",
    "toJSON",
    "length",
    "a",
    "",
)
_NUMBERS = (
    *("-0", "-0.0", "0.1e1", "1.0", "1e21", "1e-6", "1e-7", "9007199254740993"),
    *("1e400", "-1E+400", "1e-400", "5e-324", "2.5e-324", "1" + "0" * 400),
    *(str(2**1024 - 2**970), str(2**1024 - 2**970 - 1)),
)
"""As JSON, because Python cannot write numbers in all of these ways."""


async def compare_with_node(place: Place) -> Outcome:
    """Compare both texts of every case.

    Raises:
        CheckError: Node did not write a line for each case.
    """
    cases = (*_edges(), *_generated(GENERATED))
    file = place.folder("stringify") / "cases.jsonl"
    file.write_text("".join(f"{case}\n" for case in cases), encoding="ascii", newline="\n")
    finished = await run([str(NODE), "-e", _PROGRAM, str(file)], place)
    theirs = finished.out.removesuffix("\n").split("\n")
    if len(theirs) != len(cases):
        raise CheckError(f"Node wrote {len(theirs)} lines and ended with {finished.code}: {tail(finished.err)}")
    faults = [
        f"{case:.100}: Node has {wanted!a:.200}, json_text {ours!a:.200}"
        for case, wanted, ours in zip(cases, theirs, (json_text(json.loads(case)) for case in cases), strict=True)
        if wanted != ours
    ]
    return Outcome(len(cases) - len(faults), len(cases), tuple(faults[:SHOWN]))


def _edges() -> Iterator[str]:
    """Yield, as JSON, various notations of numbers, all powers of two and ten, and the deepest values."""
    yield from _NUMBERS
    powers = (*(2.0**power for power in range(-1074, 1024)), *(float(f"1e{power}") for power in range(-323, 309)))
    yield json.dumps(powers)
    # Shortest digits are hardest to find for the neighbors of powers of two.
    yield from (json.dumps([-each, _beside(each, -1), _beside(each, 1)]) for each in powers)
    yield "[" * MAX_DEPTH + "]" * MAX_DEPTH
    yield '{"a":' * (MAX_DEPTH - 1) + "{}" + "}" * (MAX_DEPTH - 1)
    yield json.dumps({key: key for key in _KEYS})


def _beside(number: float, steps: int) -> float:
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return _double(bits + steps)


def _double(bits: int) -> float:
    number: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    # JSON has no infinity and no NaN.
    return number if abs(number) < float("inf") else 0.0


def _generated(count: int, seed: int = 262) -> Iterator[str]:
    chance = random.Random(seed)  # noqa: S311 - reproducible cases
    for _ in range(count):
        yield json.dumps(_value(chance, 4))


def _value(chance: random.Random, levels: int) -> JsonValue:
    kind = chance.randrange(5 if levels else 3)
    if kind == 0:
        return chance.choice((None, True, False))
    if kind == 1:
        return _number(chance)
    if kind == 2:  # noqa: PLR2004 - one of the kinds
        return _text(chance)
    if kind == 3:  # noqa: PLR2004
        return [_value(chance, levels - 1) for _ in range(chance.randrange(5))]
    return {_key(chance): _value(chance, levels - 1) for _ in range(chance.randrange(7))}


def _number(chance: random.Random) -> float:
    return chance.choice(
        (
            chance.randint(-1000, 1000),
            chance.randint(-(10**25), 10**25),
            _double(chance.randint(0, 2**63 - 1)),
            chance.uniform(-1, 1) * 10 ** chance.randint(-12, 25),
            round(chance.uniform(-1000, 1000), 2),
        )
    )


def _text(chance: random.Random) -> str:
    return "".join(chance.choices(_CHARACTERS, k=chance.randrange(7)))


def _key(chance: random.Random) -> str:
    return chance.choice((_text(chance), str(chance.randrange(30)), chance.choice(_KEYS)))
