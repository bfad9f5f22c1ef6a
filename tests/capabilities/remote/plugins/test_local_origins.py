"""Plugins from folders, archives and git repositories: "recipients get them through jdai plugin install"."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from server.capabilities.remote.plugins import retrieval, staging
from server.capabilities.remote.plugins.folder import PluginsFolder
from server.capabilities.remote.plugins.installed import RECEIPT_FILE, PluginError
from server.capabilities.remote.plugins.operations import PluginState, installed_plugins, remove_plugin
from skills_core.disk.files import MAX_FILE_SIZE
from tests.capabilities.remote.helpers import skillserve
from tests.capabilities.remote.plugins.helpers import changes, codes, content, install, skill_files, update
from tests.capabilities.remote.plugins.test_commands import places

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def write_skill(folder: Path, name: str, version: str = "1.0.0", **files: str) -> Path:
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: Use this for {name}.\nversion: {version}\n---\nBody of {name}.\n"
    (place / "SKILL.md").write_text(text, encoding="utf-8")
    for path, raw in files.items():
        (place / path).write_text(raw, encoding="utf-8")
    return place


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin of another product: skills beside much that is none of ours."""
    root = tmp_path / "my-plugin"
    write_skill(root / "skills", "refunds", run="#!/bin/sh\ntouch pwned\n").joinpath("run").chmod(0o755)
    write_skill(root / "skills", "billing")
    (root / ".claude-plugin").mkdir()
    (root / ".claude-plugin" / "plugin.json").write_text('{"name": "my-plugin", "hooks": "./hooks/h.json"}')
    (root / "hooks").mkdir()
    (root / "hooks" / "h.json").write_text('{"SessionStart": "touch pwned"}')
    (root / "README.md").write_text("about")
    return root


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    root = tmp_path / "plugins"
    root.mkdir()
    return root


def git_in(folder: Path, *words: str) -> str:
    own = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *own, "-c", "init.defaultBranch=main", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, message: str = "m") -> str:
    if not (folder / ".git").exists():
        git_in(folder, "init", "--quiet")
    git_in(folder, "add", "--all", "--force")
    git_in(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git_in(folder, "rev-parse", "HEAD")


def archive_of(folder: Path, kind: str) -> Path:
    made = shutil.make_archive(str(folder), {"zip": "zip", "tar.gz": "gztar"}[kind], folder.parent, folder.name)
    return Path(made)


Pack = Callable[[Path], str]
PACKED: dict[str, Pack] = {
    "folder": str,
    "zip": lambda folder: str(archive_of(folder, "zip")),
    "tar.gz": lambda folder: str(archive_of(folder, "tar.gz")),
    "git": lambda folder: f"file://{folder}" if commit(folder) else "",
}


@pytest.fixture(params=PACKED)
def pack(request: pytest.FixtureRequest) -> Pack:
    if request.param == "git" and shutil.which("git") is None:
        pytest.skip("needs git")
    return PACKED[request.param]


async def test_the_skills_and_nothing_else_are_installed_updated_and_removed(
    plugin: Path, plugins: Path, pack: Pack
) -> None:
    origin = pack(plugin)
    result = await install(origin, plugins)
    assert (result.state, result.diagnostics, result.server) == (PluginState.INSTALLED, (), origin)
    assert skill_files(plugins) == {
        f"acme/skills/{path}" for path in ("refunds/SKILL.md", "refunds/run", "billing/SKILL.md")
    }
    assert not any(path.stat().st_mode & 0o111 for path in plugins.rglob("*") if path.is_file())
    (known,) = installed_plugins(PluginsFolder(plugins))
    assert (known.edited, known.problem) == ((), None)
    assert (await update(plugins)).state is PluginState.UNCHANGED
    write_skill(plugin / "skills", "refunds", "1.1.0")
    write_skill(plugin / "skills", "invoices")
    shutil.rmtree(plugin / "skills" / "billing")
    pack(plugin)
    result = await update(plugins)
    assert result.state is PluginState.UPDATED
    assert changes(result) == {"refunds": "updated", "invoices": "added", "billing": "removed"}
    write_skill(plugin / "skills", "refunds", "1.0.5")
    pack(plugin)
    assert codes(await update(plugins)) == {"older_version"}
    assert remove_plugin(PluginsFolder(plugins), "acme").state is PluginState.REMOVED
    assert content(plugins) == {}


async def test_chosen_skills_alone_are_installed_and_updated(plugin: Path, plugins: Path, pack: Pack) -> None:
    origin = pack(plugin)
    assert codes(await install(origin, plugins, "nonsense")) == {"unknown_skill"}
    assert content(plugins) == {}
    assert changes(await install(origin, plugins, "billing")) == {"billing": "added"}
    write_skill(plugin / "skills", "invoices")
    pack(plugin)
    assert (await update(plugins)).state is PluginState.UNCHANGED


async def test_an_invalid_skill_stops_the_installation_and_leaves_nothing(
    plugin: Path, plugins: Path, pack: Pack
) -> None:
    (plugin / "skills" / "billing" / "SKILL.md").write_text("---\nname: billing\nunheard-of: 1\n---\n")
    origin = pack(plugin)
    result = await install(origin, plugins)
    assert result.state is PluginState.REFUSED
    assert "invalid_skill" in codes(result)
    assert content(plugins) == {}
    assert (await install(origin, plugins, dry_run=True, allow_invalid=True)).state is PluginState.INSTALLED
    assert content(plugins) == {}


async def test_links_are_left_out_and_a_warning_names_them(
    plugin: Path, plugins: Path, tmp_path: Path, pack: Pack
) -> None:
    (tmp_path / "secret").write_text("secret")
    (plugin / "skills" / "refunds" / "link.md").symlink_to(tmp_path / "secret")
    origin = pack(plugin)
    result = await install(origin, plugins)
    if pack is not PACKED["zip"]:  # `make_archive` has the target in a zip
        assert any(code.startswith("symlink") for code in codes(result))
        assert b"secret" not in b"".join(content(plugins).values())
    assert result.state is PluginState.INSTALLED


async def test_without_a_skill_there_is_nothing_to_install(tmp_path: Path, plugins: Path, pack: Pack) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "README.md").write_text("x")
    with pytest.raises(PluginError, match=r"there is no SKILL\.md in it"):
        await install(pack(empty), plugins)
    assert content(plugins) == {}


