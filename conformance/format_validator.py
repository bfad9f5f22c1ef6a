"""Runs in the environment of the peers: the reference validator of the format, over the folders that are named.

Prints one JSON object: what `skills-ref validate` finds wrong, for each folder. A file on which it breaks down is no
valid skill either.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from skills_ref import validate  # type: ignore[import-not-found] # is installed where this runs


def _issues(folder: str) -> list[str]:
    try:
        found: list[str] = validate(Path(folder))
    except Exception as error:  # noqa: BLE001 - whatever it is, the validator has no answer
        return [f"broke down: {type(error).__name__}"]
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps({folder: _issues(folder) for folder in sys.argv[1:]}))
