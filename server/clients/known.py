"""The known facts about clients, with sources and dates.

A file's name refers to the client's public source code. A date is that of the source, or the day on which it was read.
Facts without a source are left out.
"""

from __future__ import annotations

from server.clients.profile import ClientProfile, Commands, Evidence, Fact, Limit, NativeListing, Overflow

__all__ = ["KNOWN_CLIENTS"]

_REGISTRY = Evidence("github.com/apify/mcp-client-capabilities, mcp-clients.json", "2026-02-02")

_CLAUDE_MCP = Evidence("code.claude.com/docs/en/mcp", "2026-08-22")
_CLAUDE_CUT = Evidence(
    "github.com/anthropics/claude-code/issues/87650; 2 KB in code.claude.com/docs/en/mcp", "2026-08-18"
)
_CLAUDE_CODE = ClientProfile(
    key="claude-code",
    title="Claude Code",
    names=("claude-code",),
    named=_REGISTRY,
    description=Limit(2048, _CLAUDE_CUT),
    instructions=Limit(2048, _CLAUDE_CUT),
    result=Limit(50_000, Evidence("code.claude.com/docs/en/mcp, as qiita.com/akihidem tells its change", "2026-10-05")),
    raised_result=Limit(500_000, _CLAUDE_MCP),
    tool_name=Limit(128, Evidence("github.com/xsyetopz/claudetto/wiki/Claude-Code-MCP-Runtime", "2026-10-19")),
    lazy_tools=Fact(value=True, evidence=_CLAUDE_MCP),
    always_load=Fact(value=True, evidence=_CLAUDE_MCP),
    model_reads=Fact(value=True, evidence=_CLAUDE_MCP),
    prompts=Fact(value=True, evidence=_CLAUDE_MCP),
    list_changed=Fact(value=True, evidence=_CLAUDE_MCP),
    compaction=Fact(value=True, evidence=Evidence("code.claude.com/docs/en/skills", "2026-08-22")),
    native=NativeListing(
        Evidence("code.claude.com/docs/en/skills; github.com/anthropics/claude-code/issues/64606", "2026-08-22"),
        percent=1,
        entry=1536,
        overflow=Overflow.NAMES,
    ),
    commands=Commands(
        "add-dir advisor agents artifacts auto-mode-setup autocompact autofix-pr background batch branch btw bug "
        "cd chrome claude-api clear code-review color compact config context copy cost dataviz debug deep-research "
        "design-login design-sync desktop diff doctor effort exit export fast feedback fewer-permission-prompts "
        "focus fork goal heapdump help hooks ide import init insights install-github-app install-slack-app "
        "keybindings list-agents login logout loop mcp memory mobile model passes permissions plan plugin "
        "powerup pr-comments privacy-settings radio recap release-notes reload-plugins reload-skills remote-control "
        "remote-env rename resume review rewind run run-skill-generator sandbox schedule scroll-speed "
        "security-review setup-bedrock setup-vertex simplify skills stats status statusline stickers stop subtask "
        "tasks team-onboarding teleport terminal-setup theme tui ultraplan ultrareview upgrade usage usage-credits "
        "verify vim voice web-setup workflows",
        Evidence("code.claude.com/docs/en/commands", "2026-08-22"),
    ),
    toolbox="claude-code",
)

_CLAUDE_DESKTOP = ClientProfile(
    key="claude-desktop",
    title="Claude Desktop and claude.ai",
    names=("claude-ai",),
    named=_REGISTRY,
    # Measured when a connector is added; a refresh did not enforce it.
    schema=Fact(16_384, Evidence("github.com/anthropics/claude-code/issues/77296", "2026-07-13")),
    result=Limit(1_000_000, Evidence("github.com/anthropics/claude-code/issues/66519: 1 MB", "2026-06-09")),
    tool_name=Limit(64, Evidence("github.com/anthropics/claude-code/issues/34960", "2026-03-16")),
    prompts=Fact(value=True, evidence=_REGISTRY),
    list_changed=Fact(
        value=False, evidence=Evidence("github.com/anthropics/claude-ai-mcp/issues/45 and 137", "2026-04-02")
    ),
)

