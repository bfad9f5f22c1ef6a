"""The model that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.runs.models import open_model, parse_model

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.capabilities.runs.settings import RunSettings
    from server.config.values import SecretStr

__all__ = ["open_configured", "open_named"]


def open_configured(runs: RunSettings) -> Model:
    """Return the model of the runs without making a request.

    Raises:
        ModelUnavailableError: it cannot be used.
    """
    return open_named(runs.model or "", runs.model_key)


def open_named(name: str, key: SecretStr | None) -> Model:
    """Return a model with its key, which is used only if the name is an address, without making a request.

    Raises:
        ModelUnavailableError: it cannot be used.
    """
    return open_model(parse_model(name), key.get_secret_value() if key else None)
