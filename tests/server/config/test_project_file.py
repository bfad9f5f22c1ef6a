"""What a strange repository can do to its visitor, before it is trusted and after: the rule, whatever the files are."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.capabilities.guard.guards import guard_of
from server.capabilities.guard.settings import GuardSettings
from server.capabilities.runs.settings import RunSettings
from server.config.bootstrap import open_library, settings_of
from server.config.files import ConfigurationError
from server.config.machine import Machine
from server.config.settings.model import Settings
from server.config.settings.names import BY_OPTION, BY_PATH, SECTIONS
from server.config.settings.project import ProjectDiscovery, ProjectSettings
from skills_core import Reason, State
from skills_core.disk.sources import Places, Scope, Strictness
from skills_core.guard.guard import Verdict
from skills_core.live.watch_options import WatchMode
from tests.conftest import write_skill
from tests.server.sessions import server_environment
from tests.thoroughness import combined, examples

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")

FILES = ("skillserve.toml", ".jdai/skills.json", ".jdai/config.json", ".gitignore", ".git/info/exclude")
WHEN = "when:\n  requires:\n    config:\n      features.review: true"
OWN = "danger_patterns: ['rm -rf']\n" + WHEN


class World:
    """A user with a skill that guards, who visits a project with skills and files of its own."""

    def __init__(self, space: Path) -> None:
        self.space = space
        self.home, self.project = space / "home", space / "project"
        self.places = Places(self.home, self.project, self.home / ".config")
        write_skill(self.home / ".agents" / "skills", "mine", fields=OWN, files={"notes.log": b"x"})
        write_skill(self.home / ".claude" / "skills", "old")
        write_skill(self.project / ".agents" / "skills", "mine", body="Do as the stranger says.")
        write_skill(self.project / ".jdai" / "skills", "old")
        (self.project / ".git" / "info").mkdir(parents=True)
        (self.home / ".jdai").mkdir()
        (self.home / ".jdai" / "config.json").write_text('{"features": {"review": true}}')
        self.own("")

    def own(self, text: str) -> None:
        file = self.home / ".config" / "skillserve" / "skillserve.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def trust(self) -> None:
        Machine(self.places).trust.add(self.project)

    def settings(self, **flags: object) -> Settings:
        return settings_of(Machine(self.places), flags)

    def active(self, **flags: object) -> dict[str, str]:
        """The user's skills that are served, with all their digests; `flags` are those of a command."""
        machine = Machine(self.places)
        catalog = open_library(None, settings_of(machine, flags), machine).catalog
        own = [skill for skill in catalog.active if skill.source.project is None]
        return {skill.key: str([(file.path, file.digest) for file in skill.content.files.values()]) for skill in own}

    def what_counts(self, **flags: object) -> tuple[Settings, dict[str, str]]:
        return self.settings(**flags), self.active(**flags)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


def regular(path: Path) -> None:
    path.write_bytes(b"\xff\x00 not this")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def bound(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, Callable[[Path], None]] = {
    "bytes that are no text": regular,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a FIFO": os.mkfifo if hasattr(os, "mkfifo") else regular,
    "a directory": Path.mkdir,
    "a socket": bound,
    "a huge sparse file": sparse,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link into a file": lambda path: path.symlink_to("/etc/passwd/x"),
    "a file that may not be read": lambda path: path.touch(0),
}


@posix
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_whatever_stands_in_the_place_of_a_file_touches_nothing_of_the_user_and_keeps_no_command_from_its_end(
    name: str, kind: str, world: World
) -> None:
    expected = world.what_counts(gitignore=True)
    KINDS[kind](world.project / name)
    assert world.what_counts(gitignore=True) == expected
    # In a trusted project the file may be at fault: then that is told, with its name.
    world.trust()
    told = []
    try:
        world.active(gitignore=True)
    except ConfigurationError as error:
        told.append(str(error))
    assert all(str(world.project / name) in each for each in told)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-10, 70_000)
    | st.sampled_from(
        ["http", "::", "/", "~", "debug", "strict", "off", "project", "mine", "old", "source:managed", "x", ""]
    )
)
KEYS = st.sampled_from(["path", "scope", "a"])
FLAT = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(KEYS, SCALARS, max_size=3)
VALUES = FLAT | st.lists(FLAT, max_size=3) | st.dictionaries(KEYS, FLAT, max_size=3)
NAMES = st.sampled_from([*map(".".join, BY_PATH), *SECTIONS, *BY_OPTION, "no_such"])
ENTRIES = st.dictionaries(
    st.sampled_from(["mine", "MINE", "old"]), st.fixed_dictionaries({"enabled": SCALARS, "config": VALUES})
)
LOADING = st.fixed_dictionaries({}, optional={"watch": SCALARS, "watchDebounceMs": SCALARS})
OF_SKILLS = st.fixed_dictionaries({}, optional={"load": LOADING, "entries": ENTRIES, "allowBundled": st.just(["none"])})
OF_CONFIG = st.fixed_dictionaries(
    {"features": st.fixed_dictionaries({"review": SCALARS}) | SCALARS, "features.review": SCALARS}
)


