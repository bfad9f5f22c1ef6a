"""What stands at the head of an activation: the tools and files that the body names, as the recipient has them.

Only what this body needs is said, and nothing where it names neither. The body itself stays as it is.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING

from skills_core.mentions import capabilities_of, mentioned_paths, mentioned_tools
from skills_core.rendering.escaping import attribute, contained_line, escaped
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skills_core.mentions import PathMentions
    from skills_core.rendering.recipient import Recipient
    from skills_core.skill import Skill
    from skills_core.toolboxes import Toolbox

__all__ = ["MAX_PATHS", "MAX_TOOLS", "render_adaptation"]

MAX_TOOLS = 24
MAX_PATHS = 24
MAX_FOLDERS = 3

MAX_SEARCHED = 262_144
"""Characters of a body that are looked at; no instructions are longer, and whoever asks waits for it."""

_REMEMBERED = 512
# Bodies of which it is remembered what they name.

_BY_COMMAND = frozenset(
    {
        Capability.READ_FILE,
        Capability.WRITE_FILE,
        Capability.EDIT_FILE,
        Capability.LIST_FOLDER,
        Capability.FIND_FILES,
        Capability.SEARCH_TEXT,
        Capability.FETCH_PAGE,
    }
)
# What a command of a shell does where there is no tool for it.

_WITHOUT = {
    Capability.ASK_USER: "ask in your reply and wait for the answer",
    Capability.KEEP_TASKS: "keep the list in your replies",
    Capability.DELEGATE: "do the work yourself, one part after the other",
    Capability.PLAN: "write the plan in your reply and wait for approval",
}
# What to do instead of a tool that the recipient has not.

_SCRIPTS = frozenset({".bash", ".cjs", ".js", ".mjs", ".php", ".pl", ".ps1", ".py", ".r", ".rb", ".sh", ".ts", ".zsh"})


def render_adaptation(skill: Skill, recipient: Recipient) -> list[str]:
    """Return the lines that go before the body of `skill`: none, or the elements `tool_names` and `skill_paths`."""
    if not recipient.adapt:
        return []
    body = skill.body[:MAX_SEARCHED]
    return [*_tool_names(body, skill, recipient), *_skill_paths(body, skill, recipient)]


# A skill is activated again and again, and its body does not change; to look through a long one takes milliseconds.
_tools_in = lru_cache(_REMEMBERED)(mentioned_tools)
_paths_in = lru_cache(_REMEMBERED)(mentioned_paths)


def _tool_names(body: str, skill: Skill, recipient: Recipient) -> Iterator[str]:
    mentions = _tools_in(body, tuple(skill.frontmatter.allowed_tools or ()), frozenset(recipient.own))
    said = [line for mention in mentions if mention.in_body and (line := _tool(mention.name, recipient))]
    if not said:
        return
    yield "<tool_names>"
    yield (
        "These instructions name tools as another host calls them. Where they mean such a tool, do this instead:"
        if recipient.toolbox
        else "These instructions name tools as some hosts call them. Where you have none of that name, call yours that "
        "does the same:"
    )
    yield from said[:MAX_TOOLS]
    if len(said) > MAX_TOOLS:
        yield f"- and {len(said) - MAX_TOOLS} more: call your own that does the same"
    yield "What none of your tools can do, tell the user; never pretend that it was done."
    yield "</tool_names>"


def _tool(name: str, recipient: Recipient) -> str | None:
    """Return what to do about a tool that the body names, None where its name holds here too."""
    own = recipient.own.get(name)
    toolbox = recipient.toolbox
    if own == name or (own is None and toolbox is not None and toolbox.has(name)):
        return None
    if name.startswith("mcp__") and own is None:
        _, server, tool = name.split("__", 2)
        return f"- `{name}`: {tool} of the MCP server {server}; you have it only if that server is connected"
    capabilities = capabilities_of(name)
    purpose = f" ({', '.join(capabilities)})" if capabilities else ""
    if own is not None:
        return f"- `{name}`{purpose}: call `{escaped(own)}`"
    return f"- `{name}`{purpose}{_instead(capabilities, toolbox)}"


def _instead(capabilities: tuple[Capability, ...], toolbox: Toolbox | None) -> str:
    if Capability.LOAD_SKILL in capabilities:
        return ": call `activate_skill`"
    if toolbox is None:
        return ""
    tools = dict.fromkeys(f"`{tool}`" for each in capabilities if (tool := toolbox.first(each)))
    missing = [each for each in capabilities if not toolbox.first(each)]
    shell = toolbox.first(Capability.RUN_COMMAND)
    if missing and shell and _BY_COMMAND.issuperset(missing):
        tools[f"`{shell}` with a command that does it"] = None
        missing = []
    if tools:
        return f": call {' or '.join(tools)}"
    ways = dict.fromkeys(way for each in capabilities if (way := _WITHOUT.get(each)))
    return f": no such tool here; {'; '.join(ways) or 'tell the user if a step cannot do without it'}"


def _skill_paths(body: str, skill: Skill, recipient: Recipient) -> Iterator[str]:
    main = skill.content.main
    names = {name for name in (posixpath.basename(skill.content.folder), skill.name) if name}
    files = frozenset(path for path in skill.content.files if main is None or path != main.path)
    found = _paths_in(body, files, frozenset(names))
    paths = [path for path in found.paths if path.isprintable()]
    if not paths:
        return
    folder = skill.source.root.joinpath(skill.content.folder)
    root = folder if _reader(recipient) else None
    yield "<skill_paths>"
    yield from _calls(skill, recipient, paths)
    yield from _folders(found, str(folder) if recipient.local else skill.root_uri)
    for path in paths[:MAX_PATHS]:
        file = f" file={attribute(str(root.joinpath(path)))}" if root else ""
        uri = f" uri={attribute(skill.file_uri(path))}" if recipient.reads_resources else ""
        yield f"<path name={attribute(path)}{file}{uri}/>"
    if len(paths) > MAX_PATHS:
        yield f"{len(paths) - MAX_PATHS} more files are named; the same calls work for them."
    yield "</skill_paths>"


def _reader(recipient: Recipient) -> str | None:
    """Return the recipient's own tool that reads a file of this disk, None where none is known."""
    if not recipient.local or recipient.toolbox is None:
        return None
    return recipient.toolbox.first(Capability.READ_FILE) or recipient.toolbox.first(Capability.RUN_COMMAND)


