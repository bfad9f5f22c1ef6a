"""Plugins change as a whole, even if processes are killed or other commands change plugins at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from server.capabilities.remote.plugins import folder as folder_module
from server.capabilities.remote.plugins.folder import PluginsFolder
from server.capabilities.remote.plugins.installed import PluginError
from skills_core.disk.writing import exclusive
from tests.capabilities.remote.plugins.helpers import content
from tests.server.sessions import REPOSITORY, server_environment

OLD, NEW = "a:old", "a:new b:new"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_a_kill_leaves_the_old_plugin_or_the_new_one(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.capabilities.remote.plugins.killed_updates", way],
        cwd=REPOSITORY,
        env=server_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    outcomes = [tuple(line.split(", ")) for line in done.stdout.splitlines()]
    assert outcomes[-1] == (NEW, NEW, "[]")
    assert len(outcomes) > 3
    for killed, recovered, left in outcomes:
        # Without an exchange, there is one moment in which the old plugin has another name.
        assert killed in ({OLD, NEW} if way == "exchange" else {OLD, NEW, "nothing"})
        assert recovered == (OLD if killed == "nothing" else killed)
        assert left == "[]"


def test_commands_that_change_plugins_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "exclusive", lambda path: exclusive(path, 0))
    plugins = PluginsFolder(tmp_path)
    with (
        plugins.changing(),
        pytest.raises(PluginError, match="another command is changing plugins; try again"),
        plugins.changing(),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PluginError, match="file"), PluginsFolder(tmp_path / "file" / "plugins").changing():
        pass
    assert PluginsFolder(tmp_path / "file" / "plugins").names() == ()
    assert content(tmp_path) == {"file": b""}
