"""Settings of replicas: what is refused, and that no message shows a secret."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from server.capabilities.replicas.settings import ReplicaSettings, ReplicaSettingsError, shared_keys
from server.capabilities.runs.settings import lease_seconds
from server.config.values import InvalidValueError, read
from tests.server.settings import make_settings

URL = "redis://:hidden-password@127.0.0.1:6379/0"
SECRET = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "values",
    [
        {"redis_url": URL},
        {"redis_url": "http://:hidden-password@127.0.0.1", "secret": SECRET},
        {"redis_url": "redis://:hidden-password@127.0.0.1:port", "secret": SECRET},
        {"redis_url": "redis://:hidden-password@", "secret": SECRET},
        {"redis_url": URL, "secret": SECRET, "secret_file": "/x"},
        {"redis_url": URL, "secret_file": "relative"},
        {"redis_url": URL, "secret": SECRET, "name": "a b"},
    ],
)
def test_settings_that_cannot_work_are_refused_without_their_secrets(values: dict[str, str]) -> None:
    with pytest.raises(InvalidValueError) as refused:
        read(ReplicaSettings, values)
    assert "hidden" not in str(refused.value)
    assert SECRET not in str(refused.value)


def test_the_secret_comes_from_a_file_with_the_newest_first(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n{SECRET[::-1]}\n")
    assert shared_keys(read(ReplicaSettings, {"secret_file": str(file)})) == (SECRET, SECRET[::-1])
    assert shared_keys(read(ReplicaSettings, {"secret": SECRET})) == (SECRET,)
    assert shared_keys(ReplicaSettings()) == ()


@pytest.mark.parametrize("content", [b"", b"short-but-secret", b"\xff" * 40, SECRET.encode() * 3000, b"dir"])
def test_a_file_without_a_usable_secret_is_refused_by_its_name_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret"
    if content == b"dir":
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(ReplicaSettingsError) as refused:
        shared_keys(read(ReplicaSettings, {"secret_file": str(file)}))
    assert str(file) in str(refused.value)
    assert "but-secret" not in str(refused.value)


def test_a_byte_order_mark_is_no_part_of_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"\xef\xbb\xbf" + SECRET.encode())
    assert shared_keys(read(ReplicaSettings, {"secret_file": str(file)})) == (SECRET,)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_pipe_in_the_place_of_the_secret_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "secret")
    with pytest.raises(ReplicaSettingsError, match="not a regular file"):
        shared_keys(read(ReplicaSettings, {"secret_file": str(tmp_path / "secret")}))


def test_the_same_secret_twice_is_refused() -> None:
    with pytest.raises(ReplicaSettingsError, match="twice"):
        shared_keys(read(ReplicaSettings, {"secret": f"{SECRET} {SECRET}"}))


def test_replicas_take_over_runs_within_seconds_and_a_single_server_leaves_time() -> None:
    assert lease_seconds(make_settings()) == 15
    assert lease_seconds(make_settings(replicas_redis_url=URL, replicas_secret=SECRET)) == 3
