"""A planted secret comes out nowhere: no command, tool, resource, list, endpoint or log line has its value."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.conftest import MakeSkill
from tests.server.cli.test_status import run
from tests.server.sessions import REPOSITORY, open_session, server_command, server_environment

pytestmark = pytest.mark.skipif(os.name == "nt", reason="homes are elsewhere there")

SECRET = "a-secret-that-nobody-may-see"  # noqa: S105 - planted
TOKEN = "another-secret-that-nobody-may-see"  # noqa: S105 - likewise


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The secret everywhere where a credential is looked for."""
    jdai = tmp_path / "home" / ".jdai"
    jdai.mkdir(parents=True)
    entries = {
        "by-key": {"apiKey": SECRET},
        "by-entry": {"env": {"ENTRY_TOKEN": SECRET}, "config": {"inner": SECRET}},
        "by-config": {"apiKey": {"source": "env", "value": SECRET}},
    }
    (jdai / "skills.json").write_text(json.dumps({"skills": {"entries": entries}}))
    (jdai / "config.json").write_text(json.dumps({"outer": SECRET}))
    with tempfile.TemporaryDirectory() as runtime:
        yield server_environment(
            HOME=str(tmp_path / "home"),
            XDG_RUNTIME_DIR=runtime,
            SKILLSERVE_ADMIN_TOKEN=TOKEN,
            SKILLSERVE_TOOLS="skills_status,reload_skills",
            SKILLSERVE_LOG_LEVEL="debug",
            PLANTED_TOKEN=SECRET,
        )


@pytest.fixture
def credentials(make_skill: MakeSkill) -> dict[str, bool]:
    """Skills that ask for the secret in each way; whether each has it."""

    def asks(name: str, variable: str, when: str = "{}") -> None:
        metadata = f"{{jdai: {{primaryEnv: {variable}, requires: {{env: [{variable}]}}}}}}"
        make_skill(name, body="Use it. {{PLANTED_TOKEN}}", fields=f"metadata: {metadata}\nwhen: {when}")

    asks("by-variable", "PLANTED_TOKEN")
    asks("by-key", "KEY_TOKEN")
    asks("by-entry", "ENTRY_TOKEN", "{requires: {config: {inner: false}}}")
    asks("by-config", "CONFIG_TOKEN", "{requires: {config: {outer: 1}}}")
    asks("without", "NO_SUCH_TOKEN")
    return {"by-variable": True, "by-key": True, "by-entry": True, "by-config": True, "without": False}


def test_commands_tell_whether_a_credential_is_set_and_never_its_value(
    skills: Path, environment: dict[str, str], credentials: dict[str, bool]
) -> None:
    told = json.loads(run("status", skills, "--json", **environment).stdout)["skills"]
    assert {skill["name"]: skill["primary_credential"]["set"] for skill in told} == credentials
    commands: list[list[object]] = [
        ["status", skills],
        ["status", skills, "--json"],
        ["validate", skills, "--json"],
        *(["show", name, skills, "--json"] for name in credentials),
        *(["activate", name, skills] for name in credentials),
        ["reload", "--port", "1"],
        ["reload", "--url", "http://127.0.0.1:1"],
        ["serve", skills, "--port", "x"],
    ]
    for command in commands:
        done = run(*command, **environment)
        assert done.stdout + done.stderr
        assert SECRET not in done.stdout + done.stderr, command
        assert TOKEN not in done.stdout + done.stderr, command


async def everything_of(client: Any) -> list[str]:
    """Return all that a client can list, read and call."""
    resources = await client.list_resources()
    prompts = await client.list_prompts()
    answers = [await client.list_tools(), resources, prompts, await client.list_resource_templates()]
    answers += [await client.read_resource(resource.uri) for resource in resources.resources]
    skills = [prompt.name for prompt in prompts.prompts if prompt.name != "with_skills"]
    answers += [await client.get_prompt(name, {"arguments": "x"}) for name in skills]
    answers += [await client.get_prompt("with_skills", {"message": "token secret"})]
    answers += [await client.call_tool("activate_skill", {"name": name}) for name in skills]
    answers += [await client.call_tool("find_skills", {"query": "token secret"})]
    answers += [await client.call_tool(name, {}) for name in ("skills_status", "reload_skills")]
    return [answer.model_dump_json() for answer in answers]


async def test_no_answer_and_no_log_line_of_a_server_has_its_value(
    skills: Path, environment: dict[str, str], credentials: dict[str, bool], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    command = [*server_command(skills, "--transport", "http", "--port", "0"), "--log-level", "debug"]
    with log.open("wb") as stderr:
        async with await anyio.open_process(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=stderr
        ) as process:
            try:
                with anyio.fail_after(30):
                    while "stop  " not in log.read_text():  # noqa: ASYNC110 - a file tells nobody when it grows
                        await anyio.sleep(0.05)
                url = next(line.split()[-1] for line in log.read_text().splitlines() if "address" in line)
                told = await _ask_everything(url)
            finally:
                process.terminate()
    names = [skill["name"] for skill in json.loads(told[-1])["skills"]]
    assert names == sorted(credentials)
    for text in (*told, log.read_text()):
        assert SECRET not in text
        assert TOKEN not in text


async def _ask_everything(url: str) -> list[str]:
    async with open_session(url, "handshake") as old, open_session(url, "modern") as new:
        told = [*await everything_of(old.client), *await everything_of(new.client)]
    base = url.removesuffix("/mcp")
    async with httpx2.AsyncClient() as client:
        for headers in ({"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Bearer {TOKEN}"}):
            told.append((await client.post(f"{base}/admin/reload", headers=headers)).text)
            told.append((await client.get(f"{base}/admin/status", headers=headers)).text)
    return told
