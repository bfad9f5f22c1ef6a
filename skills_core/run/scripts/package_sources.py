"""Restricts the packages of a script to the index in the settings, whatever source the script names.

uv runs outside the sandbox, with the network. A script could make it send requests anywhere: with an index of its own,
a URL instead of a version, or the URLs in a lock file. So uv gets a sanitized script with only names, versions and
markers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from skills_core.errors import ScriptRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.requirements import Requirement

    from skills_core.run.scripts.metadata import ScriptMetadata

__all__ = ["ALLOW_HINT", "check_lock", "sanitized_block"]

ALLOW_HINT = "SKILLSERVE_SCRIPT_PACKAGE_URLS=true allows it"

_TEXTS = ("exclude-newer", "fork-strategy", "prerelease", "resolution")
_REQUIREMENTS = ("constraint-dependencies", "override-dependencies")
# Options of uv that only choose among the versions in the index.


def sanitized_block(path: str, metadata: ScriptMetadata, *, dependencies: bool = True) -> str:
    """Return a metadata block that requires the same packages by name and version, without their sources.

    Without `dependencies` it requires only the same Python.

    Raises:
        ScriptRefusedError: the script `path` names the source of a package, or its metadata cannot be read.
    """
    lines = []
    if metadata.requires_python is not None:
        lines.append(f"requires-python = {_toml_string(_specifier(path, metadata.requires_python))}")
    wanted = [str(each) for each in _requirements(path, "dependencies", metadata.dependencies)]
    lines.append(f"dependencies = [{', '.join(map(_toml_string, wanted if dependencies else []))}]")
    options = list(_options(path, metadata))
    if options and dependencies:
        lines += ["[tool.uv]", *options]
    return "".join(["# /// script\n", *(f"# {line}\n" for line in lines), "# ///\n"])


def check_lock(path: str, metadata: ScriptMetadata, exported: str) -> None:
    """Check that a lock file, as uv exports it, locks all requirements of the script by name and version.

    Raises:
        ScriptRefusedError: a requirement is not locked, or the file names the source of a package.
    """
    where = f"{path}.lock"
    lines = [line.split(" --hash=")[0] for line in exported.replace("\\\n", " ").splitlines()]
    stripped = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    locked = _requirements(path, where, stripped)
    versions = {_normalized_name(each.name): each.specifier for each in locked}
    for wanted in _requirements(path, "dependencies", metadata.dependencies):
        # A requirement whose marker is false here may be missing from the lock file.
        pins = versions.get(_normalized_name(wanted.name))
        fits = pins is not None and all(wanted.specifier.contains(pin.version, prereleases=True) for pin in pins)
        if not fits and wanted.marker is None:
            raise ScriptRefusedError(path, f"{where} does not lock {wanted}; run uv lock --script {path} again")


def _requirements(path: str, where: str, texts: Iterable[str]) -> list[Requirement]:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - few scripts have packages

    found = []
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            first = str(error).splitlines()[0]
            raise ScriptRefusedError(path, f"{where}: {text[:200]!r} is not a requirement: {first}") from None
        if requirement.url is not None:
            raise ScriptRefusedError(path, _refusal(f"{where}: {requirement.name} comes from a URL"))
        found.append(requirement)
    return found


def _options(path: str, metadata: ScriptMetadata) -> Iterable[str]:
    for name, value in metadata.uv.items():
        where = f"tool.uv.{name}"
        if name in _TEXTS and isinstance(value, str):
            yield f"{name} = {_toml_string(value)}"
        elif name in _REQUIREMENTS and isinstance(value, list) and all(isinstance(each, str) for each in value):
            yield f"{name} = [{', '.join(_toml_string(str(each)) for each in _requirements(path, where, value))}]"
        else:
            raise ScriptRefusedError(path, _refusal(f"{where[:100]} is not an option that a script may set"))


def _refusal(what: str) -> str:
    return f"{what}; packages come only from the index in the settings ({ALLOW_HINT})"


def _specifier(path: str, text: str) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - as above

    try:
        return str(SpecifierSet(text))
    except InvalidSpecifier:
        raise ScriptRefusedError(path, f"requires-python: {text[:100]!r} is not a version range") from None


def _normalized_name(name: str) -> str:
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - as above

    return canonicalize_name(name)


def _toml_string(value: str) -> str:
    """Return a text as a basic string of TOML, whose escapes include those of JSON."""
    return json.dumps(value).replace("\x7f", "\\u007f")
