"""The client's own model, as a model of pydantic-ai.

Importing this imports pydantic-ai, which takes a second: it is done when a run begins.
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
"""The name of the model in settings, outcomes and errors."""


class ClientModel(Model):
    """The model that the client lets the server use by sampling, with the tools of a run where the client can."""

    # Sampling has no place for them; those that only tune an answer are left out silently.
    unsupported_settings = frozenset({"parallel_tool_calls", "seed", "top_k", "top_p", "extra_body", "extra_headers"})

    def __init__(self, exchange: ClientExchange) -> None:
        """Ask by `exchange`."""
        tools = exchange.can_sample_with_tools
        profile = ModelProfile(supports_tools=tools, default_structured_output_mode="tool" if tools else "prompted")
        super().__init__(profile=profile)
        self._exchange = exchange

    @property
    def model_name(self) -> str:
        """`client`; which model it is, each answer says."""
        return CLIENT_MODEL

    @property
    def system(self) -> str:
        """Who provides it."""
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
            UnexpectedModelBehavior: what it said is no answer of a model.
        """
        # Before the parameters are prepared, which fails without saying what to do where tools are not supported.
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
        can = "lets its model answer, but not call tools" if self._exchange.can_sample else "has no model for servers"
        message = (
            f"the client {can} (it did not declare sampling.tools), and this run has tools ({', '.join(tools)[:200]}): "
            "perform a skill that needs none, use a client that declares it, or configure a model of the server's own"
        )
        raise ModelAPIError(CLIENT_MODEL, message)
