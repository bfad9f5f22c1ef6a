"""A workspace of the size that authors reach: many cases, many runs, two arms, with outputs in words of all kinds."""

from __future__ import annotations

import random
from pathlib import Path

from tests.capabilities.evals.report.workspaces import grading, write, write_case, write_run

_LETTERS = "etaoinshrdlucmfwypvbgk"
_WORDS = 3000
# Different words, so that the texts do not compress to nothing.

ASSERTIONS = 5


def large_workspace(root: Path, cases: int = 100, runs: int = 10) -> Path:
    """Write an iteration with this many cases and runs in each of two arms.

    A fifth of the cases does worse with the skill, and assertions are flaky.
    """
    chance = random.Random(7)  # noqa: S311 - the same workspace each time
    vocabulary = ["".join(chance.choices(_LETTERS, k=chance.randint(2, 9))) for _ in range(_WORDS)]

    def words(count: int) -> str:
        return " ".join(chance.choices(vocabulary, k=count))

    def run(folder: Path, chances: list[float], texts: list[str]) -> None:
        grades = grading(*(chance.random() < each for each in chances), texts=texts)
        for result in grades["assertion_results"]:
            result["evidence"] = words(18)
        outputs = {"report.md": "\n".join(f"## {words(3)}\n\n{words(25)}" for _ in range(8))}
        entries = [{"type": "assistant", "text": words(24)} for _ in range(8)]
        timing: dict[str, float] = {
            "total_tokens": chance.randint(2000, 9000),
            "duration_ms": chance.randint(9000, 90_000),
        }
        timing["total_cost_usd"] = chance.randint(100, 900) / 10_000
        write_run(folder, grades, timing=timing, outputs=outputs, transcript=entries)
        write(folder / "answer.txt", f"{words(60)}\n")

    iteration = root / "iteration-1"
    for number in range(1, cases + 1):
        texts = [f"{words(9)} {place}" for place in range(ASSERTIONS)]
        folder = write_case(iteration, f"{number}-{chance.choice(vocabulary)}", words(60), assertions=texts)
        is_lost = number % 5 == 0
        ours = [0.2 if is_lost and not place else 0.9 for place in range(ASSERTIONS)]
        theirs = [0.95 if is_lost else 0.3 for _ in range(ASSERTIONS)]
        for name, chances in (("with_skill", ours), ("without_skill", theirs)):
            for place in range(1, runs + 1):
                run(folder / name / f"run-{place}", chances, texts)
    write(iteration / "config.json", {"runs": runs})
    write(iteration / "benchmark.json", {"metadata": {"skill_name": "csv-analyzer", "runs_per_configuration": runs}})
    return root
