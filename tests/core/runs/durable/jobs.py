"""Jobs of the tests, whose effects can be counted afterwards.

Each step writes a line (run, step, process) when it begins, and makes its lasting effect under the key `run/step`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio

STEPS = 20


def outcome_of(seed: int, steps: int = STEPS) -> int:
    value = seed
    for number in range(steps):
        value = (value * 31 + number) % 1_000_003
    return value


def begun(folder: Path, run_id: str, step: int) -> None:
    """Write that a step has begun, in one write, so that no other process's line is torn."""
    descriptor = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{run_id} {step} {os.getpid()}\n".encode())
    os.close(descriptor)


def take_effect(folder: Path, run_id: str, step: int) -> None:
    """Do what is done once only, however often it is asked for: the key decides."""
    try:
        os.close(os.open(folder / f"{run_id}-{step}.done", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return


async def chain(journal: Any, given: Any) -> Any:
    """Take steps of which each needs the one before; the one at `hold_at` ends when the file `go` is there."""
    folder, value = Path(given["folder"]), given["seed"]
    for number in range(given.get("steps", STEPS)):

        async def work(value: int = value, number: int = number) -> int:
            begun(folder, journal.run_id, number)
            take_effect(folder, journal.run_id, number)
            while number == given.get("hold_at") and not (folder / "go").exists():  # noqa: ASYNC110 - a file says when
                await anyio.sleep(0.02)
            await anyio.sleep(given.get("pause", 0.02))
            return (value * 31 + number) % 1_000_003

        value = await journal.step(f"step {number}", work)
    return {"value": value}


async def deadly(journal: Any, given: Any) -> Any:
    """End the process in the second step."""

    async def first() -> int:
        begun(Path(given["folder"]), journal.run_id, 0)
        return 1

    async def second() -> int:
        begun(Path(given["folder"]), journal.run_id, 1)
        os._exit(9)

    await journal.step("first", first)
    await journal.step("second", second)


KINDS = {"chain": chain, "deadly": deadly}


def lines(folder: Path) -> list[tuple[str, int, int]]:
    """Return which run began which step in which process, in the order of time."""
    log = folder / "log"
    found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(run_id, int(step), int(process)) for run_id, step, process in found]


def assert_no_finished_step_ran_again(folder: Path) -> None:
    """Only the step that was under way when a process died may be begun again: the next one begins after its record."""
    last: dict[str, int] = {}
    for run_id, step, _ in lines(folder):
        assert step in {last.get(run_id, 0), last.get(run_id, -1) + 1}, (run_id, step, last.get(run_id))
        last[run_id] = step


def assert_every_effect_is_there(folder: Path, run_ids: list[str]) -> None:
    expected = {f"{run_id}-{step}.done" for run_id in run_ids for step in range(STEPS)}
    assert {path.name for path in folder.glob("*.done")} == expected
