from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core.errors import ScriptRefusedError
from skills_core.scripts.packages import ScriptMetadata, read_metadata
from skills_core.scripts.programs import ProgramFinder
from skills_core.scripts.runner import PackageSetup, ScriptResult
from tests.core.scripts.package_index import WHEEL, Index, package_index, wheel
from tests.core.scripts.running import PLAIN, PROGRAMS, MakeRunner, with_files

BLOCK = '# /// script\n# requires-python = ">=3.11"\n# dependencies = ["a", "b>=2"]\n# ///\n'


def read(text: str) -> ScriptMetadata | None:
    return read_metadata("x.py", text.encode())


def test_a_block_lists_the_requirements() -> None:
    assert read(f"#!/usr/bin/env python3\n{BLOCK}print(1)\n") == ScriptMetadata(BLOCK, ("a", "b>=2"), ">=3.11")


def test_a_script_without_a_block_has_no_metadata() -> None:
    assert read("print('# /// script')\n") is None
    assert read("# /// script\n# dependencies = []\nprint(1)\n") is None
    assert read("# /// other\n# a = 1\n# ///\n") is None


def test_lines_may_end_as_on_windows_and_the_file_may_begin_with_a_mark() -> None:
    found = read("\ufeff" + BLOCK.replace("\n", "\r\n"))
    assert found is not None
    assert found.block == BLOCK


def test_an_empty_comment_is_an_empty_line_and_the_last_end_counts() -> None:
    found = read('# /// script\n#\n# dependencies = ["a"]\n# x = """\n# ///\n# """\n# ///\n')
    assert found is not None
    assert found.dependencies == ("a",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{BLOCK}x = 1\n{BLOCK}", "2 blocks"),
        ("# /// script\n# a = = 1\n# ///\n", "not valid TOML"),
        ("# /// script\n# a = " + "[" * 50_000 + "\n# ///\n", "not valid TOML"),
        ("# /// script\n# dependencies = 'a'\n# ///\n", "expected a list"),
        ("# /// script\n# dependencies = [1]\n# ///\n", "expected a list"),
        ("# /// script\n# requires-python = 3\n# ///\n", "expected a string"),
        ("# /// script\n# a = '" + "x" * 200_000 + "'\n# ///\n", "characters"),
    ],
)
def test_an_invalid_block_is_refused(text: str, why: str) -> None:
    with pytest.raises(ScriptRefusedError, match=why):
        read(text)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["# /// script", "# ///", "#", "# a = 1", "# dependencies = []", "x", ""])))
def test_any_lines_yield_metadata_or_a_refusal(lines: list[str]) -> None:
    try:
        found = read("\n".join(lines))
    except ScriptRefusedError:
        return
    assert found is None or found.block.startswith("# /// script\n")


UV = PROGRAMS.find("uv")
needs_uv = pytest.mark.skipif(UV is None, reason="uv is not installed")

SHOW = "import tiny_thing; print(tiny_thing.VALUE)"


def block(*lines: str, dependencies: str = '"tiny-thing"') -> str:
    text = "".join(f"# {line}\n" for line in ('requires-python = ">=3.11"', f"dependencies = [{dependencies}]", *lines))
    return f"# /// script\n{text}# ///\n"


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index({WHEEL: wheel()}) as found:
        yield found


@pytest.fixture
def stranger() -> Iterator[Index]:
    """An index that no setting names."""
    with package_index({WHEEL: wheel(666)}) as found:
        yield found


@pytest.fixture
def run(make_runner: MakeRunner, skills: Path, index: Index, tmp_path: Path) -> Any:
    """Run a script on a machine where the user has credentials everywhere that uv looks."""
    home = tmp_path / "home"
    (home / ".config" / "uv").mkdir(parents=True)
    (home / ".config" / "uv" / "uv.toml").write_text('index = [{url = "http://user:config@127.0.0.1:9/simple"}]\n')
    (home / ".netrc").write_text("machine 127.0.0.1 login user password netrc\n")
    (home / ".netrc").chmod(0o600)
    host = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_", "VIRTUAL_ENV"))},
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "NETRC": str(home / ".netrc"),
        "UV_PYTHON": sys.executable,
        "UV_HTTP_RETRIES": "0",
        "UV_INDEX_STRANGER_USERNAME": "user",
        "UV_INDEX_STRANGER_PASSWORD": "variable",
        "UV_INDEX": "http://user:index@127.0.0.1:9/simple",
    }

    async def call(code: str, *, files: dict[str, bytes] | None = None, **more: Any) -> ScriptResult:
        passed = ("UV_PYTHON", "UV_HTTP_RETRIES", *more.pop("passed", ()))
        setup = PackageSetup(**{"index": index.url, **more}, passed=passed)
        skill = with_files(skills, {"a.py": code, **(files or {})})
        return await make_runner(host=host, home=home, packages=setup).run(skill, "a.py")

    return call


