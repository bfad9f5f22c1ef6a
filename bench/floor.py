"""The floor: a server that measures the cost of the SDK and the transport alone.

    python -m floor DIR --answers FILE [--port PORT]

A low-level server of the same SDK that returns answers recorded from the server under test, as prebuilt dicts:
they skip the first of the SDK's two serializations. OpenTelemetry's middleware is removed, and the input schema is
given, because otherwise each modern tools/call over HTTP would run tools/list first. At its start the floor reads,
hashes and parses every skill, as any skill server must.
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
        ListPromptsResult,
        ListToolsResult,
        ReadResourceRequestParams,
        ReadResourceResult,
    )

Result = TypeVar("Result")


@dataclass(frozen=True)
class Answers:
    """Recorded results: at run time the dicts of the file, which the SDK accepts in place of its models.

    `activations` are by name; searches are among them, by query. `pages` maps cursors to pages of `skills/list`; the
    first page has an empty cursor. `files` has the results of `read_skill_file` by skill and path, joined by a slash.
    """

    tools: ListToolsResult
    prompts: ListPromptsResult
    schemas: dict[str, dict[str, Any]]
    activations: dict[str, CallToolResult]
    files: dict[str, CallToolResult]
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
    """Read all files; return the frontmatter and the digests of the files of each skill."""
    skills = {}
    for entry in sorted(os.scandir(root), key=lambda found: found.name):
        digests, frontmatter = {}, {}
        for folder, _, names in os.walk(entry.path):
            for name in names:
                path = f"{folder}/{name}"
                with open(path, "rb") as file:  # noqa: PTH123 - a Path object for each file would slow the floor
                    content = file.read()
                digests[path] = hashlib.sha256(content).hexdigest()
                if name == "SKILL.md":
                    frontmatter = yaml.load(content.split(b"---\n", 2)[1], Loader=yaml.CSafeLoader)
        skills[entry.name] = (frontmatter, digests)
    return skills


def build(answers: Answers, skills: int) -> Server[Any]:
    """Build the server; every handler is one look-up."""

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return answers.tools

    async def list_prompts(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListPromptsResult:
        return answers.prompts

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        given = params.arguments or {}
        if params.name == "read_skill_file":
            return _found(answers.files, f"{given['skill']}/{given['path']}")
        return _found(answers.activations, given.get("name") or given.get("query", ""))

    async def read(_: ServerRequestContext[Any], params: ReadResourceRequestParams) -> ReadResourceResult:
        return _found(answers.reads, params.uri)

    server: Server[Any] = Server(
        "floor",
        instructions=f"Serves {skills} skills.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_read_resource=read,
        get_tool_input_schema=answers.schemas.get,
    )
    server.middleware.clear()
    _add_skills_extension(server, answers)
    return server


def _add_skills_extension(server: Server[Any], answers: Answers) -> None:
    """Add the methods of the Skills extension, by the same SDK interface as the server under test."""

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
    """Serve over stdio, or over HTTP if a port is given."""
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
