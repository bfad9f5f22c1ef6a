"""What settings hold, as it is read from a file or from variables, and what is told of what cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from server.config.settings import (
    ConfigurationError,
    Conventions,
    OptionalTool,
    Settings,
    SourceSettings,
    load_settings,
)
from server.config.values import SecretStr
from skills_core.sources import Scope

SECRET = "hidden-thing-that-is-long-enough"  # noqa: S105 - planted

Read = Callable[[str], Settings]


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
        ("tools", "skills_status", (OptionalTool.SKILLS_STATUS,)),
        ("model", "null", "null"),
        ("run_store", "null", SecretStr("null")),
        ("model_key", SECRET, SecretStr(SECRET)),
    ],
)
def test_a_variable_is_text_that_is_read_by_the_type_of_its_setting(
    name: str, text: str, value: object, from_variable: Callable[[str, str], Settings]
) -> None:
    read = getattr(from_variable(name, text), name)
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
    read = getattr(from_file(f"{name} = {text}"), name)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("usage = 'maybe'", "usage: 'maybe': expected true or false"),
        ("usage = 2", "usage: 2: expected true or false"),
        ("port = -1", "port: -1: expected a whole number of at least 0 and at most 65535"),
        ("port = '70000'", "port: '70000': expected a whole number of at least 0 and at most 65535"),
        (f"port = {'9' * 30}", f"port: {'9' * 30}: expected a whole number of"),
        (f"port = '{'9' * 5000}'", f"port: '{'9' * 79}: expected a whole number of"),
        (f"port = 0x{'f' * 5000}", "port: a number of thousands of digits: expected a whole number of"),
        (f"port = {'9' * 5000}", "Exceeds the limit"),
        ("port = true", "port: True: expected a whole number"),
        ("port = 1.5", "port: 1.5: expected a whole number"),
        ("page_size = 'many'", "page_size: 'many': expected a whole number of at least 1 and at most 10000"),
        ("run_tokens = 0", "run_tokens: 0: expected a whole number of at least 1"),
        ("path = 'mcp'", "path: 'mcp': expected text that the pattern ^/[A-Za-z0-9_./-]*$ matches"),
        ("path = 1", "path: 1: expected text that the pattern"),
        ("reranker = 'x'", "reranker: 'x': expected text that the pattern"),
        ("host = ''", "host: '': expected text that is not empty"),
        ("model = ''", "model: '': expected text that is not empty"),
        ("watch = 'maybe'", "watch: 'maybe': expected one of auto, native, poll, off"),
        ("watch = 1", "watch: 1: expected one of auto, native, poll, off"),
        ("pinned = 'a'", "pinned: 'a': expected a list"),
        ("pinned = ['a', 1]", "pinned.1: 1: expected text"),
        ("precedence = ['legacy', 'upstairs']", "precedence.1: 'upstairs': expected one of "),
        ("danger_patterns = ['a', '(?=x)']", "danger_patterns: the pattern '(?=x)' cannot be used"),
        ("skill_tools = ['x']", "skill_tools: 'x': expected SKILL/TOOL"),
        ("script_environment = ['A=B']", "script_environment: 'A=B': expected a variable's name"),
        ("sources = ['']", "sources.0.path: '': expected text that is not empty"),
        ("sources = [{scope = 'plugin'}]", "sources.0.path: missing"),
        ('sources = ["a\\u0000b"]', "sources: '"),
        ("sources = [{path = '/p'}, {path = '/p', more = 1}]", "sources.1.more: unknown"),
        ("sources = [{path = '/p', strictness = 'x'}]", "sources.0.strictness: 'x': expected one of "),
        ("sources = [{path = '/p', gitignore = 'x'}]", "sources.0.gitignore: 'x': expected true or false"),
        ("sources = [1]", "sources.0: 1: expected a table"),
        ("sources = 3", "sources: 3: expected a list"),
        ("client_budgets = {a = 1, b = 0}", "client_budgets.b: 0: expected a whole number of at least 1"),
        ("tool_names = {a = {b = 'c'}, d = 1}", "tool_names.d: 1: expected a table"),
        ("tool_names = {a = {b = 'c', d = 1}}", "tool_names.a.d: 1: expected text"),
        ("nothing = 1", "nothing: unknown"),
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
        ("tools", "skills_status, x", "'x': expected one of skills_status"),
        ("script_workspace", "here", "'here': expected the absolute path of a folder"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(
    name: str, text: str, told: str, from_variable: Callable[[str, str], Settings]
) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"^the environment variable SKILLSERVE_{name.upper()}: {name}"
    ) as bad:
        from_variable(name, text)
    assert told in str(bad.value)


def test_a_flag_that_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^--log-level: log_level: 'loud': expected one of debug, info"):
        load_settings({"log_level": "loud"}, {}, tmp_path)


@pytest.mark.parametrize("name", ["admin_token", "model_key", "run_store"])
@pytest.mark.parametrize("value", [f"['{SECRET}']", f"{{a = '{SECRET}'}}"])
def test_a_secret_that_does_not_fit_is_not_told(name: str, value: str, from_file: Read) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}: expected text$"):
        from_file(f"{name} = {value}")


def test_a_secret_is_in_no_text() -> None:
    secret = SecretStr(SECRET)
    assert SECRET not in f"{secret} {secret!r} {Settings(admin_token=secret, model_key=secret, run_store=secret)!r}"


def test_settings_are_frozen_and_compare_by_value() -> None:
    given: dict[str, Any] = {"pinned": ("a",), "client_budgets": {"a": 1, "b": 2}, "model_key": SecretStr(SECRET)}
    settings = Settings(**given)
    same = replace(settings, client_budgets={"b": 2, "a": 1}, model_key=SecretStr(SECRET))
    assert settings == same
    assert len({settings, same, Settings()}) == 2
    with pytest.raises(AttributeError):
        settings.port = 5  # type: ignore[misc]
