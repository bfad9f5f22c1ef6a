"""Ask an agent of Haystack once."""

import json
import os
import sys

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo

server = StdioServerInfo(**json.loads(os.environ["MCP_SERVER"]))
tools = MCPToolset(server, connection_timeout=30, invocation_timeout=30)
model = OpenAIChatGenerator(model=os.environ["OPENAI_MODEL"], api_base_url=os.environ["OPENAI_BASE_URL"])
agent = Agent(chat_generator=model, tools=tools)
agent.warm_up()
agent.run(messages=[ChatMessage.from_user(sys.argv[1])])
