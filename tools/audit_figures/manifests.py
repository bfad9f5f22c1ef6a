r"""Read labelled skills from manifests.

A manifest has several skills, so that the repository contains no hostile folder that an agent could load:

    %% case NAME hostile RULE[|RULE][,RULE…] [also=RULE,…] [folder=NAME] [siblings=NAME,…]
    %% file PATH [hex|zip|link|fault]
    CONTENT

A case is `hostile` (an attack), `quality` (weak, not an attack) or `benign` (nothing to find). The rules are those that
must find it: of `A|B` one is enough; those of `also` are right as well. The content of a file is text; `hex` digits;
lines NAME=TEXT of a `zip`; the target of a `link`; or why a file cannot be read (`fault`).

In texts, `\uXXXX` stands for a character, and `@{…}` for what should not stand in the repository itself:
`@{token:PREFIX:LENGTH}` is a made-up secret (`d` behind the length allows digits only, `u` upper-case letters and
digits), `@{pem}` a made-up private key, `@{tags:TEXT}` a text in invisible tag characters, `@{base64:TEXT}` an encoded
text; `@{newlines:N}`, `@{blanks:N}` and `@{lines:N:TEXT}` repeat.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skills_core.audit.skill import AuditedFile, SkillUnderAudit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Case", "Kind", "Part", "read_cases"]

_FOLDER: Final = Path(__file__).with_name("cases")

_HEADER = re.compile(r"^%% case (\S+) (hostile|quality|benign)(?: (?!\w+=)(\S+))?((?: \w+=\S+)*)$")
_FILE = re.compile(r"^%% file (\S+)(?: (hex|zip|link|fault))?$")
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")
_DIRECTIVE = re.compile(r"@\{(\w+)(?::([^}]*))?\}")

_FRONTMATTER = """---
name: {name}
description: Format tables of figures in Markdown files. Use when the user asks for a table or wants one corrected.
---
"""

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class Kind(StrEnum):
    """What a case shows."""

    HOSTILE = "hostile"
    QUALITY = "quality"
    BENIGN = "benign"


class Part(StrEnum):
    """Which part of the set a case belongs to; no rule was changed for one that is held out."""

    TRAIN = "train"
    HELD_OUT = "held_out"


@dataclass(frozen=True)
class Case:
    """A labelled skill: of each group in `expected`, one rule must find it; those in `also` are right if they do."""

    name: str
    part: Part
    kind: Kind
    expected: tuple[tuple[str, ...], ...]
    also: frozenset[str]
    skill: SkillUnderAudit


def read_cases() -> tuple[Case, ...]:
    """Return all cases."""
    return tuple(case for part in Part for path in sorted((_FOLDER / part).glob("*.cases")) for case in _of(path, part))


def _of(path: Path, part: Part) -> Iterator[Case]:
    text = path.read_text(encoding="utf-8")
    for block in re.split(r"(?m)^(?=%% case )", text):
        if block:
            yield _case(block, part)


def _case(block: str, part: Part) -> Case:
    first, _, rest = block.partition("\n")
    header = _HEADER.match(first)
    if header is None:
        raise ValueError(f"{first!r}: expected `%% case NAME KIND [RULES] [OPTION=VALUE]`")
    name, kind, rules, settings = header.groups()
    options = {key: _decoded(value) for key, _, value in (each.partition("=") for each in settings.split())}
    folder = options.get("folder", "tables")
    files = [_file(each, folder) for each in re.split(r"(?m)^(?=%% file )", rest) if each.strip()]
    skill = replace(SkillUnderAudit.of(folder, files), siblings=_names(options, "siblings"))
    expected = tuple(tuple(each.split("|")) for each in rules.split(",")) if rules else ()
    return Case(name, part, Kind(kind), expected, _names(options, "also"), skill)


def _names(options: Mapping[str, str], key: str) -> frozenset[str]:
    return frozenset(options.get(key, "").split(",")) - {""}


def _file(block: str, folder: str) -> AuditedFile:
    first, _, content = block.partition("\n")
    header = _FILE.match(first)
    if header is None:
        raise ValueError(f"{first!r}: expected `%% file PATH [hex|zip|link|fault]`")
    path, form = header[1], header[2]
    content = content.rstrip("\n")
    if form == "hex":
        return AuditedFile(path, bytes.fromhex(content))
    if form == "zip":
        return AuditedFile(path, _zipped(content))
    if form == "link":
        return AuditedFile(path, fault="a symbolic link, which is not followed", link=content)
    if form == "fault":
        return AuditedFile(path, fault=content)
    text = _decoded(content) + "\n"
    if path == "SKILL.md" and not text.startswith("---\n"):
        text = _FRONTMATTER.format(name=folder) + text
    return AuditedFile(path, text.encode())


def _zipped(content: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for line in content.splitlines():
            name, _, text = line.partition("=")
            archive.writestr(zipfile.ZipInfo(name), text)
    return packed.getvalue()


def _decoded(text: str) -> str:
    text = _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text)
    return _DIRECTIVE.sub(lambda match: _DIRECTIVES[match[1]](match[2] or ""), text)


def _token(argument: str) -> str:
    """Return a made-up secret, always the same for the same argument."""
    prefix, _, length = argument.rpartition(":")
    alphabet = {"d": _LETTERS[52:], "u": _LETTERS[:26] + _LETTERS[52:]}.get(length[-1], _LETTERS)
    return prefix + "".join(alphabet[byte % len(alphabet)] for byte in _stream(argument, int(length.rstrip("du"))))


def _stream(seed: str, length: int) -> bytes:
    return hashlib.shake_256(seed.encode()).digest(length)


def _pem(_: str) -> str:
    data = base64.b64encode(_stream("pem", 384)).decode()
    lines = "\n".join(data[start : start + 64] for start in range(0, len(data), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----"


def _repeated(argument: str) -> str:
    count, _, text = argument.partition(":")
    return "\n".join([text] * int(count))


_DIRECTIVES: Final[Mapping[str, Callable[[str], str]]] = {
    "token": _token,
    "pem": _pem,
    "tags": lambda text: "".join(chr(0xE0000 + ord(char)) for char in text),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "newlines": lambda count: "\n" * int(count),
    "blanks": lambda count: " " * int(count),
    "lines": _repeated,
}
