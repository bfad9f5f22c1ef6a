"""List, get and download every skill of a server with FastMCP's client; runs in the environment of the peers.

Usage: fastmcp_client.py URL FOLDER. Files are written below FOLDER, at the path of their skill. The output is a JSON
object: `listed` has the URIs that FastMCP's typed list returned, or `list_refused` its error; `skills` has the result
of each skill; `download_refused` has the error of FastMCP's download helper, if it failed.
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
from fastmcp import Client  # type: ignore[import-not-found] # installed in the environment of the peers
from fastmcp.skills import SkillsClientExtension  # type: ignore[import-not-found] # see above
from fastmcp.skills.models import (  # type: ignore[import-not-found] # see above
    GetSkillParams,
    GetSkillRequest,
)
from fastmcp.utilities.skills import download_skill, list_skills  # type: ignore[import-not-found] # see above
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict, ValidationError


class Untyped(mcp_types.Result):
    """Any result of the server."""

    model_config = ConfigDict(extra="allow")


async def main(url: str, target: Path) -> dict[str, Any]:
    """Run all steps on one connection; return the report."""
    report: dict[str, Any] = {"skills": {}}
    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        try:
            report["listed"] = [skill.uri for skill in await client.list_skills()]
        except ValidationError as error:
            report["list_refused"] = str(error)
        # The helpers find skills by their resources, independently of the typed list.
        found = await list_skills(client)
        for skill in found:
            report["skills"][skill.uri] = await get_and_download(client, skill.uri, target)
        try:
            await download_skill(client, found[0].name, target / "by-the-helper")
        except MCPError as error:
            report["download_refused"] = str(error)
    return report


async def get_and_download(client: Client, uri: str, target: Path) -> dict[str, Any]:
    """Get a skill's entry; read, verify and write each of its files."""
    report: dict[str, Any] = {"unverified": []}
    try:
        entry = (await client.get_skill(uri)).model_dump(mode="json")
    except ValidationError as error:
        report["get_refused"] = str(error)
        request = GetSkillRequest(params=GetSkillParams(uri=uri))
        entry = (await client.session.send_request(request, Untyped)).model_dump()["skill"]
    for resource in entry["resources"]:
        content = bytes_of((await client.read_resource(resource["uri"]))[0])
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != resource["digest"] or len(content) != resource["size"]:
            report["unverified"].append(resource["uri"])
        path = target / unquote(resource["uri"].removeprefix("skill://"), errors="surrogateescape")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return report


def bytes_of(content: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> bytes:
    """Return the bytes of a file."""
    if isinstance(content, mcp_types.BlobResourceContents):
        return base64.b64decode(content.blob)
    return content.text.encode()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(anyio.run(main, sys.argv[1], Path(sys.argv[2]))))
