"""The tools that every client has: `activate_skill`, `read_skill_file` and `find_skills`.

They are registered while at least one skill can be activated, and their names never change. What a model gets
wrong in a call is answered as a tool result that says what was expected, not as a protocol error, so that the
model sees it.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from server.envelope import COMPLETE, cacheable
from server.faults import InvalidRequestError
from server.resources import contents_of, mime_type
from skills_core.errors import SkillsError
from skills_core.rendering import RULE, is_always_on, render_activation, render_catalog, render_request
from skills_core.selection import SelectionPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import mcp_types as types
    from mcp.server.context import ServerRequestContext

    from server.config import Settings
    from server.host import Host
    from skills_core.catalog import Catalog
    from skills_core.selection import Match
    from skills_core.skill import Skill

__all__ = ["ToolHandlers", "instructions", "list_result", "offered"]

ACTIVATE = "activate_skill"
READ = "read_skill_file"
FIND = "find_skills"

DEFAULT_MATCHES = 10
MAX_MATCHES = 100

_READ_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


def offered(catalog: Catalog) -> tuple[Skill, ...]:
    """Return the skills that a model may activate by itself, by key."""
    return tuple(sorted((s for s in catalog.active if s.model_invocable), key=lambda skill: skill.key))


def instructions(catalog: Catalog) -> str | None:
    """Return the server's instructions: the rule, with the skills that apply to every message."""
    skills = offered(catalog)
    if not skills:
        return None
    always = [skill for skill in skills if is_always_on(skill)]
    text = f"{RULE} Its description lists them; find_skills searches them."
    if always:
        names = ", ".join(skill.key for skill in always)
        text += f" These apply to every task, so activate them first: {names}."
    return text


def list_result(catalog: Catalog, settings: Settings) -> dict[str, Any]:
    """Return the result of `tools/list`: no tools where no skill is offered."""
    skills = offered(catalog)
    tools = [_activate(skills, settings), _read_file(), _find()] if skills else []
    return cacheable({"tools": tools})


def _activate(skills: tuple[Skill, ...], settings: Settings) -> dict[str, Any]:
    names = [skill.key for skill in skills]
    name: dict[str, Any] = {"type": "string", "description": "The skill's name."}
    if len(names) <= settings.enum_limit:
        name["enum"] = names
    else:
        shown = ", ".join(names[: settings.enum_limit])
        name["description"] = f"The skill's name. Any name that find_skills returns is accepted; the first are: {shown}"
    return {
        "name": ACTIVATE,
        "title": "Activate a skill",
        "description": render_catalog(skills, settings.catalog_budget).text,
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": name,
                "arguments": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "Values for the skill's {{parameters}}, by name.",
                },
                "message": {
                    "type": "string",
                    "description": "The user's own words, where they bind how the skill is carried out.",
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        "annotations": {"title": "Activate a skill", **_READ_ONLY},
        "_meta": {"anthropic/alwaysLoad": True},
    }


def _read_file() -> dict[str, Any]:
    return {
        "name": READ,
        "title": "Read a file of a skill",
        "description": "Read one file of a skill: a script, reference or asset that its instructions name.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "skill": {"type": "string", "description": "The skill's name."},
                "path": {"type": "string", "description": "The file's path, relative to the skill root."},
            },
            "required": ["skill", "path"],
            "additionalProperties": False,
        },
        "annotations": {"title": "Read a file of a skill", **_READ_ONLY},
    }


def _find() -> dict[str, Any]:
    match = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "description": {"type": "string"},
            "score": {"type": "number"},
            "band": {"type": "string", "enum": ["trace", "broad", "specific", "high"]},
            "uri": {"type": "string"},
        },
        "required": ["name", "description", "score", "band", "uri"],
    }
    return {
        "name": FIND,
        "title": "Find skills",
        "description": (
            "Search all skills by what they do. Word the query as task, technology, file format and synonyms, "
            "and try again in other words if nothing fits. Then call activate_skill with a name from the result."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the skill should do."},
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Only skills with such a tag.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_MATCHES,
                    "description": f"Most results; {DEFAULT_MATCHES} if not given.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {"matches": {"type": "array", "items": match}},
            "required": ["matches"],
        },
        "annotations": {"title": "Find skills", **_READ_ONLY},
    }


