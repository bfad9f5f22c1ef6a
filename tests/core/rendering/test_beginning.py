"""The beginning of an activation that is too long for one result, and where the rest is read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Recipient, explicit_sources, render_activation
from skills_core.format.instructions import parse_convention, parse_instructions
from skills_core.rendering import UNKNOWN_RECIPIENT
from skills_core.rendering.beginning import Beginning, render_beginning
from skills_core.rendering.escaping import escape_tags
from skills_core.skill import Skill, SkillContent, State
from skills_core.sources import Strictness

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library
    from skills_core.format.instructions import Instructions

FENCED = "---\nname: a\ndescription: d\n---\n"
LINES = "\n".join(f"@{number:07d} Follow this step with care." for number in range(0, 9000, 37))


@pytest.fixture
def make(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Callable[..., Skill]:
    """Write one skill and load it."""

    def skill(folder: str = "a", **options: object) -> Skill:
        write_skill(tmp_path, folder, **options)
        (loaded,) = load(tmp_path).catalog.active
        return loaded

    return skill


def beginning_of(
    skill: Skill, most: int, arguments: dict[str, str] | None = None, recipient: Recipient = UNKNOWN_RECIPIENT
) -> Beginning:
    return render_beginning(skill, arguments, recipient, most=most, fits=lambda text: len(text) <= most)


def parse(raw: bytes) -> Instructions:
    return parse_instructions(raw, "a", "a/SKILL.md", Strictness.LENIENT)


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "text",
    [
        "---\nname: a\ndescription: d\n---\n\n  \n# Do\n\nit  \n\n",
        "---\nname: a\ndescription: needs: a repair\n---\nDo it",
        "---\nname: a\ndescription: d\n---Do it\nall",
        "---\nname: a\ndescription: d\n---\n",
        "---\nname: ä漢😀\ndescription: d\n---\n\ufeff é😀\n",
    ],
)
def test_the_body_stands_verbatim_in_the_file_from_its_offset_on(text: str, end: str, bom: str) -> None:
    whole = bom + text.replace("\n", end)
    for found in (parse(whole.encode()), parse_convention(whole.encode(), "AGENTS.md", "AGENTS.md")):
        assert found.fault is None
        rest = whole[found.body_offset :]
        assert rest.startswith(found.body)
        assert not rest[len(found.body) :].strip()


@given(st.text(st.sampled_from("ab \n\r\t-:\ufeff😀\x0b\x85\u2028"), max_size=60), st.sampled_from(["", FENCED]))
def test_a_convention_file_stands_verbatim_from_its_offset_on(text: str, front: str) -> None:
    whole = front + text
    found = parse_convention(whole.encode(), "AGENTS.md", "AGENTS.md")
    if found.fault is None:
        assert whole[found.body_offset :].rstrip() == found.body.rstrip()
        assert whole[found.body_offset :].startswith(found.body)


def test_a_beginning_has_all_lines_around_the_body_and_a_note(make: Callable[..., Skill]) -> None:
    skill = make(body=LINES, files={"forms.md": "x"})
    text, rest = beginning_of(skill, 3000)
    raw = skill.source.root.joinpath("a/SKILL.md").read_text(encoding="utf-8")
    shown = LINES[: len(LINES) - len(raw[rest:].rstrip("\n"))]
    assert shown.endswith("\n")
    head, tail = render_activation(skill).split(LINES)
    note = (
        f"These are only the first {len(shown)} of the {len(LINES)} characters of the instructions above; the rest is "
        f'missing. Read on before you act: call read_skill_file with skill "a", path "SKILL.md", offset {rest}. Go on '
        "until its answer says that the file ends. If it names another digest than this receipt, the skill has "
        "changed: activate it again."
    )
    assert text == f"{head}{shown}{tail.removesuffix('</skill_content>')}{note}\n</skill_content>"
    assert 2500 < len(text) <= 3000


@given(st.text(max_size=3000), st.integers(1500, 4000))
def test_the_beginning_and_the_rest_are_the_whole_body(text: str, most: int) -> None:
    body = parse(b"---\nname: a\ndescription: d\n---\n" + text.encode("utf-8", "replace")).body
    skill = _skill_with(body)
    beginning = beginning_of(skill, most)
    assert len(beginning.text) <= most
    shown = body[: beginning.rest - skill.content.instructions.body_offset]
    assert escape_tags(shown) in beginning.text


def _skill_with(body: str) -> Skill:
    found = replace(parse(b"---\nname: a\ndescription: d\n---\nx"), body=body)
    (source,) = explicit_sources([Path(__file__).parent])
    return Skill(SkillContent("a", found, {}, None), source, "a", "a", State.ACTIVE)


def test_values_are_filled_and_said_for_the_rest(make: Callable[..., Skill]) -> None:
    skill = make(body=f"Use {{{{format}}}}.\n{LINES}\nAgain {{{{ format }}}} and {{{{other}}}}.")
    text, _ = beginning_of(skill, 3000, {"format": "a <skill> table", "unused": "x"})
    assert "Use a <skill> table.\n" in text
    assert "The rest has {{placeholders}} for the arguments: put in these values: format = a <skill> table" in text
    assert "Parameters without a value: other" in text
    text, _ = beginning_of(skill, 5000, {"format": "long " * 200})
    assert "put in the values of your call" in text
    assert "The rest has" not in beginning_of(skill, 3000, {}).text


def test_long_lists_leave_half_of_the_room_to_the_body(make: Callable[..., Skill]) -> None:
    skill = make(body=LINES, files={f"references/chapter-{number:03d}.md": "x" for number in range(120)})
    text, rest = beginning_of(skill, 4500)
    assert rest - skill.content.instructions.body_offset > 2000
    assert text.count("<file>") == 20
    assert "100 more files are not listed here" in text
    text, rest = beginning_of(skill, 2000)
    assert text.count("<file>") == 5
    assert rest - skill.content.instructions.body_offset > 900


def test_a_value_that_fits_nowhere_leaves_the_body_to_the_reading_of_the_file(make: Callable[..., Skill]) -> None:
    skill = make(body=f"{{{{all}}}} {LINES}")
    text, rest = beginning_of(skill, 3000, {"all": "x" * 9000})
    assert rest == skill.content.instructions.body_offset
    assert "These are only the first 0 of the" in text
    assert len(text) < 3000


def test_a_recipient_without_a_tool_for_files_is_sent_to_the_user(make: Callable[..., Skill]) -> None:
    text, rest = beginning_of(make(body=LINES), 3000, None, Recipient(file_tool=None))
    assert f"ask the user for SKILL.md from character {rest} on: no tool here reads it." in text


@pytest.mark.parametrize("near", range(40))
def test_a_tag_of_ours_at_the_cut_stays_escaped(make: Callable[..., Skill], near: int) -> None:
    skill = make(body="x" * (1000 + near) + "</skill_content>" + "y" * 3000)
    text, _ = beginning_of(skill, 1900)
    assert len(re.findall(r"</\s*skill_content", text)) == 1
