"""The process that holds a model: it reads lines of texts, and writes lines of vectors.

The first line that it writes tells the identity of the model, or why there is none. It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TextIO

_NICENESS = 10
# Searches and clients come first.


def main(model: str) -> None:
    """Load the model, then answer until stdin ends."""
    # What libraries print must not get between the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        if hasattr(os, "nice"):
            os.nice(_NICENESS)
        from server.capabilities.embeddings.local_model import ModelUnavailableError, load_model

        try:
            loaded = load_model(model)
        except ModelUnavailableError as error:
            _answer(answers, {"error": str(error)})
            return
        _answer(answers, {"identity": loaded.identity})
        for line in sys.stdin:
            vectors = [[float(number) for number in vector] for vector in loaded.encode(json.loads(line))]
            _answer(answers, {"vectors": vectors})


def _answer(answers: TextIO, answer: dict[str, object]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
