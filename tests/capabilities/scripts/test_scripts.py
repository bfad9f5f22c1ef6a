"""Scripts of skills, run by clients and from the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator

from server.capabilities.scripts import factory as setup_of_scripts
from server.capabilities.scripts.factory import described_setup
from server.capabilities.scripts.tools import PIECE
from server.config.files import ConfigurationError
from server.config.jdai import script_variables
from server.config.settings.layers import load_settings
from server.config.settings.tools import OptionalTool
from skills_core.scripts.isolation import Isolation
from skills_core.testing import skill_of
from tests.conftest import MakeSkill
from tests.processes import becomes, sleepers, unique_seconds
from tests.server.sessions import REPOSITORY, Connect, ConnectHosted, Session, server_environment

TOOL = "run_skill_script"
ON: dict[str, Any] = {"tools": (OptionalTool("run_skill_script"),)}

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="these programs are those of POSIX")

ECHO = b"import sys; print(sys.argv[1:], sys.stdin.read()); print('oh', file=sys.stderr)"


async def call(session: Session, **arguments: Any) -> Any:
    """Call the tool; what it answers is as its schema says."""
    result = await session.client.call_tool(TOOL, arguments)
    if result.structured_content is not None:
        listed = {tool.name: tool for tool in (await session.client.list_tools()).tools}
        Draft202012Validator(listed[TOOL].output_schema).validate(result.structured_content)
    return result


def without_sandbox(folder: Path) -> str:
    """Return a search path on which there is no bubblewrap."""
    folder.mkdir()
    for name in ("sh", "sleep"):
        (folder / name).symlink_to(f"/bin/{name}")
    return str(folder)


class TestTool:
    async def test_a_script_runs_and_returns_stdout_and_stderr_separately(
        self, connect: Connect, make_skill: MakeSkill
    ) -> None:
        make_skill("a", files={"scripts/echo.py": ECHO})
        async with connect(SKILLSERVE_TOOLS=TOOL) as session:
            result = await call(session, skill="a", path="scripts/echo.py", args=["x y", "$(id)"], stdin="given")
            refused = await session.client.call_tool(TOOL, {"skill": "a", "path": "echo.py"})
        assert not result.is_error, result.content
        assert refused.is_error
        assert "has no file 'echo.py'. Did you mean 'scripts/echo.py'?" in refused.content[0].text
        told = result.structured_content
        assert (told["ending"], told["exit_code"], told["output"]) == ("exited", 0, None)
        assert told["stdout"]["text"].strip() == "['x y', '$(id)'] given"
        assert told["stderr"]["text"].strip() == "oh"
        head, out, err = (block.text for block in result.content)
        assert head == (
            "scripts/echo.py of the skill a ended with exit code 0. Block 2 is its stdout. Block 3 is its stderr."
        )
        assert (out, err) == (told["stdout"]["text"], told["stderr"]["text"])

    async def test_a_failing_script_is_an_error_with_the_exit_code(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill
    ) -> None:
        make_skill("a", files={"a.py": b"raise SystemExit(3)"})
        async with in_memory(skills, **ON) as session:
            result = await call(session, skill="a", path="./a.py")
        assert result.is_error
        assert result.content[0].text == "a.py of the skill a ended with exit code 3. It wrote nothing."

    async def test_long_output_is_read_in_parts_by_offset(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill
    ) -> None:
        code = "import sys\nsys.stdout.write('ä' * 40_000)\nsys.stderr.write('e' * 20_000)"
        make_skill("a", files={"a.py": code.encode()})
        async with in_memory(skills, **ON) as session:
            told = (await call(session, skill="a", path="a.py")).structured_content
            text, stream = told["stdout"]["text"], told["stdout"]
            assert len(text) == PIECE
            while stream["next_offset"] is not None:
                more = await call(session, output=told["output"], offset=stream["next_offset"])
                stream = more.structured_content["stdout"]
                text += stream["text"]
            assert text == "ä" * 40_000
            rest = await call(session, output=told["output"], stream="stderr", offset=19_990)
            assert rest.structured_content["stderr"]["text"] == "e" * 10
            assert rest.structured_content["stdout"]["text"] == ""
            gone = await call(session, output="no-such-output")
            assert gone.is_error
            assert "run the script again" in gone.content[0].text

    async def test_parts_are_as_long_as_the_client_passes_on(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill
    ) -> None:
        code = "import sys\nsys.stdout.write('ä\"' * 10_000)\nsys.stderr.write('e' * 9_000)"
        make_skill("a", files={"a.py": code.encode()})
        arguments: dict[str, Any] = {"skill": "a", "path": "a.py"}
        read = {"stdout": "", "stderr": ""}
        async with in_memory(skills, client_name="@cline/core", **ON) as session:
            for stream in read:
                while True:
                    result = await session.client.call_tool(TOOL, arguments)
                    assert len(result.model_dump_json(by_alias=True, exclude_none=True)) < 8000
                    head = result.content[0].text
                    place = re.search(rf"Block (\d) is its {stream}", head)
                    assert place is not None, head
                    read[stream] += result.content[int(place[1]) - 1].text
                    more = re.search(rf'output: "([^"]+)", stream: "{stream}", offset: (\d+)', head)
                    if more is None:
                        break
                    arguments = {"output": more[1], "stream": stream, "offset": int(more[2])}
                arguments = {"output": arguments["output"], "stream": "stderr", "offset": 0}
        assert read == {"stdout": 'ä"' * 10_000, "stderr": "e" * 9000}

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ({"skill": "a"}, "path is missing"),
            ({"skill": "b", "path": "a.py"}, "There is no active skill"),
            ({"skill": "a", "path": "../a/a.py"}, "has no file"),
            ({"skill": "a", "path": "/etc/passwd"}, "has no file"),
            ({"skill": "a", "path": "SKILL.md"}, "nothing tells how to run it"),
            ({"skill": "a", "path": 1}, "path must be a string"),
            ({"skill": "a", "path": "a.py", "args": "x"}, "args must be a list of strings"),
            ({"skill": "a", "path": "a.py", "args": [1]}, "args must be a list of strings"),
            ({"skill": "a", "path": "a.py", "args": ["x" * 100_001]}, "args may have"),
            ({"skill": "a", "path": "a.py", "args": ["a\0b"]}, "could not be started: "),
            ({"skill": "a", "path": "a.py", "stdin": ["x"]}, "stdin must be a string"),
            ({"skill": "a", "path": "a.py", "stdin": "x" * 1_000_001}, "stdin may have"),
            ({"output": 1}, "output must be a string"),
            ({"output": "x", "offset": -1}, "offset must be a whole number"),
            ({"output": "x", "offset": True}, "offset must be a whole number"),
            ({"output": "x", "stream": "stdin"}, "stream must be one of stdout, stderr"),
        ],
    )
    async def test_an_invalid_call_is_refused_with_the_reason(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill, arguments: dict[str, Any], why: str
    ) -> None:
        make_skill("a", files={"a.py": b"print('ran')"})
        async with in_memory(skills, **ON) as session:
            result = await session.client.call_tool(TOOL, arguments)
        assert result.is_error
        assert why in result.content[0].text

    async def test_the_tool_is_offered_only_if_enabled_and_if_there_are_skills(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill
    ) -> None:
        async def names(session: Session) -> set[str]:
            return {tool.name for tool in (await session.client.list_tools()).tools}

        async with in_memory(skills, **ON) as session:
            assert TOOL not in await names(session)
        make_skill("a", files={"a.py": b""})
        async with in_memory(skills, **ON) as session:
            assert TOOL in await names(session)
        async with in_memory(skills) as session:
            assert TOOL not in await names(session)

    async def test_the_tools_description_states_this_machines_isolation(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill
    ) -> None:
        make_skill("a", files={"a.py": b""})
        for network in (False, True):
            async with in_memory(skills, **ON, script_network=network) as session:
                (tool,) = [tool for tool in (await session.client.list_tools()).tools if tool.name == TOOL]
                setup = described_setup(session.host.settings)
            assert setup.statement in tool.description
            open_world = network or setup.isolation.sandbox is None
            assert "is started in the skill's folder, which is read-only" in tool.description
            assert (tool.annotations.open_world_hint, tool.annotations.destructive_hint) == (open_world, open_world)
            assert not tool.annotations.read_only_hint
            assert not tool.annotations.idempotent_hint

    async def test_a_changed_script_runs_in_its_new_version_and_the_change_is_announced(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill
    ) -> None:
        folder = make_skill("a", files={"a.py": b"print('old')"})
        async with in_memory(skills, watch=False, **ON) as session:
            before = session.host.everything.skill("a").content.files["a.py"].digest
            (folder / "a.py").write_bytes(b"print('new')")
            told = (await call(session, skill="a", path="a.py")).structured_content
            assert told["stdout"]["text"].strip() == "new"
            assert told["digest"] != before

    @pytest.mark.parametrize("kind", ["danger_patterns", "confirm_patterns"])
    async def test_the_guard_decides_before_a_script_runs(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill, kind: str
    ) -> None:
        make_skill("a", files={"a.py": b"print('ran')"}, fields=f"{kind}: ['^run_skill_script .*--force']")
        async with in_memory(skills, **ON) as session:
            refused = await session.client.call_tool(TOOL, {"skill": "a", "path": "a.py", "args": ["--force"]})
            assert refused.is_error
            assert "--force" in refused.content[0].text
            assert ("cannot ask the user" in refused.content[0].text) == (kind == "confirm_patterns")
            assert not (await call(session, skill="a", path="a.py")).is_error

    @pytest.mark.parametrize("name", ["a", "skill://a/SKILL.md"])
    async def test_the_guard_judges_the_scripts_path_as_it_is_spelled_on_disk(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill, name: str
    ) -> None:
        make_skill("a", files={"drop.py": b"print('ran')"}, fields="danger_patterns: ['drop\\.py']")
        async with in_memory(skills, **ON) as session:
            for path in ("drop.py", "DROP.py", "./Drop.PY"):
                refused = await session.client.call_tool(TOOL, {"skill": name, "path": path})
                assert refused.is_error
                assert "drop" in refused.content[0].text

    async def test_an_activation_says_how_scripts_are_run(
        self, in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill
    ) -> None:
        make_skill("a", body="Run scripts/a.py.", files={"scripts/a.py": b""})
        async with in_memory(skills, **ON) as session:
            assert "Run a script with `run_skill_script`" in await session.activate("a")
        async with in_memory(skills) as session:
            assert TOOL not in await session.activate("a")

    @POSIX
    @pytest.mark.parametrize("sandbox", ["if it works", "none"])
    @pytest.mark.every_way
    async def test_a_cancelled_call_ends_all_processes_of_the_script(
        self, connect: Connect, make_skill: MakeSkill, tmp_path: Path, sandbox: str
    ) -> None:
        marker = unique_seconds()
        make_skill("a", files={"a.sh": b'sleep "$1" & wait'})
        more = {"PATH": without_sandbox(tmp_path / "bin")} if sandbox == "none" else {}
        async with connect(SKILLSERVE_TOOLS=TOOL, **more) as session:
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    await session.client.call_tool(TOOL, {"skill": "a", "path": "a.sh", "args": [marker]})

                tasks.start_soon(run)
                assert await becomes(lambda: bool(sleepers(marker)))
                tasks.cancel_scope.cancel()
            assert await becomes(lambda: not sleepers(marker))
            assert await session.enum() == ["a"]

    @POSIX
    async def test_without_the_required_sandbox_the_tool_is_not_offered_and_the_status_says_why(
        self, connect: Connect, make_skill: MakeSkill, tmp_path: Path
    ) -> None:
        make_skill("a", body="Run scripts/a.py.", files={"scripts/a.py": b""})
        settings = {"SKILLSERVE_TOOLS": f"{TOOL},skills_status", "SKILLSERVE_REQUIRE_SANDBOX": "true"}
        async with connect(**settings, PATH=without_sandbox(tmp_path / "bin")) as session:
            names = {tool.name for tool in (await session.client.list_tools()).tools}
            assert TOOL not in names
            assert TOOL not in await session.activate("a")
            status = (await session.client.call_tool("skills_status", {})).structured_content["scripts"]
        assert (status["offered"], status["isolation"], status["sandbox_required"]) == (False, "none", True)
        assert "bubblewrap (bwrap) is not installed" in status["statement"]

    async def test_without_a_sandbox_each_call_says_so_in_the_log(
        self,
        in_memory: ConnectHosted,
        skills: Path,
        make_skill: MakeSkill,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        make_skill("a", files={"a.py": b"print('ran')"})
        monkeypatch.setattr(setup_of_scripts, "_isolation", lambda _: Isolation(why="a test wants none"))
        async with in_memory(skills, **ON) as session:
            for count in (1, 2):
                await call(session, skill="a", path="a.py")
                assert caplog.text.count("no sandbox: it runs with all rights of the user") == count


class TestCommand:
    def run(self, *arguments: object, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "server", *map(str, arguments)]
        return subprocess.run(
            command,
            cwd=REPOSITORY,
            env=server_environment(**environment),
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def test_arguments_after_the_script_are_the_scripts(self, skills: Path, make_skill: MakeSkill) -> None:
        make_skill("a", files={"a.py": ECHO})
        done = self.run("script", "--dir", skills, "a", "A.py", "--json", "-x", "y z", stdin="not for the script")
        assert (done.returncode, done.stdout.strip()) == (0, "['--json', '-x', 'y z']"), done.stderr
        assert done.stderr.endswith("oh\n")

    def test_json_and_stdin_and_a_workspace(self, skills: Path, make_skill: MakeSkill, tmp_path: Path) -> None:
        code = b"import sys; open('out', 'w').write(sys.stdin.read()); sys.exit(3)"
        make_skill("a", files={"a.py": code})
        done = self.run(
            "script", "--dir", skills, "--json", "--stdin", "-", "--workspace", tmp_path, "a", "a.py", stdin="given"
        )
        told = json.loads(done.stdout)
        assert (done.returncode, told["exit_code"], told["path"]) == (3, 3, "a.py")
        assert (tmp_path / "out").read_text() == "given"
        assert "a.py of the skill a ended with exit code 3" in done.stderr

    @pytest.mark.parametrize("path", ["no.py", "SKILL.md"])
    def test_a_script_that_cannot_run_is_reported(self, skills: Path, make_skill: MakeSkill, path: str) -> None:
        make_skill("a", files={"a.py": b""})
        done = self.run("script", "--dir", skills, "a", path)
        assert (done.returncode, done.stdout) == (125, "")
        assert "has no file" in done.stderr or "nothing tells how to run it" in done.stderr

    @POSIX
    def test_without_the_required_sandbox_nothing_runs(
        self, skills: Path, make_skill: MakeSkill, tmp_path: Path
    ) -> None:
        make_skill("a", files={"a.py": b"print('ran')"})
        path = without_sandbox(tmp_path / "bin")
        done = self.run("script", "--require-sandbox", "--dir", skills, "a", "a.py", PATH=path)
        assert (done.returncode, done.stdout) == (125, "")
        assert "a sandbox is required here: bubblewrap (bwrap) is not installed" in done.stderr

    @POSIX
    def test_without_a_sandbox_the_command_says_so_on_stderr(
        self, skills: Path, make_skill: MakeSkill, tmp_path: Path
    ) -> None:
        make_skill("a", files={"a.py": b"print('ran')"})
        path = without_sandbox(tmp_path / "bin")
        done = self.run("script", "--dir", skills, "a", "a.py", PATH=path)
        assert (done.returncode, done.stdout.split()) == (0, ["ran"])
        assert done.stderr.count("warning: no sandbox: it runs with all rights of the user") == 1
        assert "bubblewrap (bwrap) is not installed" in done.stderr

    def test_a_skill_of_an_untrusted_project_runs_nothing(self, make_skill: MakeSkill, tmp_path: Path) -> None:
        project, home = tmp_path / "project", tmp_path / "home"
        (project / ".skills").mkdir(parents=True)
        home.mkdir()
        make_skill("a", files={"a.py": b"print('ran')"}).rename(project / ".skills" / "a")
        environment = server_environment(HOME=str(home), USERPROFILE=str(home), XDG_CONFIG_HOME=str(home))
        command = [sys.executable, "-m", "server", "script"]
        for trust in ([], ["--trust-workspace"]):
            done = subprocess.run(
                [*command, *trust, "a", "a.py"],
                cwd=project,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == (0 if trust else 125), done.stderr
            assert ("ran" in done.stdout) == bool(trust)

    def test_the_status_has_the_isolation(self, skills: Path, make_skill: MakeSkill) -> None:
        make_skill("a")
        told = json.loads(self.run("status", skills, "--json").stdout)["scripts"]
        assert told["offered"] is False
        assert told["isolation"] in {"bubblewrap", "none"}
        assert told["statement"] in self.run("status", skills).stdout
        on = json.loads(self.run("status", skills, "--json", SKILLSERVE_TOOLS=TOOL).stdout)["scripts"]
        assert on["offered"] is True


class TestVariables:
    """What `skills.json` sets for a skill."""

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        for name, entry in {
            "home": {"env": {"A": "1", "N": 2}, "apiKey": {"value": "key"}},
            "project": {"env": {"A": "evil", "LD_PRELOAD": "evil.so"}, "apiKey": "evil"},
        }.items():
            folder = tmp_path / name / ".jdai"
            folder.mkdir(parents=True)
            (folder / "skills.json").write_text(json.dumps({"skills": {"entries": {"One": entry}}}))
        return tmp_path / "home"

    @pytest.mark.parametrize(
        ("name", "metadata", "variables"),
        [
            ("one", "{primaryEnv: TOKEN}", {"A": "1", "N": "2", "TOKEN": "key"}),
            ("one", "{}", {"A": "1", "N": "2"}),
            ("two", "{primaryEnv: TOKEN}", {}),
        ],
    )
    def test_a_skill_gets_the_variables_of_the_users_file(
        self, home: Path, name: str, metadata: str, variables: dict[str, str]
    ) -> None:
        skill = skill_of(f"---\nname: {name}\ndescription: d\nmetadata: {{jdai: {metadata}}}\n---\n")
        assert script_variables(home, skill) == variables

    @POSIX
    async def test_a_script_gets_these_variables_and_none_of_the_servers_settings(
        self, connect: Connect, make_skill: MakeSkill, home: Path
    ) -> None:
        code = b"import os; print(sorted(n for n in os.environ if n in ('A', 'N', 'TOKEN', 'P') or 'SKILLSERVE' in n))"
        make_skill("one", fields="metadata: {jdai: {primaryEnv: TOKEN}}", files={"a.py": code})
        settings = {
            "SKILLSERVE_TOOLS": TOOL,
            "SKILLSERVE_ADMIN_TOKEN": "a-token-of-the-server",
            "SKILLSERVE_SCRIPT_ENVIRONMENT": "P",
            "HOME": str(home),
            "P": "passed",
            "TOKEN": "of the server's own environment",
        }
        async with connect(**settings) as session:
            told = (await call(session, skill="one", path="a.py")).structured_content
        assert told["stdout"]["text"].strip() == "['A', 'N', 'P', 'TOKEN']"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SKILLSERVE_SCRIPT_ENVIRONMENT", "SKILLSERVE_ADMIN_TOKEN"),
        ("SKILLSERVE_SCRIPT_ENVIRONMENT", "A=B"),
        ("SKILLSERVE_SCRIPT_WORKSPACE", "relative"),
        ("SKILLSERVE_SCRIPT_WORKSPACE", f"{os.sep}no{os.sep}such{os.sep}folder"),
        ("SKILLSERVE_SCRIPT_CWD", "workspace"),
        ("SKILLSERVE_SCRIPT_CWD", "home"),
        ("SKILLSERVE_SCRIPT_SECONDS", "0"),
        ("SKILLSERVE_SCRIPT_OUTPUT_BYTES", "0"),
    ],
)
def test_an_invalid_script_setting_is_named(tmp_path: Path, name: str, value: str) -> None:
    # The entries of a list are numbered.
    with pytest.raises(
        ConfigurationError,
        match=f"{name}: scripts\\.{name.removeprefix('SKILLSERVE_SCRIPT_').lower()}(\\.0)?: ",
    ):
        load_settings({}, {name: value}, tmp_path / "config")