class ToolHandlers:
    """The handlers of `tools/list` and `tools/call`."""

    def __init__(self, host: Host, *, local: bool) -> None:
        """Answer from `host`; `local` tells that clients see the same disk."""
        self._host = host
        self._local = local

    async def list(
        self, _ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """Handle `tools/list`, a single page."""
        if params is not None and params.cursor is not None:
            raise InvalidRequestError("invalid cursor; this list has one page")
        return self._host.snapshot.tools

    async def call(self, _ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> dict[str, Any]:
        """Handle `tools/call`."""
        tools = {ACTIVATE: self._call_activate, READ: self._call_read, FIND: self._call_find}
        tool = tools.get(params.name)
        if tool is None or not self._host.snapshot.tools["tools"]:
            raise InvalidRequestError(f"Unknown tool: {params.name[:200]}")
        try:
            return await tool(params.arguments or {})
        except SkillsError as error:
            return _result([_text(str(error))], is_error=True)

    async def _call_activate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = _string(arguments, "name")
        values = arguments.get("arguments") or {}
        if not isinstance(values, dict):
            raise InvalidRequestError('arguments must be an object of strings, such as {"format": "table"}')
        texts = {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
        message = _string(arguments, "message", default="")
        skill = _invocable(self._host.snapshot.catalog, name)
        content = [_text(render_activation(skill, texts, directory=self._local))]
        if message:
            content.append(_text(render_request(skill, message)))
        return _result(content)

    async def _call_read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name, path = _string(arguments, "skill"), _string(arguments, "path")
        catalog = self._host.snapshot.catalog
        skill = catalog.skill(name)
        # Models pass on what they have seen: a relative path, or the file's URI.
        uri = path if path.startswith(skill.root_uri) else skill.file_uri(catalog.file_of(skill, path).path)
        _, file, raw = await self._host.reader.read(uri)
        if file.text:
            return _result([_text(raw.decode("utf-8"))])
        if mime_type(file).startswith("image/"):
            image = {
                "type": "image",
                "data": base64.b64encode(raw).decode("ascii"),
                "mimeType": mime_type(file),
            }
            return _result([image])
        return _result([{"type": "resource", "resource": contents_of(uri, file, raw)}])

    async def _call_find(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        query = _string(arguments, "query")
        tags = arguments.get("tags") or []
        limit = arguments.get("limit", DEFAULT_MATCHES)
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidRequestError("tags must be a list of strings")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_MATCHES:
            raise InvalidRequestError(f"limit must be a whole number from 1 to {MAX_MATCHES}")
        index = await self._host.index()
        policy = SelectionPolicy(top_k=limit, min_score=0.0, include_tags=tuple(tags))
        matches = [_describe(match) for match in index.select(query, policy)]
        structured = {"matches": matches}
        text = json.dumps(structured, ensure_ascii=False) if matches else _nothing(query)
        return {**_result([_text(text)]), "structuredContent": structured}


def _invocable(catalog: Catalog, name: str) -> Skill:
    skill = catalog.skill(name)
    if not skill.model_invocable:
        raise InvalidRequestError(f"The skill {name!r} is for the user to call, as /{skill.key}; a model may not.")
    return skill


def _describe(match: Match) -> dict[str, Any]:
    skill = match.skill
    return {
        "name": skill.key,
        "description": skill.description,
        "score": round(match.score, 4),
        "band": match.band.value,
        "uri": skill.uri,
    }


def _nothing(query: str) -> str:
    return f"No skill matches {query[:200]!r}. Try the task, technology or file format in other words."


def _string(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a string")
    return value


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _result(content: list[dict[str, Any]], *, is_error: bool = False) -> dict[str, Any]:
    return {"content": content, "isError": is_error, **COMPLETE}
