"""Generate skills to measure with: any number, the same bytes on every run and machine.

Each skill has a SKILL.md of 2 to 7 KB with the frontmatter fields of the format, and six bundled files.
Skill number i depends only on i, so a small corpus is a prefix of a large one.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Strings that are split, because literal lists of so many words are hard to read.
_VERBS = "audit build clean compare convert draft extract grade index merge migrate plan profile review test"
_OBJECTS = (
    "access-logs api-schemas bug-reports changelogs contracts csv-tables dashboards docker-images invoices "
    "meeting-notes metrics pdf-forms release-notes slide-decks sql-queries style-guides survey-answers web-forms"
)
_WORDS = (
    "the a each every input output file record table row value field report result before after when then "
    "only first last missing empty valid explicit default optional example format unit number text mapping "
    "run verify compare measure collect group sort filter split join write read retry note keep skip rename "
    "normalize tool command script reference template section summary source target version approve restore"
)
VERBS, OBJECTS, WORDS = _VERBS.split(), _OBJECTS.split(), _WORDS.split()
TOOLS = ("Read Grep Glob", "Bash(git:*) Read Write", "Read Write Edit", "Bash(jq:*) Read")
LICENSES = ("Apache-2.0", "MIT", "BSD-3-Clause", "CC-BY-4.0")
BUNDLED = (
    "references/guide.md",
    "references/examples.md",
    "scripts/check.py",
    "scripts/convert.py",
    "assets/template.json",
    "assets/settings.json",
)


def write_corpus(root: Path, count: int, *, bundled: bool = True) -> None:
    """Write skills 0 to count - 1 below the new folder `root`; without `bundled`, only their SKILL.md."""
    root.mkdir(parents=True)
    for number in range(count):
        rng = Random(f"skill {number}")  # noqa: S311 - reproducible, not secret
        folder = root / skill_name(number)
        _write(folder / "SKILL.md", _skill_md(folder.name, rng))
        for path in BUNDLED if bundled else ():
            _write(folder / path, _bundled(path, rng))


def skill_name(number: int) -> str:
    """Return a unique name for a skill that is valid by the rules of the format."""
    verb = VERBS[number % len(VERBS)]
    return f"{verb}-{OBJECTS[number // len(VERBS) % len(OBJECTS)]}-{number:05d}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _sentence(rng: Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(7, 18))).capitalize() + "."


def _prose(rng: Random, size: int) -> str:
    """Write sections of Markdown until there are `size` bytes."""
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        title = " ".join(rng.choices(WORDS, k=3)).title()
        parts.append(f"## {title}\n\n" + " ".join(_sentence(rng) for _ in range(rng.randint(2, 5))) + "\n\n")
    return "".join(parts)


def _skill_md(name: str, rng: Random) -> str:
    topic = name.rsplit("-", 1)[0].replace("-", " ")
    details = " ".join(_sentence(rng) for _ in range(rng.randint(1, 4)))
    description = f"Helps to {topic}. Use when the user asks to {topic}. {details}"
    links = "".join(f"- [{path}]({path}): {_sentence(rng)}\n" for path in BUNDLED)
    return (
        f"---\nname: {name}\ndescription: {json.dumps(description)}\nlicense: {rng.choice(LICENSES)}\n"
        f'metadata:\n  author: example-org\n  version: "{rng.randint(0, 4)}.{rng.randint(0, 20)}"\n'
        f"allowed-tools: {rng.choice(TOOLS)}\n---\n\n"
        f"# {topic.title()}\n\n{_prose(rng, rng.randint(1000, 5000))}## Bundled files\n\n{links}"
    )


def _bundled(path: str, rng: Random) -> str:
    size = rng.randint(1000, 7000)
    if path.endswith(".md"):
        return f"# {path}\n\n{_prose(rng, size)}"
    rows = [{"id": rng.randint(1, 99_999), "note": _sentence(rng)} for _ in range(size // 110)]
    table = json.dumps(rows, indent=1)
    return table + "\n" if path.endswith(".json") else f'"""A bundled script."""\n\nROWS = {table}\n'
