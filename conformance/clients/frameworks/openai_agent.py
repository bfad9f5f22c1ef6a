"""Ask an agent of openai-agents once."""

import asyncio
import json
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    async with MCPServerStdio(json.loads(os.environ["MCP_SERVER"]), client_session_timeout_seconds=30) as server:
        model = OpenAIChatCompletionsModel(os.environ["OPENAI_MODEL"], AsyncOpenAI())
        await Runner.run(Agent("measured", model=model, mcp_servers=[server]), prompt)


asyncio.run(main(sys.argv[1]))
