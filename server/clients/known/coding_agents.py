"""What is known of the coding agents of vendors of models; most of it was measured."""

from __future__ import annotations

from server.clients.known.sources import REGISTRY, measured, read_in
from server.clients.profile import (
    ClientProfile,
    Commands,
    Earlier,
    Evidence,
    Fact,
    Limit,
    NativeListing,
    Overflow,
    Raises,
    StructureUse,
    Unit,
    UserOption,
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
    loaded=Limit(16_384, _CLAUDE),
    searched=Fact("names of tool and server, `anthropic/searchHint`, description; 4,096 of each", _CLAUDE),
    search_hint=Fact(value=True, evidence=_CLAUDE),
    structure=Fact(StructureUse.ALONE, _CLAUDE),
    cut_result=Fact("the path of a file that holds it", _CLAUDE),
    embedded=Fact("kept, also beside `structuredContent`", _CLAUDE),
    links=Fact("kept, with the description", _CLAUDE),
    prompt_called=Fact("/mcp__skills__x, in the terminal also /skills:x", _CLAUDE),
    protocol=Fact("2026-07-28, by server/discover; else 2025-11-25", _CLAUDE),
    capabilities=Fact("roots, elicitation", _CLAUDE),
    options=(UserOption("CLAUDE_CODE_MAX_MCP_DESCRIPTION_LENGTH", Raises.DESCRIPTION, _CLAUDE),),
    notes=(
        Fact("The model reads resources with `ReadMcpResourceTool`.", _CLAUDE),
        Fact("A tool of a new name is ready for use if it has `anthropic/alwaysLoad`, else only named.", _CLAUDE),
        Fact("It does not say that a tool with `anthropic/alwaysLoad` is gone.", _CLAUDE),
        Fact("`anthropic/requiresUserInteraction` asks the user at each call.", read_in("Claude Code 2.1.330")),
        Fact(
            "It has a client for `skills/list` and `skills/get`, behind a flag that is off.",
            read_in("Claude Code 2.1.330"),
        ),
    ),
    reads_disk=Fact(value=False, evidence=_CLAUDE),
    starts_in_workspace=Fact(value=True, evidence=_CLAUDE),
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
_CODEX_SCRIPT = Limit(40_000, _CODEX_LAB, Unit.JSON_BYTES)
_CODEX = ClientProfile(
    key="codex",
    title="Codex",
    names=("codex",),
    named=REGISTRY,
    # Only models without tool search and code mode see more, and the server cannot tell when it sends them.
    instructions=Limit(250, _CODEX_LAB),
    whole=Fact(("description",), _CODEX_LAB),
    checks_enum=Fact(value=False, evidence=_CODEX_LAB),
    called=Fact("{tool} in the namespace mcp__{server}", _CODEX_LAB),
    deferred=Limit(0, _CODEX_LAB),
    searched=Fact("title, description, names of arguments, name of the server, instructions (BM25)", _CODEX_LAB),
    search_hint=Fact(value=False, evidence=_CODEX_LAB),
    result=Limit(11_984, _CODEX_LAB, Unit.BYTES),
    model_results=(
        ("gpt-5.5", Limit(47_984, _CODEX_LAB, Unit.BYTES)),
        ("gpt-5.6-luna", _CODEX_SCRIPT),
        ("gpt-6-sol", _CODEX_SCRIPT),
        ("gpt-6.1-terra", _CODEX_SCRIPT),
    ),
    structure=Fact(StructureUse.ALONE, _CODEX_LAB),
    # Its shell, in the sandboxes read-only (the default of `codex exec`) and workspace-write.
    reads_disk=Fact(value=True, evidence=_CODEX_LAB),
    starts_in_workspace=Fact(value=True, evidence=_CODEX_LAB),
    cut_result=Fact("the beginning and the end", _CODEX_LAB),
    embedded=Fact("JSON, if there is no `structuredContent`", _CODEX_LAB),
    links=Fact("JSON, if there is no `structuredContent`", _CODEX_LAB),
    protocol=Fact("2025-06-18", _CODEX_LAB),
    capabilities=Fact("elicitation", _CODEX_LAB),
    options=(UserOption("required = true", Raises.START, _CODEX_LAB, "waits 30 s for the server, then the run fails"),),
    notes=(
        Fact("The model reads resources with `read_mcp_resource`.", _CODEX_LAB),
        Fact("A model that it does not know gets all tools and the whole instructions at once.", _CODEX_LAB),
        Fact("After a tool search, the whole instructions are shown.", _CODEX_LAB),
        Fact(
            "gpt-5.6-luna, gpt-6-sol and gpt-6.1-terra search by a script (code mode): it filters the descriptions, "
            "with which the whole instructions stand, and reads text and `structuredContent` of results.",
            _CODEX_LAB,
        ),
        Fact("It drops default, pattern, format and examples from schemas.", _CODEX_LAB),
        Fact(
            "`codex exec` waits 0.95 s for a server's first answer, then goes on without its tools; "
            "`startup_timeout_sec` does not change that.",
            _CODEX_LAB,
        ),
    ),
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
    whole=Fact(("description",), _COPILOT),
    cut_result=Fact("the path of a file that holds it, and the first 500", _COPILOT),
    embedded=Fact("text", _COPILOT),
    links=Fact("dropped", _COPILOT),
    protocol=Fact("2026-07-28", _COPILOT),
    capabilities=Fact("sampling, elicitation", _COPILOT),
    options=(
        UserOption("--allow-all-mcp-server-instructions", Raises.INSTRUCTIONS, _COPILOT),
        UserOption("deferTools", Raises.TOOLS, read_in("Copilot CLI 1.0.102"), "set to never"),
    ),
    notes=(Fact("Several blocks of text are joined without a break.", _COPILOT),),
    model_reads=Fact(value=False, evidence=_COPILOT),
    reads_disk=Fact(value=False, evidence=_COPILOT),
    starts_in_workspace=Fact(value=True, evidence=_COPILOT),
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
    whole=Fact(("description", "instructions"), _GEMINI_LAB),
    framed=Fact("instructions as context of the project, without a caution", _GEMINI_LAB),
    called=Fact("mcp_{server}_{tool}", _GEMINI_LAB),
    own_activation=Fact(value=True, evidence=_GEMINI_LAB),
    lazy_tools=Fact(value=False, evidence=_GEMINI_LAB),
    result=Limit(40_000, _GEMINI_LAB),
    structure=Fact(StructureUse.IGNORED, _GEMINI_LAB),
    cut_result=Fact("the first 8,000 and the last 32,000", _GEMINI_LAB),
    embedded=Fact("text", _GEMINI_LAB),
    links=Fact("title and URI", _GEMINI_LAB),
    prompt_called=Fact("/x", _GEMINI_LAB),
    protocol=Fact("2025-06-18", _GEMINI_LAB),
    capabilities=Fact("roots", _GEMINI_LAB),
    options=(UserOption("truncateToolOutputThreshold", Raises.RESULTS, read_in("Gemini CLI 0.61.0")),),
    notes=(
        Fact(
            "The model reads resources with `read_mcp_resource`, and only those that `resources/list` has.", _GEMINI_LAB
        ),
        Fact("Resource links, `read_mcp_resource`, prompts and errors are not framed as untrusted.", _GEMINI_LAB),
        Fact("A result with `structuredContent` and no text shows nothing.", _GEMINI_LAB),
        Fact("It adds the argument `wait_for_previous` to schemas.", _GEMINI_LAB),
        Fact("It warns the model at the fifth identical call in a row.", _GEMINI_LAB),
    ),
    untrusted=Fact(value=True, evidence=_GEMINI_LAB),
    reads_disk=Fact(value=False, evidence=_GEMINI_LAB),
    starts_in_workspace=Fact(value=True, evidence=_GEMINI_LAB),
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
    # Descriptions once the client's search has loaded the tool.
    whole=Fact(("description", "instructions"), _QWEN_LAB),
    framed=Fact("descriptions as data, instructions as guidance on configuration", _QWEN_LAB),
    cut_result=Fact("the path of a file that `read_file` reads by 25,000, and the first 2,000", _QWEN_LAB),
    embedded=Fact("text", _QWEN_LAB),
    links=Fact("title and URI", _QWEN_LAB),
    prompt_called=Fact("/x", _QWEN_LAB),
    protocol=Fact("2025-11-25", _QWEN_LAB),
    capabilities=Fact("roots", _QWEN_LAB),
    options=(
        UserOption("alwaysLoadTools", Raises.TOOLS, _QWEN_LAB, "among the settings of the server"),
        UserOption("truncateToolOutputThreshold", Raises.RESULTS, read_in("Qwen Code 0.24.4")),
    ),
    notes=(
        Fact("An answer of its tool search beyond the limit goes to a file, with an empty preview.", _QWEN_LAB),
        Fact("It ends the run after identical calls in a row.", _QWEN_LAB),
    ),
    model_reads=Fact(value=False, evidence=_QWEN_LAB),
    reads_disk=Fact(value=False, evidence=_QWEN_LAB),
    starts_in_workspace=Fact(value=True, evidence=_QWEN_LAB),
    prompts=Fact(value=True, evidence=_QWEN_LAB),
    list_changed=Fact(value=False, evidence=_QWEN_LAB),
    redefines=Fact(value=False, evidence=_QWEN_LAB),
    new_tools=Fact(value=False, evidence=_QWEN_LAB),
)

CODING_AGENTS: tuple[ClientProfile, ...] = (_CLAUDE_CODE, _CODEX, _GEMINI, _COPILOT_CLI, _QWEN)
