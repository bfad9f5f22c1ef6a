"""Run the reference validator of the format on the named folders; runs in the environment of the peers.

The output is a JSON object with the faults that `skills-ref validate` finds in each folder. A crash of the validator
counts as a fault.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from skills_ref import validate  # type: ignore[import-not-found] # installed in the environment of the peers


def _issues(folder: str) -> list[str]:
    try:
        found: list[str] = validate(Path(folder))
    except Exception as error:  # noqa: BLE001 - any error is a crash
        return [f"crashed: {type(error).__name__}"]
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps({folder: _issues(folder) for folder in sys.argv[1:]}))
