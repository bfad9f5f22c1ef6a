"""Ask an agent of pydantic-ai once."""

import asyncio
import json
import os
import sys

from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found] # installed with the frameworks
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    tools = MCPToolset(StdioTransport(**json.loads(os.environ["MCP_SERVER"])))
    agent = Agent(OpenAIChatModel(os.environ["OPENAI_MODEL"]), toolsets=[tools])
    async with agent:
        await agent.run(prompt)


asyncio.run(main(sys.argv[1]))
