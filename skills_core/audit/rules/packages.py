"""Packages that a skill installs: without a version, under a name that imitates another, from elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from skills_core.audit.context import severity_at
from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.skill.package_names import Package, packages_of_command, packages_of_manifests
from skills_core.audit.skill.popular_packages import imitated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.code.shell_code import Command
    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_INDEX_OPTIONS = frozenset(
    {"-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links", "--registry"}
)
_INSTALLERS = frozenset(
    {
        "pip",
        "pip3",
        "uv",
        "uvx",
        "pipx",
        "poetry",
        "pdm",
        "npm",
        "npx",
        "pnpm",
        "yarn",
        "bun",
        "bunx",
        "python",
        "python3",
    }
)
_KNOWN_HOSTS = frozenset(
    {
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("pytorch", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("jsr", "io"),
        ("pypi", "nvidia", "com"),
        ("data", "pyg", "org"),
    }
)
# By their labels; hosts below them count too.

_INDEX_LINES = re.compile(
    r"^[ \t]*(?:--?(?:index-url|extra-index-url|find-links|i)[ =]+|(?:@[\w-]+:)?registry[ \t]*=[ \t]*"
    r"|(?:extra-)?index-url[ \t]*=[ \t]*)[\"']?((?:https?|ftp)://[^\s\"']+)",
    re.MULTILINE,
)
_INDEX_FILES = re.compile(
    r"(?:^|/)(?:[^/]*requirements[^/]*\.(?:txt|in)|\.npmrc|\.yarnrc(?:\.yml)?|pip\.(?:conf|ini)|\.pypirc)$"
)
_CODE_HOSTS = re.compile(
    r"^(?:git\+)?(?:https|ssh|git)://(?:git@)?(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)/|^(?:github|gitlab):"
)
_SHOWN = 4
# Names of packages in one message.

_COMMIT = re.compile(r"[@#][0-9a-f]{7,40}(?:#|$)|[@#]v?\d+\.\d")


def _commands(skill: SkillUnderAudit) -> Iterator[tuple[AuditedFile, Command]]:
    for file in skill.texts:
        for unit in file.code:
            for pipeline in unit.pipelines:
                for command in pipeline.commands:
                    yield file, command


def _packages(skill: SkillUnderAudit) -> Iterator[Package]:
    for file, command in _commands(skill):
        yield from packages_of_command(file, command)


def _unpinned(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, command in _commands(skill):
        found = [
            each
            for each in packages_of_command(file, command)
            if not (each.pinned or each.is_address or each.is_recorded)
        ]
        if found:
            names = " ".join(package.name for package in found[:_SHOWN]) + (" …" if len(found) > _SHOWN else "")
            yield Hit(file, f"`{found[0].command} {names}` takes whatever version is the newest", found[0].start)


def _typosquats(skill: SkillUnderAudit) -> Iterator[Hit]:
    for package in (*_packages(skill), *packages_of_manifests(skill)):
        rival = None if package.is_address else imitated(package.ecosystem, package.name)
        if rival is not None:
            severity = severity_at(skill, package.file, package.start, Severity.ERROR)
            yield Hit(
                package.file, f"the package {package.name!r} has almost the name of {rival!r}", package.start, severity
            )


def _foreign(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, start, address in (*_option_addresses(skill), *_manifest_addresses(skill)):
        yield Hit(file, f"takes packages from {address}", start, severity_at(skill, file, start, Severity.ERROR))
    for package in (*_packages(skill), *packages_of_manifests(skill)):
        if package.is_address and not (_CODE_HOSTS.match(package.name) and _COMMIT.search(package.name)):
            severity = Severity.WARNING if _CODE_HOSTS.match(package.name) or not package.command else Severity.ERROR
            severity = severity_at(skill, package.file, package.start, severity)
            yield Hit(package.file, f"takes a package from {package.name}", package.start, severity)


def _is_known(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    labels = tuple(parts.netloc.lower().split("."))
    return parts.scheme == "https" and bool({labels[-2:], labels[-3:]} & _KNOWN_HOSTS)


def _option_addresses(skill: SkillUnderAudit) -> Iterator[tuple[AuditedFile, int, str]]:
    for file, command in _commands(skill):
        if command.name not in _INSTALLERS:
            continue
        option = ""
        for word in command.arguments:
            name, _, value = word.text.partition("=")
            address = word.text if option in _INDEX_OPTIONS else value if name in _INDEX_OPTIONS else ""
            if "://" in address and not _is_known(address):
                yield file, word.start, address
            option = word.text


def _manifest_addresses(skill: SkillUnderAudit) -> Iterator[tuple[AuditedFile, int, str]]:
    for file in skill.texts:
        if _INDEX_FILES.search(file.path):
            for match in _INDEX_LINES.finditer(file.text or ""):
                if not _is_known(match[1]):
                    yield file, match.start(1), match[1]


RULES = (
    Rule(
        "unpinned-command",
        Severity.NOTE,
        "Package without a version",
        "The command does something else when the package changes, or when its account is stolen.",
        "Name the version: `uvx ruff@0.8.0`, `npx eslint@9`, `pip install pypdf==5.1.0`.",
        _unpinned,
        3.0,
    ),
    Rule(
        "typosquat",
        Severity.ERROR,
        "Package with almost the name of a popular one",
        "Attackers publish packages under misspelt names and wait for somebody to install them.",
        "Correct the name, or suppress the finding with the reason why this package is meant.",
        _typosquats,
        8.0,
    ),
    Rule(
        "foreign-index",
        Severity.ERROR,
        "Packages from an unknown source",
        "The owner of the address decides what is installed, even under the names of other packages.",
        "Use the public registry; for a source of your own, suppress the finding and say whose it is.",
        _foreign,
        7.5,
    ),
)
