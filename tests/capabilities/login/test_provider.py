"""Hostile and half-dead identity providers."""

from __future__ import annotations

import pytest

from server.capabilities.login.provider_requests import Provider, ProviderUnavailableError
from tests.server.wire.answering import OK, answering


async def refused(url: str) -> str:
    provider = Provider()
    try:
        with pytest.raises(ProviderUnavailableError) as caught:
            await provider.get(url)
    finally:
        await provider.aclose()
    return str(caught.value)


async def test_an_object_is_returned() -> None:
    async with answering(OK + b'content-length: 9\r\n\r\n{"a": 1}\n') as url:
        provider = Provider()
        assert await provider.get(url) == {"a": 1}
        await provider.aclose()


async def test_a_provider_that_never_answers_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.capabilities.login.provider_requests._SECONDS", 0.1)
    async with answering(b"", silent=True) as url:
        assert "in time" in await refused(url)
    async with answering(OK + b"content-length: 9\r\n\r\n{", silent=True) as url:
        assert "in time" in await refused(url)


async def test_an_endless_answer_is_cut_off() -> None:
    async with answering(OK + b"\r\n", endless=True) as url:
        assert "too large" in await refused(url)


@pytest.mark.parametrize(
    "body", [b"[1]", b"text", b"", b"[" * 200_000, b'{"a": "\xff"}', b'{"a":' * 100_000], ids=range(6)
)
async def test_what_is_no_object_is_refused(body: bytes) -> None:
    async with answering(OK + b"content-length: %d\r\n\r\n" % len(body) + body) as url:
        assert "not a JSON object" in await refused(url)


@pytest.mark.parametrize("status", [b"302 Found\r\nlocation: http://127.0.0.1:1/", b"500 No", b"204 No"])
async def test_other_statuses_and_redirects_are_refused(status: bytes) -> None:
    async with answering(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n") as url:
        assert "HTTP " in await refused(url)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("http_proxy", "socks9://127.0.0.1:1"),
        ("http_proxy", "socks5://127.0.0.1:1"),
        ("http_proxy", "http://["),
        ("http_proxy", "http://127.0.0.1:port"),
        ("SSL_CERT_FILE", "/there/is/no/such/file"),
    ],
)
async def test_an_environment_without_a_way_to_the_provider_is_an_outage(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.delenv("no_proxy", raising=False)
    await refused("http://provider.invalid:1/keys")
    await refused("https://127.0.0.1:1/keys")


@pytest.mark.parametrize(
    "url", ["", "keys", "http://[", "https://a:port/", "https://\0/", "https://\ud800/", "ftp://a/"]
)
async def test_an_address_of_the_metadata_that_is_no_url_is_an_outage(url: str) -> None:
    await refused(url)


@pytest.mark.parametrize(
    ("statuses", "answered"),
    [((400, 403, 404, 413, 414, 422, 429, 431), True), ((204, 302, 401, 407, 408, 500, 502, 503), False)],
    ids=["about the token", "about every token"],
)
async def test_a_status_is_about_one_token_unless_the_server_or_the_provider_is_at_fault(
    statuses: tuple[int, ...], *, answered: bool
) -> None:
    assert [await has_answered(status) for status in statuses] == [answered] * len(statuses)


async def has_answered(status: int) -> bool:
    async with answering(b"HTTP/1.1 %d Status\r\ncontent-length: 0\r\n\r\n" % status) as url:
        with pytest.raises(ProviderUnavailableError) as caught:
            await Provider().post(url, {}, ("a", "b"))
        return caught.value.answered


async def test_a_provider_that_is_away_is_named_without_its_secrets() -> None:
    async with answering(b"") as url:
        place = url
    assert await refused(place) == f"{place}: ConnectError"
