"""Runs in the environment of the peers: the reference validator of the format, over the folders that are named.

Prints one JSON object: what `skills-ref validate` finds wrong, for each folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from skills_ref import validate  # type: ignore[import-not-found] # is installed where this runs

if __name__ == "__main__":
    sys.stdout.write(json.dumps({folder: validate(Path(folder)) for folder in sys.argv[1:]}))
