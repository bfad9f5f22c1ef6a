"""`schedule daemon` as a process of its own, with a scripted model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.model_endpoint import ModelEndpoint
from tests.server.sessions import REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="stops by a signal")

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    folders = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return {**os.environ, **folders, "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY), "TZ": "Europe/Berlin"}


@pytest.fixture
def schedule(environment: dict[str, str], tmp_path: Path) -> Command:
    def called(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "server", "schedule", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    return called


def listed(schedule: Command) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(schedule("list", "--json").stdout)["schedules"]
    return found


def test_a_daemon_fires_schedules_that_are_made_meanwhile(
    schedule: Command, environment: dict[str, str], endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    endpoint.script = ["hello"]
    command = [sys.executable, "-m", "server", "schedule", "daemon", "--model", endpoint.model]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stderr is not None
            while "keeping time" not in daemon.stderr.readline():
                assert daemon.poll() is None
            made = schedule("add", "tick", "--every", "1s", "--task", "Say hello.", "--json")
            assert "Europe/Berlin" in json.loads(made.stdout)["echo"]
            assert schedule("add", "once", "--at", "+1s", "--task", "Say hello once.").returncode == 0
            end = time.monotonic() + 60
            while True:
                names = {each["name"].rpartition("-")[0]: each for each in listed(schedule)}
                done = [run for run in names["tick"]["runs"] if run["status"] == "completed"]
                if len(done) >= 2 and "once" not in names:
                    break
                assert time.monotonic() < end
        finally:
            daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
    times = [run["fired_at"] for run in names["tick"]["runs"]]
    assert times == sorted(set(times))
    assert done[0]["trigger"].startswith("schedule: tick-")
    assert "hello" in schedule("show", "once").stdout


def test_a_command_asks_for_what_is_missing_and_guesses_nothing(schedule: Command) -> None:
    asked = schedule("add", "mail", "--task", "Check the mail.")
    assert (asked.returncode, "When should it run?" in asked.stderr) == (2, True)
    asked = schedule("add", "mail", "--every", "2h")
    assert (asked.returncode, "What should be done?" in asked.stderr) == (2, True)
    assert listed(schedule) == []


def test_a_command_shows_the_task_with_the_time_and_refuses_what_has_no_form(schedule: Command) -> None:
    made = schedule("add", "mail", "--at", "2099-12-24 18:00 UTC", "--tz", "UTC", "--task", "Check the mail.")
    assert "Thursday 2099-12-24 18:00:00 +00:00 (UTC)" in made.stdout
    assert made.stdout.endswith("\nTask: Check the mail.\n")
    for given in (("--at", "1.5 hours from now"), ("--every", "2 hours 30 minutes"), ("--cron", "*/61 * * * *")):
        assert schedule("add", "other", *given, "--task", "Check the mail.").returncode == 2
    assert len(listed(schedule)) == 1


def test_adding_an_existing_schedule_changes_its_time_alone(schedule: Command, tmp_path: Path) -> None:
    name = json.loads(schedule("add", "mail", "--every", "2h", "--task", "Check it.", "--json").stdout)["name"]
    text = (tmp_path / f"state/skillserve/skills/scheduler/{name}/SKILL.md").read_text()
    assert f"name: {name}\n" in text
    again = json.loads(schedule("add", "mail", "--cron", "0 9 * * *", "--json").stdout)
    assert (again["name"], again["when"]["kind"], len(again["next"])) == (name, "cron", 3)
    assert (tmp_path / f"state/skillserve/skills/scheduler/{name}/SKILL.md").read_text() == text
    assert [schedule("pause", "mail").stdout, listed(schedule)[0]["next"]] == [f"{name}  paused\n", []]
    assert schedule("resume", "mail").stdout == f"{name}  active\n"
    assert schedule("remove", "mail").returncode == 0
    assert listed(schedule) == []


def test_the_overview_says_what_runs_without_the_user(schedule: Command, tmp_path: Path) -> None:
    settings = tmp_path / "config/skillserve/skillserve.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[schedules]\ndollars_per_day = 2.5\n[runs]\nmodel = 'anthropic:no-such-model'\n")
    made = schedule("add", "mail", "--every", "2h", "--task", "Check it.", "--json")
    name = json.loads(made.stdout)["name"]
    assert "The price of anthropic:no-such-model is unknown" in made.stderr
    records = tmp_path / "state/skillserve/improvements"
    records.mkdir()
    record = {
        "id": "0123abcd",
        "at": "2026-11-23T09:00:00+00:00",
        "run_id": "r",
        "skill": "s",
        "source": "/",
        "place": "s",
    }
    for status in ("improved", "skipped"):
        (records / f"{status}.json").write_text(json.dumps({**record, "status": status}))
    found = json.loads(schedule("overview", "--json").stdout)
    (one,) = found["schedules"]
    assert (one["name"], len(one["next"]), one["rights"]["run_tools"], one["spent"]["runs"]) == (name, 3, [], 0)
    assert found["limits"]["together"] == {
        "runs": None,
        "tokens": None,
        "dollars": 2.5,
        "requests": None,
        "seconds": None,
    }
    assert [each["status"] for each in found["changes"]] == ["improved"]
    assert "price of anthropic:no-such-model is unknown" in found["warnings"][0]
    text = schedule("overview").stdout
    for part in (name, "next     2", "nothing but the model", "0.00 of 2.5 dollars", "change 0123abcd", "warning: "):
        assert part in text


def test_a_paid_model_is_not_scheduled_too_often(schedule: Command) -> None:
    often = ("add", "mail", "--every", "10s", "--task", "x", "--model", "anthropic:claude-sonnet-4-5")
    assert "at most every 60 seconds" in schedule(*often).stderr
    assert listed(schedule) == []
    assert schedule("add", "mail", "--every", "2h", "--task", "x", "--model", "anthropic:x").returncode == 0
    assert "at most every 60 seconds" in schedule("add", "mail", "--every", "10s").stderr
