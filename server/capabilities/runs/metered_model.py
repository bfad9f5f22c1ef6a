"""Models whose requests are counted: within the bounds of a user, or to know what a run has used that is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic_ai.models.wrapper import WrapperModel

from skills_core.runs.outcome import NO_USAGE, Usage
from skills_core.runs.spending import Use

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from server.capabilities.runs.metering import Meter
    from skills_core.runs.models import Price

COST_DETAIL: Final = "cost_usd"
"""The provider's detail of an answer that tells its price, where an agent answers in place of a model."""


class MeteredModel(WrapperModel):
    """A model each request of which is a piece of work of one kind."""

    def __init__(self, wrapped: Model, meter: Meter, kind: str, price: Price | None) -> None:
        """Use `price` for answers that do not tell theirs."""
        super().__init__(wrapped)
        self._meter, self._kind, self._price = meter, kind, price

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make a request if the bounds leave room for it.

        Raises:
            BoundReachedError: they do not.
        """
        async with self._meter.piece(self._kind, 1) as piece:
            response = await super().request(messages, model_settings, model_request_parameters)
            usage, told = response.usage, (response.provider_details or {}).get(COST_DETAIL)
            cost = None if self._price is None else self._price.of(usage.input_tokens, usage.output_tokens)
            cost = told if isinstance(told, float) else cost
            piece.used = Use(1, cost, usage.input_tokens + usage.output_tokens)
            return response


class CountingModel(WrapperModel):
    """A model that knows what its requests have used, also those of a run that is cut."""

    used: Usage = NO_USAGE

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make a request, and count it."""
        self.used += Usage(1)
        response = await super().request(messages, model_settings, model_request_parameters)
        self.used += Usage(0, response.usage.input_tokens, response.usage.output_tokens)
        return response