def locked(tmp_path: Path, source: Index, code: str) -> bytes:
    """Return the lock file that uv makes for a script."""
    script = tmp_path / "locking" / "a.py"
    script.parent.mkdir()
    script.write_text(code)
    environment = {**os.environ, "UV_DEFAULT_INDEX": source.url, "UV_PYTHON": sys.executable}
    environment["UV_CACHE_DIR"] = str(tmp_path / "locking" / "cache")
    subprocess.run([str(UV), "--no-config", "lock", "--quiet", "--script", str(script)], env=environment, check=True)
    return script.with_name("a.py.lock").read_bytes()


@needs_uv
async def test_packages_come_from_the_configured_index_without_sending_credentials(run: Any, index: Index) -> None:
    result = await run(f"{block()}{SHOW}")
    assert result.finished.stdout.strip() == b"42", result.finished
    assert index.requests
    assert index.credentials == set()


@needs_uv
async def test_an_index_that_asks_for_credentials_gets_none(run: Any, index: Index) -> None:
    index.closed = True
    with pytest.raises(ScriptRefusedError, match="uv cannot provide"):
        await run(f"{block()}{SHOW}")
    assert index.requests
    assert index.credentials == set()


@needs_uv
async def test_credentials_in_the_index_url_are_sent_to_that_index(run: Any, index: Index) -> None:
    url = index.url.replace("http://", "http://user:setting@")
    assert (await run(f"{block()}{SHOW}", index=url)).finished.exit_code == 0
    assert index.credentials == {"Basic dXNlcjpzZXR0aW5n"}


@needs_uv
@pytest.mark.parametrize("passed", [("NETRC",), ("UV_INDEX_STRANGER_USERNAME", "UV_INDEX_STRANGER_PASSWORD")])
async def test_credentials_in_variables_that_a_setting_names_are_used(
    run: Any, stranger: Index, passed: tuple[str, ...]
) -> None:
    """These are what uv would find and send, were its environment not a stated list."""
    text = OTHER_PLACES[0].format(url=stranger.url)
    stranger.closed = True
    await run(f"{text}{SHOW}", any_source=True, index=None, passed=passed)
    assert stranger.credentials


OTHER_PLACES = [
    block("[[tool.uv.index]]", 'name = "stranger"', 'url = "{url}"', "default = true"),
    block("[tool.uv]", 'index-url = "{url}"'),
    block("[tool.uv]", 'extra-index-url = ["{url}"]'),
    block("[tool.uv]", 'find-links = ["{url}/tiny-thing/"]'),
    block("[tool.uv.sources]", 'tiny-thing = {{ url = "{address}/files/' + WHEEL + '" }}'),
    block("[tool.uv.sources]", 'tiny-thing = {{ git = "{address}/x.git" }}'),
    block("[tool.uv.sources]", 'tiny-thing = {{ path = "/somewhere" }}'),
    block("[tool.uv]", 'keyring-provider = "subprocess"'),
    block("[tool.uv]", 'override-dependencies = ["tiny-thing @ {address}/files/' + WHEEL + '"]'),
    block(dependencies='"tiny-thing @ {address}/files/' + WHEEL + '"'),
    block(dependencies='"tiny-thing @ git+{address}/x.git"'),
    block(dependencies='"tiny-thing @ file:///somewhere"'),
    block(dependencies='"./somewhere"'),
    block(dependencies='"--index-url={url}"'),
]


@needs_uv
@pytest.mark.parametrize("text", OTHER_PLACES)
async def test_a_script_that_names_another_source_is_refused_without_a_request_there(
    run: Any, index: Index, stranger: Index, text: str
) -> None:
    with pytest.raises(ScriptRefusedError):
        await run(f"{text.format(url=stranger.url, address=stranger.address)}{SHOW}")
    assert stranger.requests == index.requests == []


@needs_uv
@pytest.mark.parametrize("text", [OTHER_PLACES[0], OTHER_PLACES[4], OTHER_PLACES[9]])
async def test_other_sources_are_used_without_credentials_if_a_setting_allows_it(
    run: Any, stranger: Index, text: str
) -> None:
    code = f"{text.format(url=stranger.url, address=stranger.address)}{SHOW}"
    result = await run(code, any_source=True, index=None)
    assert result.finished.stdout.strip() == b"666", result.finished
    assert stranger.requests
    assert stranger.credentials == set()


