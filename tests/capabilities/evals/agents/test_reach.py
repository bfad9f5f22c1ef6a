"""What an isolated agent can read follows from its program and the PATH, and never contains the user's own files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from server.capabilities.evals.agents.reach import Reach, protected_places

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is a sandbox for agents on Linux only")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "me"


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def reach(home: Path, *search: Path, hidden: tuple[Path, ...] = ()) -> Reach:
    return Reach(home, search, protected_places(home, hidden, home.parent))


def test_a_node_of_a_version_manager_is_whole(home: Path) -> None:
    node = home / ".nvm/versions/node/v24/bin/node"
    write(node)
    script = write(home / ".nvm/versions/node/v24/lib/node_modules/@x/agent/cli.js", "#!/usr/bin/env node\n")
    link = node.with_name("agent")
    link.symlink_to(script)
    found = [*reach(home, node.parent).of_program(link)]
    assert home / ".nvm/versions/node/v24" in found
    assert not [each for each in found if home.is_relative_to(each)]


def test_a_shim_has_its_version_manager(home: Path) -> None:
    shims = write(home / ".pyenv/shims/agent").parent
    assert home / ".pyenv" in {*reach(home, shims).of_search_path()}


def test_a_program_among_other_files_is_itself(home: Path) -> None:
    program = write(home / ".local/share/agent/versions/2.1", "\x7fELF")
    link = home / ".local/bin/agent"
    link.parent.mkdir(parents=True)
    link.symlink_to(program)
    found = {*reach(home, link.parent).of_program(link), *reach(home, link.parent).of_search_path()}
    assert {link.parent, program.parent} <= found
    assert not {home, home / ".local", home / ".local/share"} & found


def test_a_virtual_environment_brings_its_python(home: Path) -> None:
    python = write(home / "pythons/3.13/bin/python3", "\x7fELF")
    venv = home / "tools/agent"
    write(venv / "pyvenv.cfg", f"home = {python.parent}\n")
    (venv / "bin").mkdir()
    (venv / "bin/python3").symlink_to(python)
    program = write(venv / "bin/agent", f"#!{venv}/bin/python3\n")
    assert {venv, home / "pythons/3.13"} <= {*reach(home).of_program(program)}


def test_what_a_command_and_a_wrapper_name_is_needed(home: Path) -> None:
    main = write(home / "agents/mine/main.py")
    wrapper = write(home / "scripts/run", f'#!/bin/sh\nexec python3 "{main}" "$@"\n')
    assert home / "agents/mine" in {*reach(home).of_command(f"{wrapper} --fast {{prompt}}")}
    assert home / "agents/mine" in {*reach(home).of_command("~/agents/mine/main.py {prompt}")}


def test_a_folder_around_what_is_hidden_is_not_shown(home: Path) -> None:
    skills = home / "work/skills"
    skills.mkdir(parents=True)
    program = write(home / "work/agent.py")
    found = [*reach(home, hidden=(skills,)).of_command(f"python3 {program}")]
    assert program in found
    assert home / "work" not in found


def test_variables_name_files_and_libraries(home: Path) -> None:
    certificates, library = write(home / "ca.pem"), write(home / "modules/x.js").parent
    other = write(home / "project/x").parent
    environment = {"NODE_EXTRA_CA_CERTS": str(certificates), "NODE_PATH": str(library), "PROJECT": str(other)}
    assert {*reach(home).of_environment(environment)} == {certificates, library}


def test_links_of_a_home_are_followed_to_their_files(home: Path) -> None:
    kept = write(home / "dotfiles/login.json")
    agent_home = home / "agent-home"
    agent_home.mkdir()
    (agent_home / "login.json").symlink_to(kept)
    (agent_home / "gone").symlink_to(home / "nowhere")
    assert [*reach(home).of_home(agent_home)] == [kept]
