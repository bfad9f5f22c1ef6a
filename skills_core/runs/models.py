"""Models: resolve their names to pydantic-ai models, describe their errors, and tell what they cost.

    anthropic:NAME, openai:NAME, …       a provider that pydantic-ai knows; its key and address come from the
                                         environment, as the provider's own library reads them (OPENAI_API_KEY,
                                         OPENAI_BASE_URL, ANTHROPIC_API_KEY, …)
    http://HOST/v1#NAME                  any endpoint that implements OpenAI's chat completions

A provider's key never goes to an address that a user wrote: an address gets the key that was set for it, or none.

Providers' libraries raise errors of any type, down to IndexError for an answer without choices. Every failure is one of
three: the provider refused or failed, it could not be reached, or its answer cannot be used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio

from skills_core.errors import SkillsError
from skills_core.installation import extra_advice, missing_modules

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_ai.models import Model

    from skills_core.runs.outcome import Usage


CLIENT = "client"
"""The model of the connected client, through MCP sampling; a server opens it for each call."""

_CLOSING_SECONDS = 5.0
# A provider that does not answer when a connection closes must not block the run.


_OPENAI_HOST = "api.openai.com"
_NOT_FOUND = 404

_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
}
# One of these variables must be set; OpenAI models behind another base URL may need no key.

_EXPECTED = "expected anthropic:NAME, openai:NAME, http(s)://HOST/v1#NAME, or client"


class ModelUnavailableError(SkillsError):
    """The configured model cannot be used; the message says what to write or to install."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as named in the settings: of a provider, at an address, or `client` as the provider."""

    provider: str
    name: str
    address: str | None = None

    def __str__(self) -> str:
        """Return the name as a user writes it; parsing has refused addresses with passwords."""
        if self.address is not None:
            return f"{self.address}#{self.name}"
        return f"{self.provider}:{self.name}" if self.name else self.provider


def parse_model(text: str) -> ModelSpec:
    """Parse the name of a model.

    Raises:
        ModelUnavailableError: `text` does not name a model.
    """
    if text == CLIENT:
        return ModelSpec(CLIENT, "")
    if text.startswith(("http://", "https://")):
        return _parse_address(text)
    provider, _, name = text.partition(":")
    if not provider or not name:
        raise ModelUnavailableError(f"{text[:100]!r} names no model; {_EXPECTED}.")
    return ModelSpec(provider, name)


def _parse_address(text: str) -> ModelSpec:
    address, _, name = text.partition("#")
    expected = "The address of the model is not valid; expected http(s)://HOST/v1#NAME."
    try:
        parts = urlsplit(address)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ModelUnavailableError(expected) from error
    if not named:
        raise ModelUnavailableError(expected)
    if parts.username is not None or parts.password is not None:
        raise ModelUnavailableError("The address of the model holds a password; set model_key instead.")
    if not name:
        raise ModelUnavailableError(f"{address[:200]} does not say which model; expected {address[:200]}#NAME.")
    return ModelSpec("openai-compatible", name, address.rstrip("/"))


@asynccontextmanager
async def connected(model: Model) -> AsyncGenerator[None]:
    """Open the model's connections for the block. Blocks share them, and the last one closes them.

    A cancelled block closes them too: otherwise the model would count it as open for ever.
    """
    await model.__aenter__()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
            await model.__aexit__(None, None, None)


def check_model(spec: ModelSpec, environment: Mapping[str, str]) -> None:
    """Check the simple preconditions of a model, without the second that `open_model` takes.

    The variables for keys are known only for OpenAI and Anthropic.

    Raises:
        ModelUnavailableError: the extra `run` is not installed, or the provider lacks its key.
    """
    if not has_extra():
        raise ModelUnavailableError(_no_extra())
    wanted = _KEY_VARIABLES.get(spec.provider)
    if wanted and not any(environment.get(name) for name in wanted):
        raise ModelUnavailableError(f"The model {spec} cannot be used: {wanted[0]} is not set.")


def _no_extra() -> str:
    return f"Runs need the extra `run`; {extra_advice('run')}"


@cache
def has_extra() -> bool:
    """Tell whether the extra `run` is installed."""
    return not missing_modules("run")


def open_model(spec: ModelSpec, key: str | None = None) -> Model:
    """Return the model without making a request. `key` is used only for an address.

    Raises:
        ModelUnavailableError: the provider is unknown, not installed, or lacks its key.
    """
    try:
        from pydantic_ai.models import infer_model  # noqa: PLC0415 - it takes a second, and only runs need it
    except ImportError as error:
        raise ModelUnavailableError(_no_extra()) from error
    if spec.address is not None:
        return _chat_model(spec, spec.address, key)
    try:
        return infer_model(f"{spec.provider}:{spec.name}")
    except Exception as error:  # each provider's library raises errors of its own family where a key is missing
        said = " ".join(str(error).split()) or type(error).__name__
        raise ModelUnavailableError(f"The model {spec} cannot be used: {said}") from error


def hint_for(model: Model, error: Exception) -> str:
    """Return a hint about an error of a model in one sentence, or an empty text."""
    if getattr(error, "status_code", None) != _NOT_FOUND or model.system != "openai":
        return ""
    from pydantic_ai.models.openai import OpenAIResponsesModel  # noqa: PLC0415 - as above

    if isinstance(model, OpenAIResponsesModel) and urlsplit(model.base_url).hostname != _OPENAI_HOST:
        return f"What is at OPENAI_BASE_URL may speak chat completions only; try openai-chat:{model.model_name}."
    return ""


def _chat_model(spec: ModelSpec, address: str, key: str | None) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

    # Without an explicit key the library would send OPENAI_API_KEY to this address.
    provider = OpenAICompatibleProvider("openai-compatible", base_url=address, api_key=key or "none")
    return OpenAIChatModel(spec.name, provider=provider)


_MAX_ERRORS = 5
# Most errors that the description of one answer lists.

_UNREADABLE = "the provider's answer cannot be used"
_EXPECTED_API = "Check that the address speaks the API that the model's name stands for."


def describe_model_error(error: Exception) -> str:
    """Return why a request to a model failed; the provider's part of the text may contain secrets."""
    return f"The model did not answer: {_reason(error)}"


def _reason(error: Exception) -> str:
    from pydantic import ValidationError  # noqa: PLC0415 - only runs need it
    from pydantic_ai.exceptions import AgentRunError, UnexpectedModelBehavior, UserError  # noqa: PLC0415 - likewise

    said = " ".join(str(error).split())
    if isinstance(error, UnexpectedModelBehavior):
        cause = error.__cause__
        return f"{_UNREADABLE}: {describe_validation_error(cause) if isinstance(cause, ValidationError) else said}"
    if isinstance(error, (AgentRunError, UserError)):
        return said
    if isinstance(error, OSError):
        return f"the provider cannot be reached: {said or 'the connection failed'}"
    if isinstance(error, LookupError):
        return f"{_UNREADABLE}: it lacks what every answer has, such as an entry in `choices`. {_EXPECTED_API}"
    if isinstance(error, (AttributeError, TypeError, ValueError)):
        return f"{_UNREADABLE}: it has another form than answers of such a model. {_EXPECTED_API}"
    return said or "the library for its provider gives no reason"


def describe_validation_error(error: ValidationError) -> str:
    """Return where a value does not fit its model, and what is expected there."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:_MAX_ERRORS]
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}" for fault in faults)


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
    from genai_prices import Usage as PricedUsage  # noqa: PLC0415 - few commands need prices
    from genai_prices import calc_price  # noqa: PLC0415

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
