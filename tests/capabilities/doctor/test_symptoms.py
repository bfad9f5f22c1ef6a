"""Every kind of symptom that the troubleshooting page explains is found where it is there."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from server.capabilities.connect.changes import connected
from server.capabilities.connect.clients import known_clients
from server.capabilities.doctor import client_examination, server_examination
from server.capabilities.doctor.examination import skills
from server.capabilities.doctor.patient import patient_here
from server.capabilities.doctor.server_examination import examine_server
from server.capabilities.doctor.symptoms import Health, Kind, Part, Symptom
from server.config.machine import Machine, current_places
from server.wire.address import Address
from tests.capabilities.doctor.conftest import Request, Respond, World, answering
from tests.server.sessions import REPOSITORY

if sys.platform == "win32":
    pytest.skip("the programs here are scripts", allow_module_level=True)

Scenario = Callable[[World], list[Symptom]]

SCENARIOS: dict[Kind, Scenario] = {}
"""What brings a kind of symptom about."""


def scenario(kind: Kind) -> Callable[[Scenario], Scenario]:
    def add(found: Scenario) -> Scenario:
        SCENARIOS[kind] = found
        return found

    return add


def test_every_kind_has_its_scenario() -> None:
    assert set(SCENARIOS) == set(Kind)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.key)
def test_a_symptom_is_found_where_it_is_there(kind: Kind, world: World) -> None:
    found = [each for each in SCENARIOS[kind](world) if each.kind is kind]
    assert found
    for each in found:
        assert each.message
        assert each.advice
        assert each.health is not Health.GOOD
        assert "{" not in each.advice
        assert f"{each.message}{each.advice}".isprintable()


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.key)
def test_a_kind_says_in_sentences_what_it_means_and_what_to_do(kind: Kind) -> None:
    assert kind.value.meaning.endswith(".")
    assert kind.value.meaning[0].isupper()
    assert not kind.advice.endswith(".")
    assert "{" not in kind.advice


@scenario(Kind.EXTRA_MISSING)
def without_extra(world: World) -> list[Symptom]:
    world.monkeypatch.setattr("skills_core.installation.find_spec", lambda _: None)
    return world.examine(Part.INSTALLATION)


@scenario(Kind.NOT_ON_PATH)
def not_on_path(world: World) -> list[Symptom]:
    world.set(PATH=str(world.programs))
    return world.examine(Part.INSTALLATION)


@scenario(Kind.OTHER_INSTALLATION)
def other_installation(world: World) -> list[Symptom]:
    world.program("", python="/usr/bin/another-python")
    return world.examine(Part.INSTALLATION)


@scenario(Kind.NOT_EXAMINED)
def not_examined(world: World) -> list[Symptom]:
    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    world.monkeypatch.setattr("server.capabilities.doctor.examination.capability_lines", fails)
    found = world.examine()
    assert {each.kind for each in found if each.health is Health.BAD} == {Kind.NO_SKILL}
    return found


@scenario(Kind.NO_SANDBOX)
def no_sandbox(world: World) -> list[Symptom]:
    world.monkeypatch.setattr(
        "server.capabilities.doctor.examination.script_status", lambda _: {"missing": ["x"], "sandbox_required": False}
    )
    return world.examine(Part.RUNS)


@scenario(Kind.SANDBOX_REQUIRED)
def sandbox_required(world: World) -> list[Symptom]:
    world.monkeypatch.setattr(
        "server.capabilities.doctor.examination.script_status", lambda _: {"missing": ["x"], "sandbox_required": True}
    )
    return world.examine(Part.RUNS)


@scenario(Kind.SETTING_INVALID)
def setting_invalid(world: World) -> list[Symptom]:
    world.settings("[http]\nport = 'x'\n")
    return world.examine(Part.SETTINGS)


@scenario(Kind.SETTING_WARNING)
def setting_warning(world: World) -> list[Symptom]:
    world.set(SKILLSERVE_PROT="1")
    return world.examine(Part.SETTINGS)


@scenario(Kind.NO_SUCH_FOLDER)
def no_such_folder(world: World) -> list[Symptom]:
    world.skill("one")
    found = world.examine(Part.SKILLS, folders=[world.skills.with_name("skils"), world.skills])
    assert any(each.message == "1 active, 0 excluded, 0 shadowed, 0 invalid" for each in found)
    assert f"Did you mean '{world.skills}'?" in found[0].message
    return found


@scenario(Kind.NO_SKILL)
def no_skill(world: World) -> list[Symptom]:
    return world.examine(Part.SKILLS)


@scenario(Kind.SKILL_BROKEN)
def skill_broken(world: World) -> list[Symptom]:
    for number in range(30):
        place = world.skills / f"broken-{number}"
        place.mkdir()
        (place / "SKILL.md").write_text("---\nname: x\n---\n", encoding="utf-8")
    found = [each for each in world.examine(Part.SKILLS) if each.kind is Kind.SKILL_BROKEN]
    assert len(found) == 21
    assert "10 more" in found[-1].message
    return found


@scenario(Kind.SKILL_NOT_SERVED)
def skill_not_served(world: World) -> list[Symptom]:
    world.skill("gated", "metadata: {openclaw: {requires: {bins: [no-such-program]}}}\n")
    return world.examine(Part.SKILLS)


@scenario(Kind.PLACE_NOT_READ)
def place_not_read(world: World) -> list[Symptom]:
    world.skill("one")
    (world.skills / "linked").symlink_to(world.home)
    return world.examine(Part.SKILLS)


@scenario(Kind.PROJECT_NOT_TRUSTED)
def project_not_trusted(world: World) -> list[Symptom]:
    (Path.cwd() / ".git").mkdir()
    world.skill("one", folder=Path.cwd() / ".agents" / "skills")
    return [*skills(patient_here(Machine(current_places()), os.environ))]


@scenario(Kind.PORT_TAKEN)
def port_taken(world: World) -> list[Symptom]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        world.set(SKILLSERVE_PORT=str(taken.getsockname()[1]))
        found = world.examine(Part.ADDRESS)
    if sys.platform == "linux":
        assert f"process {os.getpid()}, " in found[0].message
    return found


def cursor(world: World, command: str, *args: str, name: str = "skills", **more: Any) -> None:
    file = world.home / ".cursor" / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    entry = {"command": command, "args": [*args], **more}
    file.write_text(json.dumps({"mcpServers": {name: entry}}), encoding="utf-8")


@scenario(Kind.NO_CLIENT)
def no_client(world: World) -> list[Symptom]:
    return world.examine(Part.CLIENTS)


@scenario(Kind.CLIENT_FILE_BROKEN)
def client_file_broken(world: World) -> list[Symptom]:
    cursor(world, "x")
    (world.home / ".cursor" / "mcp.json").write_bytes(b"{\x1b[2J")
    return world.examine(Part.CLIENTS)


@scenario(Kind.CLIENT_NOT_CONNECTED)
def client_not_connected(world: World) -> list[Symptom]:
    cursor(world, "another")
    return world.examine(Part.CLIENTS)


@scenario(Kind.CLIENT_SWITCHED_OFF)
def client_switched_off(world: World) -> list[Symptom]:
    cursor(world, "/nowhere/skillserve", "serve", disabled=True)
    return world.examine(Part.CLIENTS)


@scenario(Kind.CLIENT_COMMAND_MISSING)
def client_command_missing(world: World) -> list[Symptom]:
    cursor(world, "/nowhere/skillserve", "serve")
    return world.examine(Part.CLIENTS)


@scenario(Kind.CLIENT_COMMAND_RELATIVE)
def client_command_relative(world: World) -> list[Symptom]:
    world.program("")
    cursor(world, "skillserve", "serve")
    return world.examine(Part.CLIENTS)


@pytest.mark.cold_start
@pytest.mark.parametrize("command", [["./skillserve", "serve"], [sys.executable, "-m", "server", "serve"]])
def test_no_program_of_the_working_directory_is_started(world: World, command: list[str]) -> None:
    here, trace = Path.cwd(), world.home / "started"
    body = f"#!{sys.executable}\nopen({str(trace)!r}, 'w')\n"
    (here / "server").mkdir()
    for file in (here / "skillserve", here / "server/__init__.py", here / "server/__main__.py"):
        file.write_text(body, encoding="utf-8")
        file.chmod(0o755)
    cursor(world, *command)
    assert [each.kind for each in world.examine(Part.CLIENTS)]
    assert not trace.exists()


@scenario(Kind.CLIENT_FOLDER_MISSING)
def client_folder_missing(world: World) -> list[Symptom]:
    world.set(PYTHONPATH=str(REPOSITORY))
    cursor(world, sys.executable, "-m", "server", "serve", "--strict", str(world.skills.with_name("skils")))
    found = world.examine(Part.CLIENTS)
    why = f"{world.skills.with_name('skils')}: there is no such directory; create it or correct the path."
    assert [each.message for each in found] == [f"Cursor: skills: {why} Did you mean '{world.skills}'?"]
    return found


@scenario(Kind.CLIENT_FOLDER_RELATIVE)
def client_folder_relative(world: World) -> list[Symptom]:
    program = world.program("")
    cursor(world, str(program), "serve", "skills")
    return world.examine(Part.CLIENTS)


@scenario(Kind.CLIENT_NO_ANSWER)
def client_no_answer(world: World) -> list[Symptom]:
    program = world.program("import sys; sys.exit('out of order \\x1b[2J')")
    cursor(world, str(program), "serve")
    return world.examine(Part.CLIENTS)


@scenario(Kind.PYTHON_TOO_OLD)
def python_too_old(world: World) -> list[Symptom]:
    world.set(PYTHONPATH=str(REPOSITORY))
    # An earlier Python is not at hand everywhere: this one claims to be one.
    program = world.program(
        "import runpy, sys; sys.version_info = (3, 9, 1); runpy.run_module('server', {}, '__main__')"
    )
    cursor(world, str(program), "serve")
    return world.examine(Part.CLIENTS)


def claude_desktop(world: World, log: Path | None = None) -> Path:
    """Connect Claude Desktop to a program that answers; return its log."""
    answer = {"jsonrpc": "2.0", "id": 2, "result": {"tools": [{"name": "activate_skill"}]}}
    program = world.program(f"import sys; sys.stdin.read(); print('{json.dumps(answer)}')")
    folder = world.home / ".config" / "Claude"
    if sys.platform == "darwin":
        folder = world.home / "Library" / "Application Support" / "Claude"
    folder.mkdir(parents=True)
    entry = {"command": str(program), "args": ["serve"]}
    (folder / "claude_desktop_config.json").write_text(json.dumps({"mcpServers": {"skills": entry}}), encoding="utf-8")
    logs = world.home / "Library" / "Logs" / "Claude" if sys.platform == "darwin" else folder / "logs"
    logs.mkdir(parents=True)
    return log or logs / "mcp-server-skills.log"


@scenario(Kind.CLIENT_LOGGED_ERROR)
def client_logged_error(world: World) -> list[Symptom]:
    log = claude_desktop(world)
    with log.open("wb") as file:
        # A file with a hole takes no space on the disk.
        file.truncate(8 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"\n2026 [error] spawn ENOENT \x1b[2J\n2026 [info] bye\n")
    found = world.examine(Part.CLIENTS)
    assert any("answers (it answers with activate_skill)" in each.message for each in found)
    assert any("logged: 2026 [error] spawn ENOENT" in each.message for each in found)
    return found


@scenario(Kind.CLIENT_LOG_UNREADABLE)
def client_log_unreadable(world: World) -> list[Symptom]:
    log = claude_desktop(world)
    log.symlink_to(log.name)
    return world.examine(Part.CLIENTS)


def test_a_log_that_is_no_file_is_left_alone(world: World) -> None:
    log = claude_desktop(world)
    os.mkfifo(log)
    assert {each.health for each in world.examine(Part.CLIENTS)} == {Health.GOOD}
    assert stat.S_ISFIFO(log.stat().st_mode)


def test_a_server_that_several_clients_start_alike_is_started_once(world: World) -> None:
    count = world.home / "count"
    program = world.program(f"open({str(count)!r}, 'a').write('x')")
    cursor(world, str(program), "serve")
    (world.home / ".gemini").mkdir()
    shutil.copy(world.home / ".cursor" / "mcp.json", world.home / ".gemini" / "settings.json")
    found = world.examine(Part.CLIENTS)
    assert sum(each.kind is Kind.CLIENT_NO_ANSWER for each in found) == 2
    assert count.read_text(encoding="utf-8") == "x"


def test_a_server_is_started_with_the_variables_that_the_client_sets(world: World) -> None:
    program = world.program("import os, sys; sys.exit(os.environ['MODE'] + os.environ.get('KEPT', ' none'))")
    cursor(world, str(program), "serve", env={"MODE": "strange", "KEPT": "${input:token}"})
    (symptom,) = world.examine(Part.CLIENTS)
    assert symptom.message.endswith("strange none")


def test_a_client_of_a_server_at_an_address_is_connected_and_its_token_is_not_shown(world: World) -> None:
    file = world.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    for url, kinds in (("https://key@there.example/mcp?token=secret", set()), ("nowhere", {Kind.CLIENT_FILE_BROKEN})):
        file.write_text(json.dumps({"mcpServers": {"skills": {"url": url}}}), encoding="utf-8")
        found = world.examine(Part.CLIENTS)
        assert {each.kind for each in found if each.kind} == kinds
        assert "secret" not in repr(found)
        assert "key@" not in repr(found)
    assert connected(known_clients()["cursor"], world.home)


def test_what_is_wrong_with_one_client_does_not_hide_the_others(world: World) -> None:
    cursor(world, "/nowhere/skillserve", "serve")
    (world.home / ".gemini").mkdir()
    (world.home / ".gemini" / "settings.json").write_text("{", encoding="utf-8")

    def fails(client: Any, home: Path) -> Any:
        if client.key == "gemini-cli":
            raise RuntimeError("odd")
        return connected(client, home)

    world.monkeypatch.setattr(client_examination, "connected", fails)
    kinds = [each.kind for each in world.examine(Part.CLIENTS)]
    assert set(kinds) == {Kind.CLIENT_COMMAND_MISSING, Kind.NOT_EXAMINED}


# Running servers.


def asked(url: str, *headers: str) -> list[Symptom]:
    return [*examine_server(Address.parse(url, headers))]


def says(status: int, body: Any = b"", **headers: str) -> Respond:
    """Return what answers every request in the same way."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: (status, {"Content-Type": "application/json", **named}, content)


