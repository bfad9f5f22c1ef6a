"""Where the packages of a script may come from: the index of the settings, and nothing that the script names itself.

uv runs outside of the sandbox, with the network. A script could have it send requests anywhere: by an index of its
own, a URL in place of a version, or the URLs of a lock file. So uv gets a stand-in made of names, versions and markers.
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
# Options of uv that only choose among the versions which the index has.


def sanitized_block(path: str, metadata: ScriptMetadata, *, dependencies: bool = True) -> str:
    """Return a block of metadata that asks for the same packages by name and version, from no place.

    Without `dependencies` it asks for the same Python alone.

    Raises:
        ScriptRefusedError: the script `path` says where a package comes from, or what it says cannot be read.
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
    """See that a lock file, as uv exports it, has what the script needs, by name and version alone.

    Raises:
        ScriptRefusedError: it does not, or it says where a package comes from.
    """
    where = f"{path}.lock"
    lines = [line.split(" --hash=")[0] for line in exported.replace("\\\n", " ").splitlines()]
    stripped = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    locked = _requirements(path, where, stripped)
    versions = {_normalized_name(each.name): each.specifier for each in locked}
    for wanted in _requirements(path, "dependencies", metadata.dependencies):
        # A marker that does not hold here may keep it out of the lock file.
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
            raise ScriptRefusedError(path, f"{where}: {text[:200]!r} is no requirement: {first}") from None
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
            raise ScriptRefusedError(path, _refusal(f"{where[:100]} is not among what a script may set"))


def _refusal(what: str) -> str:
    return f"{what}; packages come from the index of the settings alone ({ALLOW_HINT})"


def _specifier(path: str, text: str) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - as above

    try:
        return str(SpecifierSet(text))
    except InvalidSpecifier:
        raise ScriptRefusedError(path, f"requires-python: {text[:100]!r} is no range of versions") from None


def _normalized_name(name: str) -> str:
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - as above

    return canonicalize_name(name)


def _toml_string(value: str) -> str:
    """Return a text as a basic string of TOML, which takes the escapes of JSON, on one line."""
    return json.dumps(value).replace("\x7f", "\\u007f")
