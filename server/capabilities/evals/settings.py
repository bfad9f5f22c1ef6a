"""How evals of skills are graded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from server.config.settings.section import Section
from server.config.values import NonEmpty, PositiveInt, SecretStr

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
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    """Dollars that `eval` and `triggers` may use in one workspace within 24 hours, all processes together. They do not
    begin if the cost of a run would stay unknown: give prices in `[runs] prices`, or by `--price-in` and
    `--price-out`."""
    max_requests: PositiveInt | None = None
    """Number of requests to models that `eval` and `triggers` may make in one workspace within 24 hours. A start of a
    coding agent counts as one."""
    max_seconds: PositiveInt | None = None
    """Seconds that `eval` and `triggers` may work in one workspace within 24 hours. Each process counts by itself."""


SECTION: Final = Section(
    name="evals",
    kind=EvalSettings,
    options={each: f"eval_{each}" for each in ("max_cost", "max_requests", "max_seconds")},
    flags={f"eval_{each}": f"--{each.replace('_', '-')}" for each in ("max_cost", "max_requests", "max_seconds")},
    secrets=frozenset({"judge_key"}),
    keys_of_models={"judge_model": "judge_key"},
)


def check_evals(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check the settings of evals for `config check`."""
    from server.cli.config_check.finding import Level

    checked = configuration.checked
    evals = checked.settings.section(EvalSettings)
    if checked.can_compare("evals") and evals.judge_key is not None and "://" not in (evals.judge_model or ""):
        message = "it has no effect: it is for a judge that is named by its URL"
        yield checked.finding(Level.WARNING, "evals.judge_key", message, "remove it, or set evals.judge_model")
