"""The token of the admin endpoint, and the names of the tools for operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError, SecretStr
from skills_core.installation import extra_advice

if TYPE_CHECKING:
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration

SKILLS_STATUS: Final = "skills_status"
RELOAD_SKILLS: Final = "reload_skills"
STATUS_URI: Final = "skillserve://status"

HEALTH_PATH: Final = "/health"
READY_PATH: Final = "/ready"
METRICS_PATH: Final = "/metrics"
RELOAD_PATH: Final = "/admin/reload"
STATUS_PATH: Final = "/admin/status"
EVENTS_PATH: Final = "/admin/events"

REFUSALS: Final = {
    401: "the server does not accept this token; SKILLSERVE_ADMIN_TOKEN must be the same here and for the server",
    404: "the server has no admin endpoint over HTTP, or a proxy denies it; set SKILLSERVE_ADMIN_TOKEN where the server"
    " runs, or ask it there",
    421: "the server does not accept this host name; allow it where the server runs, with --allowed-host",
}
"""What people are told if a server refuses a request to its admin routes, by the status of its answer."""

_HEADER_TEXT = r"[\x21-\x7e]{16,1024}"
# A value that fits into a header and is too long to guess.


class AdminSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The admin endpoint of the HTTP transport, which reports the status and reloads skills."""

    token: SecretStr | None = None
    """Bearer token of the admin endpoint: 16 to 1024 printable ASCII characters without spaces. Without it the admin
    endpoint is not served over HTTP. There is no flag for it, because other users can see command lines."""

    def __post_init__(self) -> None:
        if self.token is not None and not re.fullmatch(_HEADER_TEXT, self.token.get_secret_value()):
            # A pattern in the type would put the value into its message.
            raise InvalidValueError("expected 16 to 1024 printable ASCII characters without spaces", ("token",))


SECTION: Final = Section(name="admin", kind=AdminSettings, prefix="admin_", secrets=frozenset({"token"}))


def check_operation(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check operation; sections with a fault of their own are left out."""
    from importlib.util import find_spec

    from server.cli.config_check.finding import Level

    checked = configuration.checked
    if checked.can_compare("operation") and checked.settings.operation.metrics and not find_spec("prometheus_client"):
        message = "metrics need the extra `team`"
        yield checked.finding(Level.ERROR, "operation.metrics", message, extra_advice("team"))
    path = checked.settings.http.path
    if checked.can_compare("http") and (what := _taken_by(path.rstrip("/"))):
        message = f"{path} is a path {what}, which the MCP endpoint would replace"
        yield checked.finding(Level.ERROR, "http.path", message, "choose another path, such as /mcp")


def _taken_by(path: str) -> str | None:
    """Return what a path of the server is for already, None if it is free."""
    if path in {HEALTH_PATH, READY_PATH, METRICS_PATH}:
        return "for probes or figures"
    # The proxies of `deploy/` deny clients whatever is there.
    return "of the admin routes" if f"{path}/".startswith(f"{STATUS_PATH.rpartition('/')[0]}/") else None
