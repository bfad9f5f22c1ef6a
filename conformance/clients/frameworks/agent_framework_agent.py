"""Ask an agent of Microsoft Agent Framework once."""

import asyncio
import json
import os
import sys

from agent_framework import Agent, MCPStdioTool
from agent_framework.openai import OpenAIChatCompletionClient


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    async with MCPStdioTool("skills", **json.loads(os.environ["MCP_SERVER"])) as tools:
        agent = Agent(OpenAIChatCompletionClient(os.environ["OPENAI_MODEL"]), "Help the user.", tools=tools)
        async with agent:
            await agent.run(prompt)


asyncio.run(main(sys.argv[1]))
