"""Which sources have a history: the named ones, the improved ones, and those that skillserve changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.capabilities.history import histories as room
from server.capabilities.history.histories import Histories
from server.capabilities.history.settings import HistorySettings
from server.capabilities.improve.settings import ImproveSettings
from skills_core.disk.sources import Scope, Source, real_path
from skills_core.installation import extra_advice
from tests.capabilities.history.helpers import commits, run, write_skill


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def source_of(tmp_path: Path, scope: Scope) -> Source:
    (tmp_path / "source").mkdir(exist_ok=True)
    return Source(real_path(tmp_path / "source"), scope)


@pytest.mark.parametrize("scope", Scope)
def test_without_settings_the_sources_that_skillserve_may_change_are_covered(scope: Scope, tmp_path: Path) -> None:
    source = source_of(tmp_path, scope)
    usual = scope in {Scope.EXPLICIT, Scope.WORKSPACE, Scope.MANAGED, Scope.LEGACY}
    histories = Histories(HistorySettings())
    assert histories.covers(source) is usual
    # Their histories begin with a change, not with a server.
    assert not histories.records_at_start(source)
    histories.open(source.root).close()
    assert histories.records_at_start(source) is usual
    switched_off = Histories(HistorySettings(automatic=False), (ImproveSettings(sources=("managed",)),))
    assert not switched_off.covers(source)
    assert switched_off.obstacle(source) is not None


@pytest.mark.parametrize("by", ["scope", "directory"])
def test_an_improved_source_has_a_history_without_being_named_twice(by: str, tmp_path: Path) -> None:
    source = source_of(tmp_path, Scope.EXPLICIT)
    named = "explicit" if by == "scope" else str(source.root)
    histories = Histories(HistorySettings(sources=("/elsewhere",)), (ImproveSettings(sources=(named,)),))
    assert histories.covers(source)
    assert histories.records_at_start(source)
    assert histories.obstacle(source) is None
    (source.root / ".git").mkdir()
    assert not histories.covers(source)
    assert "your git repository" in (histories.obstacle(source) or "")


def test_without_the_extra_an_obstacle_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "is_available", lambda: False)
    for scope in (Scope.EXPLICIT, Scope.MANAGED):
        histories = Histories(HistorySettings(), (ImproveSettings(sources=("explicit",)),))
        assert extra_advice("history") in (histories.obstacle(source_of(tmp_path, scope)) or "")


def test_the_history_of_a_managed_source_begins_with_the_first_change(tmp_path: Path) -> None:
    source = tmp_path / "home" / ".agents" / "skills"
    main = write_skill(source, "keep")
    before = main.read_bytes()
    assert run(tmp_path, "history").returncode == 1
    assert run(tmp_path, "serve").returncode == 0
    assert not (tmp_path / "xdg_state_home" / "skillserve" / "history").exists()
    assert run(tmp_path, "init", "fresh", "--to", source).returncode == 0
    assert [each["cause"] for each in commits(tmp_path, "fresh")] == ["init"]
    write_skill(source, "keep", 2)
    # From now on, a server records edits when it starts.
    assert run(tmp_path, "serve").returncode == 0
    assert [each["cause"] for each in commits(tmp_path, "keep")] == ["manual", "initial"]
    assert run(tmp_path, "rollback", "keep").returncode == 0
    assert main.read_bytes() == before


def test_a_managed_source_has_no_history_if_that_is_switched_off(tmp_path: Path) -> None:
    source = tmp_path / "home" / ".agents" / "skills"
    off = {"SKILLSERVE_HISTORY_AUTOMATIC": "false"}
    assert run(tmp_path, "init", "fresh", "--to", source, **off).returncode == 0
    assert "history.sources" in run(tmp_path, "history", "fresh", **off).stderr
    assert not (tmp_path / "xdg_state_home" / "skillserve" / "history").exists()


@pytest.mark.parametrize("scope", [Scope.PLUGIN, Scope.BUNDLED])
def test_sources_that_skillserve_never_changes_are_not_said_to_need_a_setting(scope: Scope, tmp_path: Path) -> None:
    why = Histories(HistorySettings()).obstacle(source_of(tmp_path, scope)) or ""
    assert "changes none of them" in why
    assert "history.sources" not in why
