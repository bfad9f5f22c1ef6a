"""Which model performs skills: from what a user writes to a model of pydantic-ai.

    anthropic:NAME, openai:NAME, …       a provider that pydantic-ai knows; its key and address come from the
                                         environment, as the provider's own library reads them (OPENAI_API_KEY,
                                         OPENAI_BASE_URL, ANTHROPIC_API_KEY, …)
    http://HOST/v1#NAME                  any address that speaks OpenAI's chat completions

Keys of providers never go to an address that a user wrote: such a one is given the key that was set for it, or none.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from pydantic_ai.models import Model

__all__ = [
    "CLIENT",
    "ModelSpec",
    "ModelUnavailableError",
    "check_model",
    "connected",
    "has_extra",
    "hint_for",
    "open_model",
    "parse_model",
]

CLIENT = "client"
"""The model of the connected client, by MCP's sampling; a server opens it for each call."""

_CLOSING_SECONDS = 5.0
# A provider that does not answer to a closing connection holds nobody up.

_NO_EXTRA = "Runs need the extra `run`: pip install 'skillserve[run]'."
_EXTRA_PACKAGES = ("pydantic_ai", "dbos", "jsonschema")

_OPENAI_HOST = "api.openai.com"
_NOT_FOUND = 404

_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
}
# One of these variables has to be set; behind an address of their own, OpenAI's models may need no key.

_EXPECTED = "expected anthropic:NAME, openai:NAME, http(s)://HOST/v1#NAME, or client"


class ModelUnavailableError(SkillsError):
    """No model can be had by what a user wrote; the message says what to write or to install."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as it is named in settings: a provider's, or the one at an address; `provider` is `client` for that."""

    provider: str
    name: str
    address: str | None = None

    def __str__(self) -> str:
        """Write it as a user would, without what an address might hold of secrets."""
        if self.address is not None:
            return f"{self.address}#{self.name}"
        return f"{self.provider}:{self.name}" if self.name else self.provider


def parse_model(text: str) -> ModelSpec:
    """Return what `text` names.

    Raises:
        ModelUnavailableError: it names no model.
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
    expected = "The address of the model is none that can be reached; expected http(s)://HOST/v1#NAME."
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
    """Let the model be asked within the block. Blocks share its connections, and the end of the last one closes them.

    They are closed in a block that is cancelled too: the model would count it as one that goes on for ever.
    """
    await model.__aenter__()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
            await model.__aexit__(None, None, None)


def check_model(spec: ModelSpec, environment: Mapping[str, str]) -> None:
    """See whether anything plain stands in the way of a model, without the second that `open_model` takes.

    Of what providers want of the environment, only that of OpenAI and Anthropic is known here.

    Raises:
        ModelUnavailableError: what runs stand on is not installed, or the provider lacks its key.
    """
    if not has_extra():
        raise ModelUnavailableError(_NO_EXTRA)
    wanted = _KEY_VARIABLES.get(spec.provider)
    if wanted and not any(environment.get(name) for name in wanted):
        raise ModelUnavailableError(f"The model {spec} cannot be used: {wanted[0]} is not set.")


@cache
def has_extra() -> bool:
    """Tell whether what runs stand on is installed."""
    return all(find_spec(library) is not None for library in _EXTRA_PACKAGES)


def open_model(spec: ModelSpec, key: str | None = None) -> Model:
    """Return the model; nothing is asked of it yet. `key` goes to an address alone.

    Raises:
        ModelUnavailableError: the provider is not known, not installed, or lacks its key.
    """
    try:
        from pydantic_ai.models import infer_model  # noqa: PLC0415 - it takes a second, and only runs want it
    except ImportError as error:
        raise ModelUnavailableError(_NO_EXTRA) from error
    if spec.address is not None:
        return _chat_model(spec, spec.address, key)
    try:
        return infer_model(f"{spec.provider}:{spec.name}")
    except Exception as error:  # each provider's library raises errors of its own family where a key is missing
        said = " ".join(str(error).split()) or type(error).__name__
        raise ModelUnavailableError(f"The model {spec} cannot be used: {said}") from error


def hint_for(model: Model, error: Exception) -> str:
    """Return what may help against an error of a model, in one sentence, or nothing where nobody knows."""
    if getattr(error, "status_code", None) != _NOT_FOUND or model.system != "openai":
        return ""
    from pydantic_ai.models.openai import OpenAIResponsesModel  # noqa: PLC0415 - as above

    if isinstance(model, OpenAIResponsesModel) and urlsplit(model.base_url).hostname != _OPENAI_HOST:
        return f"What is at OPENAI_BASE_URL may speak chat completions only; try openai-chat:{model.model_name}."
    return ""


def _chat_model(spec: ModelSpec, address: str, key: str | None) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

    # Without a key of its own the library would take OPENAI_API_KEY, and hand it to whoever is at the address.
    provider = OpenAICompatibleProvider("openai-compatible", base_url=address, api_key=key or "none")
    return OpenAIChatModel(spec.name, provider=provider)
