"""Runs in the environment of the peers: FastMCP's client lists, gets and downloads every skill of a server.

Usage: fastmcp_client.py URL FOLDER. Files go below FOLDER, at their skill's path. Prints one JSON object:
`listed` with the URIs that FastMCP's typed list returned, or `list_refused` with what it said; `skills` with what
became of each skill; `download_refused` with what its own helper for downloads said, if it failed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import mcp_types
from fastmcp import Client  # type: ignore[import-not-found] # is installed where this runs
from fastmcp.skills import SkillsClientExtension  # type: ignore[import-not-found] # likewise
from fastmcp.skills.models import (  # type: ignore[import-not-found] # likewise
    GetSkillParams,
    GetSkillRequest,
)
from fastmcp.utilities.skills import download_skill, list_skills  # type: ignore[import-not-found] # likewise
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict, ValidationError


class Untyped(mcp_types.Result):
    """Whatever the server answered."""

    model_config = ConfigDict(extra="allow")


async def main(url: str, target: Path) -> dict[str, Any]:
    """Do all of it on one connection."""
    told: dict[str, Any] = {"skills": {}}
    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        try:
            told["listed"] = [skill.uri for skill in await client.list_skills()]
        except ValidationError as error:
            told["list_refused"] = str(error)
        # Its helpers find skills by their resources, whatever the typed list made of them.
        found = await list_skills(client)
        for skill in found:
            told["skills"][skill.uri] = await get_and_download(client, skill.uri, target)
        try:
            await download_skill(client, found[0].name, target / "by-the-helper")
        except MCPError as error:
            told["download_refused"] = str(error)
    return told


async def get_and_download(client: Client, uri: str, target: Path) -> dict[str, Any]:
    """Get a skill's entry, read its files, verify each against its digest and size, and write it."""
    told: dict[str, Any] = {"unverified": []}
    try:
        entry = (await client.get_skill(uri)).model_dump(mode="json")
    except ValidationError as error:
        told["get_refused"] = str(error)
        request = GetSkillRequest(params=GetSkillParams(uri=uri))
        entry = (await client.session.send_request(request, Untyped)).model_dump()["skill"]
    for resource in entry["resources"]:
        content = bytes_of((await client.read_resource(resource["uri"]))[0])
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != resource["digest"] or len(content) != resource["size"]:
            told["unverified"].append(resource["uri"])
        path = target / unquote(resource["uri"].removeprefix("skill://"), errors="surrogateescape")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return told


def bytes_of(content: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> bytes:
    """Return the bytes of a file as they travelled."""
    if isinstance(content, mcp_types.BlobResourceContents):
        return base64.b64decode(content.blob)
    return content.text.encode()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(anyio.run(main, sys.argv[1], Path(sys.argv[2]))))
