"""Print the results of commands: text or one JSON object on stdout, messages on stderr.

Exit codes: 0 success, 1 the answer is no, 2 wrong usage, 3 there is nothing to verify, 4 a bound of the costs was
reached. `script` exits with the code of its script, and like `timeout` and `env` has codes of its own for what the
script did not do.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

import typer

from skills_core.diagnostics import one_line

EXIT_NO = 1
EXIT_USAGE = 2
EXIT_EMPTY = 3
EXIT_BOUND = 4
EXIT_LIMIT = 124
EXIT_NOT_RUN = 125


def print_text(text: str) -> None:
    """Print text on stdout."""
    typer.echo(text)


def wrapped(text: str, indent: str) -> str:
    """Return a line with its continuation lines indented, as wide as the terminal; unchanged where there is none.

    Words stay whole, because paths and commands are copied.
    """
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def print_json(value: object) -> None:
    """Print a JSON document on stdout."""
    typer.echo(json_text(value))


def json_text(value: object) -> str:
    """Return a JSON document for people and programs."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def print_notice(message: str) -> None:
    """Print a message on one line of stderr; escape control characters, because the text may come from a model."""
    with messages_may_be_lost():
        typer.echo(f"skillserve: {one_line(message)}", err=True)


def fail(message: str, code: int) -> NoReturn:
    """Exit with a message on stderr; escape control characters in each line, because it may quote untrusted names."""
    with messages_may_be_lost():
        typer.echo("\n".join(map(one_line, f"skillserve: {message}".split("\n"))), err=True)
    raise SystemExit(code)


@contextmanager
def messages_may_be_lost() -> Iterator[None]:
    """Continue if stderr cannot be written: a lost message changes neither the result nor the exit code."""
    try:
        yield
    except OSError:
        discard_stream(sys.stderr)


def discard_stream(stream: TextIO) -> None:
    """Send what is written to a stream that failed, and what it has buffered, to nowhere.

    Otherwise the interpreter fails when it flushes the stream at exit, and exits with another code.
    """
    with suppress(OSError, ValueError):
        target = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(target, stream.fileno())
        finally:
            os.close(target)
