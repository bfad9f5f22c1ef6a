"""Run pip and say what it does: `python -m tools.install_packages "what for" OPTION…`.

A terminal sees one line that names the package in hand; a log gets the first and the last line. If pip fails, all
that it said is printed. The options are those of `pip install`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_STEP: Final = re.compile(r"\s*(Collecting|Downloading) ([\w.-]+)|Installing collected packages")
_LEAD: Final = "    "


def install(purpose: str, options: Sequence[str]) -> int:
    """Run `pip install` with the options of this interpreter's pip; return its exit code."""
    print(
        f"Installing {purpose} into {sys.prefix}. This takes a minute or two where nothing is downloaded yet.",
        flush=True,
    )
    begun = time.monotonic()
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None
        said = follow(pip.stdout, sys.stdout)
    if pip.returncode:
        sys.stderr.write("".join(said))
        print("pip could not install what is needed; what it said is above.", file=sys.stderr)
    else:
        print(f"Installed {purpose} in {time.monotonic() - begun:.0f} s.", flush=True)
    return pip.returncode


def follow(lines: Iterable[str], shown: TextIO) -> list[str]:
    """Show each step in one line of a terminal; return all lines."""
    said, number = [], 0
    for line in lines:
        said.append(line)
        step = _STEP.match(line)
        if step is None or not shown.isatty():
            continue
        number += step[1] == "Collecting"
        what = f"package {number}: {step[1].lower()} {step[2]}" if step[1] else f"installing {number} packages"
        text = f"{_LEAD}{what}"[: shutil.get_terminal_size().columns - 1]
        # The sequence erases what was longer before.
        shown.write(f"\r{text}\x1b[K")
        shown.flush()
    if number:
        shown.write("\r\x1b[K")
    return said


if __name__ == "__main__":
    sys.exit(install(sys.argv[1], sys.argv[2:]))
