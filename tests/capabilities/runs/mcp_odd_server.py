"""A faulty MCP server over stdio without the SDK; its first argument selects the fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

WAY = sys.argv[1]

TOOLS: dict[str, list[dict[str, Any]]] = {
    "no schema": [{"name": "array", "inputSchema": {"type": "object", "properties": []}}],
    "schemas": [
        {"name": "unknown", "inputSchema": {"type": "object", "properties": {"a": {"type": "thing"}}}},
        {"name": "remote", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1:9/x.json"}},
        {"name": "nan", "inputSchema": {"type": "object", "properties": {"a": {"default": float("nan")}}}},
        {"name": "slow", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}},
        {
            "name": "slow_result",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
        },
    ],
    "names": [
        {"name": name, "inputSchema": {"type": "object"}}
        for name in ("with space/and.dot", "with space/and_dot", "x" * 100, "x" * 99 + "y", "<b>")
    ],
    "many": [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(600)],
}
DEFAULT = [{"name": "t", "description": f"d {os.environ.get('TOKEN', '')}", "inputSchema": {"type": "object"}}]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def flood(piece: str) -> None:
    while True:
        sys.stdout.write(piece)


def call_result() -> dict[str, Any]:
    if WAY == "hang":
        time.sleep(600)
    if WAY == "endless line":
        flood("x" * 65536)
    if WAY == "endless lines":
        flood("not json\n")
    if WAY == "notifications":
        flood('{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}\n')
    if WAY == "nonsense":
        return {"content": "text"}
    if WAY == "schemas":
        return {"content": [], "structuredContent": {"a": "a" * 64 + "!"}}
    if WAY == "child":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[2]])
    if WAY == "large":
        return {"content": [{"type": "text", "text": "x" * 3_000_000}]}
    return {"content": [{"type": "text", "text": "fine"}]}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    method = message["method"]
    if method == "initialize":
        if WAY == "silent":
            time.sleep(600)
        version = message["params"]["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        }
    if method == "tools/list":
        if WAY == "endless list":
            return {"tools": DEFAULT, "nextCursor": str(time.time())}
        return {"tools": TOOLS.get(WAY, DEFAULT)}
    return call_result()


def main() -> None:
    if WAY == "talks":
        sys.stdout.write("Starting up!\n\n{not json}\n")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == WAY:
            # Long enough that truncation would cut the token.
            text = f"bad token {os.environ['TOKEN']} {'x' * int(sys.argv[2])}{os.environ['TOKEN']}"
            send({"id": message["id"], "error": {"code": -32000, "message": text}})
        elif message["method"] in {"initialize", "tools/list", "tools/call"}:
            send({"id": message["id"], "result": answer(message)})
        else:
            send({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})


if __name__ == "__main__":
    main()
