"""What a model costs: by the settings, or by the prices of providers that the library `genai-prices` knows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.runs.models import ModelSpec
    from skills_core.runs.outcome import Usage

__all__ = ["Price", "is_paid", "price_of", "price_of_model"]

_MILLION: Final = 1_000_000
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model in dollars, for a million tokens each of its input and its output."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of so many tokens; input that a provider has cached is cheaper in truth."""
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION

    @property
    def most(self) -> float:
        """The most that a token costs."""
        return max(self.input, self.output) / _MILLION


def price_of_model(spec: ModelSpec, own: Mapping[str, Mapping[str, float]]) -> Price | None:
    """Return the price of a model, None if it is unknown; `own` are the prices of the settings, by the model's name."""
    if (named := own.get(str(spec))) is not None:
        return Price(named["input"], named["output"])
    return _known_price(spec.provider.partition("-")[0], spec.name) if spec.address is None else None


@cache
def _known_price(provider: str, name: str) -> Price | None:
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price

    # Some prices rise with the tokens of one request; those of few tokens are what most requests cost.
    try:
        one = calc_price(PricedUsage(input_tokens=1000, output_tokens=1000), name, provider_id=provider)
    except LookupError:
        return None
    return Price(float(one.input_price) * 1000, float(one.output_price) * 1000)


def price_of(spec: ModelSpec, usage: Usage, own: Mapping[str, Mapping[str, float]] | None = None) -> float | None:
    """Return the price of what a run used, in dollars; None if it is unknown, as for models at an address."""
    price = price_of_model(spec, own or {})
    return None if price is None else price.of(usage.input_tokens, usage.output_tokens)


def is_paid(spec: ModelSpec, price: Price | None) -> bool:
    """Tell whether requests to a model cost money; of unknown prices, those of models on this machine count as zero."""
    if price is not None:
        return price.most > 0
    return spec.address is None or urlsplit(spec.address).hostname not in _THIS_MACHINE
