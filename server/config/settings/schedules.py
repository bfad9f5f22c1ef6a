"""Whether a server keeps time for schedules, and where the results of their runs are delivered."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from server.config.values import InvalidValueError, SecretStr

__all__ = ["ScheduleSettings"]


class ScheduleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scheduler skills: their firing by a server, their prompts, and the delivery of results."""

    enabled: bool = False
    """Whether this server fires schedules, offers them as prompts `sched-NAME`, and serves the skill
    `scheduler-skill-creator`. `skillserve schedule daemon` fires them without it."""
    command: tuple[str, ...] = ()
    """A program and its arguments, which gets the result of each run as JSON on its standard input."""
    webhook: SecretStr | None = None
    """An `https://` address, or `http://` of this machine, to which the result of each run is posted as JSON."""
    unsandboxed: bool = False
    """Whether runs of schedules may start programs (commands, scripts, tools of skills) where no sandbox works. These
    have all your rights, and no user watches them: they can make schedules, and change the settings."""
    delivery_seconds: Annotated[int, Meta(ge=1, le=600)] = 30
    """Seconds after which a delivery is given up."""

    def __post_init__(self) -> None:
        if self.webhook is not None and not _is_address(self.webhook.get_secret_value()):
            raise InvalidValueError("expected an https:// address, or http:// of this machine", ("webhook",))

    @property
    def delivers(self) -> bool:
        """Whether results are delivered."""
        return bool(self.command) or self.webhook is not None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    is_local = host in {"localhost", "127.0.0.1", "::1"}
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_local))
