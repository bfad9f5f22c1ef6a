"""Write folders of skills for the measurements: made-up skills, and a few that the scenarios name."""

from __future__ import annotations

import itertools
import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "ADDED",
    "EDITED_MARK",
    "LINES",
    "LOADED",
    "LONG",
    "OTHER",
    "add",
    "body_mark",
    "catalog",
    "edit",
    "lines_in",
    "write_catalog",
]

LOADED = "release-notes"
"""The skill that a model loads first; `edit` changes it."""
OTHER = "sprint-retro"
"""A skill that a model loads after a change."""
ADDED = "tide-tables"
"""The skill that `add` adds."""
LONG = "field-manual"
"""The skill with a body of 30 KB, in which each line starts with its offset."""

LONG_BODY = 30_000
LINE = "Do what this line says before you go on to the line below it."
EDITED_MARK = "The release date stands on top."

DESCRIPTIONS = {
    LOADED: "Writes release notes from the commits since the last tag. Use when a version is about to be published.",
    OTHER: "Leads a team through a retrospective. Use when the user asks what went well in a sprint.",
    ADDED: "Works out when a harbour falls dry. Use when the user asks for high water or low water.",
    LONG: "The manual of the survey crew, complete. Use when the user asks how the crew works in the field.",
}

SUBJECTS = (
    "almanac apiary aquifer archive ballot barcode beacon bridge budget cable canvas census chapel clinic compost "
    "crane dairy drone elevator ferry forge freight furnace garden glacier greenhouse harvest hydrant kiln lagoon "
    "ledger lighthouse loom mosaic nursery orchard organ parcel pasture pipeline quarry railway"
)
WORK = (
    "appraise assemble calibrate catalogue certify compare digitize estimate forecast inspect insure label lease map "
    "measure polish prepare procure rehearse repair restore ship survey train weigh"
)
SENTENCES = (
    "Helps to {work} a {subject}: lists what is needed, takes the steps in order and records each result.",
    "Knows the rules by which experts {work} a {subject}, with their usual mistakes and how to avoid them.",
    "Turns the request to {work} a {subject} into a plan with checks, owners and a short report at the end.",
)
TRIGGERS = (
    "Use when the user wants to {work} a {subject} or asks what that takes.",
    "Use for every question about a {subject} that somebody has to {work} soon.",
    "Use when a file, a photo or a message shows a {subject} and the next step is to {work} it.",
)


def write_catalog(folder: Path, size: int) -> tuple[str, ...]:
    """Write `size` skills below `folder`; return their names."""
    skills = catalog(size)
    for name, description in skills.items():
        _write(folder, name, description, "".join(f"{line}\n" for line in LINES) if name == LONG else "")
    return tuple(skills)


def catalog(size: int) -> dict[str, str]:
    """Return the names and descriptions of a catalog of this size, the same ones each time."""
    if size == 0:
        return {}
    chance = random.Random(size)  # noqa: S311 - texts, no secrets
    pairs = list(itertools.product(SUBJECTS.split(), WORK.split()))
    chance.shuffle(pairs)
    found = {name: DESCRIPTIONS[name] for name in (LOADED, OTHER, LONG)}
    for subject, work in pairs[: size - len(found)]:
        text = f"{chance.choice(SENTENCES)} {chance.choice(TRIGGERS)}"
        found[f"{subject}-{work}"] = text.format(work=work, subject=subject)
    return found


def add(folder: Path) -> None:
    """Add the skill ADDED."""
    _write(folder, ADDED, DESCRIPTIONS[ADDED])


def edit(folder: Path) -> None:
    """Append EDITED_MARK to the body of LOADED."""
    path = folder / LOADED / "SKILL.md"
    path.write_text(f"{path.read_text(encoding='utf-8')}{EDITED_MARK}\n", encoding="utf-8")


def body_mark(name: str) -> str:
    """Return a sentence that only the body of this skill has."""
    return f"These are the instructions of {name}, version one."


def _write(folder: Path, name: str, description: str, further: str = "") -> None:
    text = f"---\nname: {name}\ndescription: >-\n  {description}\n---\n\n{body_mark(name)}\n{further}"
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _lines(length: int) -> tuple[str, ...]:
    size = len(f"[{0:06d}] {LINE}\n")
    return tuple(f"[{offset:06d}] {LINE}" for offset in range(0, length, size))


LINES = _lines(LONG_BODY)
"""The lines of the long body."""

WHOLE_LINE = re.compile(rf"\[\d{{6}}\] {re.escape(LINE)}")


def lines_in(text: str) -> set[str]:
    """Return the lines of the long body that a text has whole."""
    return set(WHOLE_LINE.findall(text)) & set(LINES)
