"""The paths of the admin endpoint, for the server and its client."""

from __future__ import annotations

__all__ = ["RELOAD_PATH", "STATUS_PATH"]

RELOAD_PATH = "/admin/reload"
STATUS_PATH = "/admin/status"
