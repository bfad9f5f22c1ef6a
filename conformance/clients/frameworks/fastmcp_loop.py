"""Give a model the tools of a server through FastMCP's client: the smallest loop that can be written."""

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Client  # type: ignore[import-not-found] # installed in the environment of the frameworks
from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found] # see above
from openai import AsyncOpenAI


async def main(prompt: str) -> None:
    """Call tools until the model calls none."""
    model, api = os.environ["OPENAI_MODEL"], AsyncOpenAI()
    messages: list[Any] = [{"role": "user", "content": prompt}]
    async with Client(StdioTransport(**json.loads(os.environ["MCP_SERVER"]))) as client:
        tools: list[Any] = [_function(tool) for tool in await client.list_tools()]
        while True:
            answer = await api.chat.completions.create(model=model, messages=messages, tools=tools)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return
            for call in message.tool_calls:
                if call.type == "function":
                    arguments = json.loads(call.function.arguments)
                    result = await client.call_tool(call.function.name, arguments, raise_on_error=False)
                    text = "\n".join(part.text for part in result.content if part.type == "text")
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def _function(tool: Any) -> dict[str, Any]:  # noqa: ANN401 - its type is installed with the frameworks
    parameters = {"name": tool.name, "description": tool.description, "parameters": tool.inputSchema}
    return {"type": "function", "function": parameters}


asyncio.run(main(sys.argv[1]))
