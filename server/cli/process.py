"""What every command needs of its process: streams that take any text, and an exit code for each error."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING

from server.config.settings import ConfigurationError
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command_process"]


@contextmanager
def command_process() -> Iterator[None]:
    """Write UTF-8 within the block, and exit with a message if it raises an error that the user can correct."""
    for stream in (sys.stdout, sys.stderr):
        # Pipes carry UTF-8. Escape characters that a terminal cannot print, instead of failing.
        if isinstance(stream, TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    try:
        yield
    except (SkillsError, ConfigurationError) as error:
        # The console imports the command-line library, which a plain start does without.
        from server.cli.console import EXIT_USAGE, fail

        fail(str(error), EXIT_USAGE)
