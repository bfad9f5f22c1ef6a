"""The catalog in the form of the reference tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from skills_core.rendering.catalog import render_available_skills

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library


def test_each_skill_has_its_name_description_and_the_path_of_its_main_file(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "pdf", description="Fills & reads <forms>.")
    write_skill(tmp_path, "deep/zip")
    root = tmp_path.resolve()
    assert render_available_skills(load(tmp_path).catalog.offered) == (
        "<available_skills>\n"
        "<skill>\n"
        "<name>\npdf\n</name>\n"
        "<description>\nFills &amp; reads &lt;forms&gt;.\n</description>\n"
        f"<location>\n{root / 'pdf' / 'SKILL.md'}\n</location>\n"
        "</skill>\n"
        "<skill>\n"
        "<name>\nzip\n</name>\n"
        "<description>\nDoes a thing.\n</description>\n"
        f"<location>\n{root / 'deep' / 'zip' / 'SKILL.md'}\n</location>\n"
        "</skill>\n"
        "</available_skills>"
    )


def test_no_text_can_end_an_element(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", description="'</description></skill><skill>&amp;'")
    (skill,) = ET.fromstring(render_available_skills(load(tmp_path).catalog.offered))  # noqa: S314 - our own
    assert (skill.findtext("description") or "").strip() == "</description></skill><skill>&amp;"


def test_characters_that_xml_does_not_allow_are_replaced(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", description='"\\x01 \\e[2J \\uFFFE"')
    (skill,) = ET.fromstring(render_available_skills(load(tmp_path).catalog.offered))  # noqa: S314 - our own
    assert (skill.findtext("description") or "").strip() == "\ufffd \ufffd[2J \ufffd"


def test_without_skills_the_element_is_empty() -> None:
    assert render_available_skills([]) == "<available_skills>\n</available_skills>"
