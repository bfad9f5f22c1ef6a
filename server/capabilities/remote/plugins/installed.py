"""What is installed as a plugin: where its skills come from, which versions they have, and the digest of each file.

What a user names is an MCP server, a folder, an archive, or a git repository; what the text looks like decides. A web
address is that of a server, unless it is plainly one of a git repository.

What was installed is noted in the plugin's folder, hidden, so that it is replaced together with the skills. It holds no
credentials: the address is noted without user, password and query, and headers are not.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct, ValidationError, convert, to_builtins

from server.config.values import home_path
from server.wire.address import Address, AddressError
from skills_core.diagnostics import Reason, one_line
from skills_core.disk.files import Location, read_file
from skills_core.disk.writing import json_bytes, parse_json
from skills_core.errors import Fault, FileRefusedError, SkillsError

_EXPECTED: Final = (
    "expected the URL of an MCP server (https://example.com/mcp), a folder, an archive (.zip, .tar.gz) or a git "
    "repository (https://example.com/skills.git, git@example.com:skills.git, ssh://, file://)"
)
_GIT_SCHEMES: Final = ("https", "http", "ssh", "git", "file")
_CODE_HOSTS: Final = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
# Pages of repositories there are what people copy, and none of these hosts serves MCP under such a path.

_SCHEME: Final = re.compile(r"(git\+)?([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_SCP: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]*@{_HOST}:(?![-:/\\])[^\x00-\x20\x7f]+")
_HOST_NAME: Final = re.compile(rf"{_HOST}|[0-9A-Fa-f:]+")
_NOT_IN_URL: Final = re.compile(r"[\x00-\x20\x7f\\]")
_REF: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./+@#-]*[A-Za-z0-9_+@#-])?")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class OriginKind(StrEnum):
    """The kind of an origin, as a plugin's receipt has it."""

    SERVER = "server"
    FOLDER = "folder"
    ARCHIVE = "archive"
    GIT = "git"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOrigin:
    """Where a plugin comes from; `shown` names it in messages and in the receipt, without secrets.

    `address` is that of a server, `path` that of a folder or archive. `url` is what git is given, with `headers` for
    the repository's host; `ref` names a branch, tag or commit, None for the repository's own choice.
    """

    kind: OriginKind
    shown: str
    address: Address | None = None
    path: Path | None = None
    url: str = ""
    ref: str | None = None
    headers: tuple[str, ...] = field(default=(), repr=False)


def parse_origin(
    text: str, headers: Sequence[str] = (), ref: str | None = None, kind: OriginKind | None = None
) -> PluginOrigin:
    """Return the origin that a user names; `kind` is that of a receipt, which is not guessed again.

    Raises:
        AddressError: the text names none, or a header or the ref is not for this kind.
    """
    if ref is not None and (_REF.fullmatch(ref) is None or ".." in ref or "@{" in ref or "//" in ref):
        raise AddressError(f"--ref: expected a branch, a tag or a whole commit ID, found '{one_line(ref[:80])}'")
    kind = kind or _kind_of(text)
    if kind is OriginKind.GIT:
        return _git(text, headers, ref)
    if ref is not None:
        raise AddressError(f"--ref is for git repositories; {one_line(text[:200])} is a {kind}")
    if kind is OriginKind.SERVER:
        address = Address.parse(text, headers)
        return PluginOrigin(kind=kind, shown=address.shown, address=address)
    if headers:
        raise AddressError(f"--header is for servers and repositories; {one_line(text[:200])} is a {kind}")
    path = home_path(text).resolve()
    return PluginOrigin(kind=kind, shown=str(path), path=path)


def _kind_of(text: str) -> OriginKind:
    if found := _SCHEME.match(text):
        prefix, scheme = found[1], found[2].lower()
        if prefix or scheme in {"ssh", "git", "file"}:
            return OriginKind.GIT
        if scheme not in {"http", "https"}:
            raise AddressError(f"{_EXPECTED}; found the scheme '{one_line(scheme[:40])}'")
        return OriginKind.GIT if _is_repository(text) else OriginKind.SERVER
    path = home_path(text)
    try:
        if text and path.is_dir():
            return OriginKind.FOLDER
        if path.is_file():
            return OriginKind.ARCHIVE
    except (OSError, ValueError):
        pass
    if _SCP.fullmatch(text):
        return OriginKind.GIT
    raise AddressError(f"{_EXPECTED}; there is no file or folder '{one_line(text[:200])}'")


