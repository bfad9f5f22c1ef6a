"""The folder of a skill is named to clients whose own tools read it, as far as is known."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import ValidationError

from server.clients.known import find_client
from server.clients.profile import ClientProfile, Evidence, Fact, holds
from server.config.machine import current_environment
from server.config.settings.skills import SkillFolder
from server.hosting.host import Host
from server.protocol.client_roots import MAX_ROOTS, ClientRoots
from server.protocol.server import SkillServer
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run
from tests.server.settings import make_settings

BODY = "Run scripts/fill.py, see references/forms.md."

UNKNOWN = ClientProfile("x", "a client of which nothing is known")
AT_WORK = UNKNOWN._replace(
    starts_in_workspace=Fact(value=True, evidence=Evidence("measured with a test", "2026-11-22"))
)

Answer = Callable[[], Awaitable[Any]]


@pytest.fixture
def pdf(make_skill: MakeSkill) -> Path:
    """One skill with files that its body names."""
    return make_skill("pdf", body=BODY, files={"references/forms.md": b"x", "scripts/fill.py": b"x"})


class RootedClient:
    """A client over stdio in the handshake era whose roots a test can change."""

    def __init__(self, client: Client, roots: list[str], asked: list[int]) -> None:
        self.client = client
        self.roots = roots
        self.asked = asked

    async def activate(self) -> str:
        result: Any = await self.client.call_tool("activate_skill", {"name": "pdf"})
        text: str = result.content[0].text
        # Asked again after the line that says that nothing has changed, the server sends the text.
        return await self.activate() if "has not changed since" in text else text

    async def prompt(self) -> str:
        result: Any = await self.client.get_prompt("pdf", {})
        text: str = result.messages[0].content.text
        return text.removesuffix("\n\n/pdf")

    async def until_near(self, *, near: bool) -> str:
        """Activate until the text names the folder, or does not; the server asks for roots in the background."""
        with anyio.fail_after(60):
            while ("Skill directory" in (text := await self.activate())) is not near:
                pass
        return text

    async def change_roots(self, *roots: str) -> None:
        self.roots[:] = roots
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await self.client.send_roots_list_changed()


@asynccontextmanager
async def connected(
    skills: Path, *roots: str, local: bool = True, name: str = "nobody-knows-it", **settings: object
) -> AsyncGenerator[RootedClient]:
    host = Host(Library(explicit_sources([skills]), current_environment), make_settings(**settings))
    current, asked = list(roots), list[int]()

    async def list_roots(context: object) -> types.ListRootsResult:  # noqa: ARG001 - the SDK passes it by name
        asked.append(len(current))
        return types.ListRootsResult.model_validate({"roots": [{"uri": uri} for uri in current]})

    info = types.Implementation(name=name, version="99")
    server = SkillServer(host, local=local)
    async with Client(
        server, mode="legacy", list_roots_callback=list_roots if roots else None, client_info=info, cache=None
    ) as client:
        yield RootedClient(client, current, asked)


async def test_roots_that_contain_the_skill_give_its_folder_by_tool_and_prompt(pdf: Path, skills: Path) -> None:
    async with connected(skills, skills.resolve().as_uri(), name="claude-code") as client:
        text = await client.until_near(near=True)
        assert await client.prompt() == text
    folder = pdf.resolve()
    assert f"\nSkill directory: {folder}\n" in text
    assert f'file="{folder / "references" / "forms.md"}"' in text
    assert "Run a script with `Bash` and the `file` given here." in text
    assert text.index("read_skill_file") < text.index("`Read` and the `file`") < text.index("Skill directory:")
    # A person at the command line has this disk.
    assert run("activate", "pdf", skills, "--client", "claude-code").stdout.removesuffix("\n") == text


async def test_roots_elsewhere_keep_the_folder_out_of_the_text(pdf: Path, skills: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with connected(skills, elsewhere.as_uri(), name="claude-code") as client:
        text = await client.activate()
        assert await client.prompt() == text
    assert str(skills.resolve()) not in text
    assert "read_skill_file" in text
    assert str(pdf.resolve()) in run("activate", "pdf", skills, "--client", "claude-code").stdout


async def test_changed_roots_are_asked_for_again(pdf: Path, skills: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with connected(skills, elsewhere.as_uri()) as client:
        assert "Skill directory" not in await client.activate()
        await client.change_roots(elsewhere.as_uri(), skills.resolve().as_uri())
        assert f"Skill directory: {pdf.resolve()}" in await client.until_near(near=True)
        await client.change_roots()
        await client.until_near(near=False)


@pytest.mark.usefixtures("pdf")
async def test_a_client_over_http_is_neither_asked_nor_given_a_folder(skills: Path) -> None:
    async with connected(skills, skills.resolve().as_uri(), local=False, name="codex") as client:
        assert str(skills.resolve()) not in await client.activate()
        assert client.asked == []


async def test_a_client_that_is_known_to_read_the_disk_gets_the_folder(pdf: Path, skills: Path) -> None:
    async with connected(skills, name="codex-mcp-client") as client:
        assert f"Skill directory: {pdf.resolve()}" in await client.activate()


@pytest.mark.parametrize("name", ["nobody-knows-it", "rmcp", "agenvoy"])
async def test_a_client_of_which_nothing_is_known_gets_the_folder_unless_it_offers_roots(
    name: str, pdf: Path, skills: Path, tmp_path: Path
) -> None:
    async with connected(skills, name=name) as client:
        assert f"Skill directory: {pdf.resolve()}" in await client.activate()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with connected(skills, elsewhere.as_uri(), name=name) as client:
        assert "Skill directory" not in await client.activate()
    async with connected(skills, skills.resolve().as_uri(), name=name) as client:
        await client.until_near(near=True)


async def test_a_setting_names_the_folder_to_every_client_over_stdio_or_to_none(pdf: Path, skills: Path) -> None:
    near = f"Skill directory: {pdf.resolve()}"
    for name in ("nobody-knows-it", "codex", "claude-code"):
        async with connected(skills, name=name, skill_folder=SkillFolder.ALWAYS) as client:
            assert near in await client.activate()
        async with connected(skills, name=name, skill_folder=SkillFolder.NEVER) as client:
            assert str(skills.resolve()) not in await client.activate()
        async with connected(skills, name=name, local=False, skill_folder=SkillFolder.ALWAYS) as client:
            assert str(skills.resolve()) not in await client.activate()
    shown = run("activate", "pdf", skills, SKILLSERVE_SKILL_FOLDER="never").stdout
    assert str(skills.resolve()) not in shown


async def test_a_client_that_offers_roots_and_does_not_tell_them_counts_as_one_that_offers_none() -> None:
    roots, asking = ClientRoots(local=True), request(raising(MCPError(-32601, "no such method")))
    assert not roots.reads_everywhere(UNKNOWN, asking)
    await roots.ask(asking, types.NotificationParams())
    assert roots.reads_everywhere(UNKNOWN, asking)


async def test_the_working_directory_counts_for_clients_that_start_servers_in_their_workspace(
    pdf: Path, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(skills)
    async with connected(skills, name="claude-code") as client:
        assert f"Skill directory: {pdf.resolve()}" in await client.activate()
    elsewhere = skills.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    async with connected(skills, name="claude-code") as client:
        assert "Skill directory" not in await client.activate()


async def test_roots_take_precedence_over_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    roots = ClientRoots(local=True)
    assert roots.of(AT_WORK) == {tmp_path.resolve()}
    assert roots.of(UNKNOWN) == frozenset()
    await roots.ask(request(answering()), types.NotificationParams())
    assert roots.of(AT_WORK) == frozenset()


def test_every_client_that_reads_no_disk_is_known_by_measurement() -> None:
    for key in ("claude-code", "gemini", "opencode", "copilot-cli", "qwen"):
        profile = find_client(key)
        assert (holds(profile.reads_disk), holds(profile.starts_in_workspace)) == (False, True)
    for key in ("codex", "cline", "continue"):
        assert holds(find_client(key).reads_disk)


@pytest.mark.usefixtures("pdf")
async def test_a_client_that_never_answers_holds_up_nothing(skills: Path) -> None:
    host = Host(Library(explicit_sources([skills]), current_environment), make_settings())
    asked = anyio.Event()

    async def list_roots(context: object) -> types.ListRootsResult:  # noqa: ARG001 - the SDK passes it by name
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(60):
        async with Client(SkillServer(host, local=True), mode="legacy", list_roots_callback=list_roots) as client:
            await asked.wait()
            result: Any = await client.call_tool("activate_skill", {"name": "pdf"})
    assert "Skill directory" not in result.content[0].text


# What clients may answer


def request(answer: Answer, *, version: str = "2025-11-25", offers: bool = True) -> Any:
    async def send_request(_: object, kind: Any) -> Any:
        return kind.model_validate(await answer())

    declared = types.ClientCapabilities(roots=types.RootsCapability() if offers else None)
    session = SimpleNamespace(client_capabilities=declared, send_request=send_request)
    return SimpleNamespace(session=session, protocol_version=version)


def answering(*uris: object) -> Answer:
    async def answer() -> object:
        return {"roots": [{"uri": uri} for uri in uris]}

    return answer


def raising(error: Exception) -> Answer:
    async def answer() -> object:
        raise error

    return answer


async def known_after(answer: Answer, **how: Any) -> frozenset[Path]:
    roots = ClientRoots(local=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.protocol.client_roots.ANSWER_SECONDS", 0.2)
        await roots.ask(request(answer, **how), types.NotificationParams())
    return roots.of(UNKNOWN)


async def test_links_are_resolved_and_what_is_no_folder_is_no_root(tmp_path: Path) -> None:
    real, link, file = tmp_path / "real", tmp_path / "link", tmp_path / "file"
    real.mkdir()
    file.write_text("x")
    link.symlink_to(real)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    others = [
        "",
        "x",
        "file:///no/such/folder",
        "vscode-remote://ssh/home",
        file.as_uri(),
        (tmp_path / "loop").as_uri(),
    ]
    assert await known_after(answering(*others, link.as_uri())) == {real.resolve()}


async def test_only_so_many_roots_are_looked_at(tmp_path: Path) -> None:
    last = tmp_path / "last"
    last.mkdir()
    many = [tmp_path.as_uri()] * MAX_ROOTS
    assert await known_after(answering(*many, last.as_uri())) == {tmp_path.resolve()}


def _invalid() -> ValidationError:
    try:
        types.ListRootsResult.model_validate({})
    except ValidationError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    "error", [MCPError(-32601, "no such method"), _invalid(), anyio.BrokenResourceError(), anyio.ClosedResourceError()]
)
async def test_a_client_that_refuses_has_no_known_roots(error: Exception) -> None:
    assert await known_after(raising(error)) == frozenset()


@pytest.mark.parametrize("answer", [{}, {"roots": None}, {"roots": "x"}, {"roots": [{}]}, {"roots": [{"uri": 1}]}, []])
async def test_garbage_is_no_answer(answer: object) -> None:
    async def garbage() -> object:
        return answer

    assert await known_after(garbage) == frozenset()


async def test_a_client_that_does_not_answer_is_left_alone() -> None:
    assert await known_after(anyio.sleep_forever) == frozenset()


async def test_a_client_without_the_capability_or_of_the_modern_era_is_not_asked(tmp_path: Path) -> None:
    answer = answering(tmp_path.as_uri())
    assert await known_after(answer) == {tmp_path.resolve()}
    assert await known_after(answer, offers=False) == frozenset()
    assert await known_after(answer, version="2026-07-28") == frozenset()


async def test_changes_during_a_question_make_one_more() -> None:
    asked, go = 0, anyio.Event()

    async def answer() -> object:
        nonlocal asked
        asked += 1
        await go.wait()
        return {"roots": []}

    roots, params = ClientRoots(local=True), types.NotificationParams()
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(roots.ask, request(answer), params)
        await anyio.wait_all_tasks_blocked()
        assert asked == 1
        go.set()
    assert asked == 2


async def test_a_cancelled_question_leaves_nothing_behind() -> None:
    roots, params = ClientRoots(local=True), types.NotificationParams()
    with anyio.move_on_after(0.05):
        await roots.ask(request(anyio.sleep_forever), params)
    await roots.ask(request(answering("file:///")), params)
    assert roots.of(UNKNOWN) == {Path("/")}