def server(respond: Respond, *headers: str, path: str = "") -> Scenario:
    """Return the scenario of a server that answers so."""

    def found(_: World) -> list[Symptom]:
        with answering(respond) as served:
            return asked(served.url + path, *headers)

    return found


def mcp(request: Request, eras: str = "both", tools: tuple[str, ...] = ("activate_skill",)) -> dict[str, Any] | None:
    """Return the result of a request of MCP, None for an era that is not spoken."""
    sent = json.loads(request.body or b"{}")
    modern = "_meta" in sent.get("params", {})
    if eras != "both" and modern != (eras == "modern"):
        return None
    results: dict[str, dict[str, Any]] = {
        "initialize": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "stub", "version": "1\x1b[2J"}},
        "server/discover": {"supportedVersions": ["2026-07-28"]},
        "tools/list": {"tools": [{"name": name} for name in tools]},
    }
    return results.get(sent.get("method", ""), {})


def speaking(**how: Any) -> Respond:
    def respond(request: Request) -> tuple[int, Mapping[str, str], bytes]:
        if request.method != "POST":
            return 404, {}, b""
        result = mcp(request, **how)
        if result is None:
            error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "not here"}}
            return 400, {"Content-Type": "application/json"}, json.dumps(error).encode()
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result})
        headers = {"Content-Type": "text/event-stream", "Mcp-Session-Id": "s1"}
        return 200, headers, f"event: message\ndata: {text}\n\n".encode()

    return respond