def _is_repository(url: str) -> bool:
    """Tell whether a web address is one of git: by its ending, or because it is a repository's page."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return False
    names = [name for name in parts.path.split("/") if name]
    if parts.path.lower().endswith((".zip", ".tar", ".tar.gz", ".tgz")):
        raise AddressError(f"{one_line(url[:200])}: archives are read from disk; download it, and name the file")
    return parts.path.rstrip("/").endswith(".git") or (host in _CODE_HOSTS and len(names) == len(("owner", "name")))


def _git(text: str, headers: Sequence[str], ref: str | None) -> PluginOrigin:
    if _SCP.fullmatch(text):
        if headers:
            raise AddressError("--header is for repositories at https addresses")
        return PluginOrigin(kind=OriginKind.GIT, shown=text, url=text, ref=ref)
    url = text.removeprefix("git+")
    try:
        parts = urlsplit(url)
        host, port, user, password = parts.hostname or "", parts.port, parts.username, parts.password
    except ValueError as error:
        raise AddressError(f"{_EXPECTED}: {one_line(str(error))}") from None
    fault = _url_fault(url, parts.scheme, host, user)
    if fault or parts.query or parts.fragment:
        fault = fault or "it has a query or a fragment; name a branch, tag or commit with --ref"
        raise AddressError(f"{one_line(_without_user(url)[:200])} is not an address that git is given: {fault}")
    name = f"[{host}]" if ":" in host else host
    place = f"{name}{'' if port is None else f':{port}'}{parts.path}"
    is_web = parts.scheme in {"http", "https"}
    if headers and not is_web:
        raise AddressError("--header is for repositories at https addresses")
    known = Address.parse(f"{parts.scheme}://{place}", headers).headers if is_web else ()
    sent = [f"{each}: {value}" for each, value in known]
    if is_web and (user or password):
        # Not part of the command, which other users of the machine can see.
        pair = f"{unquote(user or '')}:{unquote(password or '')}"
        sent.append(f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    own = f"{user}@" if user and not is_web else ""
    clean = f"{parts.scheme}://{own}{place}"
    return PluginOrigin(kind=OriginKind.GIT, shown=clean, url=clean, ref=ref, headers=tuple(sent))


def _url_fault(url: str, scheme: str, host: str, user: str | None) -> str:
    """Return why git is not given a URL; empty if it is."""
    is_file = scheme == "file"
    checks = {
        f"expected one of the schemes {', '.join(_GIT_SCHEMES)}": scheme not in _GIT_SCHEMES,
        "it has blanks, control characters or backslashes": _NOT_IN_URL.search(url) is not None,
        "expected file:///path, without a host": is_file and host not in {"", "localhost"},
        "expected the name of a host": not is_file and _HOST_NAME.fullmatch(host) is None,
        "the name of the user begins with a hyphen": user is not None and user.startswith("-"),
        "http is not encrypted, so anyone on the way could change the skills; use https": scheme == "http"
        and host not in _LOOPBACK,
    }
    return next((why for why, is_wrong in checks.items() if is_wrong), "")


def _without_user(url: str) -> str:
    return re.sub(r"://[^/@]*@", "://", url)


RECEIPT_FILE = ".skillserve-plugin.json"

_MAX_RECEIPT = 64 * 1024 * 1024


class PluginError(SkillsError):
    """A plugin cannot be used, installed or removed; `reason` and `message` say why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class SkillReceipt(Struct, frozen=True):
    """One skill: its version in the frontmatter, and a digest over the paths and digests of its files.

    `folder` is its place below the plugin's `skills` folder; that of a nested skill lies in that of another one.
    """

    uri: str
    name: str
    folder: str
    version: str | None
    digest: str


class PluginReceipt(Struct, frozen=True):
    """What was installed from `server`, and when; `chosen` are the URIs of the chosen skills, None for all.

    `kind` tells what `server` names: an MCP server, a folder, an archive or a git repository. For a repository, `ref`
    is the branch, tag or commit that updates follow, None for its own choice, and `commit` what was installed.

    `files` maps the path of each file in the plugin's folder to its digest. Times are UTC, in the format of ISO 8601.
    """

    server: str
    chosen: tuple[str, ...] | None
    installed: str
    updated: str
    skills: tuple[SkillReceipt, ...]
    files: dict[str, str]
    version: Literal[1] = 1
    kind: OriginKind = OriginKind.SERVER
    ref: str | None = None
    commit: str | None = None


def read_receipt(folder: Path) -> PluginReceipt:
    """Return the receipt in a plugin's folder.

    Raises:
        PluginError: there is none, or it cannot be read.
    """
    try:
        raw, _ = read_file(Location(folder, RECEIPT_FILE), _MAX_RECEIPT)
        return convert(parse_json(raw, RECEIPT_FILE), PluginReceipt)
    except FileRefusedError as error:
        if error.fault is Fault.ABSENT:
            message = "skillserve did not install this folder and leaves it alone; move it away, or take another name"
            raise PluginError(Reason.FOLDER_TAKEN, message) from None
        problem = error.message
    except ValidationError as error:
        problem = str(error)
    message = f"its {RECEIPT_FILE} cannot be read: {problem}; move the folder away, and install the plugin again"
    raise PluginError(Reason.UNREADABLE, message)


def write_receipt(folder: Path, receipt: PluginReceipt) -> None:
    """Write the receipt into a plugin's folder that has none.

    Raises:
        OSError: it cannot be written.
    """
    with (folder / RECEIPT_FILE).open("xb") as stream:
        stream.write(json_bytes(to_builtins(receipt)))
