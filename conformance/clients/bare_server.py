"""An MCP server that offers nothing: with it a client is measured without skills."""

from __future__ import annotations

import json
import sys
from typing import Any

METHOD_NOT_FOUND = -32601


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    method = request["method"]
    if method == "initialize":
        about = {"name": "bare", "version": "1"}
        version = request["params"]["protocolVersion"]
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
    if method == "tools/list":
        return {"result": {"tools": []}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": METHOD_NOT_FOUND, "message": f"there is no method {method}"}}


def main() -> None:
    """Answer requests until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **_answer(message)}), flush=True)


if __name__ == "__main__":
    main()
