"""Ask an agent of google-adk once."""

import asyncio
import json
import os
import sys

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from google.genai.types import Content, Part
from mcp import StdioServerParameters


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    server = StdioServerParameters(**json.loads(os.environ["MCP_SERVER"]))
    tools = McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=30))
    runner = InMemoryRunner(LlmAgent(name="measured", model="gemini-2.5-flash", tools=[tools]), app_name="measured")
    session = await runner.session_service.create_session(app_name="measured", user_id="user")
    message = Content(role="user", parts=[Part(text=prompt)])
    async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        pass
    await tools.close()


asyncio.run(main(sys.argv[1]))
