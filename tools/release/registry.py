"""`server.json` for the MCP registry, whose form and rules are those of its schema of 2025-12-11.

`release/server.json` names no package, because none is published. What is released is added once the file names the
repository of the releases.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
PLACEHOLDER: Final = "example."
"""Names below it belong to nobody: the domain `example` is reserved, so that no stranger can claim them."""

_NAME: Final = re.compile(r"[a-zA-Z0-9.-]{1,99}/[a-zA-Z0-9._-]{1,100}")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:[-.+]?[0-9A-Za-z][0-9A-Za-z.+-]*)?")
_RELEASES: Final = re.compile(r"https://(?:github|gitlab)\.com/[\w.-]+/[\w./-]+")
_BUNDLE: Final = re.compile(r"https://(?:github|gitlab)\.com/\S*mcp\S*")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_MOST: Final = 100
_FIELDS: Final = frozenset(
    ("$schema", "name", "title", "description", "version", "repository", "websiteUrl", "packages", "remotes", "_meta")
)
_OF_PACKAGES: Final = frozenset(
    ("registryType", "identifier", "version", "fileSha256", "runtimeHint", "packageArguments", "transport")
)


def faults_of(server: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the registry would refuse in a `server.json`, and what only a stranger could make true."""
    if server.get("$schema") != SCHEMA:
        yield f"$schema: expected {SCHEMA}"
    if unknown := sorted(set(server) - _FIELDS):
        yield f"unknown fields: {', '.join(unknown)}"
    if not _NAME.fullmatch(_text(server, "name")):
        yield "name: expected a reversed domain, a slash, and a name, as in io.github.OWNER/skillserve"
    for key in ("title", "description"):
        if not 1 <= len(_text(server, key)) <= _MOST:
            yield f"{key}: expected 1 to {_MOST} characters"
    if not _VERSION.fullmatch(_text(server, "version")):
        yield "version: expected one version, not a range"
    repository = server.get("repository")
    if repository is not None and not (
        isinstance(repository, dict)
        and repository.get("source") in {"github", "gitlab"}
        and _RELEASES.fullmatch(_text(repository, "url"))
    ):
        yield "repository: expected source, which is github or gitlab, and url, the repository's address there"
    for package in server.get("packages", ()):
        yield from _faults_of_package(package)


def _faults_of_package(package: Mapping[str, Any]) -> Iterator[str]:
    if unknown := sorted(set(package) - _OF_PACKAGES):
        yield f"packages: unknown fields: {', '.join(unknown)}"
    if package.get("registryType") != "mcpb":
        yield "packages: expected mcpb alone; a package index may have a stranger's package of this name"
    if not _BUNDLE.fullmatch(_text(package, "identifier")):
        yield "packages: expected the address of a release at GitHub or GitLab that contains mcp"
    if not _DIGEST.fullmatch(_text(package, "fileSha256")):
        yield "packages: expected fileSha256, 64 lower-case hexadecimal digits"
    if package.get("transport") != {"type": "stdio"}:
        yield "packages: expected the transport stdio"


def _text(of: Mapping[str, Any], key: str) -> str:
    value = of.get(key)
    return value if isinstance(value, str) else ""


def is_placeholder(server: Mapping[str, Any]) -> bool:
    """Tell whether the file names no owner yet, so that it cannot be published."""
    return str(server["name"]).startswith(PLACEHOLDER) or "repository" not in server


def read(path: Path) -> dict[str, Any]:
    """Read a `server.json`."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def with_bundle(server: Mapping[str, Any], bundle: Path) -> dict[str, Any]:
    """Return the file with the bundle as a package, at the address that the release of this version gives it."""
    repository = server["repository"]
    between = "/-/releases/v{}/downloads/" if repository["source"] == "gitlab" else "/releases/download/v{}/"
    package = {
        "registryType": "mcpb",
        "identifier": repository["url"].removesuffix(".git") + between.format(server["version"]) + bundle.name,
        "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
        "transport": {"type": "stdio"},
    }
    return {**server, "packages": [package]}
