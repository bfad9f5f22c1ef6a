"""Installs the packages that a Python script requires, from the index in the settings alone.

The inline metadata of a script (PEP 723) names its requirements, as TOML in comments. uv creates one environment for
each set of requirements. This happens outside the sandbox, because it needs the network. So uv only unpacks wheels, and
no code of a package runs before the script does. It has neither the user's credentials nor configuration, see
`environment`.

A script could make uv send requests anywhere: with an index of its own, a URL instead of a version, or the URLs in a
lock file. So uv gets a sanitized script with only names, versions and markers.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.errors import ScriptRefusedError
from skills_core.scripts.process import Command, ProcessEnding, ProcessLimits, run_process

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_START = "# /// script"
_END = "# ///"

_MAX_CHARACTERS = 100_000
# Most characters of a block; requirements are shorter.


@dataclass(frozen=True, slots=True)
class ScriptMetadata:
    """The metadata of a script. `block` is the comment itself, with line feeds as line ends.

    `uv` holds the options for uv, unchecked.
    """

    block: str
    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    uv: Mapping[str, object] = field(default_factory=dict)


def read_metadata(path: str, raw: bytes) -> ScriptMetadata | None:
    """Return the metadata of the script `path` with the content `raw`, None if it has none.

    Raises:
        ScriptRefusedError: there are several blocks, or the block is invalid.
    """
    if _START.encode() not in raw:
        return None
    blocks = _blocks(raw.decode("utf-8-sig", errors="replace"))
    if not blocks:
        return None
    if len(blocks) > 1:
        raise ScriptRefusedError(path, f"it has {len(blocks)} blocks `{_START}`; expected one")
    block = blocks[0]
    if len(block) > _MAX_CHARACTERS:
        raise ScriptRefusedError(path, f"its block `{_START}` has more than {_MAX_CHARACTERS} characters")
    text = "".join(f"{line[2:]}\n" for line in block.splitlines()[1:-1])
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScriptRefusedError(path, f"its block `{_START}` is not valid TOML: {str(error)[:200]}") from None
    dependencies, python = found.get("dependencies", []), found.get("requires-python")
    if not isinstance(dependencies, list) or not all(isinstance(each, str) for each in dependencies):
        raise ScriptRefusedError(path, "dependencies: expected a list of strings")
    if python is not None and not isinstance(python, str):
        raise ScriptRefusedError(path, "requires-python: expected a string")
    tool = found.get("tool", {})
    uv = tool.get("uv", {}) if isinstance(tool, dict) else None
    if not isinstance(uv, dict):
        raise ScriptRefusedError(path, "tool.uv: expected a table")
    return ScriptMetadata(block, tuple(dependencies), python, uv)


def _blocks(text: str) -> list[str]:
    """Return all blocks; each extends to the last end marker in its unbroken run of comments."""
    blocks: list[str] = []
    lines = [line.rstrip("\r") for line in text.split("\n")]
    at = 0
    while at < len(lines):
        if lines[at] != _START:
            at += 1
            continue
        stop = at + 1
        while stop < len(lines) and (lines[stop] == "#" or lines[stop].startswith("# ")):
            stop += 1
        ends = [index for index in range(at + 1, stop) if lines[index] == _END]
        if ends:
            blocks.append("".join(f"{line}\n" for line in lines[at : ends[-1] + 1]))
        at = stop
    return blocks


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


_MAX_ERROR_TEXT = 2000
_MAX_OUTPUT = 1_000_000

_EXPORT = ("export", "--quiet", "--offline", "--frozen", "--no-header", "--no-annotate", "--format", "requirements.txt")
_INSTALL = ("pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-build")


@dataclass(frozen=True, slots=True)
class PackageInstaller:
    """Runs uv for scripts.

    `cache` is a folder for stand-in scripts. `environment` is uv's complete environment. `any_source` permits scripts
    to name the sources of their packages.
    """

    uv: Path
    cache: Path
    environment: Mapping[str, str]
    seconds: float
    any_source: bool = False

    async def python_for(self, path: str, metadata: ScriptMetadata, lock: bytes | None) -> Path:
        """Return a Python with the packages that the script `path` requires.

        `lock` is the content of the lock file beside the script, None if there is none.

        Raises:
            ScriptRefusedError: uv cannot or must not provide them.
        """
        if self.any_source:
            script = await self._stand_in(metadata.block, lock)
            await self._run(path, script, "sync", "--quiet", "--no-build", "--script", str(script))
            return await self._python(path, script)
        plain = sanitized_block(path, metadata)
        if lock is None:
            script = await self._stand_in(plain)
            await self._run(path, script, "sync", "--quiet", "--no-build", "--script", str(script))
            return await self._python(path, script)
        return await self._locked(path, metadata, plain, lock)

    async def _locked(self, path: str, metadata: ScriptMetadata, plain: str, lock: bytes) -> Path:
        """Install the packages of a lock file by version and hash; the sources in the file are ignored."""
        locked = await self._stand_in(plain, lock)
        exported = await self._run(path, locked, *_EXPORT, "--script", str(locked))
        check_lock(path, metadata, exported.decode(errors="replace"))
        # The mark gives each lock file an environment of its own, which starts empty.
        mark = f"# {hashlib.sha256(lock).hexdigest()}\n"
        empty = await self._stand_in(mark + sanitized_block(path, metadata, dependencies=False))
        requirements = empty.with_name("requirements.txt")
        await anyio.to_thread.run_sync(_write, requirements, exported)
        await self._run(path, empty, "sync", "--quiet", "--inexact", "--no-build", "--script", str(empty))
        python = await self._python(path, empty)
        await self._run(path, empty, *_INSTALL, "--python", str(python), "--requirement", str(requirements))
        return python

    async def _python(self, path: str, script: Path) -> Path:
        found = await self._run(path, script, "python", "find", "--script", str(script))
        return Path(os.fsdecode(found.strip()))

    async def _run(self, path: str, script: Path, *words: str) -> bytes:
        limits = ProcessLimits(self.seconds, _MAX_OUTPUT)
        done = await run_process(Command((str(self.uv), *words), script.parent, self.environment), limits)
        if done.ending is not ProcessEnding.EXITED or done.exit_code != 0:
            why = done.fault or done.stderr.decode(errors="replace").strip()[:_MAX_ERROR_TEXT] or done.ending.value
            raise ScriptRefusedError(path, f"uv cannot provide the packages that it needs: {why}")
        return done.stdout

    async def _stand_in(self, content: str, lock: bytes | None = None) -> Path:
        # uv keeps an environment for each path of a script, and the private copy has another path each time.
        return await anyio.to_thread.run_sync(_stand_in, self.cache, content, lock)


def _stand_in(cache: Path, content: str, lock: bytes | None) -> Path:
    """Return an empty script with the same requirements; uv reads a lock file beside it."""
    digest = hashlib.sha256(content.encode() + b"\0" + (lock or b"")).hexdigest()[:32]
    folder = cache / digest
    script = folder / "script.py"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if lock is not None:
            _write(folder / "script.py.lock", lock)
        _write(script, content.encode())
    return script


def _write(target: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(target)