async def test_a_skill_at_the_root_and_skills_anywhere_are_found(tmp_path: Path, plugins: Path, pack: Pack) -> None:
    one = write_skill(tmp_path, "single", notes="n")
    assert (await install(pack(one), plugins, name="one")).state is PluginState.INSTALLED
    many = tmp_path / "many"
    for place in ("a/x", "b"):
        write_skill(many / place, f"skill-{place[0]}")
    assert (await install(pack(many), plugins, name="many")).state is PluginState.INSTALLED
    hidden = tmp_path / "hidden"
    write_skill(hidden / ".claude" / "skills", "claudes")
    assert (await install(pack(hidden), plugins, name="hidden")).state is PluginState.INSTALLED
    assert {path for path in skill_files(plugins) if path.endswith("SKILL.md")} == {
        "one/skills/single/SKILL.md",
        "many/skills/skill-a/SKILL.md",
        "many/skills/skill-b/SKILL.md",
        "hidden/skills/claudes/SKILL.md",
    }


async def test_skills_of_one_name_have_the_folders_of_their_paths_and_are_chosen_by_them(
    tmp_path: Path, plugins: Path
) -> None:
    root = tmp_path / "twins"
    write_skill(root / "a", "same")
    write_skill(root / "b", "same")
    assert codes(await install(str(root), plugins, "same")) == {"ambiguous_name"}
    assert changes(await install(str(root), plugins, "b/same/SKILL.md")) == {"same": "added"}
    assert (await install(str(root), plugins, name="both")).state is PluginState.INSTALLED
    assert {"both/skills/a/same/SKILL.md", "both/skills/b/same/SKILL.md"} <= skill_files(plugins)


async def test_a_nested_skill_is_installed_with_the_enclosing_one(tmp_path: Path, plugins: Path) -> None:
    outer = write_skill(tmp_path / "p", "outer")
    write_skill(outer, "inner")
    result = await install(str(tmp_path / "p"), plugins)
    assert changes(result) == {"outer": "added", "inner": "added"}
    assert skill_files(plugins) == {"acme/skills/outer/SKILL.md", "acme/skills/outer/inner/SKILL.md"}
    assert (await update(plugins)).state is PluginState.UNCHANGED


async def test_more_bytes_than_a_plugin_may_have_are_refused(
    plugin: Path, plugins: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugin / "skills" / "refunds" / "big.txt").write_bytes(os.urandom(300_000))
    monkeypatch.setattr(staging, "MAX_PLUGIN_SIZE", 200_000)
    with pytest.raises(PluginError) as caught:
        await install(pack(plugin), plugins)
    assert caught.value.reason.value == "too_large"
    assert content(plugins) == {}


