"""What every command does with its answer: text or one JSON object on stdout, and an exit code that tells.

Exit codes: 0 done, 1 the answer is no, 2 wrong use.
"""

from __future__ import annotations

import json
from typing import NoReturn

import typer

from skills_core.diagnostics import one_line

__all__ = ["NO", "WRONG_USE", "fail", "print_json", "print_text", "tell"]

NO = 1
WRONG_USE = 2


def print_text(text: str) -> None:
    """Print for people."""
    typer.echo(text)


def print_json(value: object) -> None:
    """Print for programs."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def tell(message: str) -> None:
    """Say something beside the answer, on one line of stderr: it may hold words of a model, or of its provider."""
    typer.echo(f"skillserve: {one_line(message)}", err=True)


def fail(message: str, code: int) -> NoReturn:
    """End the command with a message on stderr, which may have several lines and hold names that a stranger chose."""
    typer.echo("\n".join(map(one_line, f"skillserve: {message}".split("\n"))), err=True)
    raise SystemExit(code)
