"""A model in a process of its own, which takes no time from requests and can be ended, in a download as well."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final, cast

from server.capabilities.embeddings.local_model import ModelUnavailableError

_PACKAGE = Path(__file__).parents[3]
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from server.capabilities.embeddings.worker import main"
_ENDED: Final = "its process has ended"


class ModelProcess:
    """Starts a process that loads a model, which may take minutes; `encode` may be called from several threads."""

    def __init__(self, model: str) -> None:
        """Start the process; it ends when this object is dropped, and with this process."""
        # `-P`: a folder that the user works in may have a package of the same name.
        command = [sys.executable, "-P", "-c", f"{_START}; main(sys.argv[1])", str(_PACKAGE), model]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8")  # noqa: S603
        self._lock = Lock()
        self.close = weakref.finalize(self, _end, self._process)

    def identity(self) -> str:
        """Wait until the model is loaded, and return what identifies it.

        Raises:
            ModelUnavailableError: it cannot be loaded, or the process has ended.
        """
        with self._lock:
            answer = self._read()
        if "error" in answer:
            raise ModelUnavailableError(answer["error"])
        return str(answer["identity"])

    def encode(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts.

        Raises:
            ModelUnavailableError: the process has ended.
        """
        with self._lock:
            questions = cast("IO[str]", self._process.stdin)
            try:
                questions.write(json.dumps(texts) + "\n")
                questions.flush()
            except (OSError, ValueError):
                raise ModelUnavailableError(_ENDED) from None
            vectors: list[list[float]] = self._read()["vectors"]
        return vectors

    def _read(self) -> dict[str, Any]:
        try:
            line = cast("IO[str]", self._process.stdout).readline()
        except ValueError:  # it was closed
            line = ""
        if not line:
            raise ModelUnavailableError(_ENDED)
        answer: dict[str, Any] = json.loads(line)
        return answer


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
