"""Ask a ToolCallingAgent of smolagents once."""

import json
import os
import sys

from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent

server = StdioServerParameters(**json.loads(os.environ["MCP_SERVER"]))
with MCPClient(server, structured_output=False) as tools:
    model = OpenAIServerModel(
        os.environ["OPENAI_MODEL"], api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"]
    )
    ToolCallingAgent(tools=tools, model=model, max_steps=50).run(sys.argv[1])
