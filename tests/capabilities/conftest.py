"""The fixtures of servers, for the tests of their capabilities."""

from __future__ import annotations

from tests.server.conftest import *  # noqa: F403 - pytest finds fixtures and hooks by their names here
