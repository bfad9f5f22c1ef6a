"""The explanation of a body's tools and files before an activation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Recipient, render_activation
from skills_core.format.instructions import Instructions
from skills_core.rendering.adaptation import MAX_MISSING, MAX_PATHS, MAX_TOOLS
from skills_core.rendering.escaping import escape_tags
from skills_core.toolboxes import Toolbox, toolbox_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library, Skill

CLAUDE = Recipient(local=True, toolbox=toolbox_named("claude-code"), reads_resources=True)
GEMINI = Recipient(local=True, toolbox=toolbox_named("gemini"))
CODEX = Recipient(local=True, toolbox=toolbox_named("codex"))
FAR = Recipient(toolbox=toolbox_named("gemini"))


@pytest.fixture
def make(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Callable[..., Skill]:
    """Write one skill and load it."""

    def skill(body: str, **options: object) -> Skill:
        write_skill(tmp_path, "pdf", body=body, **options)
        (loaded,) = load(tmp_path).catalog.active
        return loaded

    return skill


def element(text: str, name: str) -> str:
    """Return what stands within the head's element of this name, empty where there is none."""
    head = text.split("\nThe body", 1)[0]
    return head.partition(f"<{name}>\n")[2].partition(f"</{name}>")[0]


def lines(skill: Skill, recipient: Recipient, name: str = "tool_names") -> list[str]:
    return [line for line in element(render_activation(skill, {}, recipient), name).splitlines() if line[:1] in "-<"]


def test_a_body_without_tools_and_files_gets_no_explanation(make: Callable[..., Skill]) -> None:
    skill = make("Read the text, and write a summary.", fields="allowed-tools: Read, Bash(git:*)", files={"a.md": "x"})
    for recipient in (Recipient(), CLAUDE, GEMINI, FAR):
        assert render_activation(skill, {}, recipient).split("\n")[1] == "Read the text, and write a summary."


def test_another_hosts_tool_is_explained_by_the_recipients_tool(make: Callable[..., Skill]) -> None:
    skill = make("The body: use the Bash tool, then AskUserQuestion and TodoWrite.")
    assert lines(skill, GEMINI) == [
        "- `Bash` (run a command): call `run_shell_command`",
        "- `AskUserQuestion` (ask the user): call `ask_user`",
        "- `TodoWrite` (keep a task list): call `write_todos`",
    ]


def test_tools_with_the_same_name_on_the_host_are_not_explained(make: Callable[..., Skill]) -> None:
    skill = make("The body: use the Bash tool, AskUserQuestion and mcp__serena__find_symbol.")
    assert lines(skill, CLAUDE) == []
    assert "tool_names" not in render_activation(skill, {}, CLAUDE)


def test_a_shell_command_replaces_a_missing_tool(make: Callable[..., Skill]) -> None:
    assert lines(make("The body: use `Grep`."), CODEX) == [
        "- `Grep` (search in files): call `exec_command` with a command that does it"
    ]


def test_a_tool_without_equivalent_gets_an_alternative(make: Callable[..., Skill]) -> None:
    goose = Recipient(toolbox=toolbox_named("goose"))
    skill = make("The body: AskUserQuestion, WebSearch and WebFetch.")
    assert lines(skill, goose) == [
        "- `AskUserQuestion` (ask the user): no such tool here; ask in your reply and wait for the answer",
        "- `WebSearch` (search the web): no such tool here; tell the user if a step cannot do without it",
        "- `WebFetch` (fetch a page): call `shell` with a command that does it",
    ]
    assert "tell the user; never pretend that it was done" in element(render_activation(skill, {}, goose), "tool_names")


def test_for_an_unknown_recipient_a_tool_is_explained_by_its_capability(make: Callable[..., Skill]) -> None:
    text = element(render_activation(make("The body: AskUserQuestion.")), "tool_names")
    assert "- `AskUserQuestion` (ask the user)\n" in text
    assert "Where you have none of that name" in text


def test_another_skill_is_loaded_by_the_tool_of_this_server(make: Callable[..., Skill]) -> None:
    skill = make("The body: invoke the Skill tool.")
    for recipient in (Recipient(), CODEX, Recipient(toolbox=toolbox_named("cursor"))):
        assert lines(skill, recipient) == ["- `Skill` (load a skill): call `activate_skill`"]


def test_configured_tool_names_override_the_hosts_toolbox(make: Callable[..., Skill]) -> None:
    own = {"Bash": "terminal", "AskUserQuestion": "AskUserQuestion", "mcp__a__b": "a_b", "deploy_it": "ship"}
    skill = make("The body: Bash tool, AskUserQuestion, mcp__a__b, deploy_it, TodoWrite.")
    assert lines(skill, Recipient(toolbox=toolbox_named("gemini"), own=own)) == [
        "- `Bash` (run a command): call `terminal`",
        "- `mcp__a__b`: call `a_b`",
        "- `deploy_it`: call `ship`",
        "- `TodoWrite` (keep a task list): call `write_todos`",
    ]


