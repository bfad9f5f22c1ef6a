"""Scheduler skills on the disk: names, discovery, the bundled creator and its script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from server.capabilities.schedules.creation import NewSchedule, create
from server.capabilities.schedules.errors import ScheduleError, UnknownScheduleError
from server.capabilities.schedules.rights import Rights
from server.capabilities.schedules.store import PLACEHOLDERS, ScheduleStore
from server.config import machine
from server.config.machine import current_environment
from server.config.sources import sources_of
from skills_core.disk.sources import Places, explicit_sources
from skills_core.live.library import Library
from skills_core.loading.single_skill import read_skill
from skills_core.runs.tools.workspace.commands import command_environment
from skills_core.schedules.when import Once
from skills_core.scripts.environment import SCHEDULED_RUN
from tests.capabilities.schedules.conftest import START, Clock, Make
from tests.server.sessions import REPOSITORY
from tests.server.settings import make_settings

CREATOR = REPOSITORY / "server/capabilities/schedules/bundled/scheduler-skill-creator"


def test_a_scheduler_skill_is_a_valid_skill_by_the_name_of_its_folder(make: Make, store: ScheduleStore) -> None:
    name = make(short="mail-check")
    assert name.startswith("mail-check-")
    assert len(name.rpartition("-")[2]) == 8
    skill = read_skill(store.root / name)
    assert (skill.frontmatter.name, skill.frontmatter.description) == (name, "Say hello.")
    assert not skill.diagnostics


def test_regular_discovery_never_sees_scheduler_skills(
    make: Make, store: ScheduleStore, tmp_path: Path, skills: Path
) -> None:
    name = make()
    for root in (tmp_path, store.root.parent):
        assert all(
            skill.name != name for skill in Library(explicit_sources([root]), current_environment).catalog.skills
        )
    shutil.copytree(store.root / name, skills / "scheduler" / name)
    assert [skill.name for skill in Library(explicit_sources([skills]), current_environment).catalog.active] == [name]


@pytest.mark.parametrize("short", ["", "../x", "A", "a--b", "a" * 41, "a b", "-a", "名"])
def test_a_short_name_has_one_form(make: Make, store: ScheduleStore, short: str) -> None:
    with pytest.raises(ScheduleError):
        make(short=short)
    assert store.names() == ()


def test_the_run_of_a_schedule_makes_no_schedules(
    make: Make, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SCHEDULED_RUN, "run")
    assert command_environment({SCHEDULED_RUN: "run"})[machine.SCHEDULED_RUN] == "run"
    with pytest.raises(ScheduleError, match="makes no schedules"):
        make()
    assert store.names() == ()


def test_the_script_of_the_creator_refuses_in_the_run_of_a_schedule(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), SCHEDULED_RUN: "run"}
    script = [sys.executable, "-I", str(CREATOR / "scripts/init_scheduler_skill.py"), "mail"]
    refused = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "makes no schedules" in refused.stderr
    assert not (tmp_path / "state").exists()


def test_two_commands_at_once_make_one_schedule_of_a_name(make: Make, store: ScheduleStore, clock: Clock) -> None:
    """Each of two processes may look for the name before the other one has made it."""
    name = make()
    wanted = NewSchedule(
        short="hello", when=Once(clock.forward(hours=1)), zone="UTC", task="x", rights=Rights(), creator="t"
    )
    with pytest.raises(ScheduleError, match=f"{name} was made meanwhile"):
        create(store, wanted, START, alone=True)
    assert store.names() == (name,)


def test_a_state_directory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    store = ScheduleStore(tmp_path / "state")
    with pytest.raises(ScheduleError, match="schedules cannot be read: Not a directory"):
        store.names()


@pytest.mark.parametrize("name", ["", "..", "../../etc", "a/b-00000000", "hello"])
def test_other_names_name_no_schedule(make: Make, store: ScheduleStore, name: str) -> None:
    make()
    with pytest.raises(UnknownScheduleError):
        store.folder(name)


def test_a_short_name_stands_for_the_only_schedule_with_it(make: Make, store: ScheduleStore) -> None:
    name = make()
    assert store.find("hello") == name
    make()
    with pytest.raises(ScheduleError, match="several"):
        store.find("hello")


def test_the_creator_is_served_only_with_schedules(skills: Path, tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path, tmp_path / "config")
    for enabled in (False, True):
        sources = sources_of([skills], make_settings(schedules=enabled), places)
        names = [skill.name for skill in Library(sources, current_environment).catalog.active]
        assert names == ["scheduler-skill-creator"] * enabled
    text = (CREATOR / "SKILL.md").read_text()
    for part in ("## Step 0", "ask the user", "init_scheduler_skill.py", "## Task", "## Output format"):
        assert part in text


def test_the_script_makes_a_skill_without_a_time_that_gets_one_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, folder in (("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    script = [sys.executable, "-I", str(CREATOR / "scripts/init_scheduler_skill.py")]
    made = json.loads(subprocess.run([*script, "mail"], capture_output=True, check=True).stdout)
    store = ScheduleStore()
    assert store.names() == (made["name"],)
    assert not store.is_bound(made["name"])
    assert subprocess.run([*script, "../mail"], capture_output=True, check=False).returncode == 2
    command = [sys.executable, "-m", "server", "schedule", "add", made["name"], "--every", "2h", "--json"]
    file, written = Path(made["path"]), Path(made["path"]).read_text()
    for text in PLACEHOLDERS.values():
        assert text in file.read_text()
        refused = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert (refused.returncode, "still as it was made" in refused.stderr) == (2, True)
        assert not store.is_bound(made["name"])
        written = written.replace(text, "Check the mail.")
        file.write_text(written)
    bound = json.loads(subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True).stdout)
    assert (bound["name"], len(bound["next"])) == (made["name"], 3)