_CODEX = ClientProfile(
    key="codex",
    title="Codex",
    names=("codex",),
    named=_REGISTRY,
    # Models differ: some count 10,000 tokens.
    result=Limit(10_000, Evidence("github.com/openai/codex/issues/7906 and 6544", "2025-12-12")),
    tool_name=Limit(64, Evidence("openai/codex codex-rs/codex-mcp/src/tools.rs", "2026-11-21")),
    lazy_tools=Fact(value=True, evidence=Evidence("github.com/openai/codex/issues/24536 and 33608", "2026-07-16")),
    model_reads=Fact(value=True, evidence=Evidence("github.com/openai/codex/issues/30738", "2026-06-30")),
    prompts=Fact(value=False, evidence=_REGISTRY),
    list_changed=Fact(value=False, evidence=Evidence("github.com/openai/codex/issues/10105", "2026-07-03")),
    compaction=Fact(value=True, evidence=Evidence("github.com/openai/codex/issues/41445", "2026-11-21")),
    native=NativeListing(
        Evidence("openai/codex codex-rs/core-skills/src/render.rs", "2026-11-21"),
        percent=2,
        # "- ", ": ", " (file: ", the path and ")"; a path has some 50 characters.
        frame=64,
        overflow=Overflow.SHORTENED,
    ),
    commands=Commands(
        "model approvals experimental skills review new resume init compact diff mention status mcp logout quit "
        "exit feedback ps",
        Evidence("openai/codex codex-rs/tui/src/slash_command.rs", "2026-11-21"),
    ),
    toolbox="codex",
)

_CURSOR_BLOG = Evidence("cursor.com/blog/dynamic-context-discovery", "2026-11-21")
_CURSOR = ClientProfile(
    key="cursor",
    title="Cursor",
    names=("cursor",),
    named=_REGISTRY,
    max_tools=Fact(80, Evidence("github.com/Snowflake-Labs/mcp/issues/77, 40 before", "2025-09-02")),
    tool_name=Limit(60, Evidence("github.com/awslabs/mcp/issues/1283, with the server's name", "2025-09-15")),
    lazy_tools=Fact(value=True, evidence=_CURSOR_BLOG),
    prompts=Fact(value=True, evidence=_REGISTRY),
    list_changed=Fact(value=True, evidence=_REGISTRY),
    compaction=Fact(value=True, evidence=_CURSOR_BLOG),
    toolbox="cursor",
)

_CAN_I_MCP = Evidence("canimcp.dev/client/visual-studio-code", "2026-11-21")
_VSCODE = ClientProfile(
    key="vscode",
    title="VS Code (GitHub Copilot)",
    names=("visual studio code", "visual-studio-code"),
    named=_REGISTRY,
    max_tools=Fact(128, Evidence("mcpbundles.com/guides/how-many-tools", "2026-11-21")),
    model_reads=Fact(value=False, evidence=_CAN_I_MCP),
    prompts=Fact(value=True, evidence=_CAN_I_MCP),
    list_changed=Fact(value=True, evidence=_CAN_I_MCP),
    compaction=Fact(value=True, evidence=Evidence("github.com/microsoft/vscode/issues/320346", "2026-06-08")),
    toolbox="vscode",
)

_COPILOT_CLI = ClientProfile(
    key="copilot-cli",
    title="GitHub Copilot CLI",
    names=("github-copilot-developer",),
    named=_REGISTRY,
    result=Limit(30_720, Evidence("github.com/github/copilot-sdk/issues/1091; copilot-cli/issues/1732", "2026-04-16")),
    compaction=Fact(value=True, evidence=Evidence("github.com/github/copilot-cli/issues/1245", "2026-04-29")),
    native=NativeListing(
        Evidence("github.com/github/copilot-cli/issues/2314; GitHub-Copilot-for-Azure/issues/1227", "2026-03-26"),
        characters=15_000,
        # An element for each of name, description and location.
        frame=110,
        overflow=Overflow.OMITTED,
    ),
)

