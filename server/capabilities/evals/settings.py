"""How evals of skills are graded."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from server.config.settings.section import Section
from server.config.values import NonEmpty, SecretStr


class EvalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Evals of skills."""

    judge_model: NonEmpty | None = None
    """The model that grades outputs and compares them, named as in `[runs] model`, which is the default. Choose one of
    another family than the model under test, because models prefer their own style."""
    judge_key: SecretStr | None = None
    """API key of a judge that is named by its URL. Keys of providers are read from the providers' own variables."""


SECTION: Final = Section(
    name="evals", kind=EvalSettings, secrets=frozenset({"judge_key"}), keys_of_models={"judge_model": "judge_key"}
)
