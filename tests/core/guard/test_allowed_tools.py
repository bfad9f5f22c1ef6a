from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.runs.mcp_connections import aliases_of, prefixes_of, tool_name
from skills_core.format.yaml12 import JsonValue
from skills_core.guard.allowed_tools import OPERATORS, AllowedTools, _normalized_path, command_matcher, path_matcher
from skills_core.guard.tool import Effect, Role, Tool
from skills_core.toolboxes import ToolPurpose as Can

COMMAND = Role(frozenset({Can.RUN_COMMAND}), command="command")
READ = Role(frozenset({Can.READ_FILE}), path="path")
WRITE = Role(frozenset({Can.WRITE_FILE, Can.EDIT_FILE}), path="path")
GREP = Role(frozenset({Can.SEARCH_TEXT}), path="path", recursive=True)
LIST = Role(frozenset({Can.LIST_FOLDER, Can.FIND_FILES}), path="path", recursive=True)
SERVER = Role(aliases=aliases_of("github", "get_issue"), alias_prefixes=prefixes_of("github"))


@pytest.fixture
def tools(make_tool: Any) -> dict[str, Any]:
    return {
        "run_command": make_tool("run_command", role=COMMAND),
        "read_file": make_tool("read_file", role=READ),
        "write_file": make_tool("write_file", role=WRITE),
        "grep": make_tool("grep", role=GREP),
        "list_directory": make_tool("list_directory", role=LIST),
        "github__get_issue": make_tool("github__get_issue", role=SERVER),
        "git_diff": make_tool("git_diff"),
        "read_skill_file": make_tool("read_skill_file", role=Role(own=True)),
    }


def offered(tools: dict[str, Any], *allowed: str) -> list[str]:
    permits = AllowedTools(allowed)
    return [name for name, tool in tools.items() if permits.offers(tool) and not tool.role.own]


def test_a_missing_list_permits_everything_and_an_empty_one_nothing(tools: dict[str, Any]) -> None:
    assert all(AllowedTools(None).offers(tool) for tool in tools.values())
    assert not any(AllowedTools([]).offers(tool) for tool in tools.values())
    assert AllowedTools(None).refusal(tools["run_command"], {"command": ["rm"]}) == ""


def test_the_skills_own_tools_need_no_entry_unless_the_list_is_empty(tools: dict[str, Any]) -> None:
    assert AllowedTools(["Read"]).offers(tools["read_skill_file"])
    assert AllowedTools(["not (understood"]).offers(tools["read_skill_file"])
    assert AllowedTools(["Read(src/**)"]).refusal(tools["read_skill_file"], {"path": "x"}) == ""
    assert not AllowedTools([]).offers(tools["read_skill_file"])


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ("read_file", ["read_file"]),
        ("Read", ["read_file"]),
        ("Bash", ["run_command"]),
        ("Bash(*)", ["run_command"]),
        ("run_shell_command", ["run_command"]),
        ("Edit", ["write_file"]),
        ("Write", ["write_file"]),
        ("Grep", ["grep"]),
        ("Glob", ["list_directory"]),
        ("LS", ["list_directory"]),
        ("git_diff", ["git_diff"]),
        ("mcp__github__get_issue", ["github__get_issue"]),
        ("mcp__github__*", ["github__get_issue"]),
        ("mcp__github__get_*", ["github__get_issue"]),
        ("mcp__github", ["github__get_issue"]),
        ("github/get_issue", ["github__get_issue"]),
        ("github/*", ["github__get_issue"]),
        ("github__get_issue", ["github__get_issue"]),
        ("mcp__git", []),
        ("mcp__git__*", []),
        ("mcp__github__get", []),
        ("mcp__*", []),
        ("*", []),
        ("B*", []),
        ("Skill(x)", []),
        ("WebFetch(domain:example.com)", []),
        ("Nonsense", []),
        ("", []),
        ("Bash(", []),
        ("Bash)", []),
        ("(git:*)", []),
        ("Bash(git:*) extra", []),
        ("bash", ["run_command"]),
        ("BASH", []),
    ],
)
def test_an_entry_names_the_tools_that_do_what_the_host_tool_does(
    entry: str, names: list[str], tools: dict[str, Any]
) -> None:
    assert offered(tools, entry) == names


@pytest.mark.parametrize("entry", ["mcp__github", "mcp__github__*", "mcp__github__get_*", "github/*"])
@pytest.mark.parametrize(
    ("server", "tool"),
    [
        ("github__evil", "get_issue"),
        ("github__get_evil", "x"),
        ("github_", "get_issue"),
        ("github/evil", "x"),
        ("mcp", "github__get_issue"),
        ("mcp__github", "get_issue"),
    ],
)
def test_an_entry_for_a_server_permits_no_tool_of_a_server_with_the_same_prefix(
    entry: str, server: str, tool: str, make_tool: Any
) -> None:
    role = Role(aliases=aliases_of(server, tool), alias_prefixes=prefixes_of(server))
    assert not AllowedTools([entry]).offers(make_tool(tool_name(server, tool), role=role))


