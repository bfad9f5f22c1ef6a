"""The tools of common hosts, with the source and date of each list.

The names are those that a model calls, not those in a user interface. If a host has several names for a capability,
because its versions or models differ, the newest comes first.
"""

from __future__ import annotations

from skills_core.toolboxes.toolbox import Capability as Can
from skills_core.toolboxes.toolbox import Toolbox

__all__ = ["OTHER_NAMES", "PRESETS", "toolbox_named"]

_LOOKED_UP = "2026-11-21"

PRESETS: tuple[Toolbox, ...] = (
    Toolbox(
        key="claude-code",
        title="Claude Code",
        source="code.claude.com/docs/en/tools-reference",
        date=_LOOKED_UP,
        names_servers=True,
        tools={
            Can.READ_FILE: ("Read",),
            Can.WRITE_FILE: ("Write",),
            Can.EDIT_FILE: ("Edit", "NotebookEdit"),
            Can.RUN_COMMAND: ("Bash", "PowerShell"),
            Can.FIND_FILES: ("Glob",),
            Can.SEARCH_TEXT: ("Grep",),
            Can.FETCH_PAGE: ("WebFetch",),
            Can.SEARCH_WEB: ("WebSearch",),
            Can.ASK_USER: ("AskUserQuestion",),
            Can.KEEP_TASKS: ("TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "TodoWrite"),
            Can.DELEGATE: ("Agent", "Task"),
            Can.VIEW_IMAGE: ("Read",),
            Can.LOAD_SKILL: ("Skill",),
            Can.READ_RESOURCE: ("ReadMcpResourceTool",),
            Can.PLAN: ("ExitPlanMode", "EnterPlanMode"),
        },
        former={
            Can.READ_FILE: ("NotebookRead",),
            Can.EDIT_FILE: ("MultiEdit",),
            Can.RUN_COMMAND: ("BashOutput", "KillShell", "KillBash"),
            Can.LIST_FOLDER: ("LS",),
            Can.KEEP_TASKS: ("TodoRead",),
            Can.LOAD_SKILL: ("SlashCommand",),
        },
    ),
    Toolbox(
        key="codex",
        title="Codex",
        source="github.com/openai/codex: codex-rs/tools/src/tool_registry_plan.rs at 107b75a",
        date=_LOOKED_UP,
        names_servers=True,
        tools={
            Can.WRITE_FILE: ("apply_patch",),
            Can.EDIT_FILE: ("apply_patch",),
            Can.RUN_COMMAND: ("exec_command", "shell_command", "local_shell", "shell"),
            Can.SEARCH_WEB: ("web_search",),
            Can.ASK_USER: ("request_user_input",),
            Can.KEEP_TASKS: ("update_plan",),
            Can.DELEGATE: ("spawn_agent",),
            Can.VIEW_IMAGE: ("view_image",),
            Can.READ_RESOURCE: ("read_mcp_resource",),
        },
        former={
            Can.READ_FILE: ("read_file",),
            Can.LIST_FOLDER: ("list_dir",),
            Can.SEARCH_TEXT: ("grep_files",),
        },
    ),
    Toolbox(
        key="gemini",
        title="Gemini CLI",
        source="github.com/google-gemini/gemini-cli: packages/core/src/tools/tool-names.ts at 5411f11",
        date=_LOOKED_UP,
        tools={
            Can.READ_FILE: ("read_file", "read_many_files"),
            Can.WRITE_FILE: ("write_file",),
            Can.EDIT_FILE: ("replace",),
            Can.RUN_COMMAND: ("run_shell_command",),
            Can.LIST_FOLDER: ("list_directory",),
            Can.FIND_FILES: ("glob",),
            Can.SEARCH_TEXT: ("grep_search",),
            Can.FETCH_PAGE: ("web_fetch",),
            Can.SEARCH_WEB: ("google_web_search",),
            Can.ASK_USER: ("ask_user",),
            Can.KEEP_TASKS: ("write_todos",),
            Can.DELEGATE: ("invoke_agent",),
            Can.VIEW_IMAGE: ("read_file",),
            Can.LOAD_SKILL: ("activate_skill",),
            Can.READ_RESOURCE: ("read_mcp_resource",),
            Can.PLAN: ("exit_plan_mode", "enter_plan_mode"),
        },
        former={Can.SEARCH_TEXT: ("search_file_content",)},
    ),
    Toolbox(
        key="vscode",
        title="VS Code with Copilot",
        source="github.com/microsoft/vscode-copilot-chat: src/extension/tools/common/toolNames.ts at 00a45c7; "
        "vscode_askQuestions from public skills",
        date=_LOOKED_UP,
        tools={
            Can.READ_FILE: ("read_file",),
            Can.WRITE_FILE: ("create_file",),
            Can.EDIT_FILE: (
                "replace_string_in_file",
                "multi_replace_string_in_file",
                "insert_edit_into_file",
                "apply_patch",
                "edit_notebook_file",
            ),
            Can.RUN_COMMAND: ("run_in_terminal",),
            Can.LIST_FOLDER: ("list_dir",),
            Can.FIND_FILES: ("file_search",),
            Can.SEARCH_TEXT: ("grep_search", "semantic_search"),
            Can.FETCH_PAGE: ("fetch_webpage",),
            Can.ASK_USER: ("vscode_askQuestions",),
            Can.KEEP_TASKS: ("manage_todo_list",),
            Can.DELEGATE: ("runSubagent",),
        },
        former={
            Can.EDIT_FILE: ("editFiles",),
            Can.RUN_COMMAND: ("runInTerminal", "runCommands"),
            Can.FETCH_PAGE: ("fetch",),
        },
    ),
    Toolbox(
        key="cursor",
        title="Cursor",
        source="github.com/x1xhlol/system-prompts-and-models-of-ai-tools: Cursor Prompts/Agent Prompt 2.0.txt at "
        "b8e9589; github.com/mksglu/context-mode: hooks/cursor/hooks.json (what a hook can match)",
        date=_LOOKED_UP,
        tools={
            Can.READ_FILE: ("Read", "read_file"),
            Can.WRITE_FILE: ("Write",),
            Can.EDIT_FILE: ("StrReplace", "search_replace", "edit_file"),
            Can.RUN_COMMAND: ("Shell", "run_terminal_cmd"),
            Can.LIST_FOLDER: ("list_dir",),
            Can.FIND_FILES: ("Glob", "glob_file_search", "file_search"),
            Can.SEARCH_TEXT: ("Grep", "SemanticSearch", "grep_search", "codebase_search"),
            Can.FETCH_PAGE: ("WebFetch",),
            Can.SEARCH_WEB: ("WebSearch", "web_search"),
            Can.ASK_USER: ("AskQuestion",),
            Can.KEEP_TASKS: ("TodoWrite", "todo_write"),
            Can.DELEGATE: ("Task",),
            Can.VIEW_IMAGE: ("Read",),
        },
    ),
    Toolbox(
        key="opencode",
        title="opencode",
        source="github.com/anomalyco/opencode: packages/web/src/content/docs/tools.mdx at 0e83f10; tool/registry.ts",
        date=_LOOKED_UP,
        tools={
            Can.READ_FILE: ("read",),
            Can.WRITE_FILE: ("write",),
            Can.EDIT_FILE: ("edit", "apply_patch"),
            Can.RUN_COMMAND: ("bash",),
            Can.FIND_FILES: ("glob",),
            Can.SEARCH_TEXT: ("grep",),
            Can.FETCH_PAGE: ("webfetch",),
            Can.SEARCH_WEB: ("websearch",),
            Can.ASK_USER: ("question",),
            Can.KEEP_TASKS: ("todowrite",),
            Can.DELEGATE: ("task",),
            Can.VIEW_IMAGE: ("read",),
            Can.LOAD_SKILL: ("skill",),
        },
        former={Can.KEEP_TASKS: ("todoread",), Can.LIST_FOLDER: ("list",)},
    ),
    Toolbox(
        key="goose",
        title="goose",
        source="github.com/block/goose: crates/goose/src/agents/platform_extensions at 0dcb08a",
        date=_LOOKED_UP,
        tools={
            Can.WRITE_FILE: ("write",),
            Can.EDIT_FILE: ("edit",),
            Can.RUN_COMMAND: ("shell",),
            Can.LIST_FOLDER: ("tree",),
            Can.KEEP_TASKS: ("todo__todo_write",),
            Can.DELEGATE: ("delegate",),
            Can.LOAD_SKILL: ("load_skill",),
        },
        former={
            Can.READ_FILE: ("developer__text_editor",),
            Can.EDIT_FILE: ("developer__text_editor",),
            Can.RUN_COMMAND: ("developer__shell",),
        },
    ),
    Toolbox(
        key="zed",
        title="Zed",
        source="github.com/zed-industries/zed: crates/agent/src/tools.rs at 04cef76, and docs/src/ai/tools.md",
        date=_LOOKED_UP,
        tools={
            Can.READ_FILE: ("read_file",),
            Can.WRITE_FILE: ("write_file",),
            Can.EDIT_FILE: ("edit_file",),
            Can.RUN_COMMAND: ("terminal",),
            Can.LIST_FOLDER: ("list_directory",),
            Can.FIND_FILES: ("find_path",),
            Can.SEARCH_TEXT: ("grep",),
            Can.FETCH_PAGE: ("fetch",),
            Can.SEARCH_WEB: ("web_search",),
            Can.KEEP_TASKS: ("update_plan",),
            Can.DELEGATE: ("spawn_agent",),
            Can.LOAD_SKILL: ("skill",),
        },
    ),
    Toolbox(
        key="cline",
        title="Cline",
        source="github.com/cline/cline: src/shared/tools.ts at 0a3eba3, and src/core/prompts/system-prompt/tools",
        date=_LOOKED_UP,
        tools={
            Can.READ_FILE: ("read_file",),
            Can.WRITE_FILE: ("write_to_file",),
            Can.EDIT_FILE: ("replace_in_file", "apply_patch"),
            Can.RUN_COMMAND: ("execute_command",),
            Can.LIST_FOLDER: ("list_files",),
            Can.SEARCH_TEXT: ("search_files",),
            Can.FETCH_PAGE: ("web_fetch",),
            Can.SEARCH_WEB: ("web_search",),
            Can.ASK_USER: ("ask_followup_question",),
            Can.VIEW_IMAGE: ("read_file",),
            Can.LOAD_SKILL: ("use_skill",),
            Can.READ_RESOURCE: ("access_mcp_resource",),
            Can.PLAN: ("plan_mode_respond",),
        },
    ),
    Toolbox(
        key="windsurf",
        title="Windsurf",
        source="github.com/x1xhlol/system-prompts-and-models-of-ai-tools: Windsurf/Tools Wave 11.txt at b8e9589",
        date=_LOOKED_UP,
        tools={
            Can.READ_FILE: ("view_file",),
            Can.WRITE_FILE: ("write_to_file",),
            Can.EDIT_FILE: ("replace_file_content",),
            Can.RUN_COMMAND: ("run_command",),
            Can.LIST_FOLDER: ("list_dir",),
            Can.FIND_FILES: ("find_by_name",),
            Can.SEARCH_TEXT: ("grep_search", "codebase_search"),
            Can.FETCH_PAGE: ("read_url_content",),
            Can.SEARCH_WEB: ("search_web",),
            Can.READ_RESOURCE: ("read_resource",),
        },
    ),
    Toolbox(
        key="agenvoy",
        title="Agenvoy",
        source="github.com/pardnchiu/Agenvoy: configs/prompts/skill_execution.md and internal/tools at 78782e8",
        date=_LOOKED_UP,
        tools={
            Can.READ_FILE: ("read_file",),
            Can.WRITE_FILE: ("write_file",),
            Can.EDIT_FILE: ("patch_file",),
            Can.RUN_COMMAND: ("run_command",),
            Can.LIST_FOLDER: ("list_files",),
            Can.FIND_FILES: ("glob_files",),
            Can.SEARCH_TEXT: ("search_files",),
            Can.FETCH_PAGE: ("fetch_page",),
            Can.SEARCH_WEB: ("search_web",),
            Can.ASK_USER: ("ask_user",),
            Can.DELEGATE: ("invoke_subagent",),
            Can.VIEW_IMAGE: ("read_file",),
            Can.LOAD_SKILL: ("run_skill",),
        },
        former={Can.SEARCH_TEXT: ("search_content",)},
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
        Can.READ_FILE: ("read_text_file", "read_multiple_files", "str_replace_based_edit_tool", "str_replace_editor"),
        Can.EDIT_FILE: ("str_replace_based_edit_tool", "str_replace_editor", "multi_replace_file_content"),
        Can.RUN_COMMAND: ("bash_tool",),
        Can.LIST_FOLDER: ("directory_tree",),
        Can.VIEW_IMAGE: ("read_media_file",),
    },
)
"""Names that skills mention and no host of the presets has."""

_BY_KEY = {toolbox.key: toolbox for toolbox in PRESETS}


def toolbox_named(key: str | None) -> Toolbox | None:
    """Return the preset with this key; None if there is none."""
    return _BY_KEY.get(key or "")
