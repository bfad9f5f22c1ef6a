"""The command `page`: open the page of a running server in the browser, as its operator."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer

from server.capabilities.web.settings import LINK_PATH
from server.cli.admin_requests import ask_by_socket
from server.cli.console import EXIT_NO, fail, print_text
from server.config.machine import current_places
from server.config.settings.layers import load_settings


class _Link(msgspec.Struct):
    url: str


def page(
    *,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="The port of a server on this machine.", show_default="8000")
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the address instead; it works once, and for a minute.")
    ] = False,
) -> None:
    """Open the page of a running server in the browser.

    It shows what only the operator of the server sees. Where people have to log in, it asks you to do so.
    """
    import webbrowser

    chosen = load_settings({"port": port}, os.environ, current_places().config_home).http.port
    answer = ask_by_socket(
        chosen, LINK_PATH, f"open http://localhost:{chosen}/, which does not show what is for operators"
    )
    if answer.status == 404:  # noqa: PLR2004 - not found
        fail(f"the server at port {chosen} has no page; set web.enabled where it runs", EXIT_NO)
    try:
        url = msgspec.json.decode(answer.body, type=_Link).url
    except (msgspec.DecodeError, UnicodeDecodeError):
        fail(f"the server at port {chosen} answered with HTTP {answer.status}, and no address", EXIT_NO)
    if print_only or not webbrowser.open(url):
        print_text(url)
    else:
        print_text(f"Opened {url.partition('?')[0].removesuffix('page/enter')} in the browser.")