_GEMINI_MCP = Evidence("google-gemini/gemini-cli packages/core/src/tools/mcp-client.ts", "2026-08-21")
_GEMINI = ClientProfile(
    key="gemini",
    title="Gemini CLI",
    names=("gemini-cli",),
    named=_GEMINI_MCP,
    result=Limit(40_000, Evidence("google-gemini/gemini-cli packages/core/src/config/config.ts", "2026-08-21")),
    tool_name=Limit(63, Evidence("google-gemini/gemini-cli packages/core/src/tools/mcp-tool.ts", "2026-08-21")),
    model_reads=Fact(
        value=True,
        evidence=Evidence("google-gemini/gemini-cli packages/core/src/tools/read-mcp-resource.ts", "2026-08-21"),
    ),
    prompts=Fact(
        value=True, evidence=Evidence("google-gemini/gemini-cli packages/core/src/prompts/mcp-prompts.ts", "2026-08-21")
    ),
    list_changed=Fact(value=True, evidence=_GEMINI_MCP),
    compaction=Fact(
        value=True, evidence=Evidence("google-gemini/gemini-cli packages/core/src/config/config.ts", "2026-08-21")
    ),
    native=NativeListing(
        Evidence("google-gemini/gemini-cli packages/core/src/prompts/snippets.ts", "2026-08-21"), frame=150
    ),
    commands=Commands(
        "about agents auth bug chat clear commands compress copy corgi directory docs editor export-session "
        "extensions footer gemma help hooks ide init mcp memory model oncall permissions plan policies privacy "
        "profile quit restore resume rewind settings setup-github shortcuts skills stats tasks terminal-setup "
        "theme tools upgrade vim voice",
        Evidence("google-gemini/gemini-cli packages/cli/src/ui/commands", "2026-08-21"),
    ),
    toolbox="gemini",
)

_GOOSE = ClientProfile(
    key="goose",
    title="Goose",
    names=("goose",),
    named=_REGISTRY,
    result=Limit(200_000, Evidence("aaif-goose/goose crates/goose/src/agents/large_response_handler.rs", "2026-11-21")),
    model_reads=Fact(value=True, evidence=Evidence("github.com/aaif-goose/goose/pull/5344", "2025-10-23")),
    prompts=Fact(value=True, evidence=_REGISTRY),
    list_changed=Fact(
        value=True, evidence=Evidence("aaif-goose/goose crates/goose/src/agents/mcp_client.rs", "2026-11-21")
    ),
    compaction=Fact(
        value=True,
        evidence=Evidence("aaif-goose/goose documentation, guides/sessions/smart-context-management", "2026-11-21"),
    ),
    toolbox="goose",
)

_ZED = ClientProfile(
    key="zed",
    title="Zed",
    names=("zed",),
    named=Evidence("zed-industries/zed crates/context_server/src/context_server.rs", "2026-11-21"),
    model_reads=Fact(value=False, evidence=_REGISTRY),
    prompts=Fact(value=True, evidence=_REGISTRY),
    list_changed=Fact(value=True, evidence=Evidence("github.com/zed-industries/zed/pull/42453", "2025-11-11")),
    toolbox="zed",
)

_OPENCODE_MCP = Evidence("anomalyco/opencode packages/opencode/src/mcp/index.ts", "2026-11-21")
_OPENCODE = ClientProfile(
    key="opencode",
    title="opencode",
    names=("opencode",),
    named=_OPENCODE_MCP,
    result=Limit(51_200, Evidence("github.com/anomalyco/opencode/issues/13770, or 2,000 lines", "2026-02-15")),
    prompts=Fact(value=True, evidence=_OPENCODE_MCP),
    list_changed=Fact(value=True, evidence=_OPENCODE_MCP),
    compaction=Fact(value=True, evidence=Evidence("github.com/anomalyco/opencode/issues/14825", "2026-02-23")),
    commands=Commands(
        "connect compact summarize details editor exit quit export help init models new clear redo",
        Evidence("developersdigest.tech/reference/opencode/slash-commands", "2026-11-21"),
    ),
    toolbox="opencode",
)

_WINDSURF = ClientProfile(
    key="windsurf",
    title="Windsurf",
    names=("windsurf",),
    named=_REGISTRY,
    max_tools=Fact(100, Evidence("docs.windsurf.com/windsurf/cascade/mcp", "2026-11-21")),
    prompts=Fact(value=True, evidence=_REGISTRY),
    list_changed=Fact(value=True, evidence=_REGISTRY),
    toolbox="windsurf",
)