def test_a_hosts_tool_name_does_not_match_a_servers_tool_that_looks_alike(make_tool: Any) -> None:
    role = Role(aliases=aliases_of("mcp", "github__get_issue"), alias_prefixes=prefixes_of("mcp"))
    tool = make_tool("mcp__github__get_issue", role=role)
    assert not AllowedTools(["mcp__github__get_issue"]).offers(tool)
    assert AllowedTools(["mcp__mcp__github__get_issue"]).offers(tool)


def test_a_server_name_with_two_underscores_must_be_given_in_full(make_tool: Any) -> None:
    role = Role(aliases=aliases_of("git__hub", "x"), alias_prefixes=prefixes_of("git__hub"))
    tool = make_tool("git__hub__x", role=role)
    assert all(AllowedTools([entry]).offers(tool) for entry in ("mcp__git__hub__*", "mcp__git__hub__x", "git__hub/*"))


@pytest.mark.parametrize(
    ("pattern", "command", "permitted"),
    [
        ("git:*", "git", True),
        ("git:*", "git status --short", True),
        ("git *", "git", True),
        ("git *", "gitk", False),
        ("git:*", "git-evil", False),
        ("git:*", "/opt/git status", False),
        ("git:*", "./git status", False),
        ("git diff *", "git diff --stat", True),
        ("git diff *", "git difftool", False),
        ("git diff:*", "git -c x=y diff", False),
        ("git diff", "git diff", True),
        ("git diff", "git diff --output=x", False),
        ("npm run test:*", "npm run test", True),
        ("npm run test:*", "npm run test --watch", True),
        ("npm run test:*", "npm run test:unit", False),
        ("npm run test*", "npm run test:unit --watch", True),
        ("ls*", "lsof -i", True),
        ("git * main", "git checkout main", True),
        ("git * main", "git log --oneline main", True),
        ("git * main", "git main", False),
        ("* --version", "node --version", True),
        ("npx *eas-cli@*", "npx eas-cli@latest build", True),
        ("npx *eas-cli@*", "npx other", False),
        ("git commit -m 'a b'", "git commit -m a b", False),
        ("git:*", "git status && rm -rf x", False),
        ("git:*", "git status ; rm x", False),
        ("git:*", "git log | sh", False),
        ("git:*", "sh -c git", False),
        ("git:* push", "git push", False),
    ],
)
def test_a_command_pattern_is_matched_word_by_word(
    pattern: str, command: str, tools: dict[str, Any], *, permitted: bool
) -> None:
    permits = AllowedTools([f"Bash({pattern})"])
    words: list[JsonValue] = [*command.split()]
    assert (permits.refusal(tools["run_command"], {"command": words}) == "") is permitted


def test_words_that_only_a_shell_would_split_stay_one_word(tools: dict[str, Any]) -> None:
    permits = AllowedTools(["Bash(git:*)", "Bash(echo 'a b')"])
    run = tools["run_command"]
    for words in (["git status && rm -rf x"], ["git\nrm"], ["$(git)"], ["git|sh"], [], ["git\0"]):
        assert permits.refusal(run, {"command": list(words)}), words
    assert permits.refusal(run, {"command": ["echo", "a b"]}) == ""
    assert permits.refusal(run, {"command": ["git", "commit", "-m", "two\nlines; $(not run)"]}) == ""


@pytest.mark.parametrize(
    "pattern",
    [
        "git status && ls",
        "ls; rm",
        "cat a | sh",
        "echo $HOME",
        "echo `id`",
        "a > b",
        "${ROOT}/x.sh:*",
        "'open",
        ":*",
        " ",
    ],
)
def test_a_pattern_that_is_not_understood_permits_nothing_and_is_noted(pattern: str, tools: dict[str, Any]) -> None:
    permits = AllowedTools([f"Bash({pattern})"])
    assert not permits.offers(tools["run_command"])
    assert permits.notes[0].startswith("allowed-tools: ")
    assert "permits nothing" in permits.notes[0]


