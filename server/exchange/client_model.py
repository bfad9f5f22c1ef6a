"""The client's own model, as a model of pydantic-ai.

This module imports pydantic-ai, which takes a second, so it is imported when a run begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.models import Model
from pydantic_ai.profiles import ModelProfile

from server.exchange.errors import ExchangeError, UnusableAnswerError
from server.exchange.sampling import request_of, response_of

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from server.exchange.client_exchange import ClientExchange

__all__ = ["CLIENT_MODEL", "ClientModel"]

CLIENT_MODEL = "client"
"""The model's name in settings, outcomes and errors."""


class ClientModel(Model):
    """The client's model, used by sampling, with the tools of a run if the client supports them."""

    # Sampling has no fields for them. They only tune an answer, so they are left out silently.
    unsupported_settings = frozenset({"parallel_tool_calls", "seed", "top_k", "top_p", "extra_body", "extra_headers"})

    def __init__(self, exchange: ClientExchange) -> None:
        """Ask through `exchange`."""
        tools = exchange.can_sample_with_tools
        profile = ModelProfile(supports_tools=tools, default_structured_output_mode="tool" if tools else "prompted")
        super().__init__(profile=profile)
        self._exchange = exchange

    @property
    def model_name(self) -> str:
        """`client`; each answer names the model behind it."""
        return CLIENT_MODEL

    @property
    def system(self) -> str:
        """The provider's name."""
        return "mcp"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the next answer of the client's model.

        Raises:
            ModelAPIError: the client cannot be asked, refused, or did not answer.
            UnexpectedModelBehavior: its answer is not that of a model.
        """
        # Checked first: preparing the parameters fails without tool support, and does not say what to do.
        self._check([tool.name for tool in model_request_parameters.function_tools])
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        request = request_of(messages, settings or {}, parameters)
        names = [tool.name for tool in request.params.tools or []]
        self._check(names)
        try:
            answer = await self._exchange.ask(request)
        except UnusableAnswerError as error:
            raise UnexpectedModelBehavior(str(error)) from None
        except ExchangeError as error:
            raise ModelAPIError(CLIENT_MODEL, str(error)) from None
        return response_of(answer, names)

    def _check(self, tools: list[str]) -> None:
        if not tools or self._exchange.can_sample_with_tools:
            return
        can = "offers its model without tools" if self._exchange.can_sample else "does not offer its model"
        message = (
            f"the client {can} (it did not declare sampling.tools), but this run has tools ({', '.join(tools)[:200]}): "
            "run a skill that needs none, use a client that declares it, or configure a model of the server"
        )
        raise ModelAPIError(CLIENT_MODEL, message)
