"""No log and no message has the secrets of an address, whoever sends the request."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable

import pytest

from server.capabilities.login.provider_requests import Provider, ProviderUnavailableError
from server.capabilities.remote.client import RemoteError, connect
from server.capabilities.schedules.firing import _post
from server.wire.address import Address
from tests.server.wire.answering import answering
from tests.server.wire.test_http_client import ANSWERS

SECRET = "key-that-no-log-may-have"  # noqa: S105 - for tests


async def by_provider(url: str) -> str:
    provider = Provider()
    try:
        return str(await provider.get(url))
    except ProviderUnavailableError as error:
        return str(error)
    finally:
        await provider.aclose()


async def by_webhook(url: str) -> str:
    return (await _post(url, 30, b"{}"))[0]


async def by_remote(url: str) -> str:
    try:
        async with connect(Address.parse(url)):
            return ""
    except RemoteError as error:
        return str(error)


@pytest.mark.parametrize("call", [by_provider, by_webhook, by_remote])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_no_log_and_no_message_has_the_secrets_of_an_address(
    call: Callable[[str], Awaitable[str]], answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for library in ("httpx2", "httpcore2", "mcp.client", "client"):
        caplog.set_level(logging.DEBUG, library)
    async with answering(answer) as url:
        message = await call(f"{url.replace('://', f'://user:{SECRET}@')}?key={SECRET}")
    assert SECRET not in message + caplog.text
    assert b64encode(f"user:{SECRET}".encode()).decode() not in caplog.text
