"""Compare the time to refuse what a caller may not see with the time to refuse what does not exist.

Requests over HTTP for hidden skills, and for a tool of another role, alternate with requests for absent ones. The names
are drawn by lot from one list, so that they are equally like those of visible skills, which errors suggest. A ratio
near 1 means that the time does not tell the two apart; beside it is the ratio of two groups of absent ones, which shows
how far chance moves it. Tests compare the answers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import statistics
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from client import START_TIMEOUT
from corpus import skill_name, write_corpus
from http_link import HttpLink
from processes import Command, free_port, running
from wire import BenchError, Era, request

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).resolve().parents[1]
SERVE = (sys.executable, "-m", "server", "serve", "{dir}", "--transport", "http", "--port", "{port}")
SKILLS: Final = 1000
WARM_UP: Final = 20

# The names of skills end in a number of five digits; callers see the first half.
SETTINGS: Final = """
[tools]
enabled = ["reload_skills"]
[access]
default_roles = ["reader"]
[access.roles]
reader = ["*-000*", "*-001*", "*-002*", "*-003*", "*-004*"]
operator = []
[access.tools]
operator = ["*"]
"""

Params = dict[str, Any]


def _tool(tool: str, /, **arguments: object) -> tuple[str, Params]:
    return "tools/call", {"name": tool, "arguments": arguments}


def _completion(name: str) -> tuple[str, Params]:
    reference = {"type": "ref/prompt", "name": name}
    return "completion/complete", {"ref": reference, "argument": {"name": "a", "value": ""}}


REQUESTS: Final[dict[str, Callable[[str], tuple[str, Params]]]] = {
    "activate_skill": lambda name: _tool("activate_skill", name=name),
    "read_skill_file": lambda name: _tool("read_skill_file", skill=name, path="SKILL.md"),
    "find_skills, by tag": lambda name: _tool("find_skills", query="things", tags=[name]),
    "resources/read": lambda name: ("resources/read", {"uri": f"skill://{name}/SKILL.md"}),
    "resources/directory/read": lambda name: ("resources/directory/read", {"uri": f"skill://{name}"}),
    "prompts/get": lambda name: ("prompts/get", {"name": name}),
    "completion/complete": _completion,
    "skills/get": lambda name: ("skills/get", {"uri": f"skill://{name}/SKILL.md"}),
}


def main() -> int:
    """Print a line for each kind of request; return 1 if hidden and absent ones are answered in different ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=400, help="requests of each kind and group")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder:
        home, root = Path(folder), Path(folder) / "skills"
        own = home / ".config" / "skillserve" / "skillserve.toml"
        own.parent.mkdir(parents=True)
        own.write_text(SETTINGS, encoding="utf-8")
        write_corpus(root, SKILLS)
        names = _drawn(root)
        port = free_port()
        with (
            running(Command(SERVE, REPOSITORY, home), root, port, piped=False) as process,
            closing(HttpLink(process, port, Era.MODERN, START_TIMEOUT)) as link,
        ):
            return _compare(link, options.calls, names)


def _compare(link: HttpLink, calls: int, names: dict[str, Callable[[int], str]]) -> int:
    numbers = itertools.count(1)
    chance = random.Random(1)  # noqa: S311 - the order of requests

    def ask(method: str, params: Params) -> tuple[float, str]:
        answer = link.exchange(request(Era.MODERN, next(numbers), method, params), 60)
        result, error = answer.reply.get("result", {}), answer.reply.get("error", {})
        return answer.seconds, json.dumps([error.get("code"), result.get("isError"), sorted(result)])

    def medians(kind: Callable[[str], tuple[str, Params]], groups: dict[str, Callable[[int], str]]) -> list[float]:
        taken: dict[str, list[float]] = {group: [] for group in groups}
        answers: set[str] = set()
        for turn in range(WARM_UP + calls):
            for group in chance.sample([*groups], len(groups)):
                name = groups[group](turn)
                seconds, text = ask(*kind(name))
                answers.add(text)
                if turn >= WARM_UP:
                    taken[group].append(seconds)
        if len(answers) != 1:
            raise BenchError(f"the answers differ: {sorted(answers)[:3]}")
        return [statistics.median(each) for each in taken.values()]

    print(f"{'':<28}{'hidden':>10}{'absent':>10}{'ratio':>8}{'by chance':>12}")
    try:
        for label, kind in REQUESTS.items():
            _print(label, medians(kind, names))
        tools = {"hidden": "reload_skills", "absent": "reload_shells", "other": "reload_spells"}
        _print(
            "a tool of another role", medians(_tool, {group: partial(_nth, [name]) for group, name in tools.items()})
        )
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _drawn(root: Path) -> dict[str, Callable[[int], str]]:
    """Remove two thirds of the skills that callers do not see; return the names of each third by numbers."""
    names = [skill_name(number) for number in range(SKILLS // 2, SKILLS)]
    random.Random(2).shuffle(names)  # noqa: S311 - the same names in each run
    thirds = {group: names[start::3] for start, group in enumerate(("hidden", "absent", "other"))}
    for name in (*thirds["absent"], *thirds["other"]):
        shutil.rmtree(root / name)
    return {group: partial(_nth, each) for group, each in thirds.items()}


def _nth(names: list[str], number: int) -> str:
    return names[number % len(names)]


def _print(label: str, medians: list[float]) -> None:
    hidden, absent, other = (each * 1000 for each in medians)
    print(f"{label:<28}{hidden:>7.3f} ms{absent:>7.3f} ms{hidden / absent:>8.2f}{other / absent:>12.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
