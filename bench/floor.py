"""The floor: what the SDK and the transport cost when a server itself has nothing left to do.

    python -m floor DIR --answers FILE [--port PORT]

A low-level server of the same SDK that gives answers recorded from the server under test, held as prebuilt
dicts: they skip the first of the SDK's two dumps. OpenTelemetry's middleware is removed, and the input schema
is given, for otherwise each modern tools/call over HTTP would run tools/list first. Before it serves, it reads,
hashes and parses every skill, as a server that knows its skills must.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import uvicorn
import yaml
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        ReadResourceRequestParams,
        ReadResourceResult,
    )

Result = TypeVar("Result")


@dataclass(frozen=True)
class Answers:
    """Recorded results; in fact the dicts of the file, which the SDK takes as well as its models.

    `pages` are those of `skills/list` by cursor, the first one under the empty text.
    """

    tools: ListToolsResult
    schemas: dict[str, dict[str, Any]]
    activations: dict[str, CallToolResult]
    reads: dict[str, ReadResourceResult]
    pages: dict[str, dict[str, Any]]
    skills: dict[str, dict[str, Any]]
    directories: dict[str, dict[str, Any]]


class _GetParams(RequestParams):
    uri: str


class _DirectoryParams(PaginatedRequestParams):
    uri: str


def load_answers(path: Path) -> Answers:
    """Read the recording."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    schemas = {tool["name"]: tool["inputSchema"] for tool in recorded["tools"]["tools"]}
    return Answers(schemas=schemas, **recorded)


def load_skills(root: str) -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """Read all files: for each skill its frontmatter and the digest of every file."""
    skills = {}
    for entry in sorted(os.scandir(root), key=lambda found: found.name):
        digests, frontmatter = {}, {}
        for folder, _, names in os.walk(entry.path):
            for name in names:
                path = f"{folder}/{name}"
                with open(path, "rb") as file:  # noqa: PTH123 - one Path object a file would slow the floor
                    content = file.read()
                digests[path] = hashlib.sha256(content).hexdigest()
                if name == "SKILL.md":
                    frontmatter = yaml.load(content.split(b"---\n", 2)[1], Loader=yaml.CSafeLoader)
        skills[entry.name] = (frontmatter, digests)
    return skills


def build(answers: Answers, skills: int) -> Server[Any]:
    """Put the server together; every handler is one look-up."""

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return answers.tools

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return _found(answers.activations, (params.arguments or {}).get("name", ""))

    async def read(_: ServerRequestContext[Any], params: ReadResourceRequestParams) -> ReadResourceResult:
        return _found(answers.reads, params.uri)

    server: Server[Any] = Server(
        "floor",
        instructions=f"Serves {skills} skills.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_read_resource=read,
        get_tool_input_schema=answers.schemas.get,
    )
    server.middleware.clear()
    _add_skills_extension(server, answers)
    return server


def _add_skills_extension(server: Server[Any], answers: Answers) -> None:
    """Add the methods of the Skills extension, by the same way of the SDK as the server under test does."""

    async def list_skills(_: ServerRequestContext[Any], params: PaginatedRequestParams) -> dict[str, Any]:
        return _found(answers.pages, params.cursor or "")

    async def get_skill(_: ServerRequestContext[Any], params: _GetParams) -> dict[str, Any]:
        return _found(answers.skills, params.uri)

    async def read_directory(_: ServerRequestContext[Any], params: _DirectoryParams) -> dict[str, Any]:
        return _found(answers.directories, params.uri)

    server.extensions["io.modelcontextprotocol/skills"] = {"directoryRead": True}
    server.add_request_handler("skills/list", PaginatedRequestParams, list_skills)
    server.add_request_handler("skills/get", _GetParams, get_skill)
    server.add_request_handler("resources/directory/read", _DirectoryParams, read_directory)


def _found(table: Mapping[str, Result], key: str) -> Result:
    try:
        return table[key]
    except KeyError:
        raise MCPError(code=INVALID_PARAMS, message=f"not recorded: {key}") from None


async def _serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def main() -> None:
    """Serve over stdio, or over HTTP when a port is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    skills = load_skills(options.dir)
    server = build(load_answers(options.answers), len(skills))
    if options.port is None:
        anyio.run(_serve_stdio, server)
    else:
        app = server.streamable_http_app(json_response=True)
        uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
