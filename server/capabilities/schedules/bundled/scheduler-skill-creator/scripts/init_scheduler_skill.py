"""Make the folder of a new scheduler skill: `init_scheduler_skill.py SHORT`.

It prints one JSON object with the name and the path of the SKILL.md to edit. The schedule has no time yet, and does not
fire before `skillserve schedule add NAME` gives it one.
"""

import argparse
import json
import os
import re
import secrets
import sys
from pathlib import Path

MAX_SHORT = 40
TEMPLATE = """\
---
name: {name}
description: "Say in one sentence what this schedule does."
---

## Task

Say what to do, with everything that it needs: no user can be asked when it runs.

## Output format

Say what the result looks like.
"""


def state_home() -> Path:
    """Return the folder in which skillserve keeps its state."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "skillserve"
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given.startswith("/") else Path.home() / ".local" / "state") / "skillserve"


def main() -> None:
    """Read the arguments, and make the folder."""
    parser = argparse.ArgumentParser(description="Make the folder of a new scheduler skill.")
    parser.add_argument("short", help="a short name: lower-case letters, digits and single hyphens, such as mail-check")
    short = parser.parse_args().short
    if len(short) > MAX_SHORT or not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", short):
        parser.error(f"{short!r}: expected 1 to 40 lower-case letters, digits and single hyphens, such as mail-check")
    skills = state_home() / "skills"
    name = f"{short}-{secrets.token_hex(4)}"
    folder = skills / "scheduler" / name
    if os.environ.get("SKILLSERVE_SCHEDULED_RUN"):
        sys.exit("The run of a schedule makes no schedules. Perform the task now, and give the result.")
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It keeps scheduler skills out of the search for skills.
        (folder.parent / "skillserve-workspace.json").touch()
        folder.mkdir(mode=0o700)
        (folder / "SKILL.md").write_text(TEMPLATE.format(name=name), encoding="utf-8")
    except OSError as error:
        sys.exit(f"{folder}: {error.strerror}. Where no shell may write here, use the tool schedule_skill.")
    sys.stdout.write(json.dumps({"name": name, "path": str(folder / "SKILL.md")}) + "\n")


if __name__ == "__main__":
    main()
