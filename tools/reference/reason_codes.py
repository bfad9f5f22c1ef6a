"""Update the fixes in the table of reason codes from the advice of the commands; the other cells are manual."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skills_core.authoring.advice import ADVICE
from skills_core.diagnostics import Reason

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["reason_codes_page"]

_ROW: Final = re.compile(r"^\| `(\w+)` \| .* \| (.*) \|$", re.MULTILINE)


def reason_codes_page(page: Path) -> str:
    """Return the page with the current fix of each code that has advice."""
    return _ROW.sub(_with_advice, page.read_text(encoding="utf-8"))


def _with_advice(row: re.Match[str]) -> str:
    fix = ADVICE.get(Reason(row[1]))
    # Code in a table cell cannot contain `|`.
    return row[0] if fix is None else row[0].removesuffix(f"{row[2]} |") + fix.replace("|", "`&#124;`") + " |"
