"""Ask an agent of Semantic Kernel once."""

import asyncio
import json
import os
import sys

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.connectors.mcp import MCPStdioPlugin


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    server = json.loads(os.environ["MCP_SERVER"])
    model = OpenAIChatCompletion(ai_model_id=os.environ["OPENAI_MODEL"], async_client=AsyncOpenAI())
    async with MCPStdioPlugin(name="skills", description="Skills.", **server) as tools:
        agent = ChatCompletionAgent(service=model, name="measured", instructions="Help the user.", plugins=[tools])
        await agent.get_response(messages=prompt)


asyncio.run(main(sys.argv[1]))
