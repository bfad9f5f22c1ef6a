"""Addresses of clients: only what a trusted proxy passes on counts, and a proxy may be known by its name."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.config.files import ConfigurationError
from tests.conftest import MakeSkill
from tests.server.serving import Served, modern, modern_headers, serving
from tests.server.settings import make_settings

CLIENT = "192.0.2.7"


async def address_of_a_request(served: Served) -> str:
    message = modern("tools/list")
    headers = modern_headers(message, **{"X-Forwarded-For": f"10.0.0.1, {CLIENT}"})
    await served.client.post(served.url, json=message, headers=headers)
    return served.found[-1].address


class Names:
    """What names lead to; a name without an address has none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **addresses: str) -> None:
        self.addresses, self.asked = addresses, 0
        monkeypatch.setattr(anyio, "getaddrinfo", self._answer)

    async def _answer(self, name: str, _: None) -> list[tuple[Any, ...]]:
        self.asked += 1
        if name not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.addresses[name], 0))]


@pytest.mark.parametrize(
    ("trusted", "address"),
    [
        ((), "127.0.0.1"),
        (("127.0.0.1",), CLIENT),
        (("127.0.0.0/8",), CLIENT),
        (("10.0.0.0/8",), "127.0.0.1"),
        (("dns:proxy",), CLIENT),
        (("dns:other",), "127.0.0.1"),
        (("10.0.0.9", "dns:gone", "dns:proxy"), CLIENT),
    ],
)
async def test_the_address_is_the_one_that_a_trusted_proxy_passes_on(
    trusted: tuple[str, ...], address: str, make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    Names(monkeypatch, proxy="127.0.0.1", other="10.0.0.9")
    async with serving(skills, trusted_proxies=trusted) as served:
        assert await address_of_a_request(served) == address


async def test_a_proxy_that_gets_another_address_is_known_by_it_and_the_old_one_is_forgotten(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    names = Names(monkeypatch, proxy="10.0.0.9")
    for name in ("_NEW_PROXY_SECONDS", "_NAMES_SECONDS"):
        monkeypatch.setattr(f"server.transport.http.{name}", 0.0)
    async with serving(skills, trusted_proxies=("dns:proxy",)) as served:
        assert await address_of_a_request(served) == "127.0.0.1"
        names.addresses["proxy"] = "127.0.0.1"
        assert await address_of_a_request(served) == CLIENT
        names.addresses.clear()
        assert await address_of_a_request(served) == "127.0.0.1"


async def test_strangers_do_not_cause_a_question_for_each_request(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    names = Names(monkeypatch, proxy="10.0.0.9")
    monkeypatch.setattr("server.transport.http._NEW_PROXY_SECONDS", 3600.0)
    async with serving(skills, trusted_proxies=("dns:proxy",)) as served:
        for _ in range(5):
            assert await address_of_a_request(served) == "127.0.0.1"
    assert names.asked == 1


async def test_a_name_without_an_answer_holds_a_request_up_for_a_moment_only(
    make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")

    async def never(*_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(anyio, "getaddrinfo", never)
    monkeypatch.setattr("server.transport.http._RESOLVE_SECONDS", 0.01)
    async with serving(skills, trusted_proxies=("dns:proxy",)) as served:
        with anyio.fail_after(30):
            assert await address_of_a_request(served) == "127.0.0.1"


@pytest.mark.parametrize("proxy", ["dns:", "dns:a b", "dns:-/8", "proxy", "10.0.0.0/33", f"dns:{'a' * 64}", "DNS:x"])
def test_what_is_neither_an_address_nor_a_name_is_refused(proxy: str) -> None:
    with pytest.raises(ConfigurationError, match="dns:NAME"):
        make_settings(trusted_proxies=(proxy,))
