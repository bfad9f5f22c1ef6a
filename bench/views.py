"""What views cost: 50 views over 1,000 skills against one view of all skills, on one library in this process.

Each role sees 200 common skills and 16 of its own. The library is the same for both; what is compared is the memory, a
reload after an edit of a common skill, and how long a request waits for its view and the list of tools: after the
reload, and afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

from corpus import skill_name, write_corpus

from server.config.machine import current_environment
from server.config.settings.model import Settings
from server.hosting.host import Host
from server.hosting.views import COMMON_VIEW, ViewName, ViewRule
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill

COMMON_SKILLS = 200
EDITS, CALLS = 7, 2000


def _rule(views: int, skills: int) -> ViewRule:
    own = (skills - COMMON_SKILLS) // views
    numbers = {skill_name(number): number for number in range(skills)}
    common = {name for name, number in numbers.items() if number < COMMON_SKILLS}
    of_role = {str(role): set(list(numbers)[COMMON_SKILLS + role * own :][:own]) for role in range(views)}

    def shows(view: ViewName, skill: Skill) -> bool:
        name = skill.content.name
        return name in common or any(name in of_role[role] for role in view)

    def view_of(_: object) -> ViewName:
        raise NotImplementedError("views are asked for by name")

    return ViewRule(view_of, shows)


async def _measure(library: Library, path: Path, names: list[ViewName], rule: ViewRule | None) -> dict[str, float]:
    tracemalloc.start()
    host = Host(library, Settings(), rule=rule)
    used = tracemalloc.get_traced_memory()[0]
    begin = time.perf_counter()
    for name in names:
        _ask(host, name)
    first = (time.perf_counter() - begin) / len(names)
    memory = tracemalloc.get_traced_memory()[0] - used
    tracemalloc.stop()
    reloads, waits = [], []
    ends = [host.feed(name).subscribe(lambda _: None) for name in names]
    for number in range(EDITS):
        _edit(path, f"Edit {number} of {len(names)}.")
        begin = time.perf_counter()
        await host.reload()
        reloads.append(time.perf_counter() - begin)
        waits += [_seconds(host, name) for name in names]
    warm = [_seconds(host, names[number % len(names)]) for number in range(CALLS)]
    for end in ends:
        end()
    return {
        "memory of the views, MB": memory / 1e6,
        "first request of a view, ms": first * 1000,
        "reload after an edit, ms": statistics.median(reloads) * 1000,
        "request after a reload, µs": statistics.median(waits) * 1e6,
        "request later, µs": statistics.median(warm) * 1e6,
    }


def _edit(path: Path, mark: str) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(
        re.sub(r'^description: "(Edit [^.]*\. )?', f'description: "{mark} ', text, flags=re.MULTILINE), "utf-8"
    )


def _ask(host: Host, name: ViewName) -> None:
    view = host.view_called(name)
    view.tools(view.default_layout)


def _seconds(host: Host, name: ViewName) -> float:
    begin = time.perf_counter()
    _ask(host, name)
    return time.perf_counter() - begin


async def main() -> None:
    """Measure and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--skills", type=int, default=1000)
    arguments.add_argument("--views", type=int, default=50)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder:
        root = Path(folder) / "skills"
        write_corpus(root, given.skills)
        library = Library(explicit_sources([root]), current_environment)
        path = root / skill_name(0) / "SKILL.md"
        one = await _measure(library, path, [COMMON_VIEW], None)
        names = [frozenset({str(role)}) for role in range(given.views)]
        many = await _measure(library, path, names, _rule(given.views, given.skills))
    print(f"{given.skills} skills{'':20}{'one view':>12}{f'{given.views} views':>12}{'ratio':>8}")
    for row, value in one.items():
        print(f"{row:<32}{value:>12.2f}{many[row]:>12.2f}{many[row] / value:>8.2f}")


if __name__ == "__main__":
    asyncio.run(main())
