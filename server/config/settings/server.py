"""How a server runs: transport, HTTP, administration, logs and file watching."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from server.config.values import InvalidValueError, NonEmpty
from skills_core.live.watch_options import WatchMode, WatchOptions

_PROXY_NAME = r"dns:(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?"


class Transport(StrEnum):
    """How clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"


class LogLevel(StrEnum):
    """The least severe messages that go to stderr."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How log messages are written."""

    TEXT = "text"
    """Lines for people."""
    JSON = "json"
    """One JSON object a line, also for each request."""


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the protocol that apply to every transport."""

    transport: Transport = Transport.STDIO
    """What carries messages: `stdio` for one client that starts the server, `http` for many clients of a server that
    runs by itself."""
    page_size: Annotated[int, Meta(ge=1, le=10_000)] = 500
    """Entries in one page of the lists of resources, prompts and directories. Reduce it for clients that reject long
    responses."""


class HttpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP transport: its address, the requests it accepts and its sessions."""

    host: NonEmpty = "127.0.0.1"
    """Address to listen on. `0.0.0.0` listens on all IPv4 interfaces; set `allowed_hosts` with it."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8000
    """Port to listen on. With 0 the system chooses a free one, and the server prints it."""
    path: Annotated[str, Meta(pattern=r"^/[A-Za-z0-9_./-]*$")] = "/mcp"
    """Path of the MCP endpoint. Change it when a proxy in front forwards another path."""
    allowed_hosts: tuple[str, ...] = ()
    """`Host` headers to accept, in addition to those of loopback. Name the public host name here when other machines
    or a proxy reach the server, without a scheme; `:*` at its end stands for any port. If it is empty and `host` is not
    a loopback address, all `Host` headers are accepted."""
    allowed_origins: tuple[str, ...] = ()
    """`Origin` headers to accept, in addition to those of the allowed hosts, with their scheme, such as
    `https://app.example.com`; `:*` at the end stands for any port. Set it for web applications on other hosts that
    connect from a browser, which may then read the answers (CORS)."""
    insecure: bool = False
    """Whether the server may listen beyond this machine without a login (`[login]`). Every client that reaches the
    address can then use all skills and tools, so set it only behind a proxy or a firewall that decides who gets
    through."""
    trusted_proxies: tuple[NonEmpty, ...] = ()
    """Addresses and networks of the proxies in front, such as `10.0.0.7`, or `dns:NAME` for the addresses that a host
    name has at the time. Of their requests, the server takes the address of the client from `X-Forwarded-For`; it is
    used in the audit log and in logs, and for nothing else."""
    session_idle_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 600
    """Seconds after which an idle session of the handshake era is closed. A session is idle while it has no request in
    progress and no open event stream. Reduce it when many clients connect and never close their sessions."""

    def __post_init__(self) -> None:
        for number, proxy in enumerate(self.trusted_proxies):
            if not _is_network(proxy) and not re.fullmatch(_PROXY_NAME, proxy):
                message = "expected an address or a network, such as 10.0.0.0/8, or dns:NAME for a host name"
                raise InvalidValueError(message, ("trusted_proxies", str(number)))


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


class OperationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics and the stop of a server over HTTP."""

    metrics: bool = False
    """Whether `/metrics` serves figures for Prometheus. This requires the extra `team`. Where clients need a login,
    readers need the role `metrics` or `admin`."""
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 5.0
    """Seconds that running requests have to finish after the first SIGTERM or SIGINT, before they are cancelled. Raise
    it where clients run skills, and keep it some seconds below the time after which the process is killed."""
    drain_notice_seconds: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """Seconds that the server goes on serving after the signal even if nothing is running, while `/ready` answers 503.
    Set it to the time in which your proxy notices that, if the proxy looks at `/ready`."""


class LoggingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Logs, which go to stderr."""

    level: LogLevel = LogLevel.INFO
    """The least severe messages that are logged. Use `debug` to include messages of the libraries and digests of
    skills, with date, level and logger in each line also at a terminal."""
    format: LogFormat = LogFormat.TEXT
    """How messages are written: `text` for people, or `json` with one object a line for programs. With `json`, each
    request is logged with its sender, skill and decision, and without texts and tokens. Text has colours at a terminal,
    unless the variable `NO_COLOR` is set."""


class WatchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the server notices that skills change on disk."""

    mode: WatchMode = WatchMode.AUTO
    """How changes are noticed: `native` asks the operating system, `poll` scans at an interval, `auto` polls on network
    file systems and asks the operating system elsewhere, `off` notices none. Use `poll` where changes go unnoticed.
    In each mode SIGHUP reloads all skills."""
    debounce_ms: Annotated[int, Meta(ge=0, le=60_000)] = 250
    """Milliseconds without a further change after which skills are reloaded. Raise it when tools write many files one
    after another; reduce it to announce edits sooner."""
    poll_ms: Annotated[int, Meta(ge=50, le=3_600_000)] = 1000
    """Milliseconds between two scans when polling. In the other modes it is the interval at which the server checks
    whether the folders that it watches still exist."""

    @property
    def options(self) -> WatchOptions:
        """The options of the watcher, in seconds."""
        return WatchOptions(self.mode, self.debounce_ms / 1000, self.poll_ms / 1000)
