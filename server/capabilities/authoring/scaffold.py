"""Write a new skill: a valid template that explains what belongs where."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.errors import InvalidSourceError
from skills_core.format.frontmatter import DESCRIPTION_LIMIT, NAME_LIMIT, name_fault

if TYPE_CHECKING:
    from pathlib import Path


_DESCRIPTION = "Does one thing well. Use when the user asks for that thing, names its files, or describes the problem."

_TEMPLATE = """\
---
name: {name}
description: {description}
---

# {title}

Write to the model, in the imperative: what to do, in which order, and how to tell that it is done.

1. Look at what is there before changing anything.
2. Do the work. Name scripts and further reading by their paths here, such as `scripts/check.py` or
   `references/format.md`: they are read only when they are needed.
3. Check the result, and say what was done.

Say what not to do where it matters, and give one short example of a good result.
"""


def write_skill(directory: Path, name: str, description: str | None = None) -> Path:
    """Write the skill `name` below `directory` and return its SKILL.md.

    Raises:
        InvalidSourceError: the name or description breaks a rule, or the folder exists or cannot be written.
    """
    folder = directory / name
    fault = name_fault(name) if name else "is empty"
    if fault is None and (len(name) > NAME_LIMIT or not name.isascii()):
        fault = f"may have {NAME_LIMIT} letters from a to z"
    if fault is not None:
        raise InvalidSourceError(folder, Reason.INVALID_NAME, f"the name {name[:NAME_LIMIT]!r} {fault}")
    text = " ".join((_DESCRIPTION if description is None else description).split())
    if not 1 <= len(text) <= DESCRIPTION_LIMIT:
        message = f"the description has {len(text)} characters; from 1 to {DESCRIPTION_LIMIT} are allowed"
        raise InvalidSourceError(folder, Reason.DESCRIPTION_TOO_LONG, message)
    main = folder / "SKILL.md"
    content = _TEMPLATE.format(name=name, description=json.dumps(text, ensure_ascii=False), title=_title(name))
    try:
        folder.mkdir(parents=True)
        main.write_text(content, encoding="utf-8", newline="\n")
    except FileExistsError:
        message = "the folder already exists; choose another name, or another place with --to"
        raise InvalidSourceError(folder, Reason.NOT_A_DIRECTORY, message) from None
    except OSError as error:
        message = f"cannot be written: {(error.strerror or str(error)).lower()}"
        raise InvalidSourceError(folder, Reason.UNREADABLE, message) from None
    return main


def _title(name: str) -> str:
    return name.replace("-", " ").capitalize()
