"""The file of MCP servers: accepted formats, error messages and recognized secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.runs.mcp_config import ServerSpec, file_secrets, parse_servers, read_servers
from server.config.files import ConfigurationError
from skills_core.guard.tool import Secrets

FILE = Path("/home/me/mcp.json")


def parsed(servers: Any, **environment: str) -> tuple[ServerSpec, ...]:
    return parse_servers(FILE, json.dumps({"mcpServers": servers}), environment)


def test_a_program_has_arguments_environment_and_directory() -> None:
    (spec,) = parsed({"a": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}, "cwd": "sub"}})
    assert (spec.name, spec.command, spec.environment) == ("a", ("npx", "-y", "x"), {"K": "v"})
    assert spec.directory == Path("/home/me/sub")


def test_the_home_of_an_unknown_user_is_a_folder_like_any_other() -> None:
    (spec,) = parsed({"a": {"command": "npx", "cwd": "~nobody-of-this-name/x"}})
    assert spec.directory == Path("/home/me/~nobody-of-this-name/x")


@pytest.mark.parametrize("kind", [{}, {"type": "http"}, {"type": "streamable-http"}, {"type": "sse"}])
def test_an_address_has_headers(kind: dict[str, str]) -> None:
    (spec,) = parsed({"a": {**kind, "url": "https://x.example/mcp", "headers": {"A": "b"}}})
    assert spec.address is not None
    assert (spec.address.url, spec.address.headers) == ("https://x.example/mcp", (("A", "b"),))
    assert spec.sse is (kind == {"type": "sse"})


def test_environment_variables_are_expanded_in_all_values() -> None:
    a, b = parsed(
        {
            "a": {
                "command": "${HOME}/x",
                "args": ["${env:K}", "${NONE:-other}", "$K", "${K", "${V}"],
                "env": {"E": "${K}${K}"},
            },
            "b": {"url": "https://${H}/mcp", "headers": {"Authorization": "Bearer ${K}"}},
        },
        HOME="/h",
        K="key",
        H="x.example",
        V="${input:as it stands}",
    )
    assert a.command == ("/h/x", "key", "other", "$K", "${K", "${input:as it stands}")
    assert a.environment == {"E": "keykey"}
    assert b.address is not None
    assert b.address.headers == (("Authorization", "Bearer key"),)


def test_the_format_of_vs_code_is_accepted() -> None:
    (spec,) = parse_servers(FILE, '{"inputs": [], "servers": {"a": {"type": "stdio", "command": "x"}}}', {})
    assert (spec.name, spec.command) == ("a", ("x",))
    with pytest.raises(ConfigurationError, match=r"mcp\.json: servers\.a\.command: expected a non-empty string"):
        parse_servers(FILE, '{"servers": {"a": {"command": []}}}', {})


@pytest.mark.parametrize("key", ["url", "httpUrl", "serverUrl"])
def test_the_url_keys_of_all_clients_are_accepted(key: str) -> None:
    (spec,) = parsed({"a": {key: "https://x.example/mcp?k=${K}"}}, K="hidden-key")
    assert spec.address is not None
    assert spec.address.url == "https://x.example/mcp?k=hidden-key"
    assert dict(spec.secrets)[key] == spec.address.url
    with pytest.raises(ConfigurationError, match=rf"mcpServers\.a\.{key} or headers: expected the URL"):
        parsed({"a": {key: "ftp://x"}})


def test_the_key_for_streamable_http_is_preferred() -> None:
    (spec,) = parsed({"a": {"url": "https://x.example/sse", "httpUrl": "https://x.example/mcp"}})
    assert spec.address is not None
    assert spec.address.url == "https://x.example/mcp"


def test_the_type_local_is_a_program() -> None:
    (spec,) = parsed({"a": {"type": "local", "command": "x", "args": [], "tools": ["*"]}})
    assert spec.command == ("x",)


def test_numbers_count_as_their_text() -> None:
    a, b = parsed(
        {
            "a": {"command": "x", "args": ["--port", 3000, -1.5], "env": {"PORT": 3000, "SOME_TOKEN": 123456}},
            "b": {"url": "http://x/", "headers": {"X-Version": 2}},
        }
    )
    assert (a.command, a.environment) == (("x", "--port", "3000", "-1.5"), {"PORT": "3000", "SOME_TOKEN": "123456"})
    assert ("env.SOME_TOKEN", "123456") in a.secrets
    assert b.address is not None
    assert b.address.headers == (("X-Version", "2"),)


def test_null_values_count_as_absent() -> None:
    nothing = dict.fromkeys(("type", "url", "cwd", "args", "env", "headers", "trusted", "disabled"))
    a, b = parsed(
        {
            "a": {**nothing, "command": "x", "env": {"UNSET": None, "SET": "1"}},
            "b": {**nothing, "command": None, "url": "http://x/", "headers": {"A": None}},
        }
    )
    assert (a.command, a.environment, a.directory) == (("x",), {"SET": "1"}, None)
    assert b.address is not None
    assert b.address.headers == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Bearer ${input:tok}", "${input:tok}"),
        ("${workspaceFolder.x}", "${workspaceFolder.x}"),
        ("${file:/home/me/key}", "${file:/home/me/key}"),
        ("${env:K}${/}", "${/}"),
        ("${K:-{secret}}", "${…}"),
        ("${config:K:-secret}", "${…}"),
        ("${}", "${…}"),
    ],
)
@pytest.mark.parametrize("place", ["args", "env", "url", "headers"])
def test_unsupported_references_are_reported_without_their_values(place: str, text: str, named: str) -> None:
    entries: dict[str, dict[str, Any]] = {
        "args": {"command": "x", "args": [text]},
        "env": {"command": "x", "env": {"E": text}},
        "url": {"url": text},
        "headers": {"url": "http://x/", "headers": {"E": text}},
    }
    with pytest.raises(ConfigurationError) as caught:
        parsed({"a": entries[place]}, K="k")
    assert f"mcpServers.a.{place}" in str(caught.value)
    assert f": {named} is not supported" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_disabled_servers_are_left_out() -> None:
    assert parsed({"a": {"command": "x", "disabled": True}, "b": {"command": "x", "enabled": False}}) == ()


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        (None, "expected {"),
        ([], "expected {"),
        ({"a": 1}, "mcpServers.a: expected an object"),
        ({"a": {}}, "mcpServers.a.url: expected a non-empty string"),
        ({"a": {"command": ""}}, "mcpServers.a.command: expected a non-empty string"),
        ({"a": {"command": "x", "args": "y"}}, "mcpServers.a.args: expected a list of strings"),
        ({"a": {"command": "x", "args": [None]}}, "mcpServers.a.args: expected a list of strings"),
        ({"a": {"command": "x", "env": {"K": True}}}, "mcpServers.a.env: expected an object of strings"),
        ({"a": {"command": "x", "env": {"K": ["secret"]}}}, "mcpServers.a.env: expected an object of strings"),
        ({"a": {"command": "x", "env": {"K": "${NONE}"}}}, "mcpServers.a.env.K: the environment variable NONE is not"),
        ({"a": {"type": "ws", "url": "x"}}, "mcpServers.a.type: expected stdio, http or sse"),
        ({"a": {"url": "ftp://secret"}}, "mcpServers.a.url or headers: expected the URL"),
        ({"a": {"url": "http://x/", "headers": {"K": "secret\n"}}}, "expected 'Name: value'"),
        ({"a": {"command": "x", "trusted": "yes"}}, "mcpServers.a.trusted: expected true or false"),
        ({"...": {"command": "x"}}, "expected a name with a letter or digit"),
        ({str(n): {"command": "x"} for n in range(51)}, "at most 50 servers"),
    ],
)
def test_errors_name_the_place_and_not_the_value(servers: Any, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(servers)
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_json_error_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers":\n {"a": secret}}')
    with pytest.raises(ConfigurationError, match=r"mcp\.json:2: expected JSON") as caught:
        read_servers(file, {})
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="there is no such file"):
        read_servers(tmp_path / "none.json", {})


def is_redacted(text: str, servers: Any, **environment: str) -> bool:
    return Secrets(file_secrets(parsed(servers, **environment))).redact(text) != text


def test_secrets_in_the_file_are_known_and_not_in_the_repr() -> None:
    specs = parsed(
        {
            "a": {"command": "x", "args": ["--key", "hidden-arg"], "env": {"API_KEY": "hidden-env"}},
            "b": {"url": "https://x.example/mcp?k=hidden-url", "headers": {"Authorization": "Bearer hidden-header"}},
        }
    )
    values = set(file_secrets(specs).values())
    assert {"hidden-arg", "hidden-env", "https://x.example/mcp?k=hidden-url"} <= values
    assert {"hidden-header", "Bearer hidden-header"} <= values
    assert "hidden" not in repr(specs)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "args": ["--with", "${T}"]},
        {"command": "x", "args": ["--with=${env:T}"]},
        {"command": "x", "env": {"ANY": "before ${T} behind"}},
        {"url": "https://x.example/${T}/mcp"},
        {"url": "https://x.example/mcp?with=${T}"},
        {"url": "https://x.example/mcp", "headers": {"Accept": "a/b;${T}"}},
    ],
)
def test_values_of_environment_variables_are_secret_everywhere(entry: dict[str, Any]) -> None:
    assert is_redacted("it says value-of-t.", {"a": entry}, T="value-of-t")


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "args": ["--token", "written"]},
        {"command": "x", "args": ["--api-key=written"]},
        {"command": "x", "args": ["postgres://me:written@x.example/db"]},
        {"command": "x", "env": {"GITHUB_TOKEN": "written"}},
        {"command": "x", "env": {"apiKey": "written"}},
        {"command": "x", "env": {"PGPASSWORD": "written"}},
        {"command": "x", "env": {"MYSQL_PWD": "written"}},
        {"command": "x", "env": {"ANY": "postgres://me:written@x.example/db"}},
        {"command": "x", "env": {"ANY": "${MY_SECRET:-written}"}},
        {"url": "https://x.example/mcp?api_key=written"},
        {"url": "https://me:written@x.example/mcp"},
        {"url": "https://x.example/mcp", "headers": {"X-Any": "written"}},
        {"url": "https://x.example/mcp", "headers": {"X-Any": "Scheme written"}},
    ],
)
def test_values_in_typical_places_of_secrets_are_secret(entry: dict[str, Any]) -> None:
    assert is_redacted("it says written.", {"a": entry})


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "env": {"NODE_ENV": "production"}},
        {"command": "x", "env": {"NODE_ENV": "${NODE_ENV:-production}"}},
        {"command": "x", "env": {"MAX_TOKENS": "production", "COMPAT": "production"}},
        {"command": "x", "env": {"TOKEN_FILE": "production", "AUTH_TYPE": "production"}},
        {"command": "production", "args": ["production", "--mode", "production", "--key", "--mode=production"]},
        {"command": "x", "args": ["${HOME}", "${env:PWD}"], "env": {"FOLDER": "${HOME}"}},
        {"command": "${TOOLS}/x", "cwd": "${TOOLS}"},
        {"url": "https://production/mcp", "headers": {"Accept": "production", "Content-Type": "production"}},
    ],
)
def test_values_in_other_places_are_not_secret(entry: dict[str, Any]) -> None:
    variables = dict.fromkeys(("HOME", "PWD", "TOOLS"), "/production")
    assert not is_redacted("for production in /production, --mode=production", {"a": entry}, **variables)


def test_all_secrets_of_one_place_are_known() -> None:
    servers = {"a": {"command": "x", "env": {"ANY": "${A} ${B} ${A}"}}, "b": {"url": "http://x/?key=one&token=other"}}
    assert {"value-a", "value-b", "value-a value-b value-a", "one", "other"} <= set(
        file_secrets(parsed(servers, A="value-a", B="value-b")).values()
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(["command", "url", "args", "env", "type", "headers", "a", "mcpServers", "servers"]), x
            )
        ),
    )
)
def test_arbitrary_content_raises_only_configuration_errors(content: Any) -> None:
    for text in (json.dumps(content), json.dumps({"mcpServers": {"a": content}}), str(content)):
        try:
            specs = parse_servers(FILE, text, {})
        except ConfigurationError:
            continue
        assert all(spec.command or spec.address for spec in specs)
