"""What the docs show is true: their examples run as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from server.capabilities import CAPABILITIES
from server.config.settings.layers import load_settings
from server.config.settings.model import Settings
from server.config.settings.skills import SourceSettings
from skills_core import Reason
from tests.capabilities.evals.report.workspaces import write_iteration
from tests.core.evals.importing import sets
from tests.core.scripts.running import FOUND
from tests.model_endpoint import ModelEndpoint
from tests.test_architecture import CORE_FLOORS, SERVER_FLOORS

REPOSITORY = Path(__file__).parents[1]

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = EXAMPLE.findall((REPOSITORY / "docs/guides/test-skills.md").read_text(encoding="utf-8"))


README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
MAX_README_LINES = 120

BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = (
    *("README.md", "docs/getting-started.md"),
    *(
        f"docs/guides/{name}.md"
        for name in (
            *("write-a-skill", "choose-sources", "connect-a-client", "check-visibility", "search", "guard-tool-calls"),
            *("run-skills", "give-runs-tools", "run-scripts", "run-workflows", "operate-a-server", "audit-log"),
            *("evaluate-a-skill", "read-eval-reports", "test-triggers", "audit-skills"),
        )
    ),
)
NEEDS_A_SERVER = re.compile(r"skillserve (reload|watch|verify|fetch|doctor https)\b")
NEEDS_AN_AGENT = re.compile(
    r"(?!.*--dry-run).*(my-agent|\$AGENT_COMMAND|--agent (claude|codex)|--(propose|grade|write-queries|apply|open)\b)"
)
"""What takes an agent, a browser, or results that only an agent gives: tests/capabilities/evals has tests of these."""
IN_ORDER = "docs/getting-started.md"


def commands_of(page: str) -> list[str]:
    return [
        line.removeprefix("$ ")
        for block in BLOCK.findall((REPOSITORY / page).read_text(encoding="utf-8"))
        for line in re.sub(r"\\\n +", "", block).splitlines()
        if re.match(r"(\$ .*\| )?skillserve ", line) and not (NEEDS_A_SERVER.match(line) or NEEDS_AN_AGENT.match(line))
    ]


COMMANDS = [*dict.fromkeys(command for page in PAGES if page != IN_ORDER for command in commands_of(page))]


SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


def test_each_example_of_a_test_passes(tmp_path: Path) -> None:
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"test_example_{number}.py").write_text(example, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-c", tmp_path / "pytest.ini", tmp_path],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"test_example_{number}.py" in done.stdout for number in range(len(EXAMPLES)))


def test_there_are_examples_of_everything_that_can_be_tested() -> None:
    assert len(EXAMPLES) >= 5


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder like this repository as the docs see it."""
    folder = tmp_path / "project"
    shutil.copytree(REPOSITORY / "sample_skills", folder / "sample_skills")
    shutil.copytree(REPOSITORY / "docs/workflows", folder / "docs/workflows")
    (folder / "sales.csv").write_text("month,amount\n1,2\n2,3\n")
    (folder / "queries.json").write_text('{"queries": []}')
    own = folder / "skills/my-skill"
    shutil.copytree(REPOSITORY / "sample_skills/release-notes", own)
    text = (own / "SKILL.md").read_text(encoding="utf-8")
    (own / "SKILL.md").write_text(text.replace("name: release-notes", "name: my-skill", 1), encoding="utf-8")
    for name, content in {
        "new-skill/SKILL.md": "---\nname: new-skill\ndescription: Greets people when they ask for it.\n---\nGreet.",
        "their-repository/evals/promptfooconfig.yaml": sets.PROMPTFOO,
    }.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(content)
    for place in (folder, folder / "skills"):
        for number in (1, 2):
            write_iteration(place / f"my-skill-workspace/iteration-{number}", {"one": ((True, True), (True, False))})
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    # A client that is installed, and the answer to what `connect` asks.
    (tmp_path / ".cursor").mkdir()
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/skillserve"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m server "$@"\n')
    command.chmod(0o755)
    return folder


NEEDS_A_SHELL = re.compile(r"[|&;<>$*?`]|(?<!\w)~")
QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"|(?<=\s)#.*")


def words_of(command: str) -> list[str]:
    """Return the command to run: skillserve itself if that is all of it, because it starts faster without a shell."""
    words = shlex.split(command, comments=True)
    if words[0] == "skillserve" and "\n" not in command and not NEEDS_A_SHELL.search(QUOTED.sub("", command)):
        return [sys.executable, "-m", "server", *words[1:]]
    return ["sh", "-ec", command]


