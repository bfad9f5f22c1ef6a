"""Start the scripted server with deferred SDK packages, as `skillserve serve` does."""

from __future__ import annotations

from server.transport.lazy_sdk import defer_packages

if __name__ == "__main__":
    defer_packages()
    from tests.server.conversation.scripted_server import main

    main()