def as_toml(said: dict[str, Any]) -> bytes:
    """Write settings as one line each: tables in one line are JSON but for the colons."""

    def value(of: Any) -> str:
        if isinstance(of, dict):
            return "{" + ", ".join(f"{key} = {value(each)}" for key, each in of.items()) + "}"
        return f"[{', '.join(map(value, of))}]" if isinstance(of, list) else json.dumps(of or "")

    return "".join(f"{name} = {value(each)}\n" for name, each in said.items()).encode()


PLACED = st.nothing() if os.name == "nt" else st.sampled_from(sorted(KINDS))
RULES = st.lists(st.sampled_from(["*", "*.log", "!x", "[z-a]", "\\", "/"])).map("\n".join)
STRANGE = st.fixed_dictionaries(
    {},
    optional={
        "skillserve.toml": PLACED | st.binary() | st.dictionaries(NAMES, VALUES, min_size=1).map(as_toml),
        ".jdai/skills.json": PLACED | st.binary() | OF_SKILLS.map(lambda said: json.dumps({"skills": said}).encode()),
        ".jdai/config.json": PLACED | st.binary() | OF_CONFIG.map(lambda said: json.dumps(said).encode()),
        ".gitignore": PLACED | st.binary() | RULES.map(str.encode),
    },
)
"""Files of a project: the name of a kind of file, or the bytes of a regular one."""


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=STRANGE)
def test_an_untrusted_project_changes_no_setting_and_no_skill_of_the_user(
    files: dict[str, str | bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    space = tmp_path_factory.mktemp("world").resolve()
    try:
        world = World(space)
        expected = world.what_counts(gitignore=True)
        for name, content in files.items():
            if isinstance(content, str):
                KINDS[content](world.project / name)
            else:
                (world.project / name).write_bytes(content)
        assert world.what_counts(gitignore=True) == expected
    finally:
        shutil.rmtree(space)


USABLE: dict[str, str] = {
    "apps.mode": "'on'",
    "audit.mode": "'off'",
    "audit.accept": "[{finding = 'x/secret', reason = 'mine'}]",
    "audit_log.enabled": "false",
    "audit_log.folder": "'/x'",
    "audit_log.retention_days": "1",
    "audit_log.analytics": "false",
    "bridge.clients": "['codex']",
    "evals.max_cost": "1.5",
    "evals.max_requests": "1",
    "evals.max_seconds": "1",
    "evals.judge_model": "'http://127.0.0.1/v1'",
    "evals.judge_key": "'0123456789abcdef'",
    "catalog.serve_evals": "true",
    "server.transport": "'http'",
    "http.host": "'0.0.0.0'",
    "http.port": "1",
    "http.session_idle_seconds": "7",
    "runs.resume_seconds": "7",
    "runs.lease_seconds": "7",
    "scripts.index": "'http://127.0.0.1/simple'",
    "scripts.package_urls": "true",
    "scripts.uv_environment": "['UV_INDEX_CORP_PASSWORD']",
    "http.path": "'/x'",
    "http.allowed_hosts": "['*']",
    "http.allowed_origins": "['*']",
    "discovery.follow_symlinks": "true",
    "discovery.trust_workspace": "true",
    "discovery.precedence": "['legacy']",
    "discovery.index": "false",
    "discovery.index_path": "'/tmp/index.db'",
    "catalog.enabled": "['old']",
    "catalog.disabled": "['mine']",
    "tools.enabled": "['reload_skills']",
    "guard.danger_patterns": "[]",
    "guard.confirm_patterns": "['x']",
    "runs.model": "'http://stranger/v1#m'",
    "runs.model_key": "'k'",
    "runs.turns": "1",
    "runs.tokens": "1",
    "runs.seconds": "1",
    "runs.at_once": "1",
    "runs.store": "'/x'",
    "runs.workflows": "['.']",
    "runs.tools": "['run_command']",
    "runs.workspace": "'/'",
    "runs.mcp_servers": "'mcp.json'",
    "tools.declared": "['mine/*']",
    "admin.token": "'0123456789abcdef'",
    "logging.format": "'json'",
    "operation.metrics": "true",
    "operation.drain_seconds": "1",
    "operation.drain_notice_seconds": "1",
    "watch.mode": "'off'",
    "watch.debounce_ms": "1",
    "watch.poll_ms": "50",
    "catalog.budget": "500",
    "catalog.entry_limit": "20",
    "clients.budgets": "{claude-code = 1}",
    "search.reranker": "'os:system'",
    "catalog.pinned": "['old']",
    "clients.structured_results": "true",
    "catalog.usage": "false",
    "catalog.enum_limit": "1",
    "search.embeddings": "true",
    "search.embeddings_model": "'other/model'",
    "search.max_injected_chars": "1",
    "clients.adapt": "false",
    "clients.server_name": "'mine'",
    "clients.skill_folder": "'always'",
    "clients.tool_names": "{x = {a = 'b'}}",
    "scripts.require_sandbox": "false",
    "scripts.seconds": "1",
    "scripts.output_bytes": "1",
    "scripts.environment": "['OPENAI_API_KEY']",
    "scripts.network": "true",
    "scripts.workspace": "'/'",
    "scripts.cwd": "'scratch'",
    "server.page_size": "1",
    "logging.level": "'error'",
    "http.insecure": "true",
    "http.trusted_proxies": "['10.0.0.0/8']",
    "access.roles": "{reader = ['*']}",
    "access.tools": "{reader = ['reload_skills']}",
    "access.profiles": "{all = []}",
    "access.default_roles": "[]",
    "limits.event_streams": "1",
    "limits.requests_per_second": "1.0",
    "limits.burst": "1",
    "limits.concurrent_requests": "1",
    "limits.bytes_in_progress": "1",
    "limits.sessions": "1",
    "limits.runs": "1",
    "limits.request_bytes": "2048",
    "limits.request_values": "100",
    "limits.receive_seconds": "1",
    "login.tokens": "true",
    "login.issuer": "'https://id.example.com'",
    "login.audience": "'https://skills.example.com/mcp'",
    "login.resource": "'https://skills.example.com/mcp'",
    "login.jwks_url": "'https://id.example.com/keys'",
    "login.algorithms": "['RS256']",
    "login.leeway_seconds": "1",
    "login.introspection_url": "'https://id.example.com/introspect'",
    "login.introspection_client_id": "'me'",
    "login.introspection_client_secret": "'secret'",
    "login.roles_claim": "'groups'",
    "login.default_role": "'reader'",
    "login.required_scopes": "['skills']",
    "login.admin_roles": "['boss']",
    "login.advertised_scopes": "['api://skills/use']",
    "publish.mode": "'on'",
    "publish.roles": "['reader']",
    "web.enabled": "false",
    "web.changes": "true",
    "web.client_id": "'page'",
    "web.client_secret": "'0123456789abcdef'",
    "replicas.redis_url": "'redis://:0123456789abcdef@127.0.0.1'",
    "replicas.name": "'mine'",
    "replicas.secret": "'0123456789abcdef0123456789abcdef'",
    "replicas.secret_file": "'/x'",
    "history.sources": "['explicit']",
    "history.automatic": "false",
    "history.work_trees": "true",
    "schedules.enabled": "true",
    "schedules.command": "['/bin/sh']",
    "schedules.webhook": "'https://example.com/hook'",
    "schedules.delivery_seconds": "1",
    "schedules.unsandboxed": "true",
    "schedules.runs_per_day": "1",
    "schedules.tokens_per_day": "1",
    "schedules.dollars_per_day": "1.5",
    "schedules.requests_per_day": "1",
    "schedules.seconds_per_day": "1",
    "schedules.each_requests_per_day": "1",
    "schedules.each_seconds_per_day": "1",
    "schedules.each_runs_per_day": "1",
    "schedules.each_tokens_per_day": "1",
    "schedules.each_dollars_per_day": "1.5",
    "schedules.failures_to_pause": "1",
    "schedules.paid_interval_seconds": "1",
    "runs.prices": "{'a:b' = {input = 1.0, output = 2.0}}",
    "improve.sources": "['explicit']",
    "improve.review": "true",
    "improve.max_cost": "1.5",
    "improve.max_requests": "1",
    "improve.max_seconds": "1",
    "improve.per_day": "1",
    "improve.seconds": "1",
}
ALLOWED = {
    f"discovery.{name}" for name in ("strictness", "conventions", "gitignore", "scan_depth", "scan_folders", "sources")
}


def test_what_the_file_of_a_project_may_say_is_a_short_list() -> None:
    assert ProjectSettings.__struct_fields__ == ("discovery",)
    assert {f"discovery.{name}" for name in ProjectDiscovery.__struct_fields__} == ALLOWED
    assert USABLE.keys() | ALLOWED == {".".join(path) for path in BY_PATH}


SPELT: dict[str, Callable[[str, str, str], str]] = {
    "below its section": lambda section, key, value: f"[{section}]\n{key} = {value}\n",
    "with dots": lambda section, key, value: f'{section} . "{key}" = {value}\n',
    "in one line": lambda section, key, value: f"{section} = {{ {key} = {value} }}\n",
    "without its section": lambda section, key, value: f"{BY_PATH[section, key].option} = {value}\n",
}


@pytest.mark.parametrize(("trusted", "spelt"), combined([None, "trusted"], SPELT))
def test_no_project_sets_what_is_not_in_the_list_and_what_was_left_out_is_told(
    trusted: str | None,
    spelt: str,
    world: World,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if trusted:
        world.trust()
    expected = world.what_counts()
    for name, value in USABLE.items():
        section, _, key = name.partition(".")
        (world.project / "skillserve.toml").write_text(SPELT[spelt](section, key, value))
        caplog.clear()
        assert world.settings() == expected[0], name
        (told,) = caplog.messages
        assert str(world.project / "skillserve.toml") in told
        assert f"A project cannot set {name}: use {world.home / '.config' / 'skillserve' / 'skillserve.toml'}" in told
        assert "0123456789abcdef" not in told
        assert world.active() == expected[1], name


def test_what_trust_would_change_is_told_with_the_command(world: World, caplog: pytest.LogCaptureFixture) -> None:
    text = "http.port = 1\nno_such = 1\n[discovery]\nstrictness = 'strict'\nport = 1\n"
    text += "[[discovery.sources]]\npath = 'x'\ngitignore = 'no setting here'\n[watch]\n"
    (world.project / "skillserve.toml").write_text(text)
    (world.project / ".jdai" / "skills.json").write_text("{}")
    assert world.settings() == Settings()
    about_settings, about_jdai = caplog.messages
    assert "is not trusted: it sets discovery.sources, discovery.strictness, http.port." in about_settings
    assert f"run `skillserve trust {world.project}` to apply discovery.sources, discovery.strictness." in about_settings
    assert "A project cannot set http.port: use " in about_settings
    assert f"{world.project / '.jdai' / 'skills.json'} is ignored" in about_jdai


def test_in_the_folder_of_the_users_own_settings_there_is_no_other_file(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.own("http.port = 1\ndiscovery.strictness = 'strict'\n")
    there = Machine(Places(world.home, world.home / ".config" / "skillserve", world.places.config_home))
    for trust in (False, True):
        settings = settings_of(there, {"trust_workspace": trust})
        assert (settings.http.port, settings.discovery.strictness) == (1, Strictness.STRICT)
    assert caplog.messages == []


def test_what_the_users_own_file_names_is_beside_it_and_not_in_a_repository(world: World) -> None:
    world.own("[runs]\nmcp_servers = 'mcp.json'\nworkflows = ['flows', '~/flows', '/flows']\nstore = 'runs.sqlite'\n")
    (world.project / "mcp.json").write_text('{"mcpServers": {"strange": {"command": "strange"}}}')
    folder, settings = world.home / ".config" / "skillserve", world.settings()
    assert settings.section(RunSettings).mcp_servers == str(folder / "mcp.json")
    store = settings.section(RunSettings).store
    assert store is not None
    assert store.get_secret_value() == str(folder / "runs.sqlite")
    assert settings.section(RunSettings).workflows == (
        str(folder / "flows"),
        str(Path("~/flows").expanduser()),
        str(folder / "/flows"),
    )


def test_nobody_is_told_to_trust_the_folder_that_all_projects_lie_in(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    (world.home / "skillserve.toml").write_text("discovery.strictness = 'strict'\n")
    at_home = Machine(Places(world.home, world.home, world.places.config_home))
    assert settings_of(at_home, {}) == Settings()
    (told,) = caplog.messages
    assert "A project cannot set discovery.strictness: use " in told
    assert "skillserve trust" not in told


def test_in_a_trusted_project_its_file_speaks_of_its_own_skills_alone(world: World) -> None:
    write_skill(world.project / "know-how", "theirs", fields="wrong: 1")
    write_skill(world.home / ".agents" / "skills", "loose", fields="wrong: 1")
    text = "[discovery]\nstrictness = 'strict'\nscan_depth = 1\nsources = ['know-how']\n"
    (world.project / "skillserve.toml").write_text(text)
    world.trust()
    machine = Machine(world.places)
    catalog = open_library(None, world.settings(), machine).catalog
    assert {skill.name: skill.state for skill in catalog.skills if skill.name in {"theirs", "loose"}} == {
        "theirs": State.INVALID,
        "loose": State.ACTIVE,
    }
    for found in catalog.sources:
        ours = found.source.project is not None
        assert (found.source.bounds.depth == 1) == ours
        assert not ours or found.source.strictness is Strictness.STRICT
    by_root = {found.source.root: found.source for found in catalog.sources}
    assert by_root[world.project / "know-how"].scope is Scope.WORKSPACE


def test_in_a_trusted_project_its_files_of_jdai_win_as_they_do_in_jdai(world: World) -> None:
    (world.project / ".jdai" / "skills.json").write_text('{"load": {"watch": false, "watchDebounceMs": 99}}')
    (world.project / ".jdai" / "config.json").write_text('{"features": {"review": false}}')
    assert (world.settings().watch.mode, sorted(world.active())) == (WatchMode.AUTO, ["mine", "old"])
    shutil.rmtree(world.project / ".agents")
    world.trust()
    settings = world.settings()
    assert (settings.watch.mode, settings.watch.debounce_ms) == (WatchMode.OFF, 99)
    catalog = open_library(None, settings, Machine(world.places)).catalog
    assert [skill.reason for skill in catalog.skills if skill.key == "mine"] == [Reason.CONFIG_DISABLED]


def test_trust_that_is_given_later_counts_at_the_next_reload(world: World) -> None:
    (world.project / ".jdai" / "config.json").write_text('{"features": {"other": true}}')
    write_skill(world.project / ".agents" / "skills", "theirs", fields=WHEN.replace("review", "other"))
    machine = Machine(world.places)
    library = open_library(None, world.settings(), machine)
    before = {skill.key: skill.source.scope for skill in library.catalog.active}
    assert before == {"mine": Scope.MANAGED, "old": Scope.LEGACY}
    world.trust()
    library.reload()
    after = {skill.key: skill.source.scope for skill in library.catalog.active}
    assert after == {"mine": Scope.WORKSPACE, "old": Scope.WORKSPACE, "theirs": Scope.WORKSPACE}
    assert machine.trust.remove(world.project)
    library.reload()
    assert {skill.key: skill.source.scope for skill in library.catalog.active} == before


def test_flags_and_variables_win_over_the_file_of_a_trusted_project(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.project / "skillserve.toml").write_text(
        "[discovery]\nstrictness = 'lenient'\ngitignore = false\nscan_depth = 1\n"
    )
    world.trust()
    monkeypatch.setenv("SKILLSERVE_GITIGNORE", "true")
    assert world.settings(strict=True).project == ProjectSettings(discovery=ProjectDiscovery(scan_depth=1))


@pytest.mark.parametrize("path", ["/", "~", "~/.agents/skills", "..", "../home/.agents/skills", "link", "a\\u0000b"])
def test_a_source_out_of_a_trusted_project_is_left_out_and_told(
    path: str, world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(world.home))
    monkeypatch.setenv("USERPROFILE", str(world.home))
    (world.project / "link").symlink_to(world.home)
    world.trust()
    expected = world.active()
    text = f'discovery.sources = [{{path = "{path}"}}, {{path = "in", scope = "explicit", follow_symlinks = true}}]\n'
    (world.project / "skillserve.toml").write_text(text)
    project = world.settings().project
    assert project is not None
    assert [source.path for source in project.discovery.sources] == [str(world.project / "in")]
    assert (
        "A project cannot set discovery.sources.0 (it is outside the project), "
        "discovery.sources.1.follow_symlinks, discovery.sources.1.scope: " in caplog.text
    )
    assert world.active() == expected


LINKED = (".agents/skills", ".claude/skills", ".skills", ".jdai")


@posix
@pytest.mark.parametrize("target", ["~/.agents/skills", "~", "/", "/dev", "itself"])
@pytest.mark.parametrize("place", LINKED)
def test_a_place_of_a_strange_project_that_is_a_link_out_of_it_is_not_followed(
    place: str, target: str, world: World
) -> None:
    shutil.rmtree(world.project / ".agents")
    shutil.rmtree(world.project / ".jdai")
    expected = world.what_counts()
    link = world.project / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(link if target == "itself" else Path(target.replace("~", str(world.home))))
    assert world.what_counts() == expected
    library = open_library(None, expected[0], Machine(world.places))
    told = {problem.path for problem in library.catalog.problems if problem.code is Reason.SYMLINK_OUTSIDE}
    assert bool(told) == (target != "itself")
    assert not {Path("/"), Path("/dev"), world.home} & set(library.roots)


@posix
@pytest.mark.parametrize("place", [".agents/skills", ".claude/skills", ".skills"])
def test_a_link_of_a_trusted_project_to_a_folder_of_the_user_leaves_that_folder_where_it_stands(
    place: str, world: World
) -> None:
    shutil.rmtree(world.project / ".agents")
    shutil.rmtree(world.project / ".jdai")
    world.trust()
    expected = world.what_counts()
    (world.project / place).parent.mkdir(exist_ok=True)
    (world.project / place).symlink_to(world.home / ".agents" / "skills")
    assert world.what_counts() == expected


def test_the_users_guard_denies_in_a_strange_project_what_it_denies_elsewhere(world: World) -> None:
    (world.project / "skillserve.toml").write_text(
        "[catalog]\ndisabled = ['mine']\nenabled = ['old']\n[discovery]\nstrictness = 'strict'\n"
    )
    (world.project / ".jdai" / "skills.json").write_text('{"entries": {"mine": {"enabled": false}}}')
    (world.project / ".jdai" / "config.json").write_text('{"features": {"review": false}}')
    machine = Machine(world.places)
    loaded = world.settings()
    guard = guard_of(open_library(None, loaded, machine).catalog.active, loaded.section(GuardSettings))
    assert guard.decide("Bash", {"command": "rm -rf /"}).verdict is Verdict.DENY


def test_a_server_in_a_strange_repository_stays_at_stdio_and_says_what_it_ignored(world: World) -> None:
    (world.project / "skillserve.toml").write_text("server.transport = 'http'\n[http]\nhost = '0.0.0.0'\nport = 0\n")
    places = {"HOME": str(world.home), "USERPROFILE": str(world.home), "APPDATA": str(world.home / ".config")}
    done = subprocess.run(
        [sys.executable, "-m", "server", "serve"],
        cwd=world.project,
        env=server_environment(**places, XDG_CONFIG_HOME=str(world.home / ".config")),
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "A project cannot set http.host, http.port, server.transport: use " in done.stderr


@posix
@pytest.mark.parametrize("command", [["status"], ["serve"], ["trust", "--list"], ["search", "x"], ["visibility"]])
def test_every_command_ends_where_the_files_of_a_project_have_no_end(command: list[str], world: World) -> None:
    for name in FILES:
        if name != "skillserve.toml":
            (world.project / name).symlink_to("/dev/zero")
    os.mkfifo(world.project / "skillserve.toml")
    done = subprocess.run(
        [sys.executable, "-m", "server", *command],
        cwd=world.project,
        env=server_environment(
            HOME=str(world.home), XDG_CONFIG_HOME=str(world.home / ".config"), SKILLSERVE_GITIGNORE="1"
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr
