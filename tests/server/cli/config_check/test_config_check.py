"""`skillserve config check`: every fault is found, with its file, its key and what to do; nothing is started."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.capabilities.login.static_tokens import TokenFile
from server.cli.config_check.check import ConfigurationReport, check_configuration
from server.cli.config_check.finding import ConfigFinding, Level
from server.config.files import ConfigurationError
from server.config.machine import Machine
from server.config.settings.layers import load_settings
from server.config.settings.names import BY_PATH
from skills_core.disk.sources import Places
from tests.conftest import write_skill
from tests.server.cli.test_cli import run
from tests.server.config.test_project_file import KINDS, NAMES, USABLE, VALUES, as_toml, posix
from tests.thoroughness import examples


class Configuration:
    """The files of a user and a project."""

    def __init__(self, space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.project = space / "home", space / "project"
        self.file = self.home / ".config/skillserve/skillserve.toml"
        self.file.parent.mkdir(parents=True)
        (self.project / ".git").mkdir(parents=True)
        self.places = Places(self.home, self.project, self.home / ".config")
        monkeypatch.setenv("XDG_STATE_HOME", str(space / "state"))
        self.tokens = space / "state/skillserve/tokens.json"

    def write(self, text: str, mode: int = 0o600) -> None:
        self.file.write_text(text)
        self.file.chmod(mode)

    def check(self, **environment: str) -> ConfigurationReport:
        return check_configuration(Machine(self.places), environment)

    def found(self, **environment: str) -> list[tuple[str | None, str]]:
        return [(each.key, each.message) for each in self.check(**environment).findings]

    def only(self, **environment: str) -> ConfigFinding:
        (found,) = self.check(**environment).findings
        assert found.advice
        return found


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configuration:
    return Configuration(tmp_path.resolve(), monkeypatch)


def test_without_files_there_is_nothing_to_find(configuration: Configuration) -> None:
    report = configuration.check()
    assert report.findings == ()
    assert [each.path for each in report.files if each.exists] == []
    assert str(configuration.file) in [each.path for each in report.files]


def test_every_fault_of_the_file_is_found_with_its_key(configuration: Configuration) -> None:
    text = """
    port = 9000
    [http]
    prot = 1
    host = ""
    [login]
    leeway_seconds = 900
    algorithms = ["RS256", "none", "HS256"]
    [discovery]
    sources = [{path = "x", scop = "managed", strictness = "odd"}, {}]
    [logn]
    tokens = true
    """
    configuration.write(text)
    keys = [each.key for each in configuration.check().findings if each.level is Level.ERROR]
    assert keys == [
        *("port", "http.prot", "http.host", "login.leeway_seconds", "login.algorithms.1", "login.algorithms.2"),
        *("discovery.sources.0.strictness", "discovery.sources.0.scop", "discovery.sources.1.path", "logn"),
    ]
    messages = dict(configuration.found())
    assert "closest known name is http.port" in messages["http.prot"]
    assert "closest known name is scope" in messages["discovery.sources.0.scop"]
    assert "at most 300" in messages["login.leeway_seconds"]
    assert "expected one of RS256" in messages["login.algorithms.1"]
    assert "[login]" in messages["logn"]


def test_faults_of_variables_are_found_beside_those_of_the_file(configuration: Configuration) -> None:
    configuration.write("[http]\nport = -1\n")
    found = configuration.check(SKILLSERVE_PAGE_SIZE="many", SKILLSERVE_PROT="1", SKILLSERVE_SOURCES="x")
    assert [(each.file.split()[-1], each.level) for each in found.findings] == [
        (str(configuration.file), Level.ERROR),
        ("SKILLSERVE_PAGE_SIZE", Level.ERROR),
        ("SKILLSERVE_PROT", Level.WARNING),
        ("SKILLSERVE_SOURCES", Level.WARNING),
    ]
    assert "SKILLSERVE_PORT" in found.findings[2].message


def test_values_of_one_section_that_do_not_fit_together_are_found_once(configuration: Configuration) -> None:
    configuration.write("[login]\nissuer = 'http://id.example.com'\nintrospection_url = 'https://id.example.com/i'\n")
    assert configuration.only().key == "login.issuer"
    configuration.write("[login]\nissuer = 'https://id.example.com'\n")
    assert "audience is missing" in configuration.only().message


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (
            "[http]\ntrusted_proxies = ['x', '10.0.0.1', 'y', '::/0', 'z']",
            ["http.trusted_proxies.0", "http.trusted_proxies.2", "http.trusted_proxies.4"],
        ),
        ("[guard]\ndanger_patterns = ['(', 'x', '[']", ["guard.danger_patterns.0", "guard.danger_patterns.2"]),
        ("[tools]\ndeclared = ['a', 'b/c', 'd']", ["tools.declared.0", "tools.declared.2"]),
        ("[history]\nsources = ['plugin', 'managed', 'bundled']", ["history.sources.0", "history.sources.2"]),
        (
            "[access]\ndefault_roles = ['x', 'a', 'y']\n[access.roles]\na = ['*']",
            ["access.default_roles.0", "access.default_roles.2"],
        ),
        (
            "[access.roles]\na = ['*']\n[access.profiles]\np = ['b', 'a', 'c']",
            ["access.profiles.p.0", "access.profiles.p.2"],
        ),
        ("[access]\ndefault_roles = ['good', 'bad']\n[access.roles]\ngood = ['*']\nbad = 5", ["access.roles.bad"]),
        ("[access]\ndefault_roles = ['bad']\n[access.roles]\nbad = ['', 'x']", ["access.roles.bad.0"]),
        ("[login]\nalgorithms = ['none']", ["login.algorithms.0"]),
    ],
)
def test_each_fault_in_a_list_or_table_is_found_and_none_that_follows_from_it(
    text: str, keys: list[str], configuration: Configuration
) -> None:
    configuration.write(text)
    found = [each for each in configuration.check().findings if each.level is Level.ERROR]
    assert [each.key for each in found] == keys


@posix
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "a file that may not be read" or os.geteuid()])
@pytest.mark.parametrize("place", ["own", "trusted project", "tokens", "trust"])
def test_whatever_stands_in_the_place_of_a_file_is_one_fault_with_its_name(
    place: str, kind: str, configuration: Configuration
) -> None:
    if place == "trusted project":
        Machine(configuration.places).trust.add(configuration.project)
    places = {
        "own": configuration.file,
        "trusted project": configuration.project / "skillserve.toml",
        "tokens": configuration.tokens,
        "trust": configuration.home / ".config/skillserve/trusted.json",
    }
    path = places[place]
    path.parent.mkdir(parents=True, exist_ok=True)
    KINDS[kind](path)
    found = configuration.only()
    assert (found.level, found.file, found.key) == (Level.ERROR, str(path), None)


def test_the_file_of_an_untrusted_project_is_a_warning_and_that_of_a_trusted_one_is_checked(
    configuration: Configuration,
) -> None:
    file = configuration.project / "skillserve.toml"
    file.write_text("[discovery]\nstrictness = 'odd'\nscan_depth = -1\ntrust_workspace = true\n")
    untrusted = configuration.only()
    assert (untrusted.level, untrusted.file) == (Level.WARNING, str(file))
    Machine(configuration.places).trust.add(configuration.project)
    assert [key for key, _ in configuration.found()] == ["discovery.strictness", "discovery.scan_depth"]
    file.write_text("[discovery]\ntrust_workspace = true\n")
    assert "discovery.trust_workspace" in configuration.only().message


def test_faults_of_the_files_of_jdai_are_found_with_their_line(configuration: Configuration) -> None:
    file = configuration.home / ".jdai/skills.json"
    file.parent.mkdir()
    file.write_text('{\n"skills": {,}}')
    found = configuration.only()
    assert (found.level, found.file, found.line) == (Level.ERROR, str(file), 2)


def test_each_server_of_the_file_of_mcp_servers_is_checked_and_no_secret_is_shown(
    configuration: Configuration,
) -> None:
    file = configuration.file.parent / "mcp.json"
    servers = {
        "one": {"command": 5},
        "two": {"url": "nowhere", "headers": {"Authorization": "Bearer hunter2hunter2"}},
        "three": {"command": "x", "env": {"API_KEY": "hunter2hunter2"}},
    }
    file.write_text(json.dumps({"mcpServers": servers}))
    file.chmod(0o644)
    configuration.write("[runs]\nmcp_servers = 'mcp.json'\n")
    found = configuration.check().findings
    assert [(each.key or "").split(".")[1] for each in found if each.level is Level.ERROR] == ["one", "two"]
    assert "hunter2" not in str(found)
    if sys.platform != "win32":
        assert "can read the secrets in it: mcpServers.three" in found[-1].message


NO_KEY = "[runs]\nmodel = 'http://127.0.0.1:1/v1#m'\n"
PROVIDER = "[login]\nissuer = 'https://i.example'\naudience = 'https://s.example'\n"
ALL = "[access]\ndefault_roles = ['all']\n[access.roles]\n"
REPLICAS = f"[replicas]\nredis_url = 'redis://r:6379'\nsecret = '{'x' * 32}'\n"
CONFLICTS: dict[str, tuple[str, str, Level]] = {
    "[server]\ntransport = 'http'\n[http]\nhost = '::'\nallowed_hosts = ['x']": (
        *("http.host", "clients need no login"),
        Level.ERROR,
    ),
    "[http]\nhost = '192.0.2.1'\nallowed_hosts = ['x']": ("http.host", "clients need no login", Level.WARNING),
    "[http]\nhost = '::'\ninsecure = true": ("http.host", "any Host header", Level.WARNING),
    "[http]\ninsecure = true\n[login]\nissuer = 'https://i.example'\naudience = 'https://s.example'": (
        *("http.insecure", "no effect"),
        Level.WARNING,
    ),
    "[http]\nallowed_hosts = ['https://skills.example.com']": (
        "http.allowed_hosts.0",
        "without https://",
        Level.WARNING,
    ),
    "[http]\nallowed_hosts = ['x', '*.example.com']": ("http.allowed_hosts.1", "name each host", Level.WARNING),
    "[http]\nallowed_origins = ['skills.example.com']": ("http.allowed_origins.0", "expected a scheme", Level.WARNING),
    "[operation]\ndrain_seconds = 5\ndrain_notice_seconds = 30": (
        *("operation.drain_seconds", "the longer one counts"),
        Level.WARNING,
    ),
    "[login]\ndefault_role = 'reader'": ("login.default_role", "no effect without login.issuer", Level.WARNING),
    "[login]\ntokens = true": ("login.tokens", "there is no token", Level.WARNING),
    "[tools]\nenabled = ['run_skill']": ("tools.enabled", "no model is set", Level.WARNING),
    "[runs]\ntools = ['grep']": ("runs.tools", "no folder is named", Level.ERROR),
    "[runs]\ntools = ['grep']\nworkspace = '/no/such'": ("runs.workspace", "no such folder", Level.ERROR),
    "[runs]\nmodel_key = 'k'": ("runs.model_key", "no effect", Level.WARNING),
    "[runs]\nmodel = 'nonsense'": ("runs.model", "", Level.WARNING),
    "[evals]\njudge_key = 'k'": ("evals.judge_key", "no effect", Level.WARNING),
    "[access]\ndefault_roles = ['editor']\n[access.tools]\neditor = ['reload_skills']": (
        *("access.tools", "not switched on"),
        Level.WARNING,
    ),
    NO_KEY + "[tools]\nenabled = ['list_schedules']\n[access]\ndefault_roles = ['all']\n[access.roles]\nall = ['*']": (
        "tools.enabled",
        "no caller with roles has the tools",
        Level.WARNING,
    ),
    "[schedules]\nenabled = true": ("schedules.enabled", "no model is set", Level.WARNING),
    NO_KEY + "[tools]\nenabled = ['schedule_skill']": ("tools.enabled", "does not fire", Level.WARNING),
    "[improve]\nsources = ['explicit']\n[history]\nautomatic = false": (
        *("improve.sources", "without a history"),
        Level.WARNING,
    ),
    "[catalog]\nenabled = ['a']\ndisabled = ['a']": ("catalog.enabled", "which wins", Level.WARNING),
    "[catalog]\npinned = ['a']\ndisabled = ['a']": ("catalog.pinned", "not listed", Level.WARNING),
    "[[discovery.sources]]\npath = 'none'": ("discovery.sources.0.path", "no such folder", Level.WARNING),
    "[audit_log]\nenabled = true\nfolder = 'skillserve.toml'": ("audit_log.folder", "not a folder", Level.ERROR),
    PROVIDER + "default_role = 'admin'": ("login.default_role", "opens the admin routes to every user", Level.WARNING),
    PROVIDER + "default_role = 'boss'\nadmin_roles = ['boss', 'admin']": (
        *("login.default_role", "opens the admin routes to every user"),
        Level.WARNING,
    ),
    PROVIDER + "default_role = 'metrics'": ("login.default_role", "lets every user read the metrics", Level.WARNING),
    PROVIDER + "default_role = 'reder'\n[access.roles]\nreader = ['*']": (
        *("login.default_role", "the closest is reader"),
        Level.WARNING,
    ),
    "[login]\nadmin_roles = ['boss']": ("login.admin_roles", "no effect without a login", Level.WARNING),
    "[http]\npath = '/admin/status'": ("http.path", "admin routes", Level.ERROR),
    "[http]\npath = '/admin/reload/'": ("http.path", "admin routes", Level.ERROR),
    "[http]\npath = '/admin'": ("http.path", "admin routes", Level.ERROR),
    "[http]\npath = '/health/'": ("http.path", "probes or figures", Level.ERROR),
    "[http]\npath = '/.well-known/oauth-protected-resource'": ("http.path", "metadata of the login", Level.ERROR),
    "[http]\ntrusted_proxies = ['10.0.0.1', '0.0.0.0/0']": (
        *("http.trusted_proxies.1", "whoever connects from there chooses"),
        Level.WARNING,
    ),
    "[http]\ntrusted_proxies = ['::/0']": ("http.trusted_proxies.0", "chooses the address", Level.WARNING),
    "[http]\ntrusted_proxies = ['0.0.0.0/1']": ("http.trusted_proxies.0", "chooses the address", Level.WARNING),
    ALL + "all = ['tags:x']": ("access.roles.all.0", "tag:", Level.WARNING),
    ALL + "all = ['*', 'Source:managed']": ("access.roles.all.1", "source:", Level.WARNING),
    ALL + "all = ['tag:']": ("access.roles.all.0", "names no tag", Level.WARNING),
    ALL + "all = ['source:mangaed']": ("access.roles.all.0", "managed", Level.WARNING),
    ALL + "all = ['source:skills']": ("access.roles.all.0", "expected a scope", Level.WARNING),
    ALL + "all = ['source:/no/such/']": ("access.roles.all.0", "expected the path /no/such", Level.WARNING),
    "[access]\ndefault_roles = ['all']\n[access.tools]\nall = ['realod*']": (
        *("access.tools.all.0", "the closest is reload_skills"),
        Level.WARNING,
    ),
    "[access.roles]\nreader = ['*']\neditor = ['*']": ("access.roles", "reader, editor", Level.WARNING),
    "[access]\ndefault_roles = ['reader']\n[access.roles]\nreader = ['*']\neditor = ['*']": (
        *("access.roles", "editor: no caller has"),
        Level.WARNING,
    ),
    "[access.tools]\neditor = ['skill__tool']": ("access.tools", "no caller has", Level.WARNING),
    REPLICAS + NO_KEY: ("runs.store", "each replica", Level.WARNING),
    REPLICAS + NO_KEY + "store = 'runs.db'": ("runs.store", "each replica", Level.WARNING),
    "[history]\nsources = ['none/such']": ("history.sources.0", "no such folder", Level.WARNING),
    "[audit_log]\nenabled = false\n[login]\nissuer = 'https://i.example'\naudience = 'https://s.example'": (
        *("audit_log.enabled", "nothing is recorded"),
        Level.WARNING,
    ),
}


@pytest.mark.parametrize("text", CONFLICTS)
def test_values_that_work_against_one_another_are_found(text: str, configuration: Configuration) -> None:
    configuration.write(text)
    key, message, level = CONFLICTS[text]
    found = configuration.only()
    assert (found.key, found.level, found.file) == (key, level, str(configuration.file))
    assert message in found.message


def test_origins_refuse_nobody_where_any_host_is_accepted(configuration: Configuration) -> None:
    configuration.write("[http]\nhost = '0.0.0.0'\ninsecure = true\nallowed_origins = ['https://x']\n")
    assert [key for key, _ in configuration.found()] == ["http.host", "http.allowed_origins"]
    assert "any Origin header" in configuration.found()[1][1]


HARMLESS = [
    PROVIDER + "default_role = 'reader'\n[access.roles]\nreader = ['*']",
    PROVIDER + "[access.roles]\nreader = ['release-*', 'tag:general', 'source:managed', 'token:usage']",
    "[http]\ntrusted_proxies = ['10.0.0.0/8', 'fc00::/7', '127.0.0.1', '::1', '172.16.0.0/12', 'dns:proxy.team']",
    "[http]\npath = '/administration'",
    "[http]\npath = '/'",
    "[access]\ndefault_roles = ['all']\n[access.tools]\nall = ['*', 'reload_*', 'deploy__*', 'deploy*', '*__run']",
    REPLICAS,
    REPLICAS + NO_KEY + "store = 'postgresql://u@h/d'",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_can_be_meant_is_not_reported(text: str, configuration: Configuration) -> None:
    configuration.write(text)
    assert configuration.found() == []


def test_a_source_of_a_role_is_a_folder_by_its_real_path(configuration: Configuration) -> None:
    real, link = configuration.home / "skills", configuration.home / "link"
    real.mkdir()
    link.symlink_to(real)
    configuration.write(f"{ALL}all = ['source:{real}', 'source:{link}']\n")
    found = configuration.only()
    assert (found.key, str(real) in found.message) == ("access.roles.all.1", True)


def test_names_and_tags_that_almost_fit_a_skill_are_reported(configuration: Configuration) -> None:
    write_skill(configuration.home / ".agents/skills", "release-notes", fields="tags: [general]")
    configuration.write(f"{ALL}all = ['release-notes', 'relase-notes', 'other', 'tag:general', 'tag:generl']\n")
    assert [(key, message.rpartition(" ")[2]) for key, message in configuration.found()] == [
        ("access.roles.all.1", "release-notes"),
        ("access.roles.all.4", "tag:general"),
    ]


def test_a_role_that_selects_no_skill_is_reported_with_its_selectors_and_near_names(
    configuration: Configuration,
) -> None:
    write_skill(configuration.home / ".agents/skills", "release-notes", fields="tags: [general]")
    configuration.write(f"{ALL}all = ['*']\nnobody = ['rel-*', 'tag:gen', 'source:plugin']\n[login]\ntokens = true\n")
    (found,) = (each for each in configuration.check().findings if each.key == "access.roles.nobody")
    assert found.level is Level.WARNING
    for part in ("nobody", "1 skill", "rel-*", "release-notes", "tag:gen", "tag:general", "source:plugin"):
        assert part in found.message
    assert "skillserve list --as nobody" in found.advice


@pytest.mark.parametrize("entry", ["release-*", "release-notes", "tag:General", "source:legacy", "*"])
def test_a_role_that_selects_a_served_skill_is_not_reported(entry: str, configuration: Configuration) -> None:
    write_skill(configuration.home / ".agents/skills", "release-notes", fields="tags: [general]")
    folder = configuration.home / "more"
    write_skill(folder, "other")
    entry = entry.replace("source:legacy", f"source:{folder}")
    configuration.write(f"{ALL}all = ['none', '{entry}']\n[[discovery.sources]]\npath = '{folder}'\n")
    assert configuration.found() == []


def test_roles_are_not_judged_by_folders_without_skills(configuration: Configuration) -> None:
    """The skills may be named on the command line of the server."""
    configuration.write(f"{ALL}all = ['release-notes', 'tag:general']\n")
    assert configuration.found() == []


def test_a_role_of_a_token_that_is_no_role_is_reported(configuration: Configuration) -> None:
    tokens = TokenFile(configuration.tokens)
    for role in ("reader", "admin", "metrics", "edtor"):
        tokens.add(f"of-{role}", (role,), None)
    configuration.write("[login]\ntokens = true\n[access.roles]\nreader = ['*']\neditor = ['*']\n")
    found = configuration.only()
    assert (found.key, found.level) == ("login.tokens", Level.WARNING)
    assert "of-edtor: edtor" in found.message


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root can read everything")
def test_a_source_that_cannot_be_read_is_reported(configuration: Configuration) -> None:
    folder = configuration.home / "skills"
    folder.mkdir(mode=0)
    configuration.write(f"[[discovery.sources]]\npath = '{folder}'\n")
    assert "cannot be read" in configuration.only().message


def test_a_collector_without_a_scheme_is_found(configuration: Configuration) -> None:
    found = configuration.only(OTEL_EXPORTER_OTLP_ENDPOINT="user:xyzzy@localhost:4318")
    assert (found.level, found.file) == (Level.WARNING, "the environment variable OTEL_EXPORTER_OTLP_ENDPOINT")
    assert "http://" in found.message
    assert "xyzzy" not in str(found)
    for usual in ("http://localhost:4318", "HTTPS://collector", ""):
        assert configuration.found(OTEL_EXPORTER_OTLP_ENDPOINT=usual) == []
    precedes = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"}
    assert configuration.found(OTEL_EXPORTER_OTLP_ENDPOINT="localhost", **precedes) == []
    assert configuration.found(OTEL_EXPORTER_OTLP_ENDPOINT="localhost", OTEL_TRACES_EXPORTER="none") == []


def test_tokens_that_nobody_can_use_are_found(configuration: Configuration) -> None:
    TokenFile(configuration.tokens).add("anna", (), None)
    assert (configuration.only().key, configuration.only().file) == ("login.tokens", "defaults")
    configuration.write("[login]\ntokens = true\n")
    assert configuration.found() == []


@posix
@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o644, "[admin]\ntoken = '0123456789abcdef'\n", "can read the secrets in it: admin.token"),
        (0o640, "[runs]\nstore = 'postgresql://u:p@h/d'\n", "can read the secrets in it: runs.store"),
        (0o620, "[http]\nport = 1\n", "can change it"),
        (0o644, "[http]\nport = 1\n", None),
        (0o600, "[admin]\ntoken = '0123456789abcdef'\n", None),
    ],
)
def test_secrets_that_others_can_read_and_settings_that_they_can_change_are_told(
    mode: int, text: str, said: str | None, configuration: Configuration
) -> None:
    configuration.write(text, mode)
    assert [said in message for _, message in configuration.found() if said] == [True] * bool(said)
    assert "0123456789abcdef" not in str(configuration.check())


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(said=st.dictionaries(NAMES, VALUES, min_size=1))
def test_the_check_finds_an_error_exactly_if_the_server_would_not_load_its_settings(
    said: dict[str, Any], configuration: Configuration
) -> None:
    configuration.file.write_bytes(as_toml(said))
    try:
        load_settings({}, {}, configuration.places.config_home)
    except ConfigurationError:
        fails = True
    else:
        fails = False
    errors = [each for each in configuration.check().findings if each.level is Level.ERROR]
    if fails:
        assert errors
    else:
        # These settings load, but the server does not start with them.
        keys = {
            "http.host",
            "http.path",
            "runs.store",
            "search.reranker",
            "runs.tools",
            "runs.workspace",
            "audit_log.folder",
            "runs.mcp_servers",
            None,
        }
        assert {each.key for each in errors} <= keys


def test_each_setting_alone_can_be_checked(configuration: Configuration) -> None:
    assert USABLE.keys() <= {".".join(path) for path in BY_PATH}
    for name, value in USABLE.items():
        configuration.write(f"{name} = {value}\n")
        for each in configuration.check().findings:
            assert each.message
            assert each.advice
            assert "0123456789abcdef" not in str(each)


def test_the_command_prints_what_was_found_and_its_exit_code_tells_of_errors(tmp_path: Path) -> None:
    places = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    file = tmp_path / "skillserve/skillserve.toml"
    file.parent.mkdir()
    file.write_text("[http]\nprot = 1\n")
    bad = run("config", "check", **places)
    assert bad.returncode == 1
    assert f"{file}: error: http.prot: unknown; the closest known name is http.port" in bad.stdout
    assert bad.stdout.endswith("1 error, 0 warnings\n")
    found = json.loads(run("config", "check", "--json", **places).stdout)
    assert (found["ok"], found["findings"][0]["key"]) == (False, "http.prot")
    file.write_text("[http]\nport = 1\n")
    good = run("config", "check", **places)
    assert (good.returncode, good.stdout.splitlines()[-1]) == (0, "0 errors, 0 warnings")


def test_a_file_of_a_secret_that_is_not_there_is_found(configuration: Configuration, tmp_path: Path) -> None:
    found = configuration.only(SKILLSERVE_ADMIN_TOKEN_FILE=str(tmp_path / "missing"))
    assert (found.level, found.key, found.file) == (
        Level.ERROR,
        "admin.token",
        "the environment variable SKILLSERVE_ADMIN_TOKEN_FILE",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such owners")
def test_a_folder_of_another_user_is_no_place_for_the_audit_log(
    configuration: Configuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = configuration.home / "log"
    folder.mkdir(mode=0o700)
    configuration.write(f"[audit_log]\nenabled = true\nfolder = '{folder}'")
    assert configuration.found() == []
    # The file of settings is still that of this user.
    monkeypatch.setattr("server.capabilities.auditlog.log_folder.os.geteuid", lambda: os.getuid() + 1)
    assert ("audit_log.folder", f"{folder}: it belongs to another user") in configuration.found()
