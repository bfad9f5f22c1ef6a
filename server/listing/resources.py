"""The entries of `resources/list`, of folders and of the Skills extension (SEP-2640), and contents of resources."""

from __future__ import annotations

import base64
import json
import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from mimetypes import MimeTypes
from operator import itemgetter
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

Listed: TypeAlias = "tuple[Skill, SkillFile] | dict[str, Any]"
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
    return _guessed_type(file.path) or ("text/plain" if file.text else "application/octet-stream")


@lru_cache(1024)
def _guessed_type(path: str) -> str | None:
    # Many skills have files of the same paths.
    return _TYPES.types_map[True].get(posixpath.splitext(path)[1].lower())


def describe(skill: Skill, file: SkillFile) -> dict[str, Any]:
    """Return the entry of a file; that of SKILL.md has the skill's name, description and further fields."""
    is_main = skill.content.is_main(file)
    name = skill.key if is_main else f"{skill.key}/{file.path}"
    entry: dict[str, Any] = {"uri": skill.file_uri(file.path), "name": printable(name)}
    if is_main:
        entry["description"] = skill.description
    entry["mimeType"] = mime_type(file)
    entry["size"] = file.size
    entry["annotations"] = {"audience": ["assistant"], "priority": _MAIN_PRIORITY if is_main else _PRIORITY}
    if is_main and (meta := _meta(skill)):
        entry["_meta"] = meta
    return entry


def _meta(skill: Skill) -> dict[str, Any]:
    """Return the short fields of the frontmatter except name and description, under the prefix of SEP-2640.

    Every byte adds to the cost of listing resources; `skills/list` has the whole frontmatter.
    """
    return {
        META_PREFIX + field: value
        for field, value in skill.frontmatter.raw.items()
        if field not in {"name", "description"} and _META_NAME.fullmatch(field) and _is_short(value)
    }


def _is_short(value: object) -> bool:
    # A character takes at most twelve in JSON, as a pair of escapes.
    return (isinstance(value, str) and len(value) < _MAX_META // 13) or len(json.dumps(value)) <= _MAX_META


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
    # No path of a skill begins with NUL, so these come first.
    extra = sorted((f"\0{each.uri}", {"uri": each.uri, **each.entry}) for each in extra_resources(settings))

    def items_after(last: str | None) -> Iterator[tuple[str, Listed]]:
        path = None if last is None else last.partition("\0")[0]
        items = chain(extra, (item for skill in catalog.by_path(path) for item in _items_of(skill, catalog, settings)))
        return (item for item in items if last is None or item[0] > last)

    return Pager(items_after, settings.server.page_size, "resources", _entry, envelope)


def _items_of(skill: Skill, catalog: Catalog, settings: Settings) -> Iterator[tuple[str, Listed]]:
    """Yield the listed files of a skill, by their keys in the list, without those that a nested skill lists."""
    files: Iterable[SkillFile] = listed_files(skill, settings).values()
    if catalog.encloses(skill.path):
        files = [file for file in files if not _is_nested(f"{skill.path}/{file.path}", skill, catalog, settings)]
    main = skill.content.main_path
    orders = (("" if file.path == main else f"\x01{file.path}", file) for file in files)
    for order, file in sorted(orders, key=itemgetter(0)):
        yield f"{skill.path}\0{order}", (skill, file)


def _is_nested(path: str, outer: Skill, catalog: Catalog, settings: Settings) -> bool:
    folder = path.rpartition("/")[0]
    while len(folder) > len(outer.path):
        inner = catalog.at(folder)
        if inner is not None and path[len(folder) + 1 :] in listed_files(inner, settings):
            return True
        folder = folder.rpartition("/")[0]
    return False


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
    return listed if isinstance(listed, dict) else describe(*listed)


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

    def items_after(last: str | None) -> Iterator[tuple[str, Skill]]:
        return ((each.path, each) for each in catalog.by_path(last) if each.content.published and each.path != last)

    return Pager(items_after, _PAGE_SIZE, "skills", skill_entry, envelope)


def folder_pager(catalog: Catalog, settings: Settings, uri: str) -> Pager[FolderChild] | None:
    """Return the pages of `resources/directory/read`, sorted by name; None if the URI does not name a folder."""
    found = catalog.directory(uri)
    if found is None:
        return None
    path = found.path

    def described(child: FolderChild) -> dict[str, Any]:
        name, held = child
        return describe(*held) if held is not None else _folder(f"{path}/{name}", name)

    children = [*found.children.items()]

    def items_after(last: str | None) -> Iterator[tuple[str, FolderChild]]:
        start = 0 if last is None else bisect_right(children, last, key=itemgetter(0))
        return ((child[0], child) for child in islice(children, start, None))

    return Pager(items_after, settings.server.page_size, "resources", described, COMPLETE, of=path)


def _folder(path: str, name: str) -> dict[str, Any]:
    return {"uri": file_uri(path, "").removesuffix("/"), "name": printable(name), "mimeType": "inode/directory"}
