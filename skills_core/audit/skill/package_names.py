"""Packages that commands and manifests install, with the place of each."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skills_core.audit.code.shell_code import Command, Word
    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["Ecosystem", "Package", "packages_of_command", "packages_of_manifests"]


class Ecosystem(StrEnum):
    """Where a package comes from."""

    PYTHON = "PyPI"
    NODE = "npm"
    GO = "Go"


@dataclass(frozen=True, slots=True)
class Package:
    """One package: its name, whether its version is fixed, and its place.

    `command` is what installs it, empty in a manifest. `is_address` tells that the name is an address, `is_recorded`
    that the command writes the version that it takes into the lock file of a project.
    """

    ecosystem: Ecosystem
    name: str
    pinned: bool
    file: AuditedFile
    start: int
    command: str = ""
    is_address: bool = False
    is_recorded: bool = False


@dataclass(frozen=True, slots=True)
class _Installer:
    """A program that installs packages: its first words, and its options that take a value or name a package."""

    words: tuple[str, ...]
    ecosystem: Ecosystem
    runs: bool
    valued: frozenset[str]
    sources: frozenset[str] = frozenset()
    records: bool = False


_PIP_VALUED_TEXT = """
-r --requirement -c --constraint -e --editable -i --index-url --extra-index-url --index --default-index -f
--find-links -t --target --python -p --prefix --root --platform --trusted-host --proxy --group --extra
--optional --cache-dir --config-settings --python-version
"""
_PIP_VALUED = frozenset(_PIP_VALUED_TEXT.split())
_NODE_VALUED_TEXT = """
--registry --prefix -w --workspace -c --call --cwd --cache --tag --filter --userconfig --dir -C
"""
_NODE_VALUED = frozenset(_NODE_VALUED_TEXT.split())
_INSTALLERS = (
    *(
        _Installer((*words, "install"), Ecosystem.PYTHON, runs=False, valued=_PIP_VALUED)
        for words in (
            ("pip",),
            ("pip3",),
            ("python", "-m", "pip"),
            ("python3", "-m", "pip"),
            ("uv", "pip"),
            ("uv", "tool"),
            ("pipx",),
            ("uv", "pip3"),
        )
    ),
    *(
        _Installer(words, Ecosystem.PYTHON, runs=False, valued=_PIP_VALUED, records=True)
        for words in (("uv", "add"), ("poetry", "add"), ("pdm", "add"))
    ),
    *(
        _Installer(
            words,
            Ecosystem.PYTHON,
            runs=True,
            valued=_PIP_VALUED | {"--from", "--with", "--spec"},
            sources=frozenset({"--from", "--spec"}),
        )
        for words in (("uvx",), ("uv", "tool", "run"), ("pipx", "run"))
    ),
    *(
        _Installer((tool, verb), Ecosystem.NODE, runs=False, valued=_NODE_VALUED, records=True)
        for tool, verbs in {
            "npm": "install i add",
            "yarn": "add",
            "pnpm": "add install i",
            "bun": "add install i",
        }.items()
        for verb in verbs.split()
    ),
    _Installer(("yarn", "global", "add"), Ecosystem.NODE, runs=False, valued=_NODE_VALUED),
    *(
        _Installer(
            words,
            Ecosystem.NODE,
            runs=True,
            valued=_NODE_VALUED | {"-p", "--package"},
            sources=frozenset({"-p", "--package"}),
        )
        for words in (("npx",), ("bunx",), ("pnpm", "dlx"), ("yarn", "dlx"), ("pnpx",), ("npm", "exec"), ("bun", "x"))
    ),
    *(
        _Installer(("go", verb), Ecosystem.GO, runs=True, valued=frozenset({"-C", "-mod", "-tags"}))
        for verb in ("run", "install")
    ),
    _Installer(("deno", "run"), Ecosystem.NODE, runs=True, valued=frozenset({"--config", "-c"})),
)
_BY_FIRST: dict[str, list[_Installer]] = {}
for _each in sorted(_INSTALLERS, key=lambda installer: -len(installer.words)):
    _BY_FIRST.setdefault(_each.words[0], []).append(_each)

_GLOBAL = frozenset({"-g", "--global"})

_LOCAL = re.compile(r"^(?:\.|/|~|\$|-|<|\{|\*|[A-Za-z]:\\)|\.(?:whl|tgz|txt|toml|zip|js|mjs|ts|py|go)$")
_ADDRESS = re.compile(r"^(?:git\+)?(?:https?|ssh|git|ftp)://|^git@|^(?:github|gitlab):")
_PYTHON_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(?P<version>[=<>~!@].*)?$")
_NODE_NAME = re.compile(r"^(?:npm:)?((?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*)(?:@(?P<version>.+))?$")
_GO_NAME = re.compile(r"^([\w-]+(?:\.[\w-]+)+/[^@\s]+)(?:@(?P<version>.+))?$")
_NAMES = {Ecosystem.PYTHON: _PYTHON_NAME, Ecosystem.NODE: _NODE_NAME, Ecosystem.GO: _GO_NAME}
_FLOATING = frozenset({"latest", "next", "beta", "alpha", "canary", "*", "x", "main", "master"})
_OFFLINE = frozenset({"--no-install", "--no", "--offline"})
# Options with which a program only runs what is installed.

_INLINE_METADATA = re.compile(r"^# /// script[ \t]*\n((?:#[^\n]*\n)+?)# ///", re.MULTILINE)
_REQUIREMENT = re.compile(r"^[ \t]*([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]\n]*\])?[^\n#;]*)", re.MULTILINE)
_NODE_TABLES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")


def packages_of_command(file: AuditedFile, command: Command) -> Iterator[Package]:
    """Yield the packages that a shell command installs."""
    texts = tuple(word.text for word in command.words)
    names = (command.name, *texts[1:])
    for installer in _BY_FIRST.get(command.name, ()):
        if names[: len(installer.words)] == installer.words:
            recorded = installer.records and not _GLOBAL & set(texts)
            if not _OFFLINE & set(texts):
                for package in _installed(file, installer, command.words[len(installer.words) :]):
                    yield replace(package, is_recorded=recorded)
            return


def _installed(file: AuditedFile, installer: _Installer, words: tuple[Word, ...]) -> Iterator[Package]:
    named: list[Word] = []
    free: list[Word] = []
    option = ""
    for word in words:
        text = word.text
        if text == "--":
            continue
        if option in installer.valued:
            if option in installer.sources:
                named.append(word)
            option = ""
        elif text.startswith("-"):
            option, equals, value = text.partition("=")
            if equals and option in installer.sources:
                named.append(type(word)(value, value, word.start))
            option = "" if equals else option
        else:
            free.append(word)
            option = ""
            if installer.runs:
                break
    yield from _packages(file, installer, named or free)


def _packages(file: AuditedFile, installer: _Installer, words: Iterable[Word]) -> Iterator[Package]:
    command = " ".join(installer.words)
    for word in words:
        if _ADDRESS.match(word.text):
            yield Package(
                installer.ecosystem,
                word.text,
                pinned=False,
                file=file,
                start=word.start,
                command=command,
                is_address=True,
            )
        elif not _LOCAL.search(word.text) and (match := _NAMES[installer.ecosystem].match(word.text)):
            yield Package(installer.ecosystem, match[1], _is_pinned(match["version"]), file, word.start, command)


def _is_pinned(version: str | None) -> bool:
    return version is not None and version.strip() not in _FLOATING


def packages_of_manifests(skill: SkillUnderAudit) -> Iterator[Package]:
    """Yield the packages of requirement files, package.json, pyproject.toml and the inline metadata of scripts."""
    for file in skill.texts:
        text = file.text or ""
        if file.suffix == ".txt" and "requirements" in file.name:
            for match in _REQUIREMENT.finditer(text):
                yield from _python(file, match[1], match.start(1))
        elif file.name == "package.json":
            yield from _of_package(file, text)
        elif file.name == "pyproject.toml":
            yield from _of_table(file, _toml(text).get("project"), text)
        elif file.is_script and (block := _INLINE_METADATA.search(text)):
            source = "\n".join(line.removeprefix("#").removeprefix(" ") for line in block[1].split("\n"))
            yield from _of_table(file, _toml(source), text)


def _toml(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _of_table(file: AuditedFile, table: object, text: str) -> Iterator[Package]:
    dependencies = table.get("dependencies") if isinstance(table, dict) else None
    for each in dependencies if isinstance(dependencies, list) else ():
        if isinstance(each, str):
            yield from _python(file, each, max(text.find(each), 0))


def _python(file: AuditedFile, requirement: str, start: int) -> Iterator[Package]:
    match = _PYTHON_NAME.match(requirement.strip())
    if match:
        yield Package(Ecosystem.PYTHON, match[1], _is_pinned(match["version"]), file, start)


def _of_package(file: AuditedFile, text: str) -> Iterator[Package]:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return
    for table in _NODE_TABLES if isinstance(manifest, dict) else ():
        entries = manifest.get(table)
        for name, version in entries.items() if isinstance(entries, dict) else ():
            start = max(text.find(f'"{name}"'), 0)
            is_address = isinstance(version, str) and bool(_ADDRESS.match(version))
            yield Package(Ecosystem.NODE, name, _is_pinned(str(version)), file, start, is_address=is_address)
