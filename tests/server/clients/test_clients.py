"""The known facts about clients, each with its source and date."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import pytest

from server.clients.known import KNOWN_CLIENTS, client_called, declared_in, find_client
from server.clients.profile import FACTS, UNKNOWN, ClientProfile, Commands, Fact, Limit, NativeListing
from skills_core.toolboxes import PRESETS
from tools.reference.clients import FACTS as DOCUMENTED
from tools.reference.clients import SUBJECTS, evidence_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "clients.md"

each_client = pytest.mark.parametrize("client", KNOWN_CLIENTS, ids=lambda client: client.key)


@each_client
def test_each_fact_has_a_source_and_a_date_that_is_not_in_the_future(client: ClientProfile) -> None:
    found = list(evidence_of(client))
    assert client.named is not None
    for called, evidence in found:
        assert evidence.source.strip(), called
        # A day too much, for elsewhere it is tomorrow already.
        assert dt.date.fromisoformat(evidence.date) <= dt.date.today() + dt.timedelta(days=1), called  # noqa: DTZ011


def test_every_field_that_holds_a_fact_is_in_the_document() -> None:
    assert tuple(DOCUMENTED) == FACTS
    assert sum(len(subject.columns) for subject in SUBJECTS) == len(FACTS)


@each_client
def test_a_fact_is_a_sensible_value(client: ClientProfile) -> None:
    for field in FACTS:
        fact = getattr(client, field)
        if field == "model_results":
            assert all(name == name.lower() and limit.characters > 0 for name, limit in fact)
            continue
        assert isinstance(fact, (Limit, Fact, NativeListing, Commands, type(None)))
        if isinstance(fact, Limit):
            assert fact.characters >= 0
        if isinstance(fact, Commands):
            assert all(name == name.strip("/").lower() for name in fact.names)
        if isinstance(fact, NativeListing):
            assert fact.percent is None or fact.characters is None
            assert fact.percent is None or 0 < fact.percent < 100


TYPES = get_type_hints(ClientProfile)


@each_client
def test_a_fact_has_the_type_that_profiles_say(client: ClientProfile) -> None:
    for field in set(FACTS) - {"model_results", "native", "commands"}:
        fact, (kind, _) = getattr(client, field), get_args(TYPES[field])
        for each in [fact, *(earlier.facts.get(field) for earlier in client.earlier)]:
            assert each is None or type(each) is (get_origin(kind) or kind)
            if isinstance(each, Fact):
                (value_type,) = get_args(kind)
                assert type(each.value) is (get_origin(value_type) or value_type), field


@each_client
def test_a_text_that_is_shown_whole_has_no_limit(client: ClientProfile) -> None:
    whole = client.whole.value if client.whole else ()
    assert set(whole) <= {"description", "instructions", "result"}
    assert [field for field in whole if getattr(client, field) is not None] == []


@each_client
def test_earlier_versions_stand_latest_first_and_differ_in_known_facts(client: ClientProfile) -> None:
    versions = [tuple(map(int, earlier.before.split("."))) for earlier in client.earlier]
    assert versions == sorted(versions, reverse=True)
    for earlier in client.earlier:
        assert earlier.facts.keys() <= set(FACTS)
        assert all(getattr(client, field) is not None for field in earlier.facts)


def test_a_client_that_shares_its_name_is_found_by_its_key_alone() -> None:
    sharing = [client for client in KNOWN_CLIENTS if not client.names]
    assert sharing
    for client in sharing:
        assert find_client(client.key) is client
        assert client_called(client.key) is UNKNOWN


def test_keys_and_name_prefixes_are_unique() -> None:
    keys = [client.key for client in (*KNOWN_CLIENTS, UNKNOWN)]
    assert len(set(keys)) == len(keys)
    assert all(key.replace("-", "").isalnum() and key.islower() for key in keys)
    told = [(name, client.declares) for client in KNOWN_CLIENTS for name in client.names]
    assert len(set(told)) == len(told)
    names = [name for name, _ in told]
    assert all(name == name.strip().lower() for name in names)
    # Where one beginning goes on in another, the longer one decides; between two clients that would be a trap.
    for client in KNOWN_CLIENTS:
        others = [name for other in KNOWN_CLIENTS if other is not client for name in other.names]
        assert client.exact or not [name for name in others if name.startswith(client.names)]


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("claude-code", "claude-code"),
        ("claude-ai", "claude-desktop"),
        ("claude-ai (via mcp-remote 0.1.37)", "claude-desktop"),
        ("codex-mcp-client", "codex"),
        ("Codex", "codex"),
        ("cursor-vscode", "cursor"),
        ("Visual Studio Code", "vscode"),
        ("Visual Studio Code - Insiders", "vscode"),
        ("github-copilot-developer", "copilot-cli"),
        ("gemini-cli-mcp-client", "gemini"),
        ("goose", "goose"),
        ("Zed", "zed"),
        ("opencode", "opencode"),
        ("windsurf-client", "windsurf"),
        ("Cline", "cline"),
        ("@cline/core", "cline"),
        ("agenvoy", "agenvoy"),
        ("mcp-inspector", "inspector"),
        ("inspector-cli", "inspector"),
        ("fast-agent-mcp", "fast-agent"),
        ("openai-mcp/1.0.0", "chatgpt"),
        ("my-own-client", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_client_is_known_by_the_name_that_it_sends(sent: str, key: str) -> None:
    assert client_called(sent).key == key


@pytest.mark.parametrize(
    ("declares", "key"),
    [
        ((), "mcp"),
        (("roots",), "mcp"),
        (("sampling",), "mcp-sampling"),
        (("elicitation", "roots"), "gptme"),
        (("elicitation", "roots", "sampling"), "mcp"),
    ],
)
def test_clients_of_one_name_are_told_apart_by_exactly_the_capabilities_that_they_declare(
    declares: tuple[str, ...], key: str
) -> None:
    assert client_called("mcp", "0.1.0", declares).key == key
    assert client_called("mcp-own", "0.1.0", declares) is UNKNOWN


def test_only_a_capability_that_is_declared_tells_clients_apart() -> None:
    declared: dict[str, object] = {"sampling": {}, "roots": None, "experimental": {}, "elicitation": {"form": {}}}
    assert declared_in(declared) == ("elicitation", "sampling")
    assert declared_in(None) == ()


@each_client
def test_capabilities_tell_a_client_from_others_of_its_name(client: ClientProfile) -> None:
    if client.declares is not None:
        assert client.declares == declared_in({name: {} for name in client.declares})
        assert client.capabilities is not None
        assert client.capabilities.value == ", ".join(client.declares)


def test_nothing_is_known_of_an_unknown_client() -> None:
    assert list(evidence_of(UNKNOWN)) == []


def test_a_share_of_the_context_is_a_budget_once_the_context_is_known() -> None:
    native = client_called("claude-code").native
    assert native is not None
    assert native.budget() == 8_000
    assert native.budget(1_000_000) == 40_000


def tables() -> dict[str, list[list[str]]]:
    """Return the rows of each table, the headings first, by the heading above it."""
    found: dict[str, list[list[str]]] = {"": []}
    title = ""
    for line in DOCUMENT.read_text(encoding="utf-8").partition("\n## The facts\n")[2].splitlines():
        if line.startswith("### "):
            title = line.removeprefix("### ")
            found[title] = []
        elif line.startswith("| ") and not line.startswith("| - "):
            found[title].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_each_table_has_only_columns_and_rows_with_a_fact() -> None:
    for subject in SUBJECTS:
        headings, *rows = tables()[subject.title]
        assert len(headings) <= 10
        assert all(any(cells) for cells in zip(*[row[1:] for row in rows], strict=True))
        assert all(any(row[1:]) for row in rows)
        for heading in headings[1:]:
            assert f"- **{heading}**: " in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("subject", "client", "heading", "cell"),
    [
        ("What the model is shown", "Claude Code", "description", "4,096; 2,048 before 2.1.296"),
        ("What the model is shown", "Codex", "description", "whole"),
        ("What the model is shown", "Codex", "instructions", "250"),
        ("What the model is shown", "Cline", "instructions", "none"),
        ("Changes and resources", "Claude Code", "changed tool", "no; yes before 2.1.268"),
        ("What becomes of results", "fast-agent", "result", "16,000 bytes"),
        ("What becomes of results", "Cline", "result", "8,000 of JSON"),
        ("What becomes of results", "Continue CLI", "result", "whole"),
        ("Who they are", "Claude Code", "tool `x` of server `skills`", "`mcp__skills__x`"),
    ],
)
def test_a_cell_has_the_unit_the_versions_and_what_is_whole(subject: str, client: str, heading: str, cell: str) -> None:
    headings, *rows = tables()[subject]
    (row,) = (row for row in rows if row[0] == client)
    assert row[headings.index(heading)] == cell


def test_limits_that_depend_on_the_model_name_the_models() -> None:
    headings, *rows = tables()["What becomes of results"]
    (row,) = (row for row in rows if row[0] == "Codex")
    assert row[headings.index("by model")].startswith("`gpt-5.5`: 47,984 bytes; `gpt-5.6-luna`, `gpt-6-sol`")


def test_every_toolbox_of_a_client_is_a_preset_and_every_preset_belongs_to_a_client() -> None:
    assert sorted(client.toolbox for client in KNOWN_CLIENTS if client.toolbox) == sorted(
        toolbox.key for toolbox in PRESETS
    )
