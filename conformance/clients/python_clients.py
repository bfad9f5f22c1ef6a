"""Frameworks and agents in Python that install fast: each framework runs a small program of `frameworks`."""

from __future__ import annotations

import json
from pathlib import Path

from conformance.clients.client import KEY, Client, Command, Run, write_json
from conformance.clients.endpoint import MODEL
from conformance.clients.host_tools import SERVER

__all__ = ["PYTHON_CLIENTS", "SERVER_A_CALL", "asked", "framework"]

PROGRAMS = Path(__file__).resolve().parent / "frameworks"


def asked(run: Run) -> dict[str, str]:
    """Return the variables in which programs find the server and a model with OpenAI's API."""
    return {
        "MCP_SERVER": json.dumps(run.stdio()),
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{run.model}/v1",
        "OPENAI_MODEL": MODEL,
    }


def framework(program: str, run: Run, package: str = "frameworks") -> Command:
    """Return the command that runs a program of `frameworks` in the environment of a package."""
    return Command(
        [run.python(package), str(PROGRAMS / f"{program}.py"), run.prompt],
        {
            **asked(run),
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "GOOGLE_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": run.model,
            "FASTMCP_CHECK_FOR_UPDATES": "off",
        },
    )


def _fast_agent(run: Run) -> Command:
    provider = {"base_url": f"{run.model}/v1", "api_key": KEY}
    model = f"generic.{MODEL}"
    settings = {
        "default_model": model,
        "generic": provider,
        "mcp": {"servers": {SERVER: run.stdio()}},
        "logger": {"progress_display": False},
    }
    path = run.work / "fastagent.config.yaml"  # JSON is YAML.
    write_json(path, settings)
    words = [run.python("fast-agent", "fast-agent"), "go", "--config-path", str(path)]
    return Command([*words, "--servers", SERVER, "--model", model, "--message", run.prompt])


SERVER_A_CALL = "It starts a new server for each call, so the server cannot know what the model loaded before."

PYTHON_CLIENTS = (
    Client("fast-agent", "fast-agent", "fast-agent", "fast-agent-mcp", _fast_agent),
    Client(
        "pydantic-ai", "pydantic-ai", "frameworks", "pydantic-ai-slim", lambda run: framework("pydantic_ai_agent", run)
    ),
    Client("openai-agents", "openai-agents", "frameworks", "openai-agents", lambda run: framework("openai_agent", run)),
    Client(
        "langchain",
        "langchain-mcp-adapters",
        "frameworks",
        "langchain-mcp-adapters",
        lambda run: framework("langchain_agent", run),
        remark=SERVER_A_CALL,
    ),
    Client("google-adk", "google-adk", "frameworks", "google-adk", lambda run: framework("google_adk_agent", run)),
    Client(
        "fastmcp",
        "FastMCP client",
        "frameworks",
        "fastmcp",
        lambda run: framework("fastmcp_loop", run),
        remark="It has no model: the loop around it is ours, and it fetches the tools once.",
    ),
)
