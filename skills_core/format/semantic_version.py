"""Semantic versions (semver.org 2.0.0): `1.4.0-rc.1+build.7`, ordered by precedence.

`packaging` implements another standard, that of Python: it refuses most prereleases, and ranks builds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import total_ordering

__all__ = ["SemanticVersion", "parse_version"]

_MAX_LENGTH = 256
# Maximum characters of a version; npm has the same limit.

_NUMBER = r"0|[1-9][0-9]*"
_PRERELEASE = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_BUILD = r"[0-9A-Za-z-]+"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?(?:\+({_BUILD}(?:\.{_BUILD})*))?"
)


@total_ordering
@dataclass(frozen=True, slots=True)
class SemanticVersion:
    """A version; comparisons follow precedence, so builds are neither newer nor older than each other, but equal."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        core = f"{self.major}.{self.minor}.{self.patch}"
        prerelease = f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        return f"{core}{prerelease}+{'.'.join(self.build)}" if self.build else core + prerelease

    def __lt__(self, other: object) -> bool:
        return self._precedence < other._precedence if isinstance(other, SemanticVersion) else NotImplemented

    @property
    def _precedence(self) -> tuple[object, ...]:
        """The key to sort by: a release follows its prereleases, numbers precede texts, more identifiers win."""
        identifiers = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, identifiers)


def parse_version(text: str) -> SemanticVersion | None:
    """Parse a semantic version; None if the text is none, such as `v1.0.0`, `1.0` or `01.0.0`."""
    parts = _VERSION.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if parts is None:
        return None
    major, minor, patch, prerelease, build = parts.groups()
    return SemanticVersion(
        int(major),
        int(minor),
        int(patch),
        tuple(prerelease.split(".")) if prerelease else (),
        tuple(build.split(".")) if build else (),
    )
