"""Ask an agent of Strands once."""

import json
import os
import sys

from mcp import StdioServerParameters, stdio_client
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

server = StdioServerParameters(**json.loads(os.environ["MCP_SERVER"]))
with MCPClient(lambda: stdio_client(server)) as client:
    model = OpenAIModel(model_id=os.environ["OPENAI_MODEL"])
    Agent(model=model, tools=client.list_tools_sync())(sys.argv[1])
