"""A collector of spans that drops them, as a process of its own, so that the bench measures only who sends them.

Usage: `python bench/collector.py PORT`
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from processes import HOST


class Collector(BaseHTTPRequestHandler):
    """Accepts what exporters of OpenTelemetry send."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Accept a batch of spans."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer((HOST, int(sys.argv[1])), Collector).serve_forever()
