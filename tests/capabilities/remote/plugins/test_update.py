"""Plugins are updated by version and digest: "updates are managed via jdai plugin update"."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from server.capabilities.remote.plugins.folder import PluginsFolder
from server.capabilities.remote.plugins.installed import RECEIPT_FILE, PluginError
from server.capabilities.remote.plugins.operations import PluginState, installed_plugins, remove_plugin
from tests.capabilities.remote.hostile import Hostile, running, serve_skill
from tests.capabilities.remote.plugins.helpers import changes, codes, content, install, skill_files, update, versioned
from tests.capabilities.remote.tampering import raises

REFUSED, UPDATED = PluginState.REFUSED, PluginState.UPDATED
SKILL = "acme/skills/one/SKILL.md"


@asynccontextmanager
async def installed(root: Path, *skills: str) -> AsyncGenerator[Hostile]:
    """Install a plugin whose server goes on."""
    app = Hostile([versioned("one", "1.0.0", {"a.md": b"a"}), versioned("two", "1.0.0"), serve_skill("three")])
    async with running(app) as url:
        assert (await install(url, root, *skills)).state is PluginState.INSTALLED
        yield app


async def test_each_skill_is_added_updated_unchanged_or_removed(tmp_path: Path) -> None:
    async with installed(tmp_path) as app:
        assert (await update(tmp_path)).state is PluginState.UNCHANGED
        app.skills = [versioned("one", "1.1.0"), versioned("two", "1.0.0"), serve_skill("four")]
        before = content(tmp_path)
        planned = await update(tmp_path, dry_run=True)
        assert content(tmp_path) == before
        result = await update(tmp_path)
    assert changes(result) == {"one": "updated", "two": "unchanged", "four": "added", "three": "removed"}
    assert (planned.state, planned.changes) == (result.state, result.changes)
    versions = {change.skill.name: (change.before and change.before.version) for change in result.changes}
    assert versions["one"] == "1.0.0"
    assert skill_files(tmp_path) == {f"acme/skills/{name}/SKILL.md" for name in ("one", "two", "four")}
    assert b"1.1.0" in content(tmp_path)[SKILL]


async def test_of_chosen_skills_these_alone_are_updated(tmp_path: Path) -> None:
    async with installed(tmp_path, "one", "three") as app:
        app.skills = [versioned("one", "1.1.0"), versioned("five", "1.0.0")]
        assert changes(await update(tmp_path)) == {"one": "updated", "three": "removed"}
        app.skills.append(serve_skill("three"))
        assert changes(await update(tmp_path)) == {"one": "unchanged", "three": "added"}


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [
        ("1.10.0", "1.9.0", REFUSED),
        ("1.0.0", "1.0.0-rc.1", REFUSED),
        ("1.0.0-rc.1", "1.0.0", UPDATED),
        ("1.0.0+a", "1.0.0+b", UPDATED),
        ("2", "1", UPDATED),  # not semantic, so neither is older
    ],
)
async def test_an_older_version_is_refused_unless_accepted(
    tmp_path: Path, old: str, new: str, state: PluginState
) -> None:
    app = Hostile([versioned("one", old), versioned("two", "1.0.0")])
    async with running(app) as url:
        await install(url, tmp_path)
        app.skills = [versioned("one", new), versioned("two", "2.0.0")]
        before = content(tmp_path)
        result = await update(tmp_path)
        assert result.state is state
        if state is REFUSED:
            assert codes(result) == {"older_version"}
            assert content(tmp_path) == before
            assert (await update(tmp_path, allow_downgrade=True)).state is PluginState.UPDATED
    assert new.encode() in content(tmp_path)[SKILL]


def change(plugin: Path) -> None:
    (plugin / "skills/one/a.md").write_bytes(b"mine")


def add(plugin: Path) -> None:
    (plugin / "skills/one/mine.md").write_bytes(b"mine")


def add_skill(plugin: Path) -> None:
    (plugin / "skills/mine").mkdir()
    (plugin / "skills/mine/SKILL.md").write_bytes(b"mine")


def remove(plugin: Path) -> None:
    (plugin / "skills/one/a.md").unlink()


def replace_by_link(plugin: Path) -> None:
    (plugin / "skills/one").rename(plugin.parent.parent / "one")
    (plugin / "skills/one").symlink_to(plugin.parent.parent / "one", target_is_directory=True)


EDITS = {
    "skills/one/a.md": change,
    "skills/one/mine.md": add,
    "skills/mine/SKILL.md": add_skill,
    "skills/one/a.md ": remove,
    "skills/one": replace_by_link,
}


@pytest.mark.parametrize(("named", "edit"), list(EDITS.items()), ids=[edit.__name__ for edit in EDITS.values()])
async def test_edits_are_kept_and_named_unless_forced(tmp_path: Path, named: str, edit: Callable[[Path], None]) -> None:
    root = tmp_path / "plugins"
    async with installed(root) as app:
        edit(root / "acme")
        before = content(tmp_path)
        assert (await update(root)).state is PluginState.UNCHANGED
        app.skills[1] = versioned("two", "2.0.0")
        result = await update(root)
        assert (result.state, codes(result)) == (PluginState.REFUSED, {"edited_copy"})
        assert named.strip() in result.diagnostics[0].message
        (plugin,) = installed_plugins(PluginsFolder(root))
        assert named.strip() in plugin.edited
        result = remove_plugin(PluginsFolder(root), "acme")
        assert (result.state, codes(result)) == (PluginState.REFUSED, {"edited_copy"})
        assert content(tmp_path) == before
        assert (await update(root, force=True)).state is PluginState.UPDATED
    assert {path for path in skill_files(root) if "mine" in path} == set()
    assert content(root)["acme/skills/one/a.md"] == b"a"
    assert remove_plugin(PluginsFolder(root), "acme", force=True).state is PluginState.REMOVED
    assert content(root) == {}


async def test_a_server_that_fails_or_lists_nothing_leaves_the_plugin_as_it_is(tmp_path: Path) -> None:
    async with installed(tmp_path) as app:
        before = content(tmp_path)
        for answer in (raises(-32603, "\x1b[2J"), app.complete(skills=[])):
            app.answers["skills/list"] = answer
            assert (await update(tmp_path)).state is PluginState.REFUSED
        del app.answers["skills/list"]
        app.skills[0].contents[app.one.uri] += b"x"
        app.skills[1] = versioned("two", "2.0.0")
        assert codes(await update(tmp_path)) == {"size_mismatch"}
    assert codes(await update(tmp_path)) == {"unreachable"}
    assert content(tmp_path) == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', "[" * 100_000, '{"version": 1, "server": 7}'])
async def test_a_record_that_cannot_be_read_is_reported_and_nothing_is_removed(tmp_path: Path, text: str) -> None:
    async with installed(tmp_path):
        (tmp_path / "acme" / RECEIPT_FILE).write_text(text)
        before = content(tmp_path)
        with pytest.raises(PluginError, match="cannot be read"):
            await update(tmp_path, force=True)
        with pytest.raises(PluginError, match="cannot be read"):
            remove_plugin(PluginsFolder(tmp_path), "acme", force=True)
    (plugin,) = installed_plugins(PluginsFolder(tmp_path))
    assert "cannot be read" in (plugin.problem or "")
    assert content(tmp_path) == before


async def test_a_recorded_address_that_is_no_url_is_reported(tmp_path: Path) -> None:
    async with installed(tmp_path):
        place = tmp_path / "acme" / RECEIPT_FILE
        place.write_text(place.read_text().replace("http://", "file://"))
        with pytest.raises(PluginError, match="the recorded server is not usable"):
            await update(tmp_path)


async def test_a_plugin_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="there is no plugin 'acme'"):
        await update(tmp_path)