_CLINE_HUB = Evidence("cline/cline apps/vscode/src/services/mcp/McpHub.ts", "2026-08-22")
_CLINE = ClientProfile(
    key="cline",
    title="Cline",
    names=("cline", "@cline/core"),
    named=_CLINE_HUB,
    tool_name=Limit(64, Evidence("cline/cline sdk/packages/core/src/extensions/mcp/name-transform.ts", "2026-08-22")),
    list_changed=Fact(value=True, evidence=_CLINE_HUB),
    compaction=Fact(value=True, evidence=Evidence("cline/cline docs/core-workflows/task-management.mdx", "2026-08-22")),
    native=NativeListing(Evidence("cline/cline docs/customization/skills.mdx", "2026-08-22")),
    toolbox="cline",
)

_AGENVOY_STDIO = Evidence("pardnchiu/Agenvoy internal/toolAdapter/mcp/stdio.go at 78782e8", "2026-07-01")
_AGENVOY_CLIENT = Evidence("pardnchiu/Agenvoy internal/toolAdapter/mcp/client.go at 78782e8: only tools", "2026-07-01")
_AGENVOY = ClientProfile(
    key="agenvoy",
    title="Agenvoy",
    names=("agenvoy",),
    named=_AGENVOY_STDIO,
    # Counted in bytes of UTF-8.
    result=Limit(
        1_048_576, Evidence("pardnchiu/Agenvoy internal/toolAdapter/mcp/register.go at 78782e8: 1 MiB", "2026-07-01")
    ),
    model_reads=Fact(value=False, evidence=_AGENVOY_CLIENT),
    prompts=Fact(value=False, evidence=_AGENVOY_CLIENT),
    list_changed=Fact(value=False, evidence=_AGENVOY_STDIO),
    toolbox="agenvoy",
)

_INSPECTOR = ClientProfile(
    key="inspector",
    title="MCP Inspector",
    names=("mcp-inspector", "inspector-"),
    named=Evidence("modelcontextprotocol/inspector core/mcp/inspectorClient.ts, clients/cli/src/cli.ts", "2026-08-19"),
    list_changed=Fact(
        value=True, evidence=Evidence("modelcontextprotocol/inspector core/mcp/inspectorClient.ts", "2026-08-19")
    ),
)

_FAST_AGENT = ClientProfile(
    key="fast-agent",
    title="fast-agent",
    names=("fast-agent",),
    named=Evidence("evalstate/fast-agent src/fast_agent/mcp/client_callback_runtime.py", "2026-08-18"),
    tool_name=Limit(64, Evidence("evalstate/fast-agent src/fast_agent/mcp/common.py", "2026-08-18")),
    list_changed=Fact(
        value=True, evidence=Evidence("evalstate/fast-agent src/fast_agent/mcp/mcp_aggregator.py", "2026-08-18")
    ),
    compaction=Fact(value=True, evidence=Evidence("evalstate/fast-agent src/fast_agent/config.py", "2026-08-18")),
    native=NativeListing(Evidence("evalstate/fast-agent src/fast_agent/skills/registry.py", "2026-08-18"), frame=150),
)

_CHATGPT = ClientProfile(
    key="chatgpt",
    title="ChatGPT",
    names=("openai-mcp", "chatgpt"),
    named=Evidence("github.com/basicmachines-co/basic-memory/pull/1035", "2026-07-03"),
    list_changed=Fact(
        value=False,
        evidence=Evidence("community.openai.com/t/1395374: a button refreshes the tools of a server", "2026-11-21"),
    ),
)

KNOWN_CLIENTS: tuple[ClientProfile, ...] = (
    _CLAUDE_CODE,
    _CLAUDE_DESKTOP,
    _CODEX,
    _CURSOR,
    _VSCODE,
    _COPILOT_CLI,
    _GEMINI,
    _GOOSE,
    _ZED,
    _OPENCODE,
    _WINDSURF,
    _CLINE,
    _AGENVOY,
    _INSPECTOR,
    _FAST_AGENT,
    _CHATGPT,
)
