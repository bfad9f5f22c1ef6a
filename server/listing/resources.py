"""The entries of `resources/list`, of folders and of the Skills extension (SEP-2640), and contents of resources."""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Mapping
from mimetypes import MimeTypes
from typing import TYPE_CHECKING, Any, TypeAlias

from server.capabilities import CAPABILITIES
from server.listing.envelope import COMPLETE
from server.wire.paging import Pager
from skills_core.diagnostics import printable
from skills_core.skills.skill import decode_path, file_uri
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from server.capability import ExtraResource
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill, SkillFile

Listed: TypeAlias = "tuple[Skill, str] | dict[str, Any]"
"""An item of the list: a file with its skill, or the entry of a resource that is not a file."""

TEMPLATE = "skill://{+skill}/{+path}"

EXTRA_URIS = frozenset(each.uri for one in CAPABILITIES for each in one.resources)
"""The URIs of resources that are not files of skills."""

META_PREFIX = "io.modelcontextprotocol.skills/"

_META_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
# The protocol allows these names after the prefix of a key in `_meta`.

_MAX_META = 1000
# Longest value in `_meta`, in characters of JSON.

_MAIN_PRIORITY = 1.0
_PRIORITY = 0.5

_TYPES = MimeTypes(filenames=())
# The tables of operating systems differ, so they are not used. Python's table lacks these types, which skills use.
for _suffix, _type in {
    ".md": "text/markdown",
    ".mdx": "text/markdown",
    ".py": "text/x-python",
    ".sh": "text/x-shellscript",
    ".bash": "text/x-shellscript",
    ".ps1": "text/x-powershell",
    ".rb": "text/x-ruby",
    ".go": "text/x-go",
    ".rs": "text/x-rust",
    ".java": "text/x-java",
    ".ts": "text/x-typescript",
    ".tsx": "text/x-typescript",
    ".jsx": "text/javascript",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".jsonl": "application/jsonl",
    ".sql": "application/sql",
    ".xsd": "application/xml",
    ".ttf": "font/ttf",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}.items():
    _TYPES.add_type(_type, _suffix)


def mime_type(file: SkillFile) -> str:
    """Return the MIME type for the file's suffix; if that is unknown, the one for text or binary data."""
    guessed = _TYPES.types_map[True].get(posixpath.splitext(file.path)[1].lower())
    return guessed or ("text/plain" if file.text else "application/octet-stream")


def describe(skill: Skill, file: SkillFile) -> dict[str, Any]:
    """Return the entry of a file; that of SKILL.md has the skill's name, description and further fields."""
    is_main = skill.content.is_main(file)
    entry: dict[str, Any] = {"uri": skill.file_uri(file.path)}
    if is_main:
        entry |= {"name": printable(skill.key), "description": skill.description}
    else:
        entry["name"] = printable(f"{skill.key}/{file.path}")
    priority = _MAIN_PRIORITY if is_main else _PRIORITY
    annotations = {"audience": ["assistant"], "priority": priority}
    entry |= {"mimeType": mime_type(file), "size": file.size, "annotations": annotations}
    meta = _meta(skill) if is_main else {}
    return entry | {"_meta": meta} if meta else entry


def _meta(skill: Skill) -> dict[str, Any]:
    """Return the short fields of the frontmatter except name and description, under the prefix of SEP-2640.

    Every byte adds to the cost of listing resources; `skills/list` has the whole frontmatter.
    """
    return {
        META_PREFIX + field: value
        for field, value in skill.frontmatter.raw.items()
        if field not in {"name", "description"} and _META_NAME.fullmatch(field) and len(json.dumps(value)) <= _MAX_META
    }


def listed_files(skill: Skill, settings: Settings) -> Mapping[str, SkillFile]:
    """Return the files of a skill that clients can list, by path."""
    return skill.content.files if settings.catalog.serve_evals else files_for_models(skill.content)


def describe_all(skill: Skill, settings: Settings) -> list[dict[str, Any]]:
    """Return the entries of the files of a skill that are listed."""
    return [describe(skill, file) for file in listed_files(skill, settings).values()]