async def test_an_origin_that_is_gone_leaves_the_plugin_as_it_is(plugin: Path, plugins: Path, pack: Pack) -> None:
    origin = pack(plugin)
    await install(origin, plugins)
    before = content(plugins)
    shutil.rmtree(plugin)
    for file in plugin.parent.glob("my-plugin.*"):
        file.unlink()
    with pytest.raises(PluginError) as caught:
        await update(plugins)
    assert caught.value.reason.value == "unreachable"
    assert content(plugins) == before


@needs_git
async def test_the_commit_is_recorded_and_a_ref_pins_it(plugin: Path, plugins: Path) -> None:
    first = commit(plugin)
    git_in(plugin, "tag", "v1")
    write_skill(plugin / "skills", "refunds", "2.0.0")
    second = commit(plugin)
    assert (await install(f"file://{plugin}", plugins)).commit == second
    for name, ref in (("tagged", "v1"), ("pinned", first), ("branch", "main")):
        result = await install(f"file://{plugin}", plugins, name=name, ref=ref)
        record = json.loads((plugins / name / RECEIPT_FILE).read_text(encoding="utf-8"))
        assert (record["kind"], record["ref"], record["commit"]) == ("git", ref, result.commit)
        assert result.commit == (second if name == "branch" else first)
    write_skill(plugin / "skills", "refunds", "3.0.0")
    third = commit(plugin)
    assert [(await update(plugins, name=name)).state for name in ("tagged", "pinned")] == [PluginState.UNCHANGED] * 2
    assert (await update(plugins, name="branch")).commit == third
    moved = await update(plugins, name="tagged", ref="main")
    assert (moved.state, moved.commit) == (PluginState.UPDATED, third)
    with pytest.raises(PluginError, match="git refuses"):
        await install(f"file://{plugin}", plugins, name="none", ref="no-such-branch")
    assert not (plugins / "none").exists()


@needs_git
async def test_nothing_of_a_repository_runs(plugin: Path, plugins: Path, tmp_path: Path) -> None:
    pwned = tmp_path / "pwned"
    write_skill(plugin / "skills", "refunds", data="x\n")
    (plugin / ".gitattributes").write_text("* filter=evil\nskills/refunds/data ident export-ignore\n")
    (plugin / ".gitmodules").write_text(f'[submodule "m"]\n\tpath = m\n\turl = {tmp_path}/nowhere\n')
    commit(plugin)
    git_in(plugin, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},skills/module")
    git_in(plugin, "commit", "--quiet", "-m", "module")
    git_in(plugin, "config", "filter.evil.smudge", f"touch {pwned}")
    git_in(plugin, "config", "core.fsmonitor", f"touch {pwned}")
    git_in(plugin, "config", "uploadpack.packObjectsHook", f"touch {pwned}")
    for hook in ("post-checkout", "reference-transaction", "post-merge"):
        file = plugin / ".git" / "hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch {pwned}\n")
        file.chmod(0o755)
    result = await install(f"file://{plugin}", plugins)
    assert result.state is PluginState.INSTALLED
    assert any("skills/module" in each.message for each in result.diagnostics)
    assert content(plugins)["acme/skills/refunds/data"] == b"x\n"
    assert not pwned.exists()