@needs_uv
async def test_options_that_choose_among_versions_are_kept(run: Any, index: Index) -> None:
    options = block("[tool.uv]", 'prerelease = "allow"', 'constraint-dependencies = ["tiny-thing<2"]')
    assert (await run(f"{options}{SHOW}")).finished.stdout.strip() == b"42"
    none = block("[tool.uv]", 'constraint-dependencies = ["tiny-thing<1"]')
    with pytest.raises(ScriptRefusedError, match="uv cannot provide"):
        await run(f"{none}{SHOW}")
    assert index.requests


@needs_uv
async def test_no_package_is_built_with_a_sandbox_or_without(run: Any, index: Index, tmp_path: Path) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        setup = f"open({str(tmp_path / 'built')!r}, 'w')\nfrom setuptools import setup\nsetup(name='tiny-thing')\n"
        for name, text in {
            "setup.py": setup,
            "PKG-INFO": "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n",
        }.items():
            member = tarfile.TarInfo(f"tiny_thing-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    index.files = {"tiny_thing-1.0.tar.gz": raw.getvalue()}
    for more in ({}, {"any_source": True}):
        with pytest.raises(ScriptRefusedError, match="uv cannot provide"):
            await run(f"{block()}{SHOW}", **more)
    assert not (tmp_path / "built").exists()


class TestLockFiles:
    """A lock file beside a script names places too, of which uv takes the bytes as they stand."""

    @needs_uv
    async def test_locked_packages_are_installed(self, run: Any, index: Index, tmp_path: Path) -> None:
        code = f"{block()}{SHOW}"
        lock = locked(tmp_path, index, code)
        for _ in range(2):
            assert (await run(code, files={"a.py.lock": lock})).finished.stdout.strip() == b"42"

    @needs_uv
    async def test_sources_in_a_lock_file_get_no_request(
        self, run: Any, index: Index, stranger: Index, tmp_path: Path
    ) -> None:
        code = f"{block()}{SHOW}"
        lock = locked(tmp_path, index, code)
        elsewhere = lock.replace(index.address.encode(), stranger.address.encode())
        index.requests.clear()
        assert (await run(code, files={"a.py.lock": elsewhere})).finished.stdout.strip() == b"42"
        assert stranger.requests == []
        assert index.requests

    @needs_uv
    async def test_a_file_with_another_hash_is_not_installed(self, run: Any, index: Index, tmp_path: Path) -> None:
        code = f"{block()}{SHOW}"
        lock = locked(tmp_path, index, code)
        other = lock.replace(hashlib.sha256(wheel()).hexdigest().encode(), b"0" * 64)
        with pytest.raises(ScriptRefusedError, match="uv cannot provide"):
            await run(code, files={"a.py.lock": other})

    @needs_uv
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (b'{ registry = "ADDRESS/simple" }', b'{ url = "ADDRESS/files/' + WHEEL.encode() + b'" }'),
            (b'{ registry = "ADDRESS/simple" }', b'{ git = "ADDRESS/x.git#' + b"0" * 40 + b'" }'),
            (b'{ registry = "ADDRESS/simple" }', b'{ directory = "/somewhere" }'),
            (b'{ registry = "ADDRESS/simple" }', b'{ editable = "/somewhere" }'),
            (b'"tiny-thing"', b'"other-thing"'),
            (b'"1.0"', b'"0.5"'),
        ],
    )
    async def test_a_lock_file_for_other_requirements_is_refused(
        self, run: Any, index: Index, tmp_path: Path, before: bytes, after: bytes
    ) -> None:
        code = block(dependencies='"tiny-thing>=1"') + SHOW
        lock = locked(tmp_path, index, code)
        index.requests.clear()
        address = index.address.encode()
        other = lock.replace(before.replace(b"ADDRESS", address), after.replace(b"ADDRESS", address))
        assert other != lock
        with pytest.raises(ScriptRefusedError):
            await run(code, files={"a.py.lock": other})
        assert index.requests == []


async def test_without_uv_a_script_that_needs_packages_is_refused_and_told_what_to_do(
    make_runner: MakeRunner, skills: Path
) -> None:
    skill = with_files(skills, {"a.py": f"{block()}print('ran')"})
    runner = make_runner(programs=ProgramFinder((), Path(sys.executable)), isolation=PLAIN)
    with pytest.raises(ScriptRefusedError, match=r"needs packages .*pip install uv"):
        await runner.run(skill, "a.py")


async def test_without_uv_a_script_without_packages_runs_with_a_note_about_the_python_version(
    make_runner: MakeRunner, skills: Path
) -> None:
    skill = with_files(skills, {"a.py": f"{block(dependencies='')}print('ran')"})
    runner = make_runner(programs=ProgramFinder((), Path(sys.executable)), isolation=PLAIN)
    result = await runner.run(skill, "a.py")
    assert result.finished.stdout.strip() == b"ran"
    assert "the required Python version (>=3.11) was not checked" in result.note