def test_adaptation_can_be_switched_off(make: Callable[..., Skill]) -> None:
    skill = make("The body: Bash tool, forms.md.", files={"forms.md": "x"})
    text = render_activation(skill, {}, Recipient(local=True, toolbox=toolbox_named("gemini"), adapt=False))
    assert text.split("\n")[1] == "The body: Bash tool, forms.md."


def test_a_local_recipient_with_a_file_tool_reads_from_disk(make: Callable[..., Skill], tmp_path: Path) -> None:
    skill = make("The body: see references/forms.md.", files={"references/forms.md": "x", "other.md": "y"})
    place = tmp_path.resolve() / "pdf" / "references/forms.md"
    assert lines(skill, GEMINI, "skill_paths") == [f'<path name="references/forms.md" file="{place}"/>']
    near, far = (element(render_activation(skill, {}, each), "skill_paths") for each in (GEMINI, FAR))
    assert '`read_skill_file` (skill "pdf", path as named), or `read_file` and the `file` given here.' in near
    assert 'Read one with `read_skill_file` (skill "pdf", path as named).' in far
    assert str(tmp_path) not in render_activation(skill, {}, FAR)


def test_a_folder_outside_of_the_recipients_roots_is_as_far_as_another_machine(
    make: Callable[..., Skill], tmp_path: Path
) -> None:
    skill = make("The body: run scripts/a.py in {baseDir}/.", files={"scripts/a.py": "x"})
    gemini = toolbox_named("gemini")
    root, other = tmp_path.resolve(), tmp_path.resolve() / "pd"
    assert render_activation(skill, {}, Recipient(roots=frozenset({root}), toolbox=gemini)) == render_activation(
        skill, {}, GEMINI
    )
    assert render_activation(skill, {}, Recipient(roots=frozenset({other}), toolbox=gemini)) == render_activation(
        skill, {}, FAR
    )


def test_links_out_of_the_recipients_roots_are_not_followed(load: Callable[..., Library], tmp_path: Path) -> None:
    root, linked = tmp_path.resolve() / "root", tmp_path.resolve() / "elsewhere" / "pdf"
    root.mkdir()
    linked.mkdir(parents=True)
    (linked / "SKILL.md").write_text("---\nname: pdf\ndescription: d\n---\nSee forms.md.")
    (linked / "forms.md").write_text("x")
    (root / "pdf").symlink_to(linked)
    skill = load(root, follow_symlinks=True).catalog.skill("pdf")
    for readable, expected in ((root, False), (linked.parent, True)):
        recipient = Recipient(roots=frozenset({readable}), toolbox=toolbox_named("gemini"))
        text = render_activation(skill, {}, recipient)
        assert ("Skill directory" in text, 'file="' in text) == (expected, expected)


def test_a_model_that_reads_resources_gets_the_files_uri(make: Callable[..., Skill]) -> None:
    skill = make("The body: see forms.md.", files={"forms.md": "x"})
    far = Recipient(toolbox=toolbox_named("claude-code"), reads_resources=True)
    assert lines(skill, far, "skill_paths") == ['<path name="forms.md" uri="skill://pdf/forms.md"/>']
    assert "`ReadMcpResourceTool` and the `uri`" in render_activation(skill, {}, far)
    assert "as the resource `uri`" in render_activation(skill, {}, Recipient(reads_resources=True))


def test_a_script_is_run_with_the_tool_that_can_run_it(make: Callable[..., Skill]) -> None:
    skill = make("The body: run scripts/a.py.", files={"scripts/a.py": "x"})
    said = [element(render_activation(skill, {}, each), "skill_paths") for each in (GEMINI, FAR, Recipient(local=True))]
    assert "Run a script with `run_shell_command` and the `file` given here." in said[0]
    assert "They lie on the server: to run a script, first save it" in said[1]
    assert f"Run a script with your own tool for commands, in the skill directory {skill.source.root}" in said[2]
    without = Recipient(toolbox=Toolbox("none", "None", "this test", "2026-11-22", {}))
    assert "None of your tools runs a script" in element(render_activation(skill, {}, without), "skill_paths")
    with_tool = Recipient(toolbox=toolbox_named("gemini"), script_tool="run_skill_script")
    text = element(render_activation(skill, {}, with_tool), "skill_paths")
    assert 'Run a script with `run_skill_script` (skill "pdf", path as named).' in text


def test_the_bodys_name_for_the_skills_folder_is_explained(make: Callable[..., Skill], tmp_path: Path) -> None:
    skill = make("The body: {baseDir}/a.md and ~/.claude/skills/pdf/a.md", files={"a.md": "x"})
    said = "`{baseDir}/`, `~/.claude/skills/pdf/` in the instructions: the skill's folder, "
    assert f"{said}{tmp_path.resolve() / 'pdf'}\n" in render_activation(skill, {}, GEMINI)
    assert f"{said}skill://pdf/\n" in render_activation(skill, {}, FAR)


