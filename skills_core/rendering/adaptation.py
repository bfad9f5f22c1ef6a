"""Explain, before a skill's body, the tools and files that it mentions in the recipient's terms.

Only mentions that this body contains are explained. The body itself is never changed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.disk.sources import SkillKind
from skills_core.mentions.paths import mentioned_paths, missing_scripts
from skills_core.mentions.tools import mentioned_tools, purposes_of
from skills_core.rendering.catalog import ACTIVATION_TOOL
from skills_core.rendering.escaping import escape_content, escape_line, quote_attribute
from skills_core.skills.withheld_files import files_for_models
from skills_core.toolboxes import ToolPurpose

if TYPE_CHECKING:
    from skills_core.mentions.paths import PathMentions
    from skills_core.rendering.recipient import Recipient
    from skills_core.skills.skill import Skill
    from skills_core.toolboxes import Toolbox


MAX_TOOLS = 24
MAX_PATHS = 24
MAX_FOLDERS = 3
MAX_MISSING = 8

MAX_SEARCHED = 262_144
"""Characters of a body that are searched; instructions are hardly longer, and the request waits for the search."""

_CACHE_SIZE = 512
# Bodies whose mentions are cached.

_SHELL_CAPABILITIES = frozenset(
    {
        ToolPurpose.READ_FILE,
        ToolPurpose.WRITE_FILE,
        ToolPurpose.EDIT_FILE,
        ToolPurpose.LIST_FOLDER,
        ToolPurpose.FIND_FILES,
        ToolPurpose.SEARCH_TEXT,
        ToolPurpose.FETCH_PAGE,
    }
)
# A shell command can do these where the recipient has no tool for them.

_ALTERNATIVES = {
    ToolPurpose.ASK_USER: "ask in your reply and wait for the answer",
    ToolPurpose.KEEP_TASKS: "keep the list in your replies",
    ToolPurpose.DELEGATE: "do the work yourself, one part after the other",
    ToolPurpose.PLAN: "write the plan in your reply and wait for approval",
}
# What to do instead where the recipient has no such tool.

_SCRIPTS = frozenset({".bash", ".cjs", ".js", ".mjs", ".php", ".pl", ".ps1", ".py", ".r", ".rb", ".sh", ".ts", ".zsh"})


def render_adaptation(skill: Skill, recipient: Recipient) -> list[str]:
    """Return the lines before the body of `skill`: the elements `tool_names` and `skill_paths`, as far as needed."""
    if not recipient.adapt:
        return []
    body = skill.body[:MAX_SEARCHED]
    return [*_tool_name_lines(body, skill, recipient), *_skill_path_lines(body, skill, recipient)]


# Cached because skills are activated repeatedly, and searching a long body takes milliseconds.
_tools_in = lru_cache(_CACHE_SIZE)(mentioned_tools)
_paths_in = lru_cache(_CACHE_SIZE)(mentioned_paths)
_missing_in = lru_cache(_CACHE_SIZE)(missing_scripts)


def _tool_name_lines(body: str, skill: Skill, recipient: Recipient) -> Iterator[str]:
    mentions = _tools_in(body, tuple(skill.frontmatter.allowed_tools or ()), frozenset(recipient.own))
    said = [line for mention in mentions if mention.in_body and (line := _tool_line(mention.name, recipient))]
    if not said:
        return
    yield "<tool_names>"
    yield (
        "These instructions name tools as another host calls them. Where they mean such a tool, do this instead:"
        if recipient.toolbox
        else "These instructions name tools as some hosts call them. Where you have none of that name, call yours that "
        "does the same:"
    )
    most = min(MAX_TOOLS, recipient.listed)
    yield from said[:most]
    if len(said) > most:
        yield f"- and {len(said) - most} more: call your own that does the same"
    yield "What none of your tools can do, tell the user; never pretend that it was done."
    yield "</tool_names>"


def _tool_line(name: str, recipient: Recipient) -> str | None:
    """Return the line for a tool that the body mentions; None if the recipient's tool has the same name.

    A tool of the recipient that has the name of ours loads other skills.
    """
    own = recipient.own.get(name)
    toolbox = recipient.toolbox
    is_ours = name == ACTIVATION_TOOL != recipient.activation_tool
    if own == name or (own is None and not is_ours and toolbox is not None and toolbox.has(name)):
        return None
    if name.startswith("mcp__") and own is None:
        _, server, tool = name.split("__", 2)
        return f"- `{name}`: {tool} of the MCP server {server}; you have it only if that server is connected"
    purposes = purposes_of(name)
    about = f" ({', '.join(purposes)})" if purposes else ""
    if own is not None:
        return f"- `{name}`{about}: call `{escape_content(own)}`"
    if ToolPurpose.LOAD_SKILL in purposes:
        return f"- `{name}`{about}: call `{recipient.activation_tool}`"
    return f"- `{name}`{about}{_replacement(purposes, toolbox)}"


def _replacement(purposes: tuple[ToolPurpose, ...], toolbox: Toolbox | None) -> str:
    if toolbox is None:
        return ""
    tools = dict.fromkeys(f"`{tool}`" for each in purposes if (tool := toolbox.first(each)))
    missing = [each for each in purposes if not toolbox.first(each)]
    shell = toolbox.first(ToolPurpose.RUN_COMMAND)
    if missing and shell and _SHELL_CAPABILITIES.issuperset(missing):
        tools[f"`{shell}` with a command that does it"] = None
        missing = []
    if tools:
        return f": call {' or '.join(tools)}"
    ways = dict.fromkeys(way for each in purposes if (way := _ALTERNATIVES.get(each)))
    return f": no such tool here; {'; '.join(ways) or 'tell the user if a step cannot do without it'}"


def paths_explained(skill: Skill, recipient: Recipient) -> frozenset[str]:
    """Return the files of `skill` that the lines before its body name to a recipient, with how to read them."""
    if not recipient.adapt:
        return frozenset()
    paths = _named_paths(_mentions(skill.body[:MAX_SEARCHED], skill))
    return frozenset(paths[: min(MAX_PATHS, recipient.listed)])


def _folder_names(skill: Skill) -> frozenset[str]:
    return frozenset(name for name in (posixpath.basename(skill.content.folder), skill.name) if name)


def _mentions(body: str, skill: Skill) -> PathMentions:
    main = skill.content.main
    files = frozenset(path for path in files_for_models(skill.content) if main is None or path != main.path)
    return _paths_in(body, files, _folder_names(skill))


def _named_paths(found: PathMentions) -> list[str]:
    return [path for path in found.paths if path.isprintable()]


def _skill_path_lines(body: str, skill: Skill, recipient: Recipient) -> Iterator[str]:
    found = _mentions(body, skill)
    paths = _named_paths(found)
    missing = [*_missing_lines(body, skill, _folder_names(skill))]
    if not paths and not missing:
        return
    yield "<skill_paths>"
    if paths:
        yield from _named_lines(found, paths, skill, recipient)
    yield from missing
    yield "</skill_paths>"


def _named_lines(found: PathMentions, paths: Sequence[str], skill: Skill, recipient: Recipient) -> Iterator[str]:
    """Explain how to read and run the files that the body names."""
    folder = recipient.folder_of(skill)
    reader = _disk_reader(recipient, folder)
    yield from _usage_lines(skill, recipient, paths, folder)
    yield from _folder_line(found, str(folder) if folder else skill.root_uri)
    most = min(MAX_PATHS, recipient.listed)
    for path in paths[:most]:
        is_readable = reader and recipient.reads(skill.location(skill.content.files[path]).path)
        file = f" file={quote_attribute(str(folder.joinpath(path)))}" if folder and is_readable else ""
        uri = f" uri={quote_attribute(skill.file_uri(path))}" if recipient.reads_resources else ""
        yield f"<path name={quote_attribute(path)}{file}{uri}/>"
    if len(paths) > most:
        yield f"{len(paths) - most} more files are named; the same calls work for them."


def _missing_lines(body: str, skill: Skill, names: frozenset[str]) -> Iterator[str]:
    """Tell which scripts the body runs that the skill does not have, so that the model neither searches nor invents."""
    missing = _missing_in(body, frozenset(skill.content.files), names)
    lacking = [script.path for script in missing if script.certain]
    # A single file, such as AGENTS.md, speaks of its project.
    unclear = [script.path for script in missing if not script.certain and skill.content.kind is SkillKind.FOLDER]
    if lacking:
        yield (
            f"The skill lacks {_listed(lacking)}, which the instructions run. If the task needs it, tell the user that "
            "it is missing; do not write your own in its place."
        )
    if unclear:
        yield (
            f"The instructions run {_listed(unclear)}, which the skill does not have. Look in the user's project; if "
            "it is not there either, tell the user; do not write your own in its place."
        )


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(quote_attribute(path) for path in paths[:MAX_MISSING])
    return shown if len(paths) <= MAX_MISSING else f"{shown} and {len(paths) - MAX_MISSING} more"


def _disk_reader(recipient: Recipient, folder: Path | None) -> str | None:
    """Return the recipient's own tool that reads the files in the skill's `folder`; None if none is known."""
    if folder is None or recipient.toolbox is None:
        return None
    return recipient.toolbox.first(ToolPurpose.READ_FILE) or recipient.toolbox.first(ToolPurpose.RUN_COMMAND)


def _usage_lines(skill: Skill, recipient: Recipient, paths: Iterable[str], folder: Path | None) -> Iterator[str]:
    """Explain which tool reads the mentioned files, and which runs scripts among them.

    `folder` is the skill's folder if the recipient's own tools read it.
    """
    reader = _disk_reader(recipient, folder)
    ways = []
    if recipient.file_tool:
        ways.append(f"`{recipient.file_tool}` (skill {quote_attribute(skill.key)}, path as named)")
    if reader:
        ways.append(f"`{reader}` and the `file` given here")
    if recipient.reads_resources:
        tool = recipient.toolbox.first(ToolPurpose.READ_RESOURCE) if recipient.toolbox else None
        way = f"`{tool}` and the `uri`" if tool else "as the resource `uri`"
        # What other tools return of a reference would be ignored like any instructions.
        ways.insert(0 if recipient.link_reader else len(ways), way)
    if ways:
        yield f"The instructions name these files of the skill. Read one with {', or '.join(ways)}."
    else:
        yield "The instructions name these files of the skill, and you cannot read them."
    if not any(posixpath.splitext(path)[1].lower() in _SCRIPTS for path in paths):
        return
    shell = recipient.toolbox.first(ToolPurpose.RUN_COMMAND) if recipient.toolbox else None
    if recipient.script_tool:
        yield f"Run a script with `{recipient.script_tool}` (skill {quote_attribute(skill.key)}, path as named)."
    elif reader and shell:
        yield f"Run a script with `{shell}` and the `file` given here."
    elif recipient.toolbox and not shell:
        yield "None of your tools runs a script; if the task needs one, say so."
    elif folder is not None:
        yield (
            f"Run a script with your own tool for commands, in the skill directory {escape_line(str(folder))}; if you "
            "have none, or it finds no such folder, tell the user."
        )
    else:
        yield (
            "They lie on the server: to run a script, first save it, and what it needs, where your tools can run it; "
            "if you cannot, tell the user."
        )


def _folder_line(found: PathMentions, place: str) -> Iterator[str]:
    """Explain what the body's names for the skill's folder mean."""
    if found.folders:
        named = ", ".join(f"`{escape_line(escape_content(folder))}`" for folder in found.folders[:MAX_FOLDERS])
        yield f"{named} in the instructions: the skill's folder, {escape_line(place)}"
