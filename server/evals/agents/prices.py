"""The price of what a model run has used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_core.run.models import ModelSpec
    from skills_core.run.outcome import Usage

__all__ = ["price_of"]


def price_of(spec: ModelSpec, usage: Usage) -> float | None:
    """Return the price of what a run used, in dollars; None if it is unknown, as for models at an address."""
    if spec.address is not None:
        return None
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price

    priced = PricedUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    try:
        return float(calc_price(priced, spec.name, provider_id=spec.provider.partition("-")[0]).total_price)
    except LookupError:
        return None