def test_a_server_that_answers_is_in_order_and_its_session_is_closed() -> None:
    with answering(speaking()) as served:
        found = asked(served.url, "Authorization: Bearer secret")
    assert {each.health for each in found} == {Health.GOOD}
    assert [each.method for each in served.requests].count("DELETE") == 1
    assert "it is stub 1\\x1b[2J" in [each.message for each in found]
    # The token goes to the endpoint alone.
    assert all(("authorization" in each.headers) <= (each.path == "/mcp") for each in served.requests)
    assert "secret" not in "".join(each.message + each.advice for each in found)


SCENARIOS[Kind.URL_ONE_ERA] = server(speaking(eras="handshake"))
SCENARIOS[Kind.URL_NO_TOOL] = server(speaking(tools=()))
SCENARIOS[Kind.URL_REDIRECT] = server(says(308, Location="https://elsewhere.example.com/mcp"))
SCENARIOS[Kind.URL_NOT_MCP] = server(says(200, b"<html>welcome</html>", Content_Type="text/html"))
SCENARIOS[Kind.URL_LOGIN] = server(says(401, {"error": "unauthorized"}))
SCENARIOS[Kind.URL_TOKEN_REFUSED] = server(says(401, {"error": "invalid_token"}), "Authorization: Bearer x")
SCENARIOS[Kind.URL_HOST_NOT_ALLOWED] = server(says(421, b"Invalid Host header"))
SCENARIOS[Kind.URL_FORBIDDEN] = server(says(403, b"Invalid Origin header"))
SCENARIOS[Kind.URL_OVERLOADED] = server(says(502, b"<h1>Bad Gateway</h1>"))
SCENARIOS[Kind.URL_ERROR] = server(says(500, {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "\x1b"}}))


