"""Starts the server of `talking_server`, as `skillserve serve` starts its own: without what it does not need."""

from __future__ import annotations

from server.transport.lazy_sdk import defer_packages

if __name__ == "__main__":
    defer_packages()
    from tests.server.exchange.talking_server import main

    main()
