"""Check what the start of a server checks, by the same functions: what these refuse, no server starts with."""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Final

from server.cli.config_check.finding import ConfigFinding, Level
from server.config.files import ConfigurationError
from server.config.settings.server import Transport

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import CheckedSettings

_HOST_NAME: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


def check_start(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    """Check what the server reads and opens when it starts; sections with a fault of their own are left out."""
    for section, check in (
        ("http", _address),
        ("search", _reranker),
    ):
        if checked.can_compare(section):
            yield from check(checked)


def is_address(host: str) -> bool:
    """Tell whether a text is an IP address, or could be a host name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _HOST_NAME.fullmatch(host) is not None
    return True


def _address(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    from server.transport.listening import AddressInUseError, require_own_address

    http = checked.settings.http
    serves = checked.settings.server.transport is Transport.HTTP
    if not is_address(http.host):
        message = f"{http.host!r:.80}: expected an IP address or a host name, without a port and without brackets"
        level = Level.ERROR if serves else Level.WARNING
        yield checked.finding(level, "http.host", message, "correct it; the port is http.port")
    elif serves:
        try:
            require_own_address(http)
        except AddressInUseError as error:
            message = str(error).partition("; ")[0]
            advice = "choose an address of this machine, such as 0.0.0.0, and a port that this user may use"
            yield checked.finding(Level.ERROR, "http.host", message, advice)


def _reranker(checked: CheckedSettings) -> Iterator[ConfigFinding]:
    from server.hosting.searches import load_reranker

    try:
        # What the module prints must not mix with the results of the check.
        with redirect_stdout(sys.stderr):
            load_reranker(checked.settings.search.reranker)
    except ConfigurationError as error:
        message = str(error).removeprefix("reranker: ")
        advice = "correct the name, or install its package where skillserve is installed"
        yield checked.finding(Level.ERROR, "search.reranker", message, advice)