@pytest.mark.parametrize("version", ["\x1b[31m\u202e", "2025-11-25\r\nX: y", 1, "x" * 100_000])
def test_what_is_no_version_is_not_sent_back(version: object) -> None:
    sent: list[str | None] = []

    def respond(request: Request) -> tuple[int, Mapping[str, str], bytes]:
        if request.method != "POST":
            return 404, {}, b""
        asked = json.loads(request.body)
        sent.append(request.headers.get("mcp-protocol-version"))
        result = {"protocolVersion": version, "tools": [{"name": "activate_skill"}]}
        return 200, {}, json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}).encode()

    with answering(respond) as served:
        found = [*examine_server(Address.parse(served.url, []))]
    assert [each.kind for each in found if each.kind] == []
    assert {*sent} == {None, "2025-11-25", "2026-07-28"}


def test_no_compressed_answer_is_unpacked() -> None:
    packed = gzip.compress(bytes(1 << 20))
    asked: list[str | None] = []

    def respond(request: Request) -> tuple[int, Mapping[str, str], bytes]:
        asked.append(request.headers.get("accept-encoding"))
        return 200, {"Content-Encoding": "gzip", "Content-Type": "application/json"}, packed

    with answering(respond) as served:
        found = [*examine_server(Address.parse(served.url, []))]
    assert {*asked} == {"identity"}
    assert [each.kind for each in found if each.kind] == [Kind.URL_NOT_MCP]
    # The beginning of the body is shown as it came: the second byte of gzip's head is not UTF-8.
    assert "status 200: \ufffd\\x08" in found[-1].message


