"""Long texts in parts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Recipient, explicit_sources, render_activation
from skills_core.disk.sources import Strictness
from skills_core.format.instructions import parse_convention, parse_instructions
from skills_core.rendering.escaping import escape_tags
from skills_core.rendering.parts import Beginning, cut_before, end_of_part, render_beginning
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT
from skills_core.skills.skill import Skill, SkillContent, SkillFiles, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library
    from skills_core.format.instructions import Instructions


WHOLE = [
    "a",
    "é",
    "e\u0301",
    "漢",
    "한",
    "👩\u200d👩\u200d👧",
    "👍🏽",
    "❤\ufe0f",
    "\r\n",
    "<skill_content>",
    '</skill_content name="a b">',
    "{{ format }}",
    "${{ secrets.A }}",
    "&lt;",
    "\\n",
    "\\u003c",
]
"""Characters as readers see them, and what must stay whole."""

pieces = st.lists(st.sampled_from([*WHOLE, " ", "b", ". ", "# ", "\n", "\n\n"]), min_size=1, max_size=300)


def parts_of(text: str, most: int, size: type[int] | None = None) -> list[str]:
    """Cut a text into parts of at most `most` characters, or bytes."""
    parts, start = [], 0
    while start < len(text):

        def fits(end: int, start: int = start) -> bool:
            part = text[start:end]
            return (len(part.encode()) if size else len(part)) <= most

        end = end_of_part(text, start, most, fits)
        assert end > start, "a part is empty"
        parts.append(text[start:end])
        start = end
    return parts


@given(st.text(max_size=200).map(lambda text: text * 20), st.integers(500, 900))
def test_parts_make_up_the_whole_and_each_fits(text: str, most: int) -> None:
    in_characters, in_bytes = parts_of(text, most), parts_of(text.encode("utf-8", "replace").decode(), most, int)
    assert "".join(in_characters) == text
    assert all(len(part) <= most for part in in_characters)
    assert all(len(part.encode()) <= most for part in in_bytes)


@given(pieces, st.integers(60, 200))
def test_no_character_tag_parameter_or_escape_is_split(pieces: list[str], most: int) -> None:
    text = "".join(pieces)
    # Where pieces join to longer characters, such as four regional indicators, the ends of pieces are still allowed.
    ends, position = set(), 0
    for piece in pieces:
        inner = re.finditer(r"(?<=[ \n])", piece) if piece in {". ", "# ", "\n\n"} else ()
        ends |= {position + match.start() for match in inner}
        position += len(piece)
        ends.add(position)
    position = 0
    for part in parts_of(text, most):
        position += len(part)
        assert position in ends, (part, text[position:][:20])


def test_a_part_ends_with_a_paragraph_that_is_near() -> None:
    text = "a" * 75 + "\n\n" + "b" * 20 + "\n" + "c" * 100
    assert text[: cut_before(text, 0, 95)] == "a" * 75 + "\n\n"


def test_a_part_ends_before_a_heading_that_is_near() -> None:
    text = "a" * 70 + "\n## Then\n" + "b" * 10 + "\n" + "c" * 100
    assert text[cut_before(text, 0, 92) :].startswith("## Then")


def test_a_part_may_end_exactly_at_a_paragraph() -> None:
    text = "a" * 50 + "\n\n" + "b" * 50
    assert cut_before(text, 0, 52) == 52


def test_a_part_ends_with_a_line_where_no_paragraph_is_near() -> None:
    text = "a" * 20 + "\n\n" + "b" * 50 + "\n" + "c" * 100
    assert text[: cut_before(text, 0, 95)].endswith("b\n")


def test_a_long_line_is_cut_between_words() -> None:
    assert cut_before("abc def " * 50, 0, 95) == 92


def test_a_long_word_is_cut_between_characters() -> None:
    assert cut_before("a" * 200, 0, 95) == 95
    assert cut_before("e\u0301" * 200, 0, 95) == 94


@pytest.mark.parametrize(
    "text", ["e" + "\u0301" * 5000, "🇩" * 5000, "\u200d" * 5000, "<" * 5000, "{{" * 5000, "\\" * 5000, "&" * 5000]
)
def test_text_that_is_one_endless_character_is_cut_all_the_same(text: str) -> None:
    parts = parts_of(text, 300)
    assert "".join(parts) == text
    assert len(parts) < 60


def test_a_tag_that_does_not_fit_gives_an_empty_part() -> None:
    assert cut_before("a <skill_content> b", 2, 10) == 2


def test_nothing_that_fits_gives_an_empty_part() -> None:
    assert end_of_part("abc", 1, 10, lambda end: end <= 1) == 1
    assert end_of_part("abc", 0, 10, lambda _: False) == 0


def test_a_text_that_fits_has_one_part() -> None:
    assert end_of_part("abc\n\ndef", 0, 10, lambda _: True) == 8


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
        "until its answer says that the file ends. If it names another digest than the receipt, the skill has "
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
    return Skill(SkillContent("a", found, SkillFiles(), None), source, "a", "a", State.ACTIVE)


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