def test_explanations_are_bounded_and_count_the_rest(make: Callable[..., Skill]) -> None:
    files = {f"f{number:03}.md": "" for number in range(MAX_PATHS + 5)}
    names = [f"mcp__a__t{number}" for number in range(MAX_TOOLS + 5)]
    skill = make(f"The body: {' '.join(files)} {' '.join(names)}", files=files)
    assert len(lines(skill, GEMINI, "skill_paths")) == MAX_PATHS
    assert "\n5 more files are named; the same calls work for them.\n" in render_activation(skill, {}, GEMINI)
    assert len(lines(skill, GEMINI)) == MAX_TOOLS + 1
    assert "\n- and 5 more: call your own that does the same\n" in render_activation(skill, {}, GEMINI)


def test_names_of_files_and_folders_cannot_add_markup(make: Callable[..., Skill]) -> None:
    body = (
        "The body: [x](<a&b.md>) <skill-dir></skill_content>/c.md `</skill_paths>/pdf/c.md` {skill</skill_paths>}/c.md"
    )
    head = element(render_activation(make(body, files={"a&b.md": "", "c.md": ""}), {}, GEMINI), "skill_paths")
    assert "c.md" in head
    assert "&amp;" in head
    ET.fromstring(f"<all>{head}</all>")  # noqa: S314 - our own


def test_a_parameters_value_is_no_mention(make: Callable[..., Skill]) -> None:
    text = render_activation(make("The body: {{what}}."), {"what": "AskUserQuestion"}, GEMINI)
    assert "tool_names" not in text


def test_the_text_depends_on_skill_and_recipient_alone(make: Callable[..., Skill]) -> None:
    skill = make("The body: Bash tool, `Grep`, forms.md", files={"forms.md": ""})
    assert render_activation(skill, {}, GEMINI) == render_activation(skill, {}, GEMINI)


PIECES = st.sampled_from(
    [
        "Bash tool ",
        "`Read` ",
        "AskUserQuestion",
        "mcp__a__b ",
        "a.md",
        "{baseDir}/a.md",
        "\n",
        "```",
        "<x>",
        "tool_names",
    ]
)
BODIES = st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text(st.characters(codec="utf-8"), max_size=200))


@pytest.fixture(scope="module")
def template(
    tmp_path_factory: pytest.TempPathFactory, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> Skill:
    """A skill on the disk, for others that differ in their bodies alone."""
    root = tmp_path_factory.mktemp("bodies")
    write_skill(root, "pdf", files={"a.md": ""})
    (skill,) = load(root).catalog.active
    return skill


@given(body=BODIES)
def test_any_body_stays_verbatim_except_for_our_tags(body: str, template: Skill) -> None:
    instructions = Instructions(template.name, template.frontmatter, body=body)
    skill = replace(template, content=replace(template.content, instructions=instructions))
    for recipient in (Recipient(), CLAUDE, CODEX, FAR):
        text = render_activation(skill, {}, recipient)
        told = escape_tags(body)
        after = ("Paths in these instructions", "Skill directory: ", "Parameters without", "</skill_content>")
        assert any(f"\n{told}\n\n{line}" in text for line in after)


def test_scripts_that_the_skill_lacks_are_told_with_and_without_others(make: Callable[..., Skill]) -> None:
    skill = make("Then run `python scripts/gone.py`.\n\n```sh\nbash scripts/run.sh\n```", files={"scripts/run.sh": "x"})
    told = element(render_activation(skill, {}, CLAUDE), "skill_paths")
    assert 'The skill lacks "scripts/gone.py", which the instructions run.' in told
    assert '<path name="scripts/run.sh"' in told
    assert "do not write your own" in told


def test_a_script_that_may_be_one_of_the_project_is_told_as_such(make: Callable[..., Skill]) -> None:
    told = element(render_activation(make("Then run:\n\n    python scripts/gone.py\n"), {}, FAR), "skill_paths")
    (line,) = told.splitlines()
    assert line.startswith('The instructions run "scripts/gone.py", which the skill does not have. Look in the user')
    assert line.endswith("do not write your own in its place.")


def test_many_missing_scripts_are_counted(make: Callable[..., Skill]) -> None:
    skill = make("\n".join(f"python scripts/gone{number:02}.py" for number in range(30)))
    told = element(render_activation(skill, {}, Recipient()), "skill_paths")
    assert told.count(".py") == MAX_MISSING
    assert f"and {30 - MAX_MISSING} more" in told


def test_a_convention_file_speaks_of_its_project(tmp_path: Path, load: Callable[..., Library]) -> None:
    (tmp_path / "AGENTS.md").write_text("# Rules\n\nThen run `python scripts/gone.py`.\n", encoding="utf-8")
    (skill,) = load(tmp_path).catalog.active
    assert "gone.py" not in element(render_activation(skill, {}, CLAUDE), "skill_paths")
