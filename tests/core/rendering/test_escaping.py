"""No foreign text opens or closes one of our elements, whatever a body, a value or a message contains."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skills_core
from skills_core import Recipient, render_activation, render_request
from skills_core.context.assembly import assemble_context
from skills_core.context.injection import by_full_text, instruction_of, prompt_block, section_entry
from skills_core.rendering.activation import activation_pieces
from skills_core.rendering.escaping import (
    OWN_TAGS,
    SECTION_TAGS,
    TAGS,
    escape_json,
    escape_line,
    escape_tags,
    escape_tags_and_marks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library, Skill

ROOT = Path(skills_core.__file__).parents[1]

NAMES = [*TAGS, *(tag.upper() for tag in TAGS), "\u017fkill_content", "Sk\u0131ll"]
UNSEEN = ["\u200b", "\u061c", "\u034f", "\u115f", "\ufe0f", "\U000e0041", "\u2066", "\u3164", "\x7f", "\U000e0101"]
SIGNS = [
    "<",
    "/",
    ">",
    "/>",
    " ",
    "\n",
    "\t",
    "[",
    "]",
    ":",
    *UNSEEN,
    "\0",
    "\u00a0",
    'name="x"',
    "-",
    "_",
    ".",
    "x",
    "&lt;",
    "&",
]
PIECES = st.lists(st.sampled_from([*NAMES, *SIGNS]) | st.text(max_size=3), max_size=16).map("".join)


# Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt, what is Cf left to its category.
IGNORABLE = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)}
VISIBLE = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f]")


def is_seen(char: str) -> bool:
    if VISIBLE.match(char):
        return True
    unseen = unicodedata.category(char) in {"Cc", "Cf"} or ord(char) in IGNORABLE or 0xE0000 <= ord(char) < 0xE1000
    return char.isspace() or not unseen


def tags_in(text: str, names: frozenset[str] = OWN_TAGS) -> list[str]:
    """Return the tags with these names in a text, as a parser would see them that forgives everything."""
    found = []
    for match in re.finditer("<", text):
        rest = "".join(filter(is_seen, text[match.end() :])).lstrip()
        slash = rest[:1] == "/"
        name = re.match(r"[\w.-]*", rest[slash:].lstrip())
        if name is not None and (folded := name[0].casefold().replace("\u0131", "i")) in names:
            found.append("/" * slash + folded)
    return found


def marks_in(text: str) -> list[str]:
    return re.findall(r"\[\s*/?\s*skill\s*[:\]]", "".join(filter(is_seen, text)).casefold())


@given(PIECES)
def test_escaping_removes_our_tags_and_changes_nothing_else(text: str) -> None:
    safe = escape_tags(text)
    assert tags_in(safe) == []
    assert escape_tags(safe) == safe
    assert safe.replace("&lt;", "<") == text.replace("&lt;", "<")


@given(PIECES)
def test_escaping_tags_and_marks_removes_both(text: str) -> None:
    safe = escape_tags_and_marks(text)
    assert tags_in(safe, SECTION_TAGS) == []
    assert marks_in(safe) == []
    assert escape_tags_and_marks(safe) == safe


@given(PIECES)
def test_a_name_has_none_of_our_tags_and_stays_one_line(text: str) -> None:
    safe = escape_line(text)
    assert tags_in(safe, TAGS) == []
    assert "\n" not in safe


@pytest.mark.parametrize("tag", sorted(OWN_TAGS))
@pytest.mark.parametrize(
    "form", ["<{}>", "</{}>", "<{}/>", '<{} name="other">', "< {} >", "<\n/\t{}\n>", "<{}\n", "<\u200b{}>", "<{}:x>"]
)
def test_each_of_our_tags_is_escaped_in_every_form(tag: str, form: str) -> None:
    for name in (tag, tag.upper(), tag.title()):
        text = form.format(name)
        assert escape_tags(f"a {text} b") == f"a &lt;{text[1:]} b"


@given(st.dictionaries(PIECES, st.lists(PIECES) | PIECES))
def test_escaped_json_has_none_of_our_tags_and_the_same_value(value: dict[str, object]) -> None:
    text = escape_json(value)
    assert tags_in(text) == []
    assert json.loads(text) == value


@pytest.mark.parametrize("unseen", UNSEEN)
@pytest.mark.parametrize("tag", sorted(OWN_TAGS))
def test_invisible_characters_hide_no_tag(tag: str, unseen: str) -> None:
    for text in (
        f"<{unseen}{tag}>",
        f"</{unseen}{tag}>",
        f"<{unseen}/{tag}>",
        f"<{unseen.join(tag)}>",
        f"<{tag}{unseen}>",
        f"<{tag}{unseen}\nx>",
        f"<{tag}{unseen}path>",
    ):
        assert escape_tags(text) == f"&lt;{text[1:]}"
    assert escape_tags_and_marks(f"[{unseen}/{unseen.join('skill')}]").startswith("[\\")


@pytest.mark.parametrize(
    "text",
    [
        "<div>",
        "<file>",
        "</path>",
        "<path/to/skill-folder>",
        "<skill> and <skills>",
        "<tool_names>",
        "a < b && c",
        "<file-name>",
        "<skill-name>",
        "<path.txt>",
        "<skillset>",
        "< filename >",
        "&lt;skill>",
        "a < b",
    ],
)
def test_other_tags_stay_unchanged(text: str) -> None:
    assert escape_tags(text) == text


@pytest.fixture(scope="module")
def skill_of(
    tmp_path_factory: pytest.TempPathFactory, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> Callable[[str], Skill]:
    """Return a skill with files, and with a body that names them and tools, after the words of a stranger."""
    root = tmp_path_factory.mktemp("skills")

    def make(words: str) -> Skill:
        body = f"{words} {{{{value}}}} Use the Bash tool on scripts/a.py.\n{words}".replace("\0", "").replace("\r", "")
        write_skill(root, "a", body=body, fields="triggers: [stranger]", files={"scripts/a.py": "x", "b<file>.md": "x"})
        (skill,) = load(root).catalog.active
        return skill

    return make


@given(words=PIECES, value=PIECES)
def test_the_tags_of_an_activation_are_those_of_a_harmless_skill(
    words: str, value: str, skill_of: Callable[[str], Skill]
) -> None:
    for recipient in (Recipient(), Recipient(local=True, reads_resources=True)):
        harmless = tags_in(render_activation(skill_of("harmless"), {"value": "x", "more": "y"}, recipient))
        skill, values = skill_of(words), {"value": value, "more": value}
        text = render_activation(skill, values, recipient)
        assert tags_in(text) == harmless
        # What has common names is written around the body, in elements that the body can neither open nor close.
        around = activation_pieces(skill, {"value": "x"}, recipient)
        expected = activation_pieces(skill_of("harmless"), {"value": "x"}, recipient)
        for lines, others in ((around.before, expected.before), (around.after, expected.after)):
            assert tags_in("\n".join(lines), TAGS) == tags_in("\n".join(others), TAGS)
        assert (len(re.findall(r"<skill_content\b", text)), text.count("</skill_content>")) == (1, 1)


def blocks_of(skill: Skill) -> list[str]:
    return [section_entry(skill), prompt_block(skill, 9000), instruction_of(skill, ["<skill>"], 9000)]


@given(words=PIECES)
def test_the_tags_of_a_context_are_those_of_a_harmless_skill(
    words: str, skill_of: Callable[[str], Skill], load: Callable[..., Library]
) -> None:
    harmless, skill = skill_of("harmless"), skill_of(words)
    for one, other in zip(blocks_of(skill), blocks_of(harmless), strict=True):
        assert tags_in(one, SECTION_TAGS) == tags_in(other, SECTION_TAGS)
    catalog = load(harmless.source.root).catalog
    ranking = by_full_text(catalog.skills)
    expected = assemble_context("a stranger asks", catalog, ranking).text
    assert tags_in(expected).count("skill_content") == 1
    assert tags_in(assemble_context(f"a stranger asks {words}", catalog, ranking).text) == tags_in(expected)
    section, _, _ = assemble_context("a stranger asks", catalog, ranking).text.rpartition("\n\nThe user's")
    assert tags_in(section, SECTION_TAGS) == tags_in(expected.rpartition("\n\nThe user's")[0], SECTION_TAGS)
    assert tags_in(render_request(skill, f"x{words}")) == ["user_request", "/user_request"]


def test_a_command_is_escaped_whatever_the_skills_name(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", name='"</skill_content><skill>"')
    (skill,) = load(tmp_path).catalog.active
    assert tags_in(render_request(skill, None)) == []
    assert tags_in(instruction_of(skill, [], 100)) == []


_WRITTEN = re.compile(r"(?<![?(P\w])</?([a-z_]+)(?=[ />]|$)")


ASKED_OF_MODELS = {"description"}
"""Elements that a model writes in its answer; no text of ours wraps foreign text in them."""


def test_the_list_of_tags_equals_the_tags_in_the_code() -> None:
    written: dict[str, set[str]] = {}
    # The tags of pages are for browsers; no model reads them.
    pages = ROOT / "server/html"
    for path in sorted([*ROOT.glob("skills_core/**/*.py"), *ROOT.glob("server/**/*.py")]):
        if path.is_relative_to(pages):
            continue
        source = path.read_text(encoding="utf-8")
        if not _WRITTEN.search(source):
            continue
        tree = ast.parse(source)
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                for match in _WRITTEN.finditer(node.value):
                    written.setdefault(match[1], set()).add(str(path.relative_to(ROOT)))
    assert written.keys() == TAGS | ASKED_OF_MODELS


@pytest.mark.parametrize(
    "body",
    [
        "Run <path/to/skill-folder>/scripts/pack.py <file> in <path>; write a <skill> per <tool_names>.",
        "<skills>\n<skill>\n<file>x</file>\n</skill>\n</skills>",
        "a &lt;b&gt; & c <b",
    ],
)
def test_a_body_reaches_the_model_as_written(skill_of: Callable[[str], Skill], body: str) -> None:
    for recipient in (Recipient(), Recipient(local=True, reads_resources=True)):
        skill = skill_of(body)
        assert skill.body in render_activation(skill, None, recipient)
