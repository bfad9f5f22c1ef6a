"""What is known of coding agents that work with models of any vendor; most of it was measured."""

from __future__ import annotations

from server.clients.known.sources import measured, read_in
from server.clients.profile import (
    ClientProfile,
    Commands,
    Evidence,
    Fact,
    Limit,
    NativeListing,
    Raises,
    StructureUse,
    Unit,
    UserOption,
)

__all__ = ["OPEN_AGENTS"]

_OPENCODE_MCP = Evidence("anomalyco/opencode packages/opencode/src/mcp/index.ts", "2026-11-21")

_OPENCODE_LAB = measured("opencode 1.18.33")
_OPENCODE = ClientProfile(
    key="opencode",
    title="opencode",
    names=("opencode",),
    named=_OPENCODE_MCP,
    called=Fact("{server}_{tool}", _OPENCODE_LAB),
    lazy_tools=Fact(value=False, evidence=_OPENCODE_LAB),
    # The lines: github.com/anomalyco/opencode/issues/13770.
    result=Limit(51_200, _OPENCODE_LAB, Unit.BYTES, lines=2000),
    structure=Fact(StructureUse.IGNORED, _OPENCODE_LAB),
    whole=Fact(("description", "instructions"), _OPENCODE_LAB),
    cut_result=Fact("the first lines; nothing of a single long line", _OPENCODE_LAB),
    embedded=Fact("text", _OPENCODE_LAB),
    links=Fact("dropped", _OPENCODE_LAB),
    prompt_called=Fact("skills:x", _OPENCODE_LAB),
    protocol=Fact("2025-11-25", _OPENCODE_LAB),
    capabilities=Fact("roots", _OPENCODE_LAB),
    options=(
        UserOption("tool_output", Raises.RESULTS, read_in("opencode 1.18.33"), "its max_lines (2,000) and max_bytes"),
    ),
    notes=(
        Fact("The model reads resources with `read_mcp_resource`.", _OPENCODE_LAB),
        Fact("A result without text shows `structuredContent` as JSON.", _OPENCODE_LAB),
    ),
    model_reads=Fact(value=True, evidence=_OPENCODE_LAB),
    reads_disk=Fact(value=False, evidence=_OPENCODE_LAB),
    starts_in_workspace=Fact(value=True, evidence=_OPENCODE_LAB),
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
    whole=Fact(("description",), _CLINE_LAB),
    cut_result=Fact("the beginning and the end", _CLINE_LAB),
    embedded=Fact("JSON", _CLINE_LAB),
    links=Fact("JSON", _CLINE_LAB),
    protocol=Fact("2024-11-05", _CLINE_LAB),
    capabilities=Fact("none", _CLINE_LAB),
    options=(UserOption("CLINE_MESSAGE_BUILDER_MAX_TOOL_RESULT_CHARS", Raises.RESULTS, _CLINE_LAB),),
    notes=(Fact("The model reads the whole result as JSON, also its `_meta`.", _CLINE_LAB),),
    model_reads=Fact(value=False, evidence=_CLINE_LAB),
    # It asks for approval within the workspace as well.
    reads_disk=Fact(value=True, evidence=_CLINE_LAB),
    starts_in_workspace=Fact(value=True, evidence=_CLINE_LAB),
    prompts=Fact(value=False, evidence=_CLINE_LAB),
    # The extension of VS Code follows list_changed (McpHub.ts), the command line does not.
    list_changed=Fact(value=False, evidence=_CLINE_LAB),
    redefines=Fact(value=False, evidence=_CLINE_LAB),
    new_tools=Fact(value=False, evidence=_CLINE_LAB),
    compaction=Fact(value=True, evidence=Evidence("cline/cline docs/core-workflows/task-management.mdx", "2026-08-22")),
    native=NativeListing(Evidence("cline/cline docs/customization/skills.mdx", "2026-08-22")),
    toolbox="cline",
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
    # Results of 120,000 characters.
    whole=Fact(("description", "result"), _CONTINUE_LAB),
    embedded=Fact("JSON", _CONTINUE_LAB),
    links=Fact("JSON", _CONTINUE_LAB),
    protocol=Fact("2025-11-25", _CONTINUE_LAB),
    capabilities=Fact("none", _CONTINUE_LAB),
    notes=(
        Fact("The model reads the content of a result as JSON.", _CONTINUE_LAB),
        Fact("It asks for the list of prompts.", _CONTINUE_LAB),
    ),
    model_reads=Fact(value=False, evidence=_CONTINUE_LAB),
    reads_disk=Fact(value=True, evidence=_CONTINUE_LAB),
    starts_in_workspace=Fact(value=True, evidence=_CONTINUE_LAB),
    list_changed=Fact(value=False, evidence=_CONTINUE_LAB),
    redefines=Fact(value=False, evidence=_CONTINUE_LAB),
    new_tools=Fact(value=False, evidence=_CONTINUE_LAB),
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
    whole=Fact(("description", "instructions"), _FAST_AGENT_LAB),
    cut_result=Fact("the first 8,000 and the last 8,000", _FAST_AGENT_LAB),
    embedded=Fact("dropped", _FAST_AGENT_LAB),
    links=Fact("dropped", _FAST_AGENT_LAB),
    protocol=Fact("2026-07-28", _FAST_AGENT_LAB),
    capabilities=Fact("sampling, elicitation", _FAST_AGENT_LAB),
    notes=(
        Fact("A changed tool is seen in the next turn.", _FAST_AGENT_LAB),
        Fact("It asks for the list of prompts.", _FAST_AGENT_LAB),
    ),
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

OPEN_AGENTS: tuple[ClientProfile, ...] = (_OPENCODE, _CLINE, _CONTINUE, _FAST_AGENT)
