"""What is known of coding agents; most of it was measured."""

from __future__ import annotations

from server.clients.known.sources import REGISTRY, measured
from server.clients.profile import (
    ClientProfile,
    Commands,
    Earlier,
    Evidence,
    Fact,
    Limit,
    NativeListing,
    Overflow,
    StructureUse,
    Unit,
)

__all__ = ["CODING_AGENTS"]

_CLAUDE_MCP = Evidence("code.claude.com/docs/en/mcp", "2026-08-22")

_CLAUDE_CUT = Evidence(
    "github.com/anthropics/claude-code/issues/87650; 2 KB in code.claude.com/docs/en/mcp", "2026-08-18"
)
_CLAUDE = measured("Claude Code 2.1.330")

_CLAUDE_CODE = ClientProfile(
    key="claude-code",
    title="Claude Code",
    names=("claude-code",),
    named=REGISTRY,
    earlier=(
        # Released on 2026-10-09.
        Earlier("2.1.296", {"description": Limit(2048, _CLAUDE_CUT), "instructions": Limit(2048, _CLAUDE_CUT)}),
        # Released on 2026-09-10.
        Earlier("2.1.268", {"redefines": Fact(value=True, evidence=measured("Claude Code 2.1.267"))}),
    ),
    description=Limit(4096, _CLAUDE),
    instructions=Limit(4096, _CLAUDE),
    checks_enum=Fact(value=False, evidence=_CLAUDE),
    called=Fact("mcp__{server}__{tool}", _CLAUDE),
    deferred=Limit(0, _CLAUDE),
    searched=Fact("names of tool and server, `anthropic/searchHint`, description; 4,096 of each", _CLAUDE),
    search_hint=Fact(value=True, evidence=_CLAUDE),
    structure=Fact(StructureUse.ALONE, _CLAUDE),
    reads_disk=Fact(value=False, evidence=_CLAUDE),
    redefines=Fact(value=False, evidence=_CLAUDE),
    new_tools=Fact(value=True, evidence=_CLAUDE),
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

_CODEX_LAB = measured("Codex 0.169.0")
_CODEX_SCRIPT = Limit(40_000, _CODEX_LAB, Unit.JSON)
_CODEX = ClientProfile(
    key="codex",
    title="Codex",
    names=("codex",),
    named=REGISTRY,
    # Only models without tool search and code mode see more, and the server cannot tell when it sends them.
    instructions=Limit(250, _CODEX_LAB),
    checks_enum=Fact(value=False, evidence=_CODEX_LAB),
    called=Fact("{tool} in the namespace mcp__{server}", _CODEX_LAB),
    deferred=Limit(0, _CODEX_LAB),
    searched=Fact("title, description, names of arguments, name of the server, instructions (BM25)", _CODEX_LAB),
    search_hint=Fact(value=False, evidence=_CODEX_LAB),
    result=Limit(11_984, _CODEX_LAB),
    model_results=(
        ("gpt-5.5", Limit(47_984, _CODEX_LAB)),
        ("gpt-5.6-luna", _CODEX_SCRIPT),
        ("gpt-6-sol", _CODEX_SCRIPT),
        ("gpt-6.1-terra", _CODEX_SCRIPT),
    ),
    structure=Fact(StructureUse.ALONE, _CODEX_LAB),
    redefines=Fact(value=False, evidence=_CODEX_LAB),
    new_tools=Fact(value=False, evidence=_CODEX_LAB),
    tool_name=Limit(64, Evidence("openai/codex codex-rs/codex-mcp/src/tools.rs", "2026-11-21")),
    lazy_tools=Fact(value=True, evidence=Evidence("github.com/openai/codex/issues/24536 and 33608", "2026-07-16")),
    model_reads=Fact(value=True, evidence=Evidence("github.com/openai/codex/issues/30738", "2026-06-30")),
    prompts=Fact(value=False, evidence=REGISTRY),
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

_COPILOT = measured("Copilot CLI 1.0.102")
_COPILOT_CLI = ClientProfile(
    key="copilot-cli",
    title="GitHub Copilot CLI",
    names=("copilot-cli", "github-copilot-developer"),
    named=_COPILOT,
    # Unless the user passes --allow-all-mcp-server-instructions.
    instructions=Limit(0, _COPILOT),
    called=Fact("{server}-{tool}", _COPILOT),
    lazy_tools=Fact(value=False, evidence=_COPILOT),
    result=Limit(20_480, _COPILOT, Unit.BYTES),
    structure=Fact(StructureUse.BOTH, _COPILOT),
    model_reads=Fact(value=False, evidence=_COPILOT),
    prompts=Fact(value=False, evidence=_COPILOT),
    list_changed=Fact(value=True, evidence=_COPILOT),
    redefines=Fact(value=True, evidence=_COPILOT),
    new_tools=Fact(value=True, evidence=_COPILOT),
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

_GEMINI_LAB = measured("Gemini CLI 0.61.0")
_GEMINI = ClientProfile(
    key="gemini",
    title="Gemini CLI",
    names=("gemini-cli",),
    named=_GEMINI_MCP,
    checks_enum=Fact(value=True, evidence=_GEMINI_LAB),
    called=Fact("mcp_{server}_{tool}", _GEMINI_LAB),
    own_activation=Fact(value=True, evidence=_GEMINI_LAB),
    lazy_tools=Fact(value=False, evidence=_GEMINI_LAB),
    result=Limit(40_000, _GEMINI_LAB),
    structure=Fact(StructureUse.IGNORED, _GEMINI_LAB),
    untrusted=Fact(value=True, evidence=_GEMINI_LAB),
    reads_disk=Fact(value=False, evidence=_GEMINI_LAB),
    redefines=Fact(value=True, evidence=_GEMINI_LAB),
    new_tools=Fact(value=True, evidence=_GEMINI_LAB),
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

_OPENCODE_MCP = Evidence("anomalyco/opencode packages/opencode/src/mcp/index.ts", "2026-11-21")

_OPENCODE_LAB = measured("opencode 1.18.33")
_OPENCODE = ClientProfile(
    key="opencode",
    title="opencode",
    names=("opencode",),
    named=_OPENCODE_MCP,
    called=Fact("{server}_{tool}", _OPENCODE_LAB),
    lazy_tools=Fact(value=False, evidence=_OPENCODE_LAB),
    # Or 2,000 lines: github.com/anomalyco/opencode/issues/13770.
    result=Limit(51_200, _OPENCODE_LAB, Unit.BYTES),
    structure=Fact(StructureUse.IGNORED, _OPENCODE_LAB),
    model_reads=Fact(value=True, evidence=_OPENCODE_LAB),
    reads_disk=Fact(value=False, evidence=_OPENCODE_LAB),
    redefines=Fact(value=True, evidence=_OPENCODE_LAB),
    new_tools=Fact(value=True, evidence=_OPENCODE_LAB),
    prompts=Fact(value=True, evidence=_OPENCODE_MCP),
    list_changed=Fact(value=True, evidence=_OPENCODE_MCP),
    compaction=Fact(value=True, evidence=Evidence("github.com/anomalyco/opencode/issues/14825", "2026-02-23")),
    commands=Commands(
        "connect compact summarize details editor exit quit export help init models new clear redo",
        Evidence("developersdigest.tech/reference/opencode/slash-commands", "2026-11-21"),
    ),
    toolbox="opencode",
)

_CLINE_HUB = Evidence("cline/cline apps/vscode/src/services/mcp/McpHub.ts", "2026-08-22")

_CLINE_LAB = measured("Cline CLI 3.0.65")
_CLINE = ClientProfile(
    key="cline",
    title="Cline",
    names=("cline", "@cline/core"),
    named=_CLINE_HUB,
    tool_name=Limit(64, Evidence("cline/cline sdk/packages/core/src/extensions/mcp/name-transform.ts", "2026-08-22")),
    instructions=Limit(0, _CLINE_LAB),
    called=Fact("{server}__{tool}", _CLINE_LAB),
    lazy_tools=Fact(value=False, evidence=_CLINE_LAB),
    result=Limit(8_000, _CLINE_LAB, Unit.JSON),
    structure=Fact(StructureUse.BOTH, _CLINE_LAB),
    model_reads=Fact(value=False, evidence=_CLINE_LAB),
    prompts=Fact(value=False, evidence=_CLINE_LAB),
    # The extension of VS Code follows list_changed (McpHub.ts), the command line does not.
    list_changed=Fact(value=False, evidence=_CLINE_LAB),
    redefines=Fact(value=False, evidence=_CLINE_LAB),
    new_tools=Fact(value=False, evidence=_CLINE_LAB),
    compaction=Fact(value=True, evidence=Evidence("cline/cline docs/core-workflows/task-management.mdx", "2026-08-22")),
    native=NativeListing(Evidence("cline/cline docs/customization/skills.mdx", "2026-08-22")),
    toolbox="cline",
)

_FAST_AGENT_LAB = measured("fast-agent 0.10.46")
_FAST_AGENT = ClientProfile(
    key="fast-agent",
    title="fast-agent",
    names=("fast-agent",),
    named=Evidence("evalstate/fast-agent src/fast_agent/mcp/client_callback_runtime.py", "2026-08-18"),
    called=Fact("{server}__{tool}", _FAST_AGENT_LAB),
    lazy_tools=Fact(value=False, evidence=_FAST_AGENT_LAB),
    result=Limit(16_000, _FAST_AGENT_LAB, Unit.BYTES),
    structure=Fact(StructureUse.ALONE, _FAST_AGENT_LAB),
    model_reads=Fact(value=False, evidence=_FAST_AGENT_LAB),
    # A change becomes visible only in the next turn.
    redefines=Fact(value=False, evidence=_FAST_AGENT_LAB),
    tool_name=Limit(64, Evidence("evalstate/fast-agent src/fast_agent/mcp/common.py", "2026-08-18")),
    list_changed=Fact(
        value=True, evidence=Evidence("evalstate/fast-agent src/fast_agent/mcp/mcp_aggregator.py", "2026-08-18")
    ),
    compaction=Fact(value=True, evidence=Evidence("evalstate/fast-agent src/fast_agent/config.py", "2026-08-18")),
    native=NativeListing(Evidence("evalstate/fast-agent src/fast_agent/skills/registry.py", "2026-08-18"), frame=150),
)

_QWEN_LAB = measured("Qwen Code 0.24.4")
_QWEN = ClientProfile(
    key="qwen",
    title="Qwen Code",
    names=("qwen-cli-mcp-client",),
    named=_QWEN_LAB,
    checks_enum=Fact(value=True, evidence=_QWEN_LAB),
    called=Fact("mcp__{server}__{tool}, by tool_call", _QWEN_LAB),
    lazy_tools=Fact(value=True, evidence=_QWEN_LAB),
    always_load=Fact(value=False, evidence=_QWEN_LAB),
    deferred=Limit(160, _QWEN_LAB),
    searched=Fact("parts of the tool's name, description, name of the server", _QWEN_LAB),
    search_hint=Fact(value=False, evidence=_QWEN_LAB),
    search_answer=Limit(28_000, _QWEN_LAB),
    result=Limit(28_000, _QWEN_LAB),
    structure=Fact(StructureUse.BOTH, _QWEN_LAB),
    model_reads=Fact(value=False, evidence=_QWEN_LAB),
    prompts=Fact(value=True, evidence=_QWEN_LAB),
    list_changed=Fact(value=False, evidence=_QWEN_LAB),
    redefines=Fact(value=False, evidence=_QWEN_LAB),
    new_tools=Fact(value=False, evidence=_QWEN_LAB),
)

_CONTINUE_LAB = measured("Continue CLI 1.5.47")
_CONTINUE = ClientProfile(
    key="continue",
    title="Continue CLI",
    names=("continue-cli-client",),
    named=_CONTINUE_LAB,
    instructions=Limit(0, _CONTINUE_LAB),
    called=Fact("{tool}", _CONTINUE_LAB),
    lazy_tools=Fact(value=False, evidence=_CONTINUE_LAB),
    structure=Fact(StructureUse.IGNORED, _CONTINUE_LAB),
    model_reads=Fact(value=False, evidence=_CONTINUE_LAB),
    list_changed=Fact(value=False, evidence=_CONTINUE_LAB),
    redefines=Fact(value=False, evidence=_CONTINUE_LAB),
    new_tools=Fact(value=False, evidence=_CONTINUE_LAB),
)

CODING_AGENTS: tuple[ClientProfile, ...] = (
    _CLAUDE_CODE,
    _CODEX,
    _GEMINI,
    _OPENCODE,
    _COPILOT_CLI,
    _QWEN,
    _CLINE,
    _CONTINUE,
    _FAST_AGENT,
)
