"""How evals of skills are graded."""

from __future__ import annotations

from msgspec import Struct

from server.config.values import NonEmpty, SecretStr

__all__ = ["EvalSettings"]


class EvalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Evals of skills."""

    judge_model: NonEmpty | None = None
    """The model that grades outputs and compares them, named as in `[runs] model`, which is the default. Choose one of
    another family than the model under test, because models prefer their own style."""
    judge_key: SecretStr | None = None
    """API key of a judge that is named by its URL. Keys of providers are read from the providers' own variables."""
