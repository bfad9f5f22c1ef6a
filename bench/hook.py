"""Measure the guard as a hook, from process start to exit, in comparison with a bare interpreter.

A host runs the hook before each tool call. The two processes are started alternately, so that a busy machine slows
both. The results are the difference and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from corpus import write_corpus

REPOSITORY = Path(__file__).resolve().parents[1]
SAMPLES = REPOSITORY / "sample_skills"
BARE = (sys.executable, "-c", "pass")
HOOK = (sys.executable, "-m", "server", "guard", str(SAMPLES))
SIZES = (0, 100, 1000)
CALLS = {"psql -c 'DROP TABLE users'": "deny", "ls -l": None}


def main() -> int:
    """Print the table; return 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--skills", type=int, nargs="+", default=SIZES, help="generated skills in addition to the samples"
    )
    parser.add_argument("--starts", type=int, default=20, help="starts of each process")
    options = parser.parse_args()
    print(f"{'skills':>12}{'interpreter':>14}{'guard':>10}{'beyond':>10}{'ratio':>8}")
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder:
        work = Path(folder)
        # Keep the user's own files out, and let Python cache bytecode even if the environment forbids it.
        environment = {**os.environ, "HOME": folder, "USERPROFILE": folder, "XDG_CONFIG_HOME": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for count in options.skills:
            root = work / str(count)
            write_corpus(root, count)
            command = (*HOOK, str(root))
            if any(_answer(command, call, environment) != expected for call, expected in CALLS.items()):
                print(f"the guard with {count} generated skills gives a wrong answer", file=sys.stderr)
                return 1
            _measure(f"samples+{count}", command, options.starts, environment)
    return 0


def _measure(name: str, command: tuple[str, ...], starts: int, environment: dict[str, str]) -> None:
    bare, ours = [], []
    for _ in range(starts):
        bare.append(_timed(BARE, environment))
        ours.append(_timed(command, environment))
    floor, guard = statistics.median(bare), statistics.median(ours)
    print(f"{name:>12}{floor:>11.0f} ms{guard:>7.0f} ms{guard - floor:>7.0f} ms{guard / floor:>8.1f}", flush=True)


def _timed(command: tuple[str, ...], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    _run(command, "ls -l", environment)
    return (time.perf_counter() - start) * 1000


def _answer(command: tuple[str, ...], call: str, environment: dict[str, str]) -> str | None:
    output = _run(command, call, environment)
    decision: str | None = json.loads(output)["hookSpecificOutput"]["permissionDecision"] if output else None
    return decision


def _run(command: tuple[str, ...], call: str, environment: dict[str, str]) -> bytes:
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": call}}
    done = subprocess.run(
        command, input=json.dumps(event).encode(), capture_output=True, cwd=REPOSITORY, env=environment, check=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
