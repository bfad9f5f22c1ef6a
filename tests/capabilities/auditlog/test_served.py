"""A real server with a login records what its clients do, and the commands show it."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from server.capabilities.auditlog.analytics import Counted, UsageEvent, UsageFile
from server.capabilities.auditlog.log_folder import anchors_of
from server.capabilities.auditlog.verification import LogVerdict, verify_log
from server.capabilities.login.static_tokens import TokenFile
from tests.capabilities.auditlog.helpers import entries, write_file
from tests.conftest import write_skill
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, address, server_command, server_environment

TEXT = "a text that belongs in no log"


def state_of(tmp_path: Path) -> dict[str, str]:
    return {name: str(tmp_path / name.lower()) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}


async def use(url: str, token: str) -> None:
    """Do what is recorded, as a user with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport: Any = streamable_http_client(url, http_client=http)
        async with Client(transport, mode="2026-07-28", cache=None) as client:
            await client.call_tool("find_skills", {"query": "one two"})
            await client.call_tool("activate_skill", {"name": "one", "message": TEXT})
            await client.call_tool("activate_skill", {"name": "hidden"})
            await client.read_resource("skill://one/SKILL.md")
            await client.call_tool("reload_skills", {})
        await http.get(url.replace("/mcp", "/admin/status"))
    async with httpx2.AsyncClient() as http:
        await http.post(url, headers={"Authorization": "Bearer sks_0123456789ab_wrong"})


