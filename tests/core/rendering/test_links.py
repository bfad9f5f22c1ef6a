"""A link to a skill's instructions, and the text that goes with it, for models that ignore instructions in results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.rendering.activation import render_activation, render_link, render_linked_activation, render_unchanged
from skills_core.rendering.catalog import activation_rule
from skills_core.rendering.recipient import Recipient
from skills_core.toolboxes import toolbox_named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skills_core import Library, Skill

READER = "read_mcp_resource"
GEMINI = Recipient(
    toolbox=toolbox_named("gemini"),
    reads_resources=True,
    link_reader=READER,
    activation_tool="mcp_skills_activate_skill",
)

BODY = (
    "Write {{version}} for {{audience}}. Load it with the Skill tool or with activate_skill, "
    "see references/forms.md. BODY-MARK"
)


def skill_of(write_skill: Callable[..., Path], load: Callable[..., Library], root: Path) -> Skill:
    write_skill(root, "pdf", body=BODY, fields="compatibility: Needs git.", files={"references/forms.md": "x"})
    return load(root).catalog.skill("pdf")


def test_the_text_beside_a_link_is_an_activation_without_the_body(
    write_skill: Callable[..., Path], load: Callable[..., Library], tmp_path: Path
) -> None:
    skill = skill_of(write_skill, load, tmp_path)
    text = render_linked_activation(skill, {}, GEMINI, replaces="sha256:old")
    whole = render_activation(skill, {}, GEMINI, replaces="sha256:old")
    body = f"{BODY}\n\n"
    line = (
        "The instructions are the resource skill://pdf/SKILL.md: read it with read_mcp_resource; if that fails, "
        'read SKILL.md with read_skill_file (skill "pdf").\n'
    )
    assert text.replace(line, "") == whole.replace(body, "")
    assert "BODY-MARK" not in text


def test_values_are_listed_where_the_link_cannot_hold_them(
    write_skill: Callable[..., Path], load: Callable[..., Library], tmp_path: Path
) -> None:
    skill = skill_of(write_skill, load, tmp_path)
    text = render_linked_activation(skill, {"version": "2.0 </skill_content>", "tone": "dry"}, GEMINI)
    assert "\nValues of the {{parameters}} in the instructions: version = 2.0 &lt;/skill_content>\n" in text
    assert "\nFurther arguments: tone = dry\n" in text
    assert "\nParameters without a value: audience. " in text


def test_references_are_read_as_resources_first_by_such_a_model(
    write_skill: Callable[..., Path], load: Callable[..., Library], tmp_path: Path
) -> None:
    skill = skill_of(write_skill, load, tmp_path)
    for text in (render_activation(skill, {}, GEMINI), render_linked_activation(skill, {}, GEMINI)):
        assert "Read one with `read_mcp_resource` and the `uri`, or `read_skill_file` (skill" in text
        assert (
            'Read a file with read_mcp_resource (the skill root and its path), or read_skill_file (skill "pdf").'
            in text
        )


def test_texts_call_our_tool_what_the_recipient_calls_it(
    write_skill: Callable[..., Path], load: Callable[..., Library], tmp_path: Path
) -> None:
    skill = skill_of(write_skill, load, tmp_path)
    text = render_activation(skill, {}, GEMINI)
    assert "- `Skill` (load a skill): call `mcp_skills_activate_skill`\n" in text
    assert "- `activate_skill` (load a skill): call `mcp_skills_activate_skill`\n" in text
    assert "call mcp_skills_activate_skill for it once more" in render_unchanged(skill, GEMINI)
    assert "call activate_skill for it once more" in render_unchanged(skill)


def test_the_title_of_the_link_and_the_rule_say_to_read_and_to_follow(
    write_skill: Callable[..., Path], load: Callable[..., Library], tmp_path: Path
) -> None:
    skill = skill_of(write_skill, load, tmp_path)
    assert render_link(skill, READER) == (
        "Instructions of the skill pdf. Read them now with read_mcp_resource, then follow them. They stand"
    )
    assert activation_rule("mcp_a_activate_skill", READER) == (
        "When a task matches one of these skills, call mcp_a_activate_skill with its name before anything else, then "
        "read the resource that it links with read_mcp_resource, and follow it."
    )
