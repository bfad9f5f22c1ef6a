"""The command that installs an extra into this copy, for each way in which it may have been installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_core.installation import Installation, advice_for, extra_advice

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands are quoted for another shell there")

WORDS = "install skillserve again with the extra `run`"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def recorded(url: object, **more: object) -> str:
    return json.dumps({"url": url, **more})


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A folder whose name needs quotes."""
    folder = tmp_path / "check out"
    folder.mkdir()
    (folder / "Makefile").touch()
    return folder


@pytest.fixture
def installed(tmp_path: Path, origin: Path) -> Installation:
    """A copy that pip installed from a folder."""
    prefix = tmp_path / "environment"
    prefix.mkdir()
    return Installation(prefix, f"{prefix}/bin/python", "pip", recorded(origin.as_uri(), dir_info={}))


def command_of(installation: Installation) -> list[str]:
    advice = advice_for(installation, "run")
    assert advice.startswith("install it with: ")
    return shlex.split(advice.removeprefix("install it with: "))


def test_a_folder_is_named_as_a_path(installed: Installation, origin: Path) -> None:
    assert command_of(installed) == [installed.python, "-m", "pip", "install", f"{origin}[run]"]


def test_a_file_is_named_as_a_path(installed: Installation, origin: Path) -> None:
    wheel = origin / "skillserve-1-py3-none-any.whl"
    wheel.touch()
    assert command_of(replace(installed, direct_url=recorded(wheel.as_uri(), archive_info={})))[-1] == f"{wheel}[run]"


def test_a_checkout_that_is_edited_stays_one(installed: Installation, origin: Path) -> None:
    editable = replace(installed, direct_url=recorded(origin.as_uri(), dir_info={"editable": True}))
    assert command_of(editable)[-2:] == ["--editable", f"{origin}[run]"]
    assert command_of(replace(editable, prefix=origin / ".venv")) == ["make", "-C", str(origin), "install"]


def test_a_repository_is_named_with_its_commit(installed: Installation) -> None:
    url = recorded("https://host.example/skillserve.git", vcs_info={"vcs": "git", "commit_id": COMMIT})
    wanted = f"skillserve[run] @ git+https://host.example/skillserve.git@{COMMIT}"
    assert command_of(replace(installed, direct_url=url))[-1] == wanted


def test_a_file_elsewhere_is_named_by_its_address(installed: Installation) -> None:
    url = recorded("https://host.example/skillserve.zip", archive_info={}, subdirectory="python")
    wanted = "skillserve[run] @ https://host.example/skillserve.zip#subdirectory=python"
    assert command_of(replace(installed, direct_url=url))[-1] == wanted


@pytest.mark.parametrize(
    ("installer", "receipt", "words"),
    [
        ("uv", "uv-receipt.toml", ["uv", "tool", "install"]),
        ("pip", "pipx_metadata.json", ["pipx", "install", "--force"]),
        ("uv", "", ["uv", "pip", "install", "--python", "PYTHON"]),
    ],
)
def test_the_command_is_that_of_the_installer(
    installer: str, receipt: str, words: list[str], installed: Installation, origin: Path
) -> None:
    if receipt:
        (installed.prefix / receipt).touch()
    words = [installed.python if word == "PYTHON" else word for word in words]
    assert command_of(replace(installed, installer=installer)) == [*words, f"{origin}[run]"]


@pytest.mark.parametrize(
    ("receipt", "text"),
    [
        (
            "uv-receipt.toml",
            '[tool]\nrequirements = [{ name = "skillserve", extras = ["history"] }]\n',
        ),
        ("pipx_metadata.json", '{"main_package": {"package_or_url": "/x[history]"}}'),
    ],
)
def test_extras_that_were_chosen_before_are_kept(
    receipt: str, text: str, installed: Installation, origin: Path
) -> None:
    (installed.prefix / receipt).write_text(text, encoding="utf-8")
    assert command_of(installed)[-1] == f"{origin}[history,run]"


@pytest.mark.parametrize("text", ["", "[tool", '{"main_package": null}', "[tool]\nrequirements = 1\n"])
@pytest.mark.parametrize("receipt", ["uv-receipt.toml", "pipx_metadata.json"])
def test_a_receipt_that_cannot_be_read_changes_nothing(
    receipt: str, text: str, installed: Installation, origin: Path
) -> None:
    (installed.prefix / receipt).write_text(text, encoding="utf-8")
    assert command_of(installed)[-1] == f"{origin}[run]"


def test_an_environment_for_one_command_is_made_anew(installed: Installation, origin: Path, tmp_path: Path) -> None:
    (tmp_path / "CACHEDIR.TAG").touch()
    assert command_of(replace(installed, installer="uv")) == ["uvx", "--from", f"{origin}[run]", "skillserve"]


@pytest.mark.parametrize(
    "direct_url",
    ["", "{", "[]", "null", recorded(None), recorded(""), recorded("no scheme"), recorded("file:///no/such/folder")],
)
def test_an_origin_that_is_unknown_or_gone_is_not_named(direct_url: str, installed: Installation) -> None:
    assert advice_for(replace(installed, direct_url=direct_url), "run") == WORDS


def test_a_repository_in_a_folder_that_is_gone_is_not_named(installed: Installation) -> None:
    url = recorded("file:///no/such/repository", vcs_info={"vcs": "git", "commit_id": COMMIT})
    assert advice_for(replace(installed, direct_url=url), "run") == WORDS


SCALARS = st.none() | st.booleans() | st.text()
JSON = st.recursive(SCALARS, lambda each: st.lists(each) | st.dictionaries(st.text(), each))
URLS = st.text() | st.builds("{}://{}".format, st.sampled_from(["https", "file", "git+https"]), st.text())


@given(url=URLS, part=JSON, key=st.sampled_from(["vcs_info", "dir_info"]))
@example(url="file://[", part=None, key="dir_info")
def test_whatever_is_recorded_the_advice_is_one_printable_line_that_names_no_package_alone(
    url: str, part: object, key: str
) -> None:
    installation = Installation(Path("/environment"), "/environment/bin/python", "pip", recorded(url, **{key: part}))
    advice = advice_for(installation, "run")
    assert advice.isprintable()
    assert not re.search(r"skillserve\[run\](?! @ )", advice)


def test_the_advice_for_this_copy_is_a_command_that_works_or_words() -> None:
    advice = extra_advice("run")
    if advice == WORDS:
        return
    command, *rest = shlex.split(advice.removeprefix("install it with: "))
    dry = [command, *rest, "--dry-run"]
    done = subprocess.run(dry, capture_output=True, text=True, check=False, env={**os.environ, "PIP_NO_INDEX": "1"})
    assert "No such file" not in done.stderr
    if command == "make":
        assert done.returncode == 0, done.stderr
