"""Every file that is read by its path is a regular one of a bounded size, or is refused with its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from server.capabilities.runs.mcp_config import read_servers
from server.capabilities.runs.workflows import UnknownWorkflowError, read_workflow_file, validate_file
from server.config.files import ConfigurationError, read_settings_file
from server.config.jdai import JdaiFiles
from server.config.machine import TrustError, TrustFile
from skills_core import Catalog
from skills_core.runs.trace import TraceStore, UnknownTraceError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 34)


@pytest.fixture(params=[link_to_device, fifo, sparse, Path.mkdir])
def put(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    """Put what is no file of settings at a path."""

    def put(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        request.param(path)
        return path

    return put


Put = Callable[[Path], Path]


def test_settings(put: Put, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="settings-file"):
        read_settings_file(put(tmp_path / "settings-file"))


def test_the_list_of_other_servers(put: Put, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="servers-file"):
        read_servers(put(tmp_path / "servers-file"), {})


def test_the_list_of_trusted_folders(put: Put, tmp_path: Path) -> None:
    with pytest.raises(TrustError, match="trust-file"):
        TrustFile(put(tmp_path / "trust-file")).folders()


def test_files_of_jdai(put: Put, tmp_path: Path) -> None:
    for name in ("skills.json", "config.json"):
        put(tmp_path / "home" / ".jdai" / name)
    problems = JdaiFiles(tmp_path / "home", tmp_path / "project").read(trusted=True).problems
    assert {Path(problem.path).name for problem in problems} == {"skills.json", "config.json"}


def test_a_workflow(put: Put, tmp_path: Path) -> None:
    path = put(tmp_path / "flow.yaml")
    result = validate_file(path, Catalog())
    assert not result.found
    assert result.faults
    with pytest.raises(UnknownWorkflowError, match=r"flow\.yaml"):
        read_workflow_file(path)


def test_a_trace(put: Put, tmp_path: Path) -> None:
    put(tmp_path / "run.json")
    with pytest.raises(UnknownTraceError):
        TraceStore(tmp_path).read("run")
