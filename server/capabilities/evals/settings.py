"""How evals of skills are graded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from server.config.settings.section import Section
from server.config.values import NonEmpty, SecretStr

if TYPE_CHECKING:
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration


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


def check_evals(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check the settings of evals for `config check`."""
    from server.cli.config_check.finding import Level

    checked = configuration.checked
    evals = checked.settings.section(EvalSettings)
    if checked.can_compare("evals") and evals.judge_key is not None and "://" not in (evals.judge_model or ""):
        message = "it has no effect: it is for a judge that is named by its URL"
        yield checked.finding(Level.WARNING, "evals.judge_key", message, "remove it, or set evals.judge_model")
