"""Check the settings of operators, and that the MCP endpoint does not replace a route."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from server.capabilities.operation.admin_sockets import STATUS_PATH
from server.capabilities.operation.routes import HEALTH_PATH, METRICS_PATH, READY_PATH
from server.cli.config_check.finding import ConfigFinding, Level

if TYPE_CHECKING:
    from server.cli.config_check.settings_check import Configuration

_ADMIN: Final = f"{STATUS_PATH.rpartition('/')[0]}/"
# Where all admin routes are.


def check_operation(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check operation; sections with a fault of their own are left out."""
    checked = configuration.checked
    if checked.can_compare("operation") and checked.settings.operation.metrics and not find_spec("prometheus_client"):
        message = "metrics need the extra `team`"
        yield checked.finding(Level.ERROR, "operation.metrics", message, "run: pip install 'skillserve[team]'")
    path = checked.settings.http.path
    if checked.can_compare("http") and (what := _taken_by(path.rstrip("/"))):
        message = f"{path} is a path {what}, which the MCP endpoint would replace"
        yield checked.finding(Level.ERROR, "http.path", message, "choose another path, such as /mcp")


def _taken_by(path: str) -> str | None:
    """Return what a path of the server is for already, None if it is free."""
    if path in {HEALTH_PATH, READY_PATH, METRICS_PATH}:
        return "for probes or figures"
    # The proxies of `deploy/` deny clients whatever is there.
    return "of the admin routes" if f"{path}/".startswith(_ADMIN) else None