@pytest.mark.parametrize("end", [signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)])
async def test_what_clients_do_is_recorded_and_counted_and_shown_by_the_commands(
    end: signal.Signals, tmp_path: Path
) -> None:
    places = state_of(tmp_path)
    for name in ("one", "two"):
        write_skill(tmp_path / "skills", name)
    added = run("token", "add", "anna", "--role", "reader", SKILLSERVE_LOGIN_TOKENS="true", **places)
    token = added.stdout.strip()
    environment = {**places, "SKILLSERVE_LOGIN_TOKENS": "true", "SKILLSERVE_ANALYTICS": "true"}
    command = server_command(tmp_path / "skills", "--transport", "http", "--port", "0", "--tool", "reload_skills")
    async with await anyio.open_process(
        command,
        cwd=REPOSITORY,
        env=server_environment(**environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        with anyio.fail_after(120):
            await use(await address(process.stderr), token)
        folder = tmp_path / "xdg_state_home/skillserve/audit-log"
        with anyio.fail_after(60):
            # The login that was refused is the last event, and another process writes it.
            while not any(entry.event == "login_refused" for entry in entries(folder)):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        process.send_signal(end)
        await process.wait()
    found = [(each.event, each.principal, each.skill or each.target, each.decision) for each in entries(folder)]
    user = found[0][1]
    assert found == [
        ("token_added", user, "anna", "allowed"),
        ("activation", "anna", "one", "allowed"),
        ("request", "anna", "hidden", "invalid"),
        ("read", "anna", "one", "allowed"),
        ("admin", "anna", None, "allowed"),
        ("admin", "anna", "/admin/status", "denied"),
        ("login_refused", None, "/mcp", "denied"),
    ]
    assert verify_log(folder).verdict is LogVerdict.CONSISTENT
    content = b"".join(file.read_bytes() for file in folder.iterdir())
    assert not any(secret.encode() in content for secret in (TEXT, token, "sks_0123456789ab_wrong"))

    listed = json.loads(run("audit-log", "--json", "--skill", "one", **places).stdout)["records"]
    assert [(each["event"], each["principal"]) for each in listed] == [("activation", "anna"), ("read", "anna")]
    assert listed[0]["digest"].startswith("sha256:")
    assert run("audit-log", "verify", **places).returncode == 0
    if end is signal.SIGTERM:
        counted = json.loads(run("analytics", tmp_path / "skills", "--json", **places).stdout)
        (one, two) = counted["skills"]
        assert (one["skill"], one["activated"], one["read"], one["found"], one["users"]) == ("one", 1, 1, 1, 1)
        assert (two["skill"], two["found"], counted["never_used"]) == ("two", 1, ["two"])
        assert counted["found_not_activated"] == ["two"]
        shown = run("analytics", tmp_path / "skills", **places).stdout
        assert "never used: two" in shown


@pytest.mark.skipif(sys.platform == "win32", reason="modes are those of POSIX")
@pytest.mark.parametrize(("enabled", "code"), [("true", 2), ("", 0)])
async def test_a_server_starts_without_a_log_unless_the_settings_demand_it(
    enabled: str, code: int, tmp_path: Path
) -> None:
    write_skill(tmp_path / "skills", "one")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    environment = server_environment(
        **state_of(tmp_path),
        SKILLSERVE_LOGIN_TOKENS="true",
        SKILLSERVE_AUDIT_LOG=enabled,
        SKILLSERVE_AUDIT_LOG_FOLDER=str(tmp_path / "open"),
    )
    command = server_command(tmp_path / "skills", "--transport", "http", "--port", "0")
    async with await anyio.open_process(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        with anyio.fail_after(120):
            if code:
                text = b"".join([chunk async for chunk in process.stderr]).decode()
                assert (await process.wait(), "chmod 700" in text) == (2, True)
                return
            await address(process.stderr)
        process.terminate()
        await process.wait()
    assert [*(tmp_path / "open").iterdir()] == []


def test_without_a_login_nothing_is_recorded_and_a_token_is_revoked_even_with_wrong_settings(tmp_path: Path) -> None:
    places = state_of(tmp_path)
    state = tmp_path / "xdg_state_home/skillserve"
    assert run("token", "add", "anna", **places).returncode == 0
    assert not (state / "audit-log").exists()
    config = tmp_path / "xdg_config_home/skillserve/skillserve.toml"
    config.parent.mkdir(parents=True)
    config.write_text("wrong = 1")
    revoked = run("token", "revoke", "anna", **places)
    assert (revoked.returncode, revoked.stdout) == (0, "revoked: anna\n")
    assert "not recorded in the audit log" in revoked.stderr
    assert TokenFile(state / "tokens.json").tokens() == ()


def test_names_can_neither_control_a_terminal_nor_calculate_in_a_spreadsheet(tmp_path: Path) -> None:
    names = ["=1+1", "+1", "-1", "@x", "\t=1", "|calc", "\x1b[2J", "\x9b31m", "\u202eabc", "a\nb", 'q"uote,d', " =1"]
    write_file(tmp_path / "log", *names)
    for arguments in ((), ("--json",), ("export",), ("export", "--format", "csv"), ("verify",)):
        done = run("audit-log", *arguments, "--folder", tmp_path / "log")
        assert done.returncode == 0, done.stderr
        assert all(line.isprintable() for line in done.stdout.split("\n"))
    exported = run("audit-log", "export", "--format", "csv", "--folder", tmp_path / "log").stdout
    cells = [row["skill"] for row in csv.DictReader(io.StringIO(exported))]
    assert len(cells) == len(names)
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@", "|")) for cell in cells)
    lines = run("audit-log", "export", "--folder", tmp_path / "log").stdout.splitlines()
    assert [json.loads(line)["skill"] for line in lines] == names


def test_the_list_has_the_newest_records_and_filters(tmp_path: Path) -> None:
    write_file(tmp_path / "log", *(f"s{number}" for number in range(150)))
    where = ("--folder", tmp_path / "log")
    done = run("audit-log", *where)
    assert (len(done.stdout.splitlines()), "newest 100 records" in done.stderr) == (100, True)
    assert len(run("audit-log", "list", "--limit", "200", "--since", "1h", *where).stdout.splitlines()) == 150
    assert run("audit-log", "--until", "1h", *where).stdout == ""
    assert len(run("audit-log", "--skill", "s7", *where).stdout.splitlines()) == 1
    assert run("audit-log", "--principal", "ben", *where).stdout == ""
    wrong = run("audit-log", "--since", "soon", *where)
    assert (wrong.returncode, "expected a date" in wrong.stderr) == (2, True)


def test_the_last_day_of_the_calendar_ends_a_period_too(tmp_path: Path) -> None:
    write_file(tmp_path / "log", "one")
    listed = run("audit-log", "--until", "9999-12-31", "--folder", tmp_path / "log")
    assert (listed.returncode, "skill=one" in listed.stdout) == (0, True), listed.stderr
    counted = run("analytics", tmp_path, "--until", "9999-12-31", "--json", **state_of(tmp_path))
    assert (counted.returncode, json.loads(counted.stdout)["until"]) == (0, "9999-12-31"), counted.stderr


def test_a_changed_log_makes_verify_fail_with_the_place(tmp_path: Path) -> None:
    file = write_file(tmp_path / "log", "one", "two")
    file.write_bytes(file.read_bytes().replace(b'"skill":"one"', b'"skill":"six"'))
    done = run("audit-log", "verify", "--folder", tmp_path / "log")
    assert done.returncode == 1
    assert f"{file.name}:2: error[changed]: this record was changed" in done.stdout
    found = json.loads(run("audit-log", "verify", "--json", "--folder", tmp_path / "log").stdout)
    assert (found["intact"], found["findings"][0]["kind"], found["files"][0]["records"]) == (False, "changed", 4)


def test_verify_says_what_the_evidence_supports(tmp_path: Path) -> None:
    def verified(*flags: str | Path) -> tuple[int, str]:
        done = run("audit-log", "verify", "--folder", tmp_path / "log", *flags)
        return done.returncode, done.stdout.splitlines()[-1].partition(":")[0]

    def verdict(*flags: str | Path) -> tuple[bool, str]:
        found = json.loads(run("audit-log", "verify", "--json", "--folder", tmp_path / "log", *flags).stdout)
        return found["intact"], found["verdict"]

    assert (verified(), verdict()) == ((3, "empty"), (False, "empty"))
    file = write_file(tmp_path / "log", "one", "two")
    done = run("audit-log", "verify", "--folder", tmp_path / "log")
    kept = tmp_path / "kept"
    kept.write_text(done.stdout)
    (anchor,) = anchors_of(done.stdout)
    assert (done.returncode, "--anchor" in done.stderr) == (0, True)
    assert (verified(), verdict()) == ((0, "consistent; end not anchored"), (True, "consistent"))
    for flags in (("--anchor", anchor.anchor), ("--anchor", kept)):
        code, said = verified(*flags)
        assert (code, said[:27], verdict(*flags)) == (0, "consistent and anchored up ", (True, "anchored"))
    file.unlink()
    assert (verified(), verdict()) == ((3, "empty"), (False, "empty"))
    assert (verified("--anchor", kept), verdict("--anchor", kept)) == ((1, "NOT intact"), (False, "damaged"))


@pytest.mark.parametrize(
    ("content", "message"), [(None, "as a file it cannot be read"), ("x", "no anchor in this file")]
)
def test_an_anchor_that_is_none_is_wrong_use(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "kept").write_text(content)
    done = run("audit-log", "verify", "--folder", tmp_path / "log", "--anchor", tmp_path / "kept")
    assert (done.returncode, message in done.stderr) == (2, True)


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_the_log_of_a_server_anchors_its_audit_log_and_no_client_forges_an_anchor(
    log_format: str, tmp_path: Path
) -> None:
    write_skill(tmp_path / "skills", "one")
    forged = f"{datetime.now(UTC).date()}-{'0' * 16}.jsonl:5:{'0' * 64}"
    environment = {**state_of(tmp_path), "SKILLSERVE_AUDIT_LOG": "true", "SKILLSERVE_LOG_FORMAT": log_format}
    command = server_command(tmp_path / "skills", "--transport", "http", "--port", "0", "--log-level", "info")
    log = tmp_path / "server.log"
    with log.open("wb") as stderr:
        async with await anyio.open_process(
            command, cwd=REPOSITORY, env=server_environment(**environment), stdout=subprocess.DEVNULL, stderr=stderr
        ) as process:
            with anyio.fail_after(120):
                # It writes to a file, of which nothing tells when it grows.
                while not (served := re.search(r"http://[^/]+/mcp", log.read_text())):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
                await _forge(served[0], forged)
            process.terminate()
            await process.wait()
    folder = tmp_path / "xdg_state_home/skillserve/audit-log"
    assert forged not in log.read_text() + "".join(file.read_text() for file in folder.iterdir())
    done = run("audit-log", "verify", "--anchor", log, "--json", **state_of(tmp_path))
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"], found["anchored_records"]) == (0, "anchored", found["records"]), done
    (file,) = folder.iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    assert run("audit-log", "verify", "--anchor", log, **state_of(tmp_path)).returncode == 1


async def _forge(url: str, anchor: str) -> None:
    """Send an anchor wherever a client can."""
    async with httpx2.AsyncClient() as http:
        transport: Any = streamable_http_client(url, http_client=http)
        info = Implementation(name=f"audit log anchor: {anchor}", version=anchor)
        async with Client(transport, mode="legacy", cache=None, client_info=info) as client:
            for name in ("one", anchor, f"{anchor} \n {anchor}"):
                await client.call_tool("activate_skill", {"name": name})
        await http.post(url, headers={"Host": anchor, "Mcp-Session-Id": anchor}, json={"method": anchor})
        await http.post(
            url, headers={"Mcp-Session-Id": anchor}, json={"jsonrpc": "2.0", "id": anchor, "method": anchor}
        )


def test_analytics_tell_used_failed_found_and_unused_skills_apart(tmp_path: Path) -> None:
    places = state_of(tmp_path)
    for name in ("failing", "found", "quiet", "read"):
        write_skill(tmp_path / "skills", name)
    day = datetime.now(UTC).date().isoformat()
    counts = {
        ("failing", UsageEvent.FAILED): 2,
        ("found", UsageEvent.FOUND): 3,
        ("read", UsageEvent.READ): 1,
        ("gone", UsageEvent.ACTIVATED): 1,
    }
    file = UsageFile(tmp_path / "xdg_state_home/skillserve")
    file.add({Counted(day, skill, event, "x", "anna"): count for (skill, event), count in counts.items()}, "")
    shown = json.loads(run("analytics", tmp_path / "skills", "--json", **places).stdout)
    rows = {row["skill"]: row for row in shown["skills"]}
    assert (shown["never_used"], shown["found_not_activated"]) == (["found", "quiet"], ["found"])
    assert (rows["failing"]["failed"], rows["failing"]["users"]) == (2, 0)
    assert (rows["read"]["users"], rows["read"]["clients"]) == (1, {"x": 1})
    assert {name: row["served"] for name, row in rows.items()} == {
        "failing": True,
        "found": True,
        "read": True,
        "gone": False,
    }
