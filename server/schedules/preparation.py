"""Load what a run needs before its first firing is due: the libraries of a model take a second or more."""

from __future__ import annotations

from contextlib import suppress

from skills_core.errors import SkillsError
from skills_core.run.models import open_model, parse_model

__all__ = ["load_libraries"]


def load_libraries(model: str | None) -> None:
    """Import the libraries of a model and of the tools; a model that cannot be used is told by its run."""
    import jsonschema  # noqa: F401 - imported for the runs to come

    with suppress(SkillsError):
        open_model(parse_model(model or ""))