def run(command: str, project: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the docs as a user who has nothing but the project, and who agrees to what is asked."""
    command = re.sub(r"\bskillserve connect\b", "skillserve connect --yes", command)
    above = project.parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    places = {"HOME": above, "XDG_CONFIG_HOME": above / "config", "XDG_STATE_HOME": above / "state"}
    return subprocess.run(
        words_of(command),
        cwd=project,
        env={
            **environment,
            **{name: str(place) for name, place in places.items()},
            "PATH": f"{above / 'bin'}{os.pathsep}{environment['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the docs write for a POSIX shell")
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_of_the_docs_does_what_it_is_for(command: str, project: Path, endpoint: ModelEndpoint) -> None:
    # An answer that is a good score too, by as many criteria as the one skill has that is scored.
    scores = [{"score": 1.0}] * 5
    endpoint.script = [json.dumps({"overall": 1.0, "criteria": scores, "finding": ""})]
    if "sample_skills" not in command:
        shutil.copytree(project / "sample_skills", project.parent / "config/skillserve/skills")
    done = run(command.replace("anthropic:NAME", shlex.quote(endpoint.model)), project)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if re.search("WARNING|ERROR|Traceback", line)]
    if "--require-sandbox" in command and FOUND.fault:
        # Without a whole sandbox the server says that it offers no scripts, once, and goes on.
        assert said.pop().endswith("None is run, as a sandbox is required."), done.stderr
    assert said == [], done.stderr
    assert bool(endpoint.requests) == bool(re.match(r"skillserve (run|workflow run) ", command))


@pytest.mark.skipif(sys.platform == "win32", reason="the docs write for a POSIX shell")
def test_the_first_steps_lead_in_their_order_to_a_skill_that_is_served(project: Path) -> None:
    commands = commands_of(IN_ORDER)
    assert len(commands) >= 5
    done = run("\n".join(commands), project)
    assert done.returncode == 0, done.stderr
    assert '<skill_content name="my-skill"' in done.stdout


def test_there_are_commands_of_everything_that_performs() -> None:
    begun = {re.sub(r".*skillserve ", "", command).split()[0] for command in COMMANDS}
    assert begun >= {"guard", "run", "runs", "script", "serve", "workflow"}
    assert begun >= {"audit", "eval", "lint", "report", "triggers"}
    assert begun >= {"activate", "search", "show", "status", "trust", "validate", "visibility"}


def test_the_readme_can_be_read_in_a_few_minutes() -> None:
    assert len(README.splitlines()) <= MAX_README_LINES


PATH = re.compile(r"`((?:server|skills_core|tests|docs|bench|conformance|sample_skills|\.ci)/[\w./-]*)`")
MADE = {"sample_skills/my-skill/SKILL.md", "conformance/node_modules", "conformance/.venv", "server/discover"}
"""What looks like a path of the repository and is made by a command, or is a method of the protocol."""

MARKDOWN = sorted([*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"])


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_each_file_and_folder_of_the_repository_that_a_page_names_is_there(page: Path) -> None:
    named = PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if path not in MADE and not (REPOSITORY / path).exists()] == []


def test_the_architecture_names_every_room_and_the_floor_of_each_of_the_server() -> None:
    text = (REPOSITORY / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    rows = {room: int(floor) for floor, room in re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)}
    rooms = [floor - {"__main__"} for floor in SERVER_FLOORS]
    assert rows == {room: number for number, floor in enumerate(filter(None, rooms), 1) for room in floor}
    core = text.partition("### Rooms of `skills_core`")[2]
    assert [room for floor in CORE_FLOORS for room in floor if f"`{room}`" not in core] == []


def test_the_architecture_names_every_capability() -> None:
    text = (REPOSITORY / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    table = text.partition("| Capability |")[2].partition("\n\n")[0]
    assert sorted(each.name for each in CAPABILITIES) == re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


def test_the_first_page_names_every_guide() -> None:
    table = (REPOSITORY / "docs/index.md").read_text(encoding="utf-8").partition("| Area |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"\((guides/[\w-]+\.md)\)", table)) == sorted(
        f"guides/{page.name}" for page in (REPOSITORY / "docs/guides").glob("*.md")
    )


def test_the_table_of_reason_codes_has_a_meaning_and_a_fix_for_each() -> None:
    text = (REPOSITORY / "docs/reference/reason-codes.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert sorted(code.strip("`") for code, _, _, _ in rows) == sorted(Reason)
    assert all(len(cell) > 3 for row in rows for cell in row)


def test_each_key_of_a_source_is_documented() -> None:
    text = (REPOSITORY / "docs/guides/choose-sources.md").read_text(encoding="utf-8")
    table = text.partition("| Key of a source")[2].partition("\n\n")[0]
    assert [name for name in SourceSettings.__struct_fields__ if f"`{name}`" not in table] == []


PROMISE = re.compile(r"^\| .* \| \*\*(met|differs|planned)\*\* \|", re.MULTILINE)
COUNTS = re.compile(r"^\| \[[^]]*\]\((seeds/[\w-]+\.md)\)[^|]*\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def test_the_table_of_source_documents_counts_the_promises_of_each_page() -> None:
    folder = REPOSITORY / "docs/reference"
    table = {page: [*map(int, counts)] for page, *counts in COUNTS.findall((folder / "seeds.md").read_text("utf-8"))}
    assert {folder / page for page in table} == {*(folder / "seeds").glob("*.md")}
    for page, counts in table.items():
        marks = PROMISE.findall((folder / page).read_text(encoding="utf-8"))
        assert counts == [*map(marks.count, ("met", "differs", "planned")), len(marks)], page


SETTINGS_FILES = [
    example
    for page in sorted((REPOSITORY / "docs").rglob("*.md"))
    for example in re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    # The file of another program.
    if not example.startswith("[mcp_servers.")
]


@pytest.mark.parametrize("example", SETTINGS_FILES, ids=range(len(SETTINGS_FILES)))
def test_each_example_of_a_settings_file_can_be_used(example: str, tmp_path: Path) -> None:
    (tmp_path / "skillserve").mkdir()
    (tmp_path / "skillserve/skillserve.toml").write_text(example, encoding="utf-8")
    assert load_settings({}, {}, tmp_path) != Settings()


def test_there_are_examples_of_settings() -> None:
    assert len(SETTINGS_FILES) >= 5