@pytest.mark.parametrize(
    ("pattern", "path", "permitted"),
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src/a/b.py", True),
        ("src/**", "./src//a.py", True),
        ("src/**", "src", False),
        ("src/**", "other/src/a.py", False),
        ("src/**", "srcs/a.py", False),
        ("src/**", "src/../secret", False),
        ("src/**", "/src/a.py", False),
        ("src", "src/a.py", True),
        ("src", "x/src/a.py", True),
        ("/src", "x/src/a.py", False),
        ("./src/**/*.ts", "src/deep/er/a.ts", True),
        ("./src/**/*.ts", "src/a.ts", True),
        ("*.md", "docs/deep/a.md", True),
        ("*.md", "a.mdx", False),
        ("/*.md", "docs/a.md", False),
        ("docs/*.md", "docs/a/b.md", False),
        ("**/.env", ".env", True),
        ("**/.env", "a/.env", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("**", "any/thing", True),
    ],
)
def test_a_path_pattern_is_that_of_a_gitignore_file(
    pattern: str, path: str, tools: dict[str, Any], *, permitted: bool
) -> None:
    permits = AllowedTools([f"Read({pattern})"])
    assert (permits.refusal(tools["read_file"], {"path": path}) == "") is permitted


@pytest.mark.parametrize("pattern", ["~/x/**", "//etc/**", "../x", "a/../../b", "!a", "[ab]", "a\\b", "/", "{a,b}"])
def test_a_path_pattern_that_leads_out_or_is_not_understood_permits_nothing(
    pattern: str, tools: dict[str, Any]
) -> None:
    permits = AllowedTools([f"Read({pattern})"])
    assert not permits.offers(tools["read_file"])
    assert "not a path within the workspace" in permits.notes[0]


def test_a_tool_that_looks_into_a_folder_needs_all_of_it(tools: dict[str, Any]) -> None:
    permits = AllowedTools(["Grep(src/**)", "Glob(*.md)"])
    assert permits.refusal(tools["grep"], {"pattern": "x", "path": "src"}) == ""
    assert permits.refusal(tools["grep"], {"pattern": "x", "path": "src/deep"}) == ""
    assert permits.refusal(tools["grep"], {"pattern": "x", "path": "."})
    assert permits.refusal(tools["grep"], {"pattern": "x"})
    assert permits.refusal(tools["list_directory"], {"path": "docs"})


def test_a_pattern_on_a_tool_that_has_nothing_to_match_permits_nothing(tools: dict[str, Any]) -> None:
    assert offered(tools, "git_diff(x)", "mcp__github__get_issue(x)") == []


def test_names_without_a_matching_tool_can_be_listed(tools: dict[str, Any]) -> None:
    permits = AllowedTools(["Read", "WebSearch", "Bash(git:*)", "Task"])
    assert permits.absent(list(tools.values())) == ("WebSearch", "Task")


def test_a_hostile_list_of_entries_is_bounded(tools: dict[str, Any]) -> None:
    permits = AllowedTools(["Bash(" + "a*" * 200 + ")"] + [f"x{n}" for n in range(2000)])
    assert permits.refusal(tools["run_command"], {"command": ["a" * 30_000 + "!"]}) == ""
    assert "only the first 1000 of 2001" in permits.notes[-1]


words = st.lists(st.text(max_size=8), min_size=1, max_size=6)


@given(st.text(max_size=40), words)
def test_no_text_is_a_command_pattern_that_raises(pattern: str, command: list[str]) -> None:
    matches = command_matcher(pattern)
    assert matches is None or matches(command) in {True, False}


@given(st.sampled_from(["git:*", "git *", "git log:*", "git log *"]), words)
def test_a_prefix_permits_only_commands_that_begin_with_its_words(pattern: str, command: list[str]) -> None:
    matches = command_matcher(pattern)
    assert matches is not None
    prefix = pattern.removesuffix(":*").removesuffix(" *").split()
    plain = not any("\0" in word for word in command) and OPERATORS.isdisjoint(command)
    assert matches(command) == (command[: len(prefix)] == prefix and plain)
    assert matches([*prefix, *command]) == plain


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_is_a_path_pattern_that_raises(pattern: str, path: str) -> None:
    matches = path_matcher(pattern)
    assert matches is None or matches(path) in {True, False}


@given(st.lists(st.sampled_from(["src", "..", ".", "", "a", "b.py", "~", "\\"]), max_size=6))
def test_no_path_that_leads_out_of_a_folder_has_the_pattern_of_the_folder(parts: list[str]) -> None:
    path = "/".join(parts)
    plain, matches = _normalized_path(path), path_matcher("/src/**")
    assert matches is not None
    if plain is not None and matches(plain):
        assert ".." not in parts
        assert not path.startswith("/")
        assert plain.startswith("src/")


@given(st.lists(st.text(max_size=30), max_size=5))
def test_no_entries_permit_more_than_all_of_them_name(entries: list[str]) -> None:
    async def nothing(arguments: Any, context: Any) -> str:
        return f"{arguments} {context}"

    tool = Tool("only_ours", "", {}, Effect.READS, "workspace", nothing)
    assert AllowedTools(entries).offers(tool) == any(
        entry.strip() in {"only_ours", "only_ours(*)"} for entry in entries
    )
