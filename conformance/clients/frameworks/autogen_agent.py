"""Ask an agent of AutoGen once."""

import asyncio
import json
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams

ABILITIES = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "family": "unknown",
    "structured_output": False,
}


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    server = StdioServerParams(**json.loads(os.environ["MCP_SERVER"]), read_timeout_seconds=30)
    model = OpenAIChatCompletionClient(model=os.environ["OPENAI_MODEL"], model_info=ABILITIES)
    async with McpWorkbench(server) as tools:
        await AssistantAgent("measured", model_client=model, workbench=tools, max_tool_iterations=50).run(task=prompt)


asyncio.run(main(sys.argv[1]))
