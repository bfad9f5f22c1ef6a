"""A plugin is installed verified and as a whole, or not at all: "recipients get them through jdai plugin install"."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from server.capabilities.remote.plugins.folder import PluginsFolder
from server.capabilities.remote.plugins.installed import RECEIPT_FILE, PluginError
from server.capabilities.remote.plugins.operations import PluginState, installed_plugins, remove_plugin
from tests.capabilities.remote.hostile import Hostile, listed, running, serve_skill, skill_md
from tests.capabilities.remote.plugins.helpers import codes, content, install, skill_files, update, versioned
from tests.capabilities.remote.tampering import TAMPERINGS, Tampering

VERIFY_ONLY = {"entry_mismatch", "incomplete_entry", "directory_mismatch", "outside_skill"}


async def test_skills_are_installed_where_plugins_are_discovered_with_a_record(tmp_path: Path) -> None:
    app = Hostile([versioned("refunds", "1.0.0", {"a.md": b"a"}), serve_skill("outer"), serve_skill("outer/inner")])
    app.skills[1].add("skill://outer/inner/SKILL.md", app.skills[2].contents["skill://outer/inner/SKILL.md"])
    async with running(app) as url:
        result = await install(url, tmp_path)
    assert (result.state, result.diagnostics) == (PluginState.INSTALLED, ())
    assert skill_files(tmp_path) == {
        "acme/skills/refunds/SKILL.md",
        "acme/skills/refunds/a.md",
        "acme/skills/outer/SKILL.md",
        "acme/skills/outer/inner/SKILL.md",
    }
    record = json.loads((tmp_path / "acme" / RECEIPT_FILE).read_text(encoding="utf-8"))
    assert (record["version"], record["server"], record["chosen"]) == (1, url, None)
    assert {skill["name"]: (skill["folder"], skill["version"]) for skill in record["skills"]} == {
        "refunds": ("refunds", "1.0.0"),
        "outer": ("outer", None),
        "inner": ("outer/inner", None),
    }
    assert record["files"]["skills/refunds/a.md"].startswith("sha256:")
    (plugin,) = installed_plugins(PluginsFolder(tmp_path))
    assert (plugin.edited, plugin.problem) == ((), None)


@pytest.mark.parametrize(("tamper", "reasons"), list(TAMPERINGS.values()), ids=TAMPERINGS)
async def test_of_a_tampering_server_nothing_is_installed(tmp_path: Path, tamper: Tampering, reasons: set[str]) -> None:
    app = Hostile([serve_skill("one", {"sub/a.md": b"a"}), serve_skill("two")])
    tamper(app)
    async with running(app) as url:
        result = await install(url, tmp_path)
    if result.state is PluginState.REFUSED:
        assert codes(result)
        assert content(tmp_path) == {}
    else:
        assert reasons <= VERIFY_ONLY


async def test_a_skill_that_changes_between_list_and_read_is_installed_as_it_is_now_or_refused(tmp_path: Path) -> None:
    app, newer = Hostile([versioned("one", "1.0.0")]), versioned("one", "2.0.0")
    stale = app.one.entry
    app.answers["skills/list"] = lambda _: app.complete(skills=[stale])
    app.skills = [newer]
    async with running(app) as url:
        result = await install(url, tmp_path)
        assert result.changes[0].skill.version == "2.0.0"
        newer.contents[newer.uri] += b"tampered"
        assert codes(await install(url, tmp_path, name="other")) >= {"size_mismatch"}
    assert not (tmp_path / "other").exists()


async def test_files_that_make_skills_the_server_does_not_list_are_pointed_out(tmp_path: Path) -> None:
    one = serve_skill("one")
    one.add("skill://one/evil/SKILL.md", skill_md("evil"))
    async with running(Hostile([one])) as url:
        result = await install(url, tmp_path)
    unlisted = {each.path for each in result.diagnostics if each.code.value == "incomplete_entry"}
    assert unlisted == {str(tmp_path / "acme" / "skills" / "one" / "evil")}


async def test_skills_that_would_be_invalid_stop_the_installation_unless_accepted(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one"), serve_skill("two")])
    raw = app.one.contents[app.one.uri].replace(b"description", b"unheard-of: 1\ndescription")
    app.one.contents[app.one.uri] = raw
    app.one.resources[0] = listed(app.one.uri, raw)
    app.one.entry["frontmatter"]["unheard-of"] = 1
    async with running(app) as url:
        result = await install(url, tmp_path)
        assert (result.state, codes(result)) == (PluginState.REFUSED, {"unknown_field", "invalid_skill"})
        assert str(tmp_path / "acme" / "skills" / "one" / "SKILL.md") in {each.path for each in result.diagnostics}
        assert content(tmp_path) == {}
        assert (await install(url, tmp_path, "two", name="chosen")).state is PluginState.INSTALLED
        assert (await install(url, tmp_path, allow_invalid=True)).state is PluginState.INSTALLED
    assert skill_files(tmp_path) == {
        *("chosen/skills/two/SKILL.md", "acme/skills/one/SKILL.md", "acme/skills/two/SKILL.md")
    }


async def test_a_skill_too_deep_to_be_found_is_one_that_no_server_serves(tmp_path: Path) -> None:
    app = Hostile([serve_skill("a/b/c/d/e/f/g/one"), serve_skill("x/one")])
    async with running(app) as url:
        result = await install(url, tmp_path)
        assert codes(result) == {"scan_limit", "invalid_skill"}
        assert (await install(url, tmp_path, "skill://x/one/SKILL.md")).state is PluginState.INSTALLED


async def test_more_bytes_than_a_plugin_may_have_are_not_fetched(tmp_path: Path) -> None:
    skills = [serve_skill(f"skill-{number}") for number in range(65)]
    for skill in skills:
        skill.resources[0]["size"] = 16 * 1024 * 1024
    app = Hostile(skills)
    async with running(app) as url:
        assert codes(await install(url, tmp_path)) == {"too_large"}
    assert "resources/read" not in {method for method, _ in app.asked}


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX only")
async def test_file_names_that_are_not_utf8_are_recorded(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one", {"%ff.md": b"x"})])
    async with running(app) as url:
        result = await install(url, tmp_path)
        if result.state is PluginState.REFUSED:
            pytest.skip("this disk takes only UTF-8")
        assert (await update(tmp_path)).state is PluginState.UNCHANGED
    assert remove_plugin(PluginsFolder(tmp_path), "acme").state is PluginState.REMOVED


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", ".a", "con", "a.bak", "node_modules", "a" * 65, "\x1b[2J"])
async def test_a_name_that_leads_elsewhere_or_is_ignored_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PluginError, match="cannot be the name of a plugin") as caught:
        await install("http://127.0.0.1:9/mcp", tmp_path / "plugins", name=name)
    assert str(caught.value).isprintable()
    assert content(tmp_path) == {}


@pytest.mark.parametrize("taken", ["folder", "file", "link"])
async def test_what_skillserve_did_not_install_is_left_alone(tmp_path: Path, taken: str) -> None:
    place, elsewhere = tmp_path / "plugins" / "acme", tmp_path / "elsewhere"
    for folder in (place.parent, elsewhere):
        folder.mkdir()
    if taken == "link":
        place.symlink_to(elsewhere, target_is_directory=True)
    elif taken == "folder":
        place.mkdir()
    else:
        place.write_text("mine")
    before = content(tmp_path)
    for work in (install("http://127.0.0.1:9/mcp", place.parent), update(place.parent)):
        with pytest.raises(PluginError, match=str(place)):
            await work
    with pytest.raises(PluginError, match=str(place)):
        remove_plugin(PluginsFolder(place.parent), "acme", force=True)
    assert content(tmp_path) == before


async def test_no_credential_is_recorded(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one")], required_header=(b"x-key", b"secret"))
    async with running(app) as url:
        secret = url.replace("http://", "http://me:secret@") + "?key=secret"
        assert codes(await install(secret, tmp_path)) == {"access_denied"}
        app.required_header = None
        assert (await install(secret, tmp_path)).state is PluginState.INSTALLED
        app.required_header = (b"x-key", b"secret")
        assert codes(await update(tmp_path)) == {"access_denied"}
        assert (await update(tmp_path, "X-Key: secret")).state is PluginState.UNCHANGED
        assert (await update(tmp_path, "X-Key: secret", url=secret)).state is PluginState.UNCHANGED
    assert not any(b"secret" in raw for raw in content(tmp_path).values())


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "plugins"
    async with running(Hostile([serve_skill("one")])) as url:
        assert (await install(url, root, dry_run=True)).state is PluginState.INSTALLED
    assert not root.exists()
