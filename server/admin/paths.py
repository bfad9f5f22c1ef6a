"""Where the admin endpoint is, for the server and for who asks it."""

from __future__ import annotations

__all__ = ["RELOAD_PATH", "STATUS_PATH"]

RELOAD_PATH = "/admin/reload"
STATUS_PATH = "/admin/status"
