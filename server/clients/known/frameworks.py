"""What is known of frameworks, most of which send the same name."""

from __future__ import annotations

from server.clients.known.sources import measured
from server.clients.profile import ClientProfile, Fact, Limit, Raises, UserOption

__all__ = ["FRAMEWORKS"]

_MCP_LAB = measured("pydantic-ai 2.68.0, openai-agents 0.24.0 and langchain-mcp-adapters 0.3.2")
_MCP = ClientProfile(
    key="mcp",
    title="Frameworks on the Python SDK (pydantic-ai, openai-agents, langchain-mcp-adapters)",
    names=("mcp",),
    exact=True,
    named=_MCP_LAB,
    instructions=Limit(0, _MCP_LAB),
    # Results of 120,000 bytes.
    whole=Fact(("result",), _MCP_LAB),
    lazy_tools=Fact(value=False, evidence=_MCP_LAB),
    # Not by all of them.
    redefines=Fact(value=False, evidence=_MCP_LAB),
    options=(UserOption("include_instructions=True", Raises.INSTRUCTIONS, _MCP_LAB, "in pydantic-ai"),),
    notes=(
        Fact(
            "A changed tool is seen with pydantic-ai and openai-agents, and not with langchain-mcp-adapters.", _MCP_LAB
        ),
        Fact("langchain-mcp-adapters starts a server process for each call.", _MCP_LAB),
    ),
)

_ADK_LAB = measured("google-adk 2.13.0")
_GOOGLE_ADK = ClientProfile(
    key="google-adk",
    title="Google ADK",
    names=("google-adk",),
    named=_ADK_LAB,
    instructions=Limit(0, _ADK_LAB),
    whole=Fact(("result",), _ADK_LAB),
    framed=Fact("descriptions as data", _ADK_LAB),
    lazy_tools=Fact(value=False, evidence=_ADK_LAB),
    redefines=Fact(value=False, evidence=_ADK_LAB),
)

FRAMEWORKS: tuple[ClientProfile, ...] = (_MCP, _GOOGLE_ADK)