def pager(catalog: Catalog, settings: Settings, envelope: Mapping[str, Any]) -> Pager[Listed]:
    """Return the pages of the list, ordered by skill, SKILL.md first; files of a nested skill are listed with it.

    Eval files are listed only if the settings say so, because some clients let the model choose from this list.
    """
    entries: dict[str, tuple[str, Listed]] = {}
    for each in extra_resources(settings):
        # No path of a skill begins with NUL, so these come first.
        entries[each.uri] = (f"\0{each.uri}", {"uri": each.uri, **each.entry})
    # Outer skills sort before nested ones, so a file of both is listed with the inner skill.
    for skill in sorted(catalog.active, key=lambda skill: skill.path):
        for file in listed_files(skill, settings).values():
            order = "" if skill.content.is_main(file) else f"\x01{file.path}"
            entries[skill.file_uri(file.path)] = (f"{skill.path}\0{order}", (skill, file.path))
    items = sorted(entries.values(), key=lambda item: item[0])
    return Pager(items, settings.server.page_size, "resources", _entry, envelope)


def extra_resources(settings: Settings) -> list[ExtraResource]:
    """Return the resources that are not files of skills, as far as settings switch their tools on."""
    return [each for one in CAPABILITIES for each in one.resources if each.tool in settings.tools.enabled]


def extra_resource(uri: str, settings: Settings) -> ExtraResource | None:
    """Return the resource of a URI that is not a file of a skill, None if settings switch none on that has it."""
    if uri not in EXTRA_URIS:
        return None
    return next((each for each in extra_resources(settings) if each.uri == uri), None)


def extra_contents(resource: ExtraResource, text: str, envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of reading such a resource, which describes this moment and must not be cached."""
    contents = {"uri": resource.uri, "mimeType": resource.entry["mimeType"], "text": text}
    return {"contents": [contents], **envelope, "ttlMs": 0, "cacheScope": "private"}


def _entry(listed: Listed) -> dict[str, Any]:
    if isinstance(listed, dict):
        return listed
    skill, path = listed
    return describe(skill, skill.content.files[path])


def contents_of(uri: str, file: SkillFile, raw: bytes) -> dict[str, Any]:
    """Return the contents, as text if the bytes are text, otherwise as a blob."""
    contents: dict[str, Any] = {"uri": uri, "mimeType": mime_type(file)}
    if file.text:
        return contents | {"text": raw.decode("utf-8")}
    return contents | {"blob": base64.b64encode(raw).decode("ascii")}


def served_uri(uri: str, skill: Skill, file: SkillFile) -> str:
    """Return the URI of a served file: `uri` as the client spelled it, unless it has the path in another case."""
    right = skill.file_uri(file.path)
    return uri if uri == right or decode_path(uri) == decode_path(right) else right


def templates(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the resource templates: one that reaches every file, while there are files."""
    template = {
        "uriTemplate": TEMPLATE,
        "name": "skill-file",
        "title": "File of a skill",
        "description": "Any file of an active skill, by the skill's path and the file's path within it.",
    }
    return [template] if catalog.active else []


FolderChild: TypeAlias = "tuple[str, tuple[Skill, SkillFile] | None]"
"""A child of a folder: its name, and the file with its skill, or None for a folder."""

_PAGE_SIZE = 100
# An entry lists all files of its skill, so pages have fewer entries than those of other lists.


def skill_entry(skill: Skill) -> dict[str, Any]:
    """Return the entry of a skill: the unit that hosts verify and that users approve."""
    files = [
        {"uri": skill.file_uri(file.path), "digest": file.digest, "size": file.size}
        for file in skill.content.files.values()
    ]
    return {"uri": skill.uri, "frontmatter": skill.frontmatter.raw, "resources": files}


def skill_pager(catalog: Catalog, envelope: Mapping[str, Any]) -> Pager[Skill]:
    """Return the pages of `skills/list`, sorted by path."""
    items = sorted((skill.path, skill) for skill in catalog.active if skill.content.published)
    return Pager(items, _PAGE_SIZE, "skills", skill_entry, envelope)


def folder_pager(catalog: Catalog, settings: Settings, uri: str) -> Pager[FolderChild] | None:
    """Return the pages of `resources/directory/read`, sorted by name; None if the URI does not name a folder."""
    found = catalog.directory(uri)
    if found is None:
        return None
    path = found.path

    def described(child: FolderChild) -> dict[str, Any]:
        name, held = child
        return describe(*held) if held is not None else _folder(f"{path}/{name}", name)

    children = [(child[0], child) for child in found.children.items()]
    return Pager(children, settings.server.page_size, "resources", described, COMPLETE, of=path)


def _folder(path: str, name: str) -> dict[str, Any]:
    return {"uri": file_uri(path, "").removesuffix("/"), "name": printable(name), "mimeType": "inode/directory"}
