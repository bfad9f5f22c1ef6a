"""Check the outputs of a run, as the evals of another tool do. `skillserve eval import` has put this file here.

    python3 check_output.py [not] CONDITION [VALUE...]

It is run in the folder of the outputs. `ANSWER` in the environment is the file with the last message of the agent. The
output is that message and the text of each file; `equals`, `starts-with` and `is-json` are about the message alone. The
exit code is 0 if the condition holds, 1 if it does not, and 126 if it cannot be decided.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

UNDECIDED = 126


def read(path: str | Path) -> str:
    """Return the text of a file, with a mark for each byte that is not UTF-8."""
    return Path(path).read_bytes().decode("utf-8", "replace")


def matching(pattern: str) -> list[Path]:
    """Return the files that a pattern names; one without a folder names them in all folders."""
    wanted = [pattern] if "/" in pattern else [pattern, f"**/{pattern}"]
    return sorted({path for each in wanted for path in Path().glob(each) if path.is_file()})


def answer() -> str:
    """Return the last message of the agent."""
    return read(os.environ["ANSWER"])


def output() -> list[str]:
    """Return the texts of which one has to meet a condition: the message and each file."""
    files = [Path(folder, name) for folder, _, names in os.walk(".") for name in sorted(names)]
    return [answer(), *map(read, files)]


def is_json(text: str) -> bool:
    """Tell whether a text is JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def holds(condition: str, values: list[str]) -> bool:
    """Tell whether a condition holds."""
    said: dict[str, Callable[[], bool]] = {
        "exists": lambda: bool(matching(values[0])),
        "equals": lambda: answer().strip() == values[0].strip(),
        "equals-json": lambda: is_json(answer()) and json.loads(answer()) == json.loads(values[0]),
        "starts-with": lambda: answer().startswith(values[0]),
        "is-json": lambda: is_json(answer()),
    }
    if condition in said:
        return said[condition]()
    texts = output()
    if condition.startswith("file-"):
        texts = [read(path) for path in matching(values.pop(0))]
        condition = condition[len("file-") :]
    folds = condition.startswith("i")
    if condition in ("matches", "imatches"):
        return any(re.search(values[0], text, re.IGNORECASE if folds else 0) for text in texts)
    if folds:
        texts, values = [text.casefold() for text in texts], [value.casefold() for value in values]
    found = [any(value in text for text in texts) for value in values]
    return any(found) if condition.endswith("-any") else all(found)


def main() -> None:
    """Print what was found, and exit with the result."""
    words = sys.argv[1:]
    denied = words[:1] == ["not"]
    condition, *values = words[1:] if denied else words
    try:
        # What a missing file has or has not cannot speak for the agent.
        if condition.startswith("file-") and not matching(values[0]):
            sys.stdout.write(f"there is no file {values[0]}\n")
            sys.exit(1)
        found = holds(condition, values)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(UNDECIDED)
    sys.stdout.write(f"{condition}: {'it holds' if found else 'it does not hold'}\n")
    sys.exit(0 if found is not denied else 1)


if __name__ == "__main__":
    main()
