"""Ask an agent of mcp-use once."""

import asyncio
import json
import os
import sys

from langchain_openai import ChatOpenAI
from mcp_use import MCPAgent, MCPClient


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    client = MCPClient.from_dict({"mcpServers": {"skills": json.loads(os.environ["MCP_SERVER"])}})
    agent = MCPAgent(llm=ChatOpenAI(model=os.environ["OPENAI_MODEL"]), client=client, max_steps=50)
    await agent.run(prompt)


asyncio.run(main(sys.argv[1]))