@needs_git
async def test_hooks_and_filters_of_the_users_own_settings_take_no_part(
    plugin: Path, plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwned, hooks, home = tmp_path / "pwned", tmp_path / "hooks", tmp_path / "home"
    for folder in (hooks, home):
        folder.mkdir()
    for name in ("reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {pwned}\n")
        (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(f"[core]\nhooksPath = {hooks}\n[protocol]\nallow = always\n")
    commit(plugin)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert (await install(f"file://{plugin}", plugins)).state is PluginState.INSTALLED
    assert not pwned.exists()


@needs_git
async def test_a_repository_with_paths_that_lead_elsewhere_is_refused(plugin: Path, plugins: Path) -> None:
    commit(plugin)
    blob = git_in(plugin, "hash-object", "-w", "README.md")
    tree = subprocess.run(
        ["git", "-C", str(plugin), "mktree", "--missing"],
        input=f"100644 blob {blob}\tSKILL.md\n100644 blob {blob}\tgit~1\n",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    evil = git_in(plugin, "commit-tree", "-m", "m", tree)
    git_in(plugin, "branch", "evil", evil)
    with pytest.raises(PluginError, match="cannot be unpacked") as caught:
        await install(f"file://{plugin}", plugins, ref="evil")
    assert caught.value.reason.value == "unsupported_name"
    assert content(plugins) == {}


@needs_git
async def test_a_repository_that_is_too_large_is_refused_while_it_is_fetched(
    plugin: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugin / "movie.bin").write_bytes(os.urandom(2_000_000))
    commit(plugin)
    monkeypatch.setattr(staging, "MAX_PLUGIN_SIZE", 1_000_000)
    monkeypatch.setattr(retrieval, "_LOOK_SECONDS", 0.001)
    with pytest.raises(PluginError, match="the repository has more than 1000000 bytes"):
        await install(f"file://{plugin}", plugins)
    assert content(plugins) == {}


async def test_a_skill_with_a_file_that_no_server_would_read_is_refused(
    plugin: Path, plugins: Path, pack: Pack
) -> None:
    with (plugin / "skills" / "refunds" / "zeros").open("wb") as file:
        file.truncate(MAX_FILE_SIZE + 1)
    try:
        assert codes(await install(pack(plugin), plugins)) == {"too_large"}
    except PluginError as error:
        assert pack is PACKED["git"]
        assert error.reason.value == "too_large"  # noqa: PT017 - likewise
    assert content(plugins) == {}


@needs_git
async def test_without_git_the_error_says_what_to_do(
    plugin: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(plugin)
    monkeypatch.setenv("PATH", str(plugins))
    with pytest.raises(PluginError, match="git is not installed; install it, or download the repository as an archive"):
        await install(f"file://{plugin}", plugins)


class _Backend(BaseHTTPRequestHandler):
    """A git server over HTTP: `git http-backend`, with a login if the server has one."""

    root: Path
    login: str = ""
    seen: list[str | None]

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        if self.login and self.headers.get("Authorization") != self.login:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=True)
        head, _, raw = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200 OK").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[type[_Backend]]:
    handler = type("Handler", (_Backend,), {"root": tmp_path, "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.url = f"127.0.0.1:{server.server_address[1]}/my-plugin/.git"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


@needs_git
@pytest.mark.skipif(sys.platform == "win32", reason="`git http-backend` is not part of every git on Windows")
async def test_a_repository_is_fetched_over_http_and_credentials_are_not_recorded(
    plugin: Path, plugins: Path, backend: type[_Backend]
) -> None:
    head = commit(plugin)
    url = backend.url  # type: ignore[attr-defined]
    assert (await install(f"http://{url}", plugins, name="open")).commit == head
    backend.login = f"Basic {base64.b64encode(b'me:secret').decode()}"
    # Nobody is asked for a password.
    with pytest.raises(PluginError, match="git refuses"):
        await install(f"http://{url}", plugins)
    assert (await install(f"http://me:secret@{url}", plugins)).state is PluginState.INSTALLED
    assert not any(b"secret" in raw for raw in content(plugins).values())
    with pytest.raises(PluginError, match="git refuses"):
        await update(plugins)
    assert (await update(plugins, f"Authorization: {backend.login}")).state is PluginState.UNCHANGED
    assert (await update(plugins, url=f"http://me:secret@{url}")).state is PluginState.UNCHANGED


async def test_the_command_installs_what_a_server_then_serves(plugin: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    archive = archive_of(plugin, "zip")
    done = await skillserve("plugin", "install", "acme", str(archive), "--json", **places(home))
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["plugins"]
    assert (result["state"], result["server"], result["commit"]) == ("installed", str(archive), None)
    assert (home / ".jdai/plugins/acme/skills/refunds/SKILL.md").is_file()
    (listed,) = json.loads((await skillserve("plugin", "list", "--json", **places(home))).stdout)["plugins"]
    assert (listed["kind"], listed["ref"], listed["commit"]) == ("archive", None, None)
    status = json.loads((await skillserve("status", "--json", **places(home))).stdout)
    assert {"refunds", "billing"} <= {skill["name"] for skill in status["skills"] if skill["state"] == "active"}
    for wrong in (
        ("x", "nowhere"),
        ("x", str(archive), "--ref", "main"),
        ("x", "git+ext://sh"),
        ("x", "https://e.org/a.zip"),
    ):
        refused = await skillserve("plugin", "install", *wrong, **places(home))
        assert (refused.returncode, refused.stdout) == (2, b"")
        assert b"Traceback" not in refused.stderr


def test_archives_of_these_tests_have_modes_of_scripts(plugin: Path) -> None:
    with tarfile.open(archive_of(plugin, "tar.gz")) as opened:
        assert opened.getmember("my-plugin/skills/refunds/run").mode & stat.S_IXUSR
    with zipfile.ZipFile(archive_of(plugin, "zip")) as packed:
        assert packed.getinfo("my-plugin/skills/refunds/run").external_attr >> 16 & stat.S_IXUSR
