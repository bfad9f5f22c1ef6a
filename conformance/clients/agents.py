"""Coding agents that npm installs: how each is configured and started without a person."""

from __future__ import annotations

import json

from conformance.clients.client import KEY, Client, Command, Run, write_json
from conformance.clients.endpoint import MODEL
from conformance.clients.host_tools import SERVER

__all__ = ["AGENTS"]

TOOLS = ("activate_skill", "read_skill_file", "find_skills")


def _claude(run: Run) -> Command:
    settings = run.root / "mcp.json"
    write_json(settings, {"mcpServers": {SERVER: run.stdio()}})
    words = [run.npm("claude", "claude"), "--print", run.prompt, "--mcp-config", str(settings), "--strict-mcp-config"]
    words += ["--allowedTools", f"mcp__{SERVER}"]
    return Command(
        words,
        {
            "ANTHROPIC_BASE_URL": run.model,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        },
    )


CODEX_REMARK = (
    "Measured with `required = true` for the server: by default `codex exec` waits about a second for its first answer."
)

CODEX_SETTINGS = """\
model = {model}
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = {address}
wire_api = "responses"
env_key = "MODEL_KEY"
request_max_retries = 0
stream_max_retries = 0

[mcp_servers.{server}]
required = true
command = {command}
args = {arguments}

[mcp_servers.{server}.env]
{environment}
"""


def _codex(run: Run, model: str) -> Command:
    # Strings and lists of strings are the same in JSON and TOML.
    settings = CODEX_SETTINGS.format(
        model=json.dumps(model),
        address=json.dumps(f"{run.model}/v1"),
        server=SERVER,
        command=json.dumps(run.server[0]),
        arguments=json.dumps(run.server[1:]),
        environment="\n".join(f"{name} = {json.dumps(value)}" for name, value in run.server_environment.items()),
    )
    path = run.home / ".codex/config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(settings, encoding="utf-8")
    return Command([run.npm("codex", "codex"), "exec", "--skip-git-repo-check", run.prompt], {"MODEL_KEY": KEY})


def _codex_with(model: str, name: str, title: str) -> Client:
    return Client(name, title, "codex", "@openai/codex", lambda run: _codex(run, model), CODEX_REMARK)


def _gemini(run: Run) -> Command:
    _write_gemini_settings(run, ".gemini", "gemini-api-key")
    words = [
        run.npm("gemini", "gemini"),
        "--prompt",
        run.prompt,
        "--model",
        "gemini-2.5-pro",
        "--approval-mode",
        "yolo",
    ]
    trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return Command(words, {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": run.model, **trust})


def _qwen(run: Run) -> Command:
    _write_gemini_settings(run, ".qwen", "openai")
    words = [run.npm("qwen", "qwen"), "--prompt", run.prompt, "--auth-type", "openai", "--approval-mode", "yolo"]
    return Command(words, _openai(run, model="OPENAI_MODEL"))


def _write_gemini_settings(run: Run, folder: str, authentication: str) -> None:
    settings = {
        "mcpServers": {SERVER: run.stdio(trust=True)},
        "security": {"auth": {"selectedType": authentication}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    write_json(run.home / folder / "settings.json", settings)


def _openai(run: Run, **further: str) -> dict[str, str]:
    """Return the usual variables for an endpoint of OpenAI's API; `model` names the one for the model."""
    named = {further["model"]: MODEL} if "model" in further else {}
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{run.model}/v1", **named}


def _opencode(run: Run) -> Command:
    server = {"type": "local", "command": run.server, "environment": run.server_environment, "enabled": True}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{run.model}/v1", "apiKey": KEY},
        "models": {MODEL: {"limit": {"context": 200_000, "output": 8_000}}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": f"scripted/{MODEL}",
        "small_model": f"scripted/{MODEL}",
        "provider": {"scripted": provider},
        "mcp": {SERVER: server},
        "permission": {"*": "allow"},
    }
    write_json(run.work / "opencode.json", settings)
    disabled = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    environment = {f"OPENCODE_DISABLE_{name}": "1" for name in disabled}
    return Command([run.npm("opencode", "opencode"), "run", run.prompt], environment)


def _copilot(run: Run) -> Command:
    servers = {"mcpServers": {SERVER: run.stdio(type="local", tools=["*"])}}
    write_json(run.home / ".copilot/mcp-config.json", servers)
    words = [run.npm("copilot", "copilot"), "--prompt", run.prompt, "--allow-all-tools", "--disable-builtin-mcps"]
    provider = {"TYPE": "openai", "BASE_URL": f"{run.model}/v1", "API_KEY": KEY}
    return Command(
        words,
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_MODEL": MODEL,
            **{f"COPILOT_PROVIDER_{name}": value for name, value in provider.items()},
        },
    )


CLINE_REMARK = "Measured with `timeout` 30 for the server: by default Cline waits three seconds for its first answer."

CLINE_PROGRAM = """\
"$0" auth --provider openai --apikey "$2" --modelid "$3" --baseurl "$1/v1" &&
exec "$0" --provider openai --model "$3" --auto-approve true --json --timeout 60 "$4"
"""


def _cline(run: Run) -> Command:
    server = run.stdio(disabled=False, autoApprove=TOOLS, timeout=30)
    write_json(run.home / ".cline/data/settings/cline_mcp_settings.json", {"mcpServers": {SERVER: server}})
    return Command(["sh", "-c", CLINE_PROGRAM, run.npm("cline", "cline"), run.model, KEY, MODEL, run.prompt])


def _continue(run: Run) -> Command:
    model = {
        "name": MODEL,
        "model": MODEL,
        "provider": "openai",
        "apiBase": f"{run.model}/v1",
        "apiKey": KEY,
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    }
    settings = {"name": "measured", "version": "1.0.0", "schema": "v1", "models": [model]}
    path = run.root / "config.yaml"  # JSON is YAML.
    write_json(path, {**settings, "mcpServers": [run.stdio(name=SERVER)]})
    words = [run.npm("continue", "cn"), "--print", run.prompt, "--config", str(path), "--auto"]
    return Command(words, {"CONTINUE_TELEMETRY_ENABLED": "0", "FORCE_NO_TTY": "true"})


AGENTS = (
    Client("claude", "Claude Code", "claude", "@anthropic-ai/claude-code", _claude),
    _codex_with(MODEL, "codex", "Codex"),
    _codex_with("gpt-5.5", "codex-search", "Codex, tool search (`gpt-5.5`)"),
    _codex_with("gpt-6-sol", "codex-code", "Codex, code mode (`gpt-6-sol`)"),
    Client("gemini", "Gemini CLI", "gemini", "@google/gemini-cli", _gemini),
    Client("opencode", "opencode", "opencode", "opencode-ai", _opencode),
    Client("qwen", "Qwen Code", "qwen", "@qwen-code/qwen-code", _qwen),
    Client("copilot", "Copilot CLI", "copilot", "@github/copilot", _copilot),
    Client("cline", "Cline CLI", "cline", "cline", _cline, CLINE_REMARK),
    Client("continue", "Continue CLI", "continue", "@continuedev/cli", _continue),
)
