"""Print the results of commands: text or one JSON object on stdout, messages on stderr.

Exit codes: 0 success, 1 the answer is no, 2 wrong usage. `script` exits with the code of its script, and like `timeout`
and `env` has codes of its own for what the script did not do.
"""

from __future__ import annotations

import json
from typing import NoReturn

import typer

from skills_core.diagnostics import one_line

__all__ = ["EXIT_LIMIT", "EXIT_NO", "EXIT_NOT_RUN", "EXIT_USAGE", "fail", "print_json", "print_notice", "print_text"]

EXIT_NO = 1
EXIT_USAGE = 2
EXIT_LIMIT = 124
EXIT_NOT_RUN = 125


def print_text(text: str) -> None:
    """Print text on stdout."""
    typer.echo(text)


def print_json(value: object) -> None:
    """Print a JSON document on stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_notice(message: str) -> None:
    """Print a message on one line of stderr; escape control characters, because the text may come from a model."""
    typer.echo(f"skillserve: {one_line(message)}", err=True)


def fail(message: str, code: int) -> NoReturn:
    """Exit with a message on stderr; escape control characters in each line, because it may quote untrusted names."""
    typer.echo("\n".join(map(one_line, f"skillserve: {message}".split("\n"))), err=True)
    raise SystemExit(code)
