"""Ask an agent of Agno once."""

import asyncio
import json
import os
import sys

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from agno.tools.mcp import MCPTools
from mcp import StdioServerParameters


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    server = StdioServerParameters(**json.loads(os.environ["MCP_SERVER"]))
    model = OpenAILike(
        os.environ["OPENAI_MODEL"], base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"]
    )
    async with MCPTools(server_params=server, timeout_seconds=30) as tools:
        await Agent(model=model, tools=[tools], telemetry=False).arun(prompt)


asyncio.run(main(sys.argv[1]))
