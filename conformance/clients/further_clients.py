"""Further agents and frameworks, each in an environment of its own; `make frameworks` leaves them out."""

from __future__ import annotations

import json

from conformance.clients.client import KEY, Client, Command, Run, write_json
from conformance.clients.endpoint import MODEL
from conformance.clients.host_tools import SERVER
from conformance.clients.python_clients import SERVER_A_CALL, asked, framework
from conformance.suite import NODE

__all__ = ["FURTHER_CLIENTS"]

WINDOW = 200_000

KIMI_SETTINGS = f"""\
default_model = "{MODEL}"
telemetry = false

[providers.scripted]
type = "openai"
base_url = {{address}}
api_key = "{KEY}"

[models.{MODEL}]
provider = "scripted"
model = "{MODEL}"
max_context_size = {WINDOW}
capabilities = ["tool_use"]
"""


def _kimi(run: Run) -> Command:
    folder = run.home / ".kimi-code"
    write_json(folder / "mcp.json", {"mcpServers": {SERVER: run.stdio()}})
    settings = KIMI_SETTINGS.format(address=json.dumps(f"{run.model}/v1"))
    (folder / "config.toml").write_text(settings, encoding="utf-8")
    return Command([run.npm("kimi", "kimi"), "--prompt", run.prompt], {"KIMI_CODE_HOME": str(folder)})


def _nanocoder(run: Run) -> Command:
    provider = {"name": "scripted", "baseUrl": f"{run.model}/v1", "apiKey": KEY, "models": [MODEL]}
    write_json(run.work / "agents.config.json", {"nanocoder": {"providers": [provider]}})
    server = run.stdio(transport="stdio", alwaysAllow=["activate_skill", "read_skill_file", "find_skills"])
    write_json(run.work / ".mcp.json", {"mcpServers": {SERVER: server}})
    options = ["--mode", "yolo", "--plain", "--trust-directory", "--context-max", str(WINDOW)]
    return Command([run.npm("nanocoder", "nanocoder"), *options, "run", run.prompt])


GPTME_SETTINGS = """\
[env]
OPENAI_BASE_URL = {address}

[mcp]
enabled = true
auto_start = true

[[mcp.servers]]
name = "{server}"
enabled = true
command = {command}
args = {arguments}
env = {{ {environment} }}
"""


def _gptme(run: Run) -> Command:
    settings = GPTME_SETTINGS.format(
        address=json.dumps(f"{run.model}/v1"),
        server=SERVER,
        command=json.dumps(run.server[0]),
        arguments=json.dumps(run.server[1:]),
        environment=", ".join(f"{name} = {json.dumps(value)}" for name, value in run.server_environment.items()),
    )
    path = run.home / ".config/gptme/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(settings, encoding="utf-8")
    options = ["--non-interactive", "--model", f"local/{MODEL}", "--tool-format", "tool", "--no-stream"]
    return Command([run.python("gptme", "gptme"), *options, run.prompt], asked(run))


def _program(package: str, run: Run) -> Command:
    """Return the command that runs the program which a package of npm has beside its pins."""
    return Command([str(NODE), str(run.packages / package / "agent.mjs"), run.prompt], asked(run))


def _python(name: str, title: str, distribution: str, remark: str = "") -> Client:
    """Return a framework whose program and package are called `name`."""
    program = f"{name.replace('-', '_')}_agent"
    return Client(name, title, name, distribution, lambda run: framework(program, run, name), remark)


FURTHER_CLIENTS = (
    Client("kimi", "Kimi Code", "kimi", "@moonshot-ai/kimi-code", _kimi),
    Client("nanocoder", "nanocoder", "nanocoder", "@nanocollective/nanocoder", _nanocoder),
    Client(
        "gptme",
        "gptme",
        "gptme",
        "gptme",
        _gptme,
        "It cuts the description of a tool at 1,024 characters, and drops the list of allowed values: two descriptions "
        "hold names.",
    ),
    Client("ai-sdk", "AI SDK", "ai-sdk", "ai", lambda run: _program("ai-sdk", run)),
    Client("mastra", "Mastra", "mastra", "@mastra/core", lambda run: _program("mastra", run)),
    _python(
        "agent-framework",
        "Microsoft Agent Framework",
        "agent-framework-core",
        "It makes a function of each prompt: the server lists none to it.",
    ),
    _python("crewai", "CrewAI", "crewai"),
    _python(
        "smolagents",
        "smolagents",
        "smolagents",
        "It shows each tool twice, and refuses a call without an optional argument that is not `nullable`.",
    ),
    _python("strands", "Strands Agents", "strands-agents"),
    _python("agno", "Agno", "agno"),
    _python(
        "mcp-use",
        "mcp-use",
        "mcp-use",
        "It makes a tool of each prompt and of each resource: the server lists none to it.",
    ),
    _python("autogen", "AutoGen", "autogen-agentchat"),
    _python("llamaindex", "LlamaIndex", "llama-index-core", SERVER_A_CALL),
    _python(
        "semantic-kernel",
        "Semantic Kernel",
        "semantic-kernel",
        "It makes a function of each prompt: the server lists none to it. After the notification of a changed list it "
        "never answers again, as it waits for the list in the loop that would read it: the server sends it none.",
    ),
    _python("haystack", "Haystack", "haystack-ai"),
)
