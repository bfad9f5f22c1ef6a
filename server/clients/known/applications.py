"""What is known of applications and editors."""

from __future__ import annotations

from server.clients.known.sources import REGISTRY
from server.clients.profile import ClientProfile, Evidence, Fact, Limit, Unit

__all__ = ["APPLICATIONS"]

_CLAUDE_DESKTOP = ClientProfile(
    key="claude-desktop",
    title="Claude Desktop and claude.ai",
    names=("claude-ai",),
    named=REGISTRY,
    # Measured when a connector is added; a refresh did not enforce it.
    schema=Fact(16_384, Evidence("github.com/anthropics/claude-code/issues/77296", "2026-07-13")),
    result=Limit(1_000_000, Evidence("github.com/anthropics/claude-code/issues/66519: 1 MB", "2026-06-09")),
    tool_name=Limit(64, Evidence("github.com/anthropics/claude-code/issues/34960", "2026-03-16")),
    prompts=Fact(value=True, evidence=REGISTRY),
    list_changed=Fact(
        value=False, evidence=Evidence("github.com/anthropics/claude-ai-mcp/issues/45 and 137", "2026-04-02")
    ),
)

_CURSOR_BLOG = Evidence("cursor.com/blog/dynamic-context-discovery", "2026-11-21")

_CURSOR = ClientProfile(
    key="cursor",
    title="Cursor",
    names=("cursor",),
    named=REGISTRY,
    max_tools=Fact(80, Evidence("github.com/Snowflake-Labs/mcp/issues/77, 40 before", "2025-09-02")),
    tool_name=Limit(60, Evidence("github.com/awslabs/mcp/issues/1283, with the server's name", "2025-09-15")),
    lazy_tools=Fact(value=True, evidence=_CURSOR_BLOG),
    prompts=Fact(value=True, evidence=REGISTRY),
    list_changed=Fact(value=True, evidence=REGISTRY),
    compaction=Fact(value=True, evidence=_CURSOR_BLOG),
    toolbox="cursor",
)

_CAN_I_MCP = Evidence("canimcp.dev/client/visual-studio-code", "2026-11-21")

_VSCODE = ClientProfile(
    key="vscode",
    title="VS Code (GitHub Copilot)",
    names=("visual studio code", "visual-studio-code"),
    named=REGISTRY,
    max_tools=Fact(128, Evidence("mcpbundles.com/guides/how-many-tools", "2026-11-21")),
    model_reads=Fact(value=False, evidence=_CAN_I_MCP),
    prompts=Fact(value=True, evidence=_CAN_I_MCP),
    list_changed=Fact(value=True, evidence=_CAN_I_MCP),
    compaction=Fact(value=True, evidence=Evidence("github.com/microsoft/vscode/issues/320346", "2026-06-08")),
    toolbox="vscode",
)

_GOOSE = ClientProfile(
    key="goose",
    title="Goose",
    names=("goose",),
    named=REGISTRY,
    result=Limit(200_000, Evidence("aaif-goose/goose crates/goose/src/agents/large_response_handler.rs", "2026-11-21")),
    model_reads=Fact(value=True, evidence=Evidence("github.com/aaif-goose/goose/pull/5344", "2025-10-23")),
    prompts=Fact(value=True, evidence=REGISTRY),
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
    model_reads=Fact(value=False, evidence=REGISTRY),
    prompts=Fact(value=True, evidence=REGISTRY),
    list_changed=Fact(value=True, evidence=Evidence("github.com/zed-industries/zed/pull/42453", "2025-11-11")),
    toolbox="zed",
)

_WINDSURF = ClientProfile(
    key="windsurf",
    title="Windsurf",
    names=("windsurf",),
    named=REGISTRY,
    max_tools=Fact(100, Evidence("docs.windsurf.com/windsurf/cascade/mcp", "2026-11-21")),
    prompts=Fact(value=True, evidence=REGISTRY),
    list_changed=Fact(value=True, evidence=REGISTRY),
    toolbox="windsurf",
)

_AGENVOY_STDIO = Evidence("pardnchiu/Agenvoy internal/toolAdapter/mcp/stdio.go at 78782e8", "2026-07-01")

_AGENVOY_CLIENT = Evidence("pardnchiu/Agenvoy internal/toolAdapter/mcp/client.go at 78782e8: only tools", "2026-07-01")

_AGENVOY = ClientProfile(
    key="agenvoy",
    title="Agenvoy",
    names=("agenvoy",),
    named=_AGENVOY_STDIO,
    result=Limit(
        1_048_576,
        Evidence("pardnchiu/Agenvoy internal/toolAdapter/mcp/register.go at 78782e8: 1 MiB", "2026-07-01"),
        Unit.BYTES,
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

APPLICATIONS: tuple[ClientProfile, ...] = (
    _CLAUDE_DESKTOP,
    _CURSOR,
    _VSCODE,
    _GOOSE,
    _ZED,
    _WINDSURF,
    _AGENVOY,
    _INSPECTOR,
    _CHATGPT,
)
