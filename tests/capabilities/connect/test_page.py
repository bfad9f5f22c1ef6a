"""The tab `Connect` of the page: what visitors copy or click."""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from server.capabilities.connect.clients import HttpServer, entry_for, known_clients
from server.capabilities.connect.documents import entry_at, read_document
from tests.capabilities.pages import ANYBODY, page_for
from tests.conftest import MakeSkill
from tests.server.serving import serving


async def page_of(skills: Path, **options: Any) -> tuple[str, str]:
    """Return the tab, and the address that it should show."""
    async with serving(skills, **options) as served:
        answer = await served.client.get(served.at("/page/connect"))
        assert answer.status_code == 200, answer.text
        return answer.text, served.url


def texts(page: str) -> dict[str, str]:
    """Return the texts that a visitor can copy, by their ids."""
    found = re.findall(r'<pre id="([^"]+)"[^>]*>(.*?)</pre>', page, re.DOTALL)
    return {name: html.unescape(text) for name, text in found}


def links(page: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(r'class="button" href="([^"]+)"', page)]


async def test_every_client_gets_the_entry_that_connect_would_write(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    page, url = await page_of(skills)
    copied = texts(page)
    assert copied["copy-address"] == url
    commands = {text for name, text in copied.items() if name.startswith("copy-command-")}
    assert {f"claude mcp add --transport http skills {url}", f"skillserve connect --http {url}"} <= commands
    for client in known_clients().values():
        entry = entry_for(client, "skills", HttpServer(url, {}))
        text = copied.get(f"copy-by-hand-{client.key}")
        assert (text is None) == (entry is None)
        if text is not None:
            found = entry_at(read_document(text, client.format), (*client.path, "skills"))
            assert found == entry, client.key


async def test_the_links_add_this_address(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    page, url = await page_of(skills)
    cursor, vscode, goose = links(page)
    config = parse_qs(urlsplit(cursor).query)["config"][0]
    assert json.loads(base64.b64decode(config)) == {"url": url}
    assert json.loads(unquote(vscode.partition("?")[2]))["url"] == url
    assert parse_qs(urlsplit(goose).query)["url"] == [url]


async def test_every_copy_button_names_a_text_and_waits_for_the_script(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    page, _ = await page_of(skills)
    buttons = re.findall(r'<button type="button" data-copy="([^"]+)" hidden>', page)
    assert sorted(buttons) == sorted(texts(page))


async def test_the_address_is_the_one_by_which_the_visitor_came(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills) as served:
        host = served.url.split("/")[2].replace("127.0.0.1", "localhost")
        answer = await served.client.get(served.at("/page/connect"), headers={"Host": host})
        assert texts(answer.text)["copy-address"] == f"http://{host}/mcp"


async def test_with_tokens_every_way_has_a_place_for_one(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with page_for(ANYBODY, skills, login_tokens=True) as opened:
        page = await opened.get("/page/connect")
    copied = texts(page)
    for name, text in copied.items():
        assert name == "copy-address" or "TOKEN" in text, name
    assert all("TOKEN" in unquote(each) or b"TOKEN" in cursor_config(each) for each in links(page))
    assert "skillserve token add" in page


async def test_clients_that_log_in_by_themselves_need_no_token(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with page_for(ANYBODY, skills, login_issuer="https://login.example") as opened:
        page = await opened.get("/page/connect")
    assert not any("TOKEN" in text for text in texts(page).values())
    assert "open a browser" in page


def cursor_config(link: str) -> bytes:
    return base64.b64decode(parse_qs(urlsplit(link).query).get("config", [""])[0])
