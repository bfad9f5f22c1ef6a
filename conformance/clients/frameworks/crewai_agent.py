"""Ask a crew of one agent of CrewAI once."""

import json
import os
import sys

from crewai import LLM, Agent, Crew, Task
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

# CrewAI calls functions only of models that it knows.
model = LLM(
    model="openai/gpt-4o", base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"], stream=False
)
with MCPServerAdapter(StdioServerParameters(**json.loads(os.environ["MCP_SERVER"])), connect_timeout=60) as tools:
    agent = Agent(role="helper", goal="Help.", backstory="None.", tools=list(tools), llm=model, max_iter=50)
    Crew(agents=[agent], tasks=[Task(description=sys.argv[1], expected_output="A text.", agent=agent)]).kickoff()
