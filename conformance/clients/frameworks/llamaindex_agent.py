"""Ask an agent of LlamaIndex once."""

import asyncio
import json
import os
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def main(prompt: str) -> None:
    """Run the agent with the tools of the server."""
    server = json.loads(os.environ["MCP_SERVER"])
    client = BasicMCPClient(server["command"], args=server["args"], env=server["env"])
    model = OpenAILike(
        model=os.environ["OPENAI_MODEL"],
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        is_chat_model=True,
        is_function_calling_model=True,
    )
    tools = await McpToolSpec(client=client).to_tool_list_async()
    await FunctionAgent(tools=tools, llm=model, streaming=False).run(prompt, max_iterations=50)


asyncio.run(main(sys.argv[1]))
