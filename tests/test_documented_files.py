"""Every file that a page shows can be read by the program that it is for."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import NamedTuple

import pytest
import yaml

from server.config.settings.names import BY_OPTION
from skills_core import parse_skill
from skills_core.diagnostics import Severity
from tests.documented_commands import BLOCK
from tests.test_documented_commands import PAGES, shown

READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda text: [*yaml.safe_load_all(text)],
}

VARIABLES = {name for setting in BY_OPTION.values() for name in (setting.variable, setting.file_variable) if name}
NOT_SETTINGS = {"SKILLSERVE_SCHEDULED_RUN"}
"""What the server gives to the programs that it starts."""

FIELDS = ("tools", "danger_patterns", "evaluation", "when")
"""Fields of the frontmatter with which examples begin."""


class Example(NamedTuple):
    language: str
    text: str
    place: str


EXAMPLES = [
    Example(match["language"], match["code"], f"{shown(page)}:{text.count(chr(10), 0, match.start()) + 1}")
    for page in PAGES
    for text in [page.read_text(encoding="utf-8")]
    for match in BLOCK.finditer(text)
    if match["language"] in READERS
]
FRONTMATTER = [each for each in EXAMPLES if each.language == "yaml" and each.text.partition(":")[0] in FIELDS]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.place)
def test_each_example_of_a_file_can_be_parsed(example: Example) -> None:
    assert READERS[example.language](example.text)


@pytest.mark.parametrize("example", FRONTMATTER, ids=lambda each: each.place)
def test_each_example_of_a_frontmatter_is_one_that_a_skill_may_have(example: Example) -> None:
    skill = parse_skill(
        f"---\nname: a\ndescription: Does it. Use when asked.\n{example.text}---\nDo it.\n", "a/SKILL.md"
    )
    assert [each for each in skill.diagnostics if each.severity is Severity.ERROR] == []
    assert not [each for each in skill.diagnostics if "unknown" in each.code]


def test_each_variable_that_a_page_names_is_one_of_a_setting() -> None:
    unknown = {
        f"{shown(page)}: {name}"
        for page in PAGES
        for name in re.findall(r"\bSKILLSERVE_[A-Z][A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8"))
        if name not in VARIABLES | NOT_SETTINGS
    }
    assert unknown == set()


def test_there_are_examples_of_each_kind() -> None:
    languages = [each.language for each in EXAMPLES]
    assert {language: languages.count(language) >= 10 for language in READERS} == dict.fromkeys(READERS, True)
    assert len(FRONTMATTER) >= 4