@pytest.mark.parametrize("eras", ["handshake", "modern"])
def test_a_server_of_one_era_is_told_apart(eras: str, world: World) -> None:
    found = server(speaking(eras=eras))(world)
    assert [each.kind for each in found if each.kind] == [Kind.URL_ONE_ERA]


@scenario(Kind.URL_WRONG_PATH)
def wrong_path(_: World) -> list[Symptom]:
    def respond(request: Request) -> tuple[int, Mapping[str, str], bytes]:
        return speaking()(request) if request.path == "/mcp" else (404, {}, b"Not Found")

    with answering(respond) as served:
        found = asked(served.url.removesuffix("/mcp") + "/sse")
    assert found[-1].advice == f"use {served.url}"
    return found


@scenario(Kind.URL_NOT_READY)
def not_ready(_: World) -> list[Symptom]:
    def respond(request: Request) -> tuple[int, Mapping[str, str], bytes]:
        return (503, {}, b'{"status": "draining"}') if request.path == "/ready" else speaking()(request)

    with answering(respond) as served:
        return asked(served.url)


@scenario(Kind.URL_UNKNOWN_HOST)
def unknown_host(_: World) -> list[Symptom]:
    return asked("http://no-such-host.invalid/mcp")


@scenario(Kind.URL_REFUSED)
def refused(_: World) -> list[Symptom]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return asked(f"http://127.0.0.1:{port}/mcp")


