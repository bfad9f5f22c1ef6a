"""The names of hosts' tools: a closed set of capabilities, and each host's names for them, with sources and dates.

The names are those that a model calls, not those in a user interface. If a host has several names for a capability,
because its versions or models differ, the newest comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Capability(StrEnum):
    """What a host's tool can do; the value is the wording in rendered texts."""

    READ_FILE = "read a file"
    WRITE_FILE = "write a file"
    EDIT_FILE = "edit a file"
    RUN_COMMAND = "run a command"
    LIST_FOLDER = "list a folder"
    FIND_FILES = "find files"
    SEARCH_TEXT = "search in files"
    FETCH_PAGE = "fetch a page"
    SEARCH_WEB = "search the web"
    ASK_USER = "ask the user"
    KEEP_TASKS = "keep a task list"
    DELEGATE = "delegate to a sub-agent"
    VIEW_IMAGE = "view an image"
    LOAD_SKILL = "load a skill"
    READ_RESOURCE = "read an MCP resource"
    PLAN = "present a plan"


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A host's names for its tools, by capability; the first name is the one to call.

    `former` are names of older versions, which skills still mention but no model can call. `source` is where the names
    were found and `date` the day of the look-up (ISO 8601). `names_servers` is true if the host names a tool of an MCP
    server `mcp__server__tool`, as many skills do.
    """

    key: str
    title: str
    source: str
    date: str
    tools: Mapping[Capability, tuple[str, ...]] = field(hash=False)
    former: Mapping[Capability, tuple[str, ...]] = field(hash=False, default_factory=dict)
    names_servers: bool = False

    def first(self, capability: Capability) -> str | None:
        """Return the tool to call for `capability`; None if the host has none."""
        return next(iter(self.tools.get(capability, ())), None)

    def has(self, name: str) -> bool:
        """Tell whether `name` is a tool of this host, ignoring case."""
        if name.startswith("mcp__"):
            return self.names_servers
        folded = name.casefold()
        return any(folded == own.casefold() for names in self.tools.values() for own in names)

    def names(self) -> Iterator[tuple[Capability, str]]:
        """Yield every name, including former ones, with its capability."""
        for tools in (self.tools, self.former):
            for capability, names in tools.items():
                for name in names:
                    yield capability, name


_LOOKED_UP = "2026-11-21"

PRESETS: tuple[Toolbox, ...] = (
    Toolbox(
        key="claude-code",
        title="Claude Code",
        source="code.claude.com/docs/en/tools-reference",
        date=_LOOKED_UP,
        names_servers=True,
        tools={
            Capability.READ_FILE: ("Read",),
            Capability.WRITE_FILE: ("Write",),
            Capability.EDIT_FILE: ("Edit", "NotebookEdit"),
            Capability.RUN_COMMAND: ("Bash", "PowerShell"),
            Capability.FIND_FILES: ("Glob",),
            Capability.SEARCH_TEXT: ("Grep",),
            Capability.FETCH_PAGE: ("WebFetch",),
            Capability.SEARCH_WEB: ("WebSearch",),
            Capability.ASK_USER: ("AskUserQuestion",),
            Capability.KEEP_TASKS: ("TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "TodoWrite"),
            Capability.DELEGATE: ("Agent", "Task"),
            Capability.VIEW_IMAGE: ("Read",),
            Capability.LOAD_SKILL: ("Skill",),
            Capability.READ_RESOURCE: ("ReadMcpResourceTool",),
            Capability.PLAN: ("ExitPlanMode", "EnterPlanMode"),
        },
        former={
            Capability.READ_FILE: ("NotebookRead",),
            Capability.EDIT_FILE: ("MultiEdit",),
            Capability.RUN_COMMAND: ("BashOutput", "KillShell", "KillBash"),
            Capability.LIST_FOLDER: ("LS",),
            Capability.KEEP_TASKS: ("TodoRead",),
            Capability.LOAD_SKILL: ("SlashCommand",),
        },
    ),
    Toolbox(
        key="codex",
        title="Codex",
        source="github.com/openai/codex: codex-rs/tools/src/tool_registry_plan.rs at 107b75a",
        date=_LOOKED_UP,
        names_servers=True,
        tools={
            Capability.WRITE_FILE: ("apply_patch",),
            Capability.EDIT_FILE: ("apply_patch",),
            Capability.RUN_COMMAND: ("exec_command", "shell_command", "local_shell", "shell"),
            Capability.SEARCH_WEB: ("web_search",),
            Capability.ASK_USER: ("request_user_input",),
            Capability.KEEP_TASKS: ("update_plan",),
            Capability.DELEGATE: ("spawn_agent",),
            Capability.VIEW_IMAGE: ("view_image",),
            Capability.READ_RESOURCE: ("read_mcp_resource",),
        },
        former={
            Capability.READ_FILE: ("read_file",),
            Capability.LIST_FOLDER: ("list_dir",),
            Capability.SEARCH_TEXT: ("grep_files",),
        },
    ),
    Toolbox(
        key="gemini",
        title="Gemini CLI",
        source="github.com/google-gemini/gemini-cli: packages/core/src/tools/tool-names.ts at 5411f11",
        date=_LOOKED_UP,
        tools={
            Capability.READ_FILE: ("read_file", "read_many_files"),
            Capability.WRITE_FILE: ("write_file",),
            Capability.EDIT_FILE: ("replace",),
            Capability.RUN_COMMAND: ("run_shell_command",),
            Capability.LIST_FOLDER: ("list_directory",),
            Capability.FIND_FILES: ("glob",),
            Capability.SEARCH_TEXT: ("grep_search",),
            Capability.FETCH_PAGE: ("web_fetch",),
            Capability.SEARCH_WEB: ("google_web_search",),
            Capability.ASK_USER: ("ask_user",),
            Capability.KEEP_TASKS: ("write_todos",),
            Capability.DELEGATE: ("invoke_agent",),
            Capability.VIEW_IMAGE: ("read_file",),
            Capability.LOAD_SKILL: ("activate_skill",),
            Capability.READ_RESOURCE: ("read_mcp_resource",),
            Capability.PLAN: ("exit_plan_mode", "enter_plan_mode"),
        },
        former={Capability.SEARCH_TEXT: ("search_file_content",)},
    ),
    Toolbox(
        key="vscode",
        title="VS Code with Copilot",
        source="github.com/microsoft/vscode-copilot-chat: src/extension/tools/common/toolNames.ts at 00a45c7; "
        "vscode_askQuestions from public skills",
        date=_LOOKED_UP,
        tools={
            Capability.READ_FILE: ("read_file",),
            Capability.WRITE_FILE: ("create_file",),
            Capability.EDIT_FILE: (
                "replace_string_in_file",
                "multi_replace_string_in_file",
                "insert_edit_into_file",
                "apply_patch",
                "edit_notebook_file",
            ),
            Capability.RUN_COMMAND: ("run_in_terminal",),
            Capability.LIST_FOLDER: ("list_dir",),
            Capability.FIND_FILES: ("file_search",),
            Capability.SEARCH_TEXT: ("grep_search", "semantic_search"),
            Capability.FETCH_PAGE: ("fetch_webpage",),
            Capability.ASK_USER: ("vscode_askQuestions",),
            Capability.KEEP_TASKS: ("manage_todo_list",),
            Capability.DELEGATE: ("runSubagent",),
        },
        former={
            Capability.EDIT_FILE: ("editFiles",),
            Capability.RUN_COMMAND: ("runInTerminal", "runCommands"),
            Capability.FETCH_PAGE: ("fetch",),
        },
    ),
    Toolbox(
        key="cursor",
        title="Cursor",
        source="github.com/x1xhlol/system-prompts-and-models-of-ai-tools: Cursor Prompts/Agent Prompt 2.0.txt at "
        "b8e9589; github.com/mksglu/context-mode: hooks/cursor/hooks.json (what a hook can match)",
        date=_LOOKED_UP,
        tools={
            Capability.READ_FILE: ("Read", "read_file"),
            Capability.WRITE_FILE: ("Write",),
            Capability.EDIT_FILE: ("StrReplace", "search_replace", "edit_file"),
            Capability.RUN_COMMAND: ("Shell", "run_terminal_cmd"),
            Capability.LIST_FOLDER: ("list_dir",),
            Capability.FIND_FILES: ("Glob", "glob_file_search", "file_search"),
            Capability.SEARCH_TEXT: ("Grep", "SemanticSearch", "grep_search", "codebase_search"),
            Capability.FETCH_PAGE: ("WebFetch",),
            Capability.SEARCH_WEB: ("WebSearch", "web_search"),
            Capability.ASK_USER: ("AskQuestion",),
            Capability.KEEP_TASKS: ("TodoWrite", "todo_write"),
            Capability.DELEGATE: ("Task",),
            Capability.VIEW_IMAGE: ("Read",),
        },
    ),
    Toolbox(
        key="opencode",
        title="opencode",
        source="github.com/anomalyco/opencode: packages/web/src/content/docs/tools.mdx at 0e83f10; tool/registry.ts",
        date=_LOOKED_UP,
        tools={
            Capability.READ_FILE: ("read",),
            Capability.WRITE_FILE: ("write",),
            Capability.EDIT_FILE: ("edit", "apply_patch"),
            Capability.RUN_COMMAND: ("bash",),
            Capability.FIND_FILES: ("glob",),
            Capability.SEARCH_TEXT: ("grep",),
            Capability.FETCH_PAGE: ("webfetch",),
            Capability.SEARCH_WEB: ("websearch",),
            Capability.ASK_USER: ("question",),
            Capability.KEEP_TASKS: ("todowrite",),
            Capability.DELEGATE: ("task",),
            Capability.VIEW_IMAGE: ("read",),
            Capability.LOAD_SKILL: ("skill",),
        },
        former={Capability.KEEP_TASKS: ("todoread",), Capability.LIST_FOLDER: ("list",)},
    ),
    Toolbox(
        key="goose",
        title="goose",
        source="github.com/block/goose: crates/goose/src/agents/platform_extensions at 0dcb08a",
        date=_LOOKED_UP,
        tools={
            Capability.WRITE_FILE: ("write",),
            Capability.EDIT_FILE: ("edit",),
            Capability.RUN_COMMAND: ("shell",),
            Capability.LIST_FOLDER: ("tree",),
            Capability.KEEP_TASKS: ("todo__todo_write",),
            Capability.DELEGATE: ("delegate",),
            Capability.LOAD_SKILL: ("load_skill",),
        },
        former={
            Capability.READ_FILE: ("developer__text_editor",),
            Capability.EDIT_FILE: ("developer__text_editor",),
            Capability.RUN_COMMAND: ("developer__shell",),
        },
    ),
    Toolbox(
        key="zed",
        title="Zed",
        source="github.com/zed-industries/zed: crates/agent/src/tools.rs at 04cef76, and docs/src/ai/tools.md",
        date=_LOOKED_UP,
        tools={
            Capability.READ_FILE: ("read_file",),
            Capability.WRITE_FILE: ("write_file",),
            Capability.EDIT_FILE: ("edit_file",),
            Capability.RUN_COMMAND: ("terminal",),
            Capability.LIST_FOLDER: ("list_directory",),
            Capability.FIND_FILES: ("find_path",),
            Capability.SEARCH_TEXT: ("grep",),
            Capability.FETCH_PAGE: ("fetch",),
            Capability.SEARCH_WEB: ("web_search",),
            Capability.KEEP_TASKS: ("update_plan",),
            Capability.DELEGATE: ("spawn_agent",),
            Capability.LOAD_SKILL: ("skill",),
        },
    ),
    Toolbox(
        key="cline",
        title="Cline",
        source="github.com/cline/cline: src/shared/tools.ts at 0a3eba3, and src/core/prompts/system-prompt/tools",
        date=_LOOKED_UP,
        tools={
            Capability.READ_FILE: ("read_file",),
            Capability.WRITE_FILE: ("write_to_file",),
            Capability.EDIT_FILE: ("replace_in_file", "apply_patch"),
            Capability.RUN_COMMAND: ("execute_command",),
            Capability.LIST_FOLDER: ("list_files",),
            Capability.SEARCH_TEXT: ("search_files",),
            Capability.FETCH_PAGE: ("web_fetch",),
            Capability.SEARCH_WEB: ("web_search",),
            Capability.ASK_USER: ("ask_followup_question",),
            Capability.VIEW_IMAGE: ("read_file",),
            Capability.LOAD_SKILL: ("use_skill",),
            Capability.READ_RESOURCE: ("access_mcp_resource",),
            Capability.PLAN: ("plan_mode_respond",),
        },
    ),
    Toolbox(
        key="windsurf",
        title="Windsurf",
        source="github.com/x1xhlol/system-prompts-and-models-of-ai-tools: Windsurf/Tools Wave 11.txt at b8e9589",
        date=_LOOKED_UP,
        tools={
            Capability.READ_FILE: ("view_file",),
            Capability.WRITE_FILE: ("write_to_file",),
            Capability.EDIT_FILE: ("replace_file_content",),
            Capability.RUN_COMMAND: ("run_command",),
            Capability.LIST_FOLDER: ("list_dir",),
            Capability.FIND_FILES: ("find_by_name",),
            Capability.SEARCH_TEXT: ("grep_search", "codebase_search"),
            Capability.FETCH_PAGE: ("read_url_content",),
            Capability.SEARCH_WEB: ("search_web",),
            Capability.READ_RESOURCE: ("read_resource",),
        },
    ),
    Toolbox(
        key="agenvoy",
        title="Agenvoy",
        source="github.com/pardnchiu/Agenvoy: configs/prompts/skill_execution.md and internal/tools at 78782e8",
        date=_LOOKED_UP,
        tools={
            Capability.READ_FILE: ("read_file",),
            Capability.WRITE_FILE: ("write_file",),
            Capability.EDIT_FILE: ("patch_file",),
            Capability.RUN_COMMAND: ("run_command",),
            Capability.LIST_FOLDER: ("list_files",),
            Capability.FIND_FILES: ("glob_files",),
            Capability.SEARCH_TEXT: ("search_files",),
            Capability.FETCH_PAGE: ("fetch_page",),
            Capability.SEARCH_WEB: ("search_web",),
            Capability.ASK_USER: ("ask_user",),
            Capability.DELEGATE: ("invoke_subagent",),
            Capability.VIEW_IMAGE: ("read_file",),
            Capability.LOAD_SKILL: ("run_skill",),
        },
        former={Capability.SEARCH_TEXT: ("search_content",)},
    ),
)
"""The toolboxes of known hosts."""

OTHER_NAMES = Toolbox(
    key="other",
    title="MCP servers and SDKs",
    source="github.com/modelcontextprotocol/servers: src/filesystem/README.md; "
    "the text editor tool in the corpus of public skills",
    date=_LOOKED_UP,
    tools={},
    former={
        Capability.READ_FILE: (
            "read_text_file",
            "read_multiple_files",
            "str_replace_based_edit_tool",
            "str_replace_editor",
        ),
        Capability.EDIT_FILE: ("str_replace_based_edit_tool", "str_replace_editor", "multi_replace_file_content"),
        Capability.RUN_COMMAND: ("bash_tool",),
        Capability.LIST_FOLDER: ("directory_tree",),
        Capability.VIEW_IMAGE: ("read_media_file",),
    },
)
"""Names that skills mention and no host of the presets has."""

_BY_KEY = {toolbox.key: toolbox for toolbox in PRESETS}


def toolbox_named(key: str | None) -> Toolbox | None:
    """Return the preset with this key; None if there is none."""
    return _BY_KEY.get(key or "")
