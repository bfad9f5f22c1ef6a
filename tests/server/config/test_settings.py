"""What settings hold, as it is read from a file or from variables, and what is told of what cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.operation.settings import AdminSettings
from server.capabilities.runs.settings import RunSettings
from server.cli.config_check.values import field_types, is_secret
from server.config.files import ConfigurationError
from server.config.settings.layers import load_settings
from server.config.settings.model import Settings
from server.config.settings.names import BY_OPTION, BY_PATH, SECTIONS, value_of
from server.config.settings.skills import ClientSettings, Conventions, SourceSettings
from server.config.settings.tools import OptionalTool
from server.config.values import SecretStr
from skills_core.disk.sources import Scope
from tests.server.settings import make_settings

SECRET = "hidden-thing-that-is-long-enough"  # noqa: S105 - planted

Read = Callable[[str], Settings]


def name_in_files(option: str) -> str:
    return ".".join(BY_OPTION[option].path)


@pytest.fixture
def from_file(tmp_path: Path) -> Read:
    """Read the settings of a user with such a file."""

    def read(text: str) -> Settings:
        file = tmp_path / "config" / "skillserve" / "skillserve.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return load_settings({}, {}, tmp_path / "config")

    return read


@pytest.fixture
def from_variable(tmp_path: Path) -> Callable[[str, str], Settings]:
    """Read the settings of a user who set this alone."""
    return lambda name, text: load_settings({}, {f"SKILLSERVE_{name.upper()}": text}, tmp_path / "config")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("gitignore", "yes", True),
        ("gitignore", "True", True),
        ("usage", "OFF", False),
        ("usage", " 0 ", False),
        ("page_size", "7", 7),
        ("page_size", " 7 ", 7),
        ("conventions", "project", Conventions.PROJECT),
        ("pinned", "a, b,", ("a", "b")),
        ("pinned", "7, true", ("7", "true")),
        ("tools", "skills_status", (OptionalTool("skills_status"),)),
        ("model", "null", "null"),
        ("run_store", "null", SecretStr("null")),
        ("model_key", SECRET, SecretStr(SECRET)),
    ],
)
def test_a_variable_is_text_that_is_read_by_the_type_of_its_setting(
    name: str, text: str, value: object, from_variable: Callable[[str, str], Settings]
) -> None:
    read = value_of(from_variable(name, text), BY_OPTION[name].path)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("usage", "false", False),
        ("page_size", "7", 7),
        ("page_size", "7.0", 7),
        ("page_size", "'7'", 7),
        ("conventions", "'off'", Conventions.OFF),
        ("pinned", "['a', 'b']", ("a", "b")),
        ("precedence", "['legacy']", (Scope.LEGACY,)),
        ("client_budgets", "{a = 2}", {"a": 2}),
        ("tool_names", "{a = {b = 'c'}}", {"a": {"b": "c"}}),
        ("sources", "[{path = '/p', scope = 'plugin'}]", (SourceSettings(path="/p", scope=Scope.PLUGIN),)),
        ("admin_token", f"'{SECRET}'", SecretStr(SECRET)),
    ],
)
def test_a_value_of_a_file_is_read_by_the_type_of_its_setting(
    name: str, text: str, value: object, from_file: Read
) -> None:
    read = value_of(from_file(f"{name_in_files(name)} = {text}"), BY_OPTION[name].path)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("catalog.usage = 'maybe'", "catalog.usage: 'maybe': expected true or false"),
        ("catalog.usage = 2", "catalog.usage: 2: expected true or false"),
        ("http.port = -1", "http.port: -1: expected a whole number of at least 0 and at most 65535"),
        ("http.port = '70000'", "http.port: '70000': expected a whole number of at least 0 and at most 65535"),
        (f"http.port = {'9' * 30}", f"http.port: {'9' * 30}: expected a whole number of"),
        (f"http.port = '{'9' * 5000}'", f"http.port: '{'9' * 79}: expected a whole number of"),
        (f"http.port = 0x{'f' * 5000}", "http.port: a number with thousands of digits: expected a whole number of"),
        (f"http.port = {'9' * 5000}", "Exceeds the limit"),
        ("http.port = true", "http.port: True: expected a whole number"),
        ("http.port = 1.5", "http.port: 1.5: expected a whole number"),
        (
            "server.page_size = 'many'",
            "server.page_size: 'many': expected a whole number of at least 1 and at most 10000",
        ),
        ("runs.tokens = 0", "runs.tokens: 0: expected a whole number of at least 1"),
        ("http.path = 'mcp'", "http.path: 'mcp': expected text that matches the pattern ^/[A-Za-z0-9_./-]*$"),
        ("http.path = 1", "http.path: 1: expected text that matches the pattern"),
        ("search.reranker = 'x'", "search.reranker: 'x': expected text that matches the pattern"),
        ("http.host = ''", "http.host: '': expected text that is not empty"),
        ("runs.model = ''", "runs.model: '': expected text that is not empty"),
        ("watch.mode = 'maybe'", "watch.mode: 'maybe': expected one of auto, native, poll, off"),
        ("watch.mode = 1", "watch.mode: 1: expected one of auto, native, poll, off"),
        ("catalog.pinned = 'a'", "catalog.pinned: 'a': expected a list"),
        ("catalog.pinned = ['a', 1]", "catalog.pinned.1: 1: expected text"),
        ("discovery.precedence = ['legacy', 'upstairs']", "discovery.precedence.1: 'upstairs': expected one of "),
        ("guard.danger_patterns = ['a', '(?=x)']", "guard.danger_patterns.1: the pattern '(?=x)' cannot be used"),
        ("tools.declared = ['x']", "tools.declared.0: 'x': expected SKILL/TOOL"),
        ("scripts.environment = ['A=B']", "scripts.environment.0: 'A=B': expected a variable's name"),
        ("discovery.sources = ['']", "discovery.sources.0.path: '': expected text that is not empty"),
        ("discovery.sources = [{scope = 'plugin'}]", "discovery.sources.0.path: missing"),
        ('discovery.sources = ["a\\u0000b"]', "discovery.sources.0: '"),
        ("discovery.sources = [{path = '/p'}, {path = '/p', more = 1}]", "discovery.sources.1.more: unknown"),
        (
            "discovery.sources = [{path = '/p', strictness = 'x'}]",
            "discovery.sources.0.strictness: 'x': expected one of ",
        ),
        (
            "discovery.sources = [{path = '/p', gitignore = 'x'}]",
            "discovery.sources.0.gitignore: 'x': expected true or false",
        ),
        ("discovery.sources = [1]", "discovery.sources.0: 1: expected a table"),
        ("discovery.sources = 3", "discovery.sources: 3: expected a list"),
        ("clients.budgets = {a = 1, b = 0}", "clients.budgets.b: 0: expected a whole number of at least 1"),
        ("clients.tool_names = {a = {b = 'c'}, d = 1}", "clients.tool_names.d: 1: expected a table"),
        ("clients.tool_names = {a = {b = 'c', d = 1}}", "clients.tool_names.a.d: 1: expected text"),
        ("nothing = 1", "nothing: unknown; expected one of [server], [http], "),
        ("http.prot = 1", "http.prot: unknown; the closest known name is http.port"),
        ("watching.mode = 1", "watching: unknown; the closest known name is [watch]"),
        ("http.level = 1", "http.level: unknown; the closest known name is logging.level"),
        ("http = 1", "http: expected the table [http]"),
        ("watch_debounce_ms = 1", "watch_debounce_ms: write debounce_ms under [watch]"),
        ("watch = 'off'", "watch: write mode under [watch]"),
        ("tools = ['skills_status']", "tools: write enabled under [tools]"),
        ("sources = ['x']", "sources: write sources under [discovery]"),
        ("runs.run_turns = 1", "runs.run_turns: write turns under [runs]"),
        ("runs.port = 1", "runs.port: write port under [http]"),
        ("'http.port' = 1", "http.port: unknown; the closest known name is http.port"),
        ("project.discovery.gitignore = true", "project: unknown"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_file_and_the_way_to_it(
    text: str, told: str, from_file: Read
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_file(text)
    where, _, what = str(caught.value).partition("skillserve.toml: ")
    assert where
    assert what.startswith(told)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("usage", "maybe", "'maybe': expected true or false"),
        ("watch_debounce_ms", "soon", "'soon': expected a whole number"),
        ("tools", "skills_status, x", "'x': expected one of skill_context"),
        ("script_workspace", "here", "'here': expected the absolute path of a folder"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(
    name: str, text: str, told: str, from_variable: Callable[[str, str], Settings]
) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"^the environment variable SKILLSERVE_{name.upper()}: {name_in_files(name)}"
    ) as bad:
        from_variable(name, text)
    assert told in str(bad.value)


def test_each_setting_has_one_name_outside_of_files_and_none_is_the_name_of_two() -> None:
    assert len(BY_OPTION) == len(BY_PATH)
    assert {setting.section for setting in BY_OPTION.values()} == {*SECTIONS}


def test_a_flag_that_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^--log-level: logging\.level: 'loud': expected one of debug, info"):
        load_settings({"log_level": "loud"}, {}, tmp_path)


@pytest.mark.parametrize("name", ["admin_token", "model_key", "run_store"])
@pytest.mark.parametrize("value", [f"['{SECRET}']", f"{{a = '{SECRET}'}}"])
def test_a_secret_that_does_not_fit_is_not_told(name: str, value: str, from_file: Read) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name_in_files(name)}: expected text$"):
        from_file(f"{name_in_files(name)} = {value}")


def test_a_secret_is_in_no_text() -> None:
    settings = make_settings(admin_token=SECRET, model_key=SECRET, run_store=SECRET)
    assert settings.section(AdminSettings).token == SecretStr(SECRET)
    assert SECRET not in f"{settings.section(AdminSettings).token} {settings!r}"


def test_settings_are_frozen_and_compare_by_value() -> None:
    given: dict[str, Any] = {"pinned": ("a",), "client_budgets": {"a": 1, "b": 2}, "model_key": SECRET}
    settings = make_settings(**given)
    same = settings.with_sections(ClientSettings(budgets={"b": 2, "a": 1}), copy(settings.section(RunSettings)))
    assert settings == same
    assert len({settings, same, Settings()}) == 2
    with pytest.raises(AttributeError):
        settings.http.port = 5  # type: ignore[misc]


def test_each_secret_can_come_from_a_file_that_a_variable_names(tmp_path: Path) -> None:
    secrets = {
        setting.path
        for setting in BY_PATH.values()
        if is_secret(field_types(SECTIONS[setting.section].kind)[setting.key])
    }
    assert {setting.path for setting in BY_PATH.values() if setting.file_variable} == secrets - {("replicas", "secret")}
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    read = load_settings({}, {"SKILLSERVE_ADMIN_TOKEN_FILE": str(file), "SKILLSERVE_MODEL_KEY_FILE": ""}, tmp_path)
    assert read.section(AdminSettings).token == SecretStr(SECRET)
    assert read.section(RunSettings).model_key is None


def test_a_secret_comes_from_a_file_behind_a_link_as_containers_have_it(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data/token").write_text(SECRET)
    (tmp_path / "token").symlink_to("..data/token")
    read = load_settings({}, {"SKILLSERVE_ADMIN_TOKEN_FILE": str(tmp_path / "token")}, tmp_path)
    assert read.section(AdminSettings).token == SecretStr(SECRET)


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe hidden", b"hidden" * 20_000, b"folder", None, b"both"])
def test_a_file_without_a_usable_secret_is_refused_without_its_content(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content == b"folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    both = {"SKILLSERVE_ADMIN_TOKEN": SECRET} if content == b"both" else {}
    with pytest.raises(ConfigurationError, match="SKILLSERVE_ADMIN_TOKEN_FILE") as refused:
        load_settings({}, {"SKILLSERVE_ADMIN_TOKEN_FILE": str(file), **both}, tmp_path)
    assert "hidden" not in str(refused.value)


def test_the_path_of_a_secret_is_absolute(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absolute"):
        load_settings({}, {"SKILLSERVE_ADMIN_TOKEN_FILE": "token"}, tmp_path)


@pytest.mark.parametrize(
    ("file", "flag", "is_sent"),
    [
        ("http://127.0.0.1:1/v1#a", "http://127.0.0.1:1/v1#b", True),
        ("http://127.0.0.1:1/v1#a", "http://127.0.0.1:1/v1/#b", True),
        ("http://127.0.0.1:1/v1#a", "http://127.0.0.1:2/v1#a", False),
        ("anthropic:a", "http://127.0.0.1:2/v1#a", False),
        (None, "http://127.0.0.1:2/v1#a", True),
    ],
)
def test_a_key_is_for_the_address_beside_it(tmp_path: Path, file: str | None, flag: str, *, is_sent: bool) -> None:
    """A key in a file is not sent to the server that a flag or a variable names."""
    own = tmp_path / "skillserve/skillserve.toml"
    own.parent.mkdir()
    model = f"model = '{file}'\n" if file else ""
    own.write_text(f"[runs]\n{model}model_key = 'secret'\n")
    for flags, environment in (({"model": flag}, {}), ({}, {"SKILLSERVE_MODEL": flag})):
        assert (load_settings(flags, environment, tmp_path).section(RunSettings).model_key is not None) == is_sent
    both = load_settings({"model": flag}, {"SKILLSERVE_MODEL": "http://x/v1#y", "SKILLSERVE_MODEL_KEY": "k"}, tmp_path)
    assert both.section(RunSettings).model_key is None
    variables = {"SKILLSERVE_MODEL": flag, "SKILLSERVE_MODEL_KEY": "k"}
    assert load_settings({}, variables, tmp_path).section(RunSettings).model_key is not None
