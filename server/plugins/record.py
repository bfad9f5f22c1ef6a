"""The record of a plugin: where its skills come from, which versions they have, and the digest of each file.

It lies in the plugin's folder, hidden, so that it is replaced together with the skills. It holds no credentials: the
address is recorded without user, password and query, and headers are not recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct, ValidationError, convert, to_builtins

from server.plugins.origins import OriginKind
from skills_core.diagnostics import Reason
from skills_core.disk.files import Location, read_file
from skills_core.disk.json_files import json_bytes, parse_json
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.system_faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["RECORD_FILE", "PluginError", "PluginRecord", "SkillRecord", "read_record", "write_record"]

RECORD_FILE = ".skillserve-plugin.json"

_MAX_RECORD = 64 * 1024 * 1024


class PluginError(SkillsError):
    """A plugin cannot be used, installed or removed; `reason` and `message` say why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class SkillRecord(Struct, frozen=True):
    """One skill: its version in the frontmatter, and a digest over the paths and digests of its files.

    `folder` is its place below the plugin's `skills` folder; that of a nested skill lies in that of another one.
    """

    uri: str
    name: str
    folder: str
    version: str | None
    digest: str


class PluginRecord(Struct, frozen=True):
    """What was installed from `server`, and when; `chosen` are the URIs of the chosen skills, None for all.

    `kind` tells what `server` names: an MCP server, a folder, an archive or a git repository. For a repository, `ref`
    is the branch, tag or commit that updates follow, None for its own choice, and `commit` what was installed.

    `files` maps the path of each file in the plugin's folder to its digest. Times are UTC, in the format of ISO 8601.
    """

    server: str
    chosen: tuple[str, ...] | None
    installed: str
    updated: str
    skills: tuple[SkillRecord, ...]
    files: dict[str, str]
    version: Literal[1] = 1
    kind: OriginKind = OriginKind.SERVER
    ref: str | None = None
    commit: str | None = None


def read_record(folder: Path) -> PluginRecord:
    """Return the record in a plugin's folder.

    Raises:
        PluginError: there is none, or it cannot be read.
    """
    try:
        raw, _ = read_file(Location(folder, RECORD_FILE), _MAX_RECORD)
        return convert(parse_json(raw, RECORD_FILE), PluginRecord)
    except FileRefusedError as error:
        if error.fault is Fault.ABSENT:
            message = "skillserve did not install this folder and leaves it alone; move it away, or take another name"
            raise PluginError(Reason.FOLDER_TAKEN, message) from None
        problem = error.message
    except ValidationError as error:
        problem = str(error)
    message = f"its {RECORD_FILE} cannot be read: {problem}; move the folder away, and install the plugin again"
    raise PluginError(Reason.UNREADABLE, message)


def write_record(folder: Path, record: PluginRecord) -> None:
    """Write the record into a plugin's folder that has none.

    Raises:
        OSError: it cannot be written.
    """
    with (folder / RECORD_FILE).open("xb") as stream:
        stream.write(json_bytes(to_builtins(record)))
