"""The names of hosts' tools."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from skills_core import Library, Recipient, Skill, render_activation
from skills_core.format.instructions import Instructions
from skills_core.mentions.tools import purposes_of
from skills_core.toolboxes import OTHER_NAMES, PRESETS, Toolbox, ToolPurpose, toolbox_named

ALL = [*PRESETS, OTHER_NAMES]
OWN_TOOL = "activate_skill"

MakeSkill = Callable[[str], Skill]


@pytest.fixture
def make_skill(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> Callable[[str], Skill]:
    """Return one skill with the body that is asked for, however often."""
    write_skill(tmp_path, "one", body="")
    (skill,) = load(tmp_path).catalog.active

    def with_body(body: str) -> Skill:
        instructions = Instructions(skill.name, skill.frontmatter, body=body)
        return replace(skill, content=replace(skill.content, instructions=instructions))

    return with_body


def key_of(toolbox: Toolbox) -> str:
    return toolbox.key


@pytest.mark.parametrize("toolbox", PRESETS, ids=key_of)
def test_a_tool_of_any_host_is_explained_by_a_tool_of_this_host(toolbox: Toolbox, make_skill: MakeSkill) -> None:
    for purpose, name in (pair for other in ALL for pair in other.names()):
        # Names that are words of other things too count where the text is plainly about tools.
        skill = make_skill(f"The body: use the `{name}` tool, beside `AskUserQuestion` and `TodoWrite`.")
        head = render_activation(skill, {}, Recipient(toolbox=toolbox)).partition("\nThe body")[0]
        told = dict(re.findall(r"^- `([^`]+)`[^:]*(.*)$", head, re.MULTILINE))
        assert (name in told) is not toolbox.has(name)
        instead = told.get(name, "")
        called = re.findall("`([^`]+)`", instead)
        assert [tool for tool in called if not (toolbox.has(tool) or tool == OWN_TOOL)] == []
        assert called or toolbox.has(name) or toolbox.first(purpose) is None


@pytest.mark.parametrize("toolbox", ALL, ids=key_of)
def test_a_model_can_call_every_tool_by_its_name(toolbox: Toolbox) -> None:
    assert [name for _, name in toolbox.names() if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name)] == []


@pytest.mark.parametrize("toolbox", PRESETS, ids=key_of)
def test_every_host_can_run_commands_or_read_files(toolbox: Toolbox) -> None:
    assert toolbox.first(ToolPurpose.RUN_COMMAND) or toolbox.first(ToolPurpose.READ_FILE)


@pytest.mark.parametrize("toolbox", PRESETS, ids=key_of)
def test_a_former_name_is_never_recommended(toolbox: Toolbox) -> None:
    assert [name for names in toolbox.former.values() for name in names if toolbox.has(name)] == []


@pytest.mark.parametrize("toolbox", ALL, ids=key_of)
def test_a_preset_has_a_source_and_a_date(toolbox: Toolbox) -> None:
    assert toolbox.source
    assert date(2026, 1, 1) <= date.fromisoformat(toolbox.date) <= datetime.now(UTC).date()


def test_presets_are_found_by_key_and_nothing_else() -> None:
    assert [toolbox_named(toolbox.key) for toolbox in PRESETS] == list(PRESETS)
    assert {"claude-code", "codex", "gemini", "vscode", "cursor", "opencode", "goose", "zed", "cline", "windsurf"} < {
        toolbox.key for toolbox in PRESETS
    }
    assert toolbox_named(None) is None
    assert toolbox_named("nobody") is None


def test_the_first_name_is_recommended_and_case_is_ignored() -> None:
    toolbox = Toolbox("x", "X", "somewhere", "2026-01-01", {ToolPurpose.RUN_COMMAND: ("bash", "shell")})
    assert toolbox.first(ToolPurpose.RUN_COMMAND) == "bash"
    assert toolbox.first(ToolPurpose.ASK_USER) is None
    assert toolbox.has("Bash")
    assert not toolbox.has("Read")
    assert not toolbox.has("mcp__a__b")


@pytest.mark.parametrize(
    ("name", "purposes"),
    [
        ("AskUserQuestion", (ToolPurpose.ASK_USER,)),
        ("Read", (ToolPurpose.READ_FILE,)),
        ("view_image", (ToolPurpose.VIEW_IMAGE,)),
        ("apply_patch", (ToolPurpose.WRITE_FILE, ToolPurpose.EDIT_FILE)),
        ("nothing_of_the_kind", ()),
    ],
)
def test_a_name_has_the_capabilities_that_hosts_give_it(name: str, purposes: tuple[ToolPurpose, ...]) -> None:
    assert set(purposes_of(name)) == set(purposes)
