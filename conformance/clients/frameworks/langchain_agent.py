"""Ask a LangGraph agent with langchain-mcp-adapters once."""

import asyncio
import json
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    connection = {"transport": "stdio", **json.loads(os.environ["MCP_SERVER"])}
    tools = await MultiServerMCPClient({"skills": connection}).get_tools()
    agent = create_agent(ChatOpenAI(model=os.environ["OPENAI_MODEL"]), tools)
    await agent.ainvoke({"messages": [("user", prompt)]})


asyncio.run(main(sys.argv[1]))