def _calls(skill: Skill, recipient: Recipient, paths: Iterable[str]) -> Iterator[str]:
    """Say what to call for the files that the body names, and for its scripts."""
    reader = _reader(recipient)
    ways = [f"`{reader}` and the `file` given here"] if reader else []
    if recipient.file_tool:
        ways.append(f"`{recipient.file_tool}` (skill {attribute(skill.key)}, path as named)")
    if recipient.reads_resources:
        tool = recipient.toolbox.first(Capability.READ_RESOURCE) if recipient.toolbox else None
        ways.append(f"`{tool}` and the `uri`" if tool else "as the resource `uri`")
    if ways:
        yield f"The instructions name these files of the skill. Read one with {', or '.join(ways)}."
    else:
        yield "The instructions name these files of the skill, and you cannot read them."
    if not any(posixpath.splitext(path)[1].lower() in _SCRIPTS for path in paths):
        return
    shell = recipient.toolbox.first(Capability.RUN_COMMAND) if recipient.toolbox else None
    if recipient.script_tool:
        yield f"Run a script with `{recipient.script_tool}` (skill {attribute(skill.key)}, path as named)."
    elif reader and shell:
        yield f"Run a script with `{shell}` and the `file` given here."
    elif not recipient.local:
        yield (
            "They lie on the server: to run a script, first save it, and what it needs, where your tools can run it; "
            "if you cannot, tell the user."
        )


def _folders(found: PathMentions, place: str) -> Iterator[str]:
    """Say what the body's names for the skill's folder stand for."""
    if found.folders:
        named = ", ".join(f"`{contained_line(escaped(folder))}`" for folder in found.folders[:MAX_FOLDERS])
        yield f"{named} in the instructions: the skill's folder, {contained_line(place)}"