@contextmanager
def speaking_bytes(answer: bytes, *, ends: bool = True) -> Iterator[str]:
    """Yield the address of a program that sends these bytes to whoever connects."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            while not stop.is_set():
                with listener.accept()[0] as peer:
                    peer.sendall(answer)
                    if not ends:
                        stop.wait()

        thread = threading.Thread(target=speak)
        thread.start()
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        try:
            yield host
        finally:
            stop.set()
            with socket.create_connection(listener.getsockname()):
                thread.join()


@scenario(Kind.URL_NOT_HTTP)
def not_http(_: World) -> list[Symptom]:
    with speaking_bytes(b"220 mail.example.com ESMTP\r\n") as host:
        return asked(f"http://{host}/mcp")


@scenario(Kind.URL_NO_TLS)
def no_tls(_: World) -> list[Symptom]:
    with speaking_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n") as host:
        return asked(f"https://{host}/mcp")


@scenario(Kind.URL_TIMEOUT)
def timeout(world: World) -> list[Symptom]:
    world.monkeypatch.setattr(server_examination, "_SECONDS", 0.2)
    # A header that never ends.
    with speaking_bytes(b"HTTP/1.1 200 OK\r\nX: ", ends=False) as host:
        return asked(f"http://{host}/mcp")


@scenario(Kind.URL_PROXY)
def proxy(world: World) -> list[Symptom]:
    with answering(says(502)) as served:
        world.set(HTTP_PROXY=served.url.replace("http://", "http://user:secret@"), NO_PROXY="")
        world.monkeypatch.delenv("http_proxy", raising=False)
        found = asked("http://skills.example.com/mcp")
        assert served.requests
    assert "secret" not in "".join(each.message for each in found)
    return found


@scenario(Kind.URL_PLAIN_TOKEN)
def plain_token(_: World) -> list[Symptom]:
    return asked("http://no-such-host.invalid/mcp", "Authorization: Bearer x")


@scenario(Kind.URL_CERTIFICATE)
def certificate(world: World) -> list[Symptom]:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = world.home / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def shake_hands() -> None:
            peer, _ = listener.accept()
            try:
                context.wrap_socket(peer, server_side=True)
            except OSError:
                peer.close()

        thread = threading.Thread(target=shake_hands)
        thread.start()
        found = asked(f"https://127.0.0.1:{listener.getsockname()[1]}/mcp")
        thread.join()
    assert "self-signed" in found[-1].message or "self signed" in found[-1].message
    return found


def test_an_endless_answer_is_cut(world: World) -> None:
    world.monkeypatch.setattr(server_examination, "_MAX_BYTES", 1000)
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()
    assert server(says(200, answer))(world)[-1].kind is not Kind.URL_NOT_MCP
    found = server(says(200, b" " * 1_000_000 + answer))(world)
    assert found[-1].kind is Kind.URL_NOT_MCP
    assert len(found[-1].message) < 700


def test_a_compressed_answer_is_not_asked_for_and_not_unpacked() -> None:
    answer = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode())
    with answering(says(200, answer, Content_Encoding="gzip")) as served:
        found = asked(served.url)
    assert found[-1].kind is Kind.URL_NOT_MCP
    assert {each.headers["accept-encoding"] for each in served.requests} == {"identity"}


def test_no_header_follows_a_redirect(world: World) -> None:
    with answering(says(HTTPStatus.OK)) as elsewhere:
        server(says(307, Location=elsewhere.url), "Authorization: Bearer secret")(world)
    assert elsewhere.requests == []
