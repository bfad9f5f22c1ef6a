"""The second opinion of searches: similarities by a local model, once it is loaded and knows all skills."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from server.capabilities.embeddings.local_model import (
    ModelUnavailableError,
    is_fetched,
    require_files,
    search_home,
)
from server.capabilities.embeddings.model_process import ModelProcess
from skills_core.diagnostics import agreeing, counted, one_line
from skills_core.selection.embeddings import EmbeddingReranker

if TYPE_CHECKING:
    from skills_core.selection.fusion import Similarities
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

_KEPT_FILES: Final = 4
# Most files with vectors: of the last models and versions of the library.


class SecondOpinion:
    """A reranker that has no opinion until its model is loaded and all skills have a vector.

    With `wait`, the first search prepares it. Without it `prepare` does, in a thread of its own, and searches rank by
    words meanwhile. What cannot be loaded is logged once, and words alone rank.
    """

    def __init__(self, model: str, *, wait: bool) -> None:
        """Load nothing yet."""
        self._model = model
        self._wait = wait
        self._preparing = Lock()
        self._failed = False
        self._process: ModelProcess | None = None
        self._loaded: EmbeddingReranker | None = None
        self._ready: EmbeddingReranker | None = None

    def __call__(self, query: str, skills: Sequence[Skill], /) -> Similarities | None:
        """Return the similarities of the skills; None while there is no opinion."""
        if self._wait:
            self.prepare(skills)
        return None if self._ready is None else self._ready(query, skills)

    @property
    def is_ready(self) -> bool:
        """Whether searches rank by meaning too."""
        return self._ready is not None

    def prepare(self, skills: Sequence[Skill], go_on: Callable[[], bool] = lambda: True) -> None:
        """Load the model, and compute the vectors of skills that have none, as long as `go_on`."""
        with self._preparing:
            if self._failed:
                return
            begin = monotonic()
            try:
                self._loaded = self._loaded or self._load()
                count = self._loaded.warm(skills, go_on)
            except ModelUnavailableError as error:
                self._failed = True
                if not go_on():
                    return
                logger.warning("search: words alone rank, because the model %s cannot be used: %s", self._shown, error)
                return
            except Exception:
                self._failed = True
                logger.exception("search: words alone rank, because the model %s failed", self._shown)
                return
            if self._ready is None and go_on():
                self._ready = self._loaded
                verb = agreeing(count, "was", "were")
                done = f"{counted(count, 'vector')} {verb} computed in {monotonic() - begin:.1f} s"
                logger.info("search: skills are found by meaning too; %s", done)

    def close(self) -> None:
        """End the process of the model, whatever it does."""
        if self._process is not None:
            self._process.close()

    @property
    def _shown(self) -> str:
        return one_line(self._model)

    def _load(self) -> EmbeddingReranker:
        require_files(self._model)
        if is_fetched(self._model):
            logger.info("search: loading the model %s", self._shown)
        else:
            # Worth a line at the command line too, which waits.
            logger.warning("search: fetching the model %s, which happens once and may take minutes", self._shown)
        self._process = ModelProcess(self._model)
        identity = self._process.identity()
        folder = search_home()
        _drop_old_vectors(folder)
        return EmbeddingReranker(self._process.encode, identity, cache=folder, seconds=None)


def _drop_old_vectors(folder: Path) -> None:
    """Remove the files of all models but the last ones that were used."""
    try:
        files = sorted(folder.glob("*.vectors"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[_KEPT_FILES:]:
            file.unlink()
    except OSError as error:
        logger.warning("search: old vectors cannot be removed: %s", one_line(str(error)))
