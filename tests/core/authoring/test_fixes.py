"""Automatic fixes of a SKILL.md: what is fixed, what is left, and that nothing else changes.

The advice for each reason.
"""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from skills_core import Diagnostic, Reason, Severity, Strictness
from skills_core.authoring.advice import ADVICE
from skills_core.authoring.fixes import fix_main
from skills_core.format.document import BOM, Fences, find_fences, parse_document
from skills_core.format.instructions import parse_instructions
from skills_core.texts import find_hidden

NAME_FAULTS = {Reason.MISSING_NAME, Reason.INVALID_NAME, Reason.NAME_TOO_LONG, Reason.NAME_MISMATCH}


def skill(yaml: str, body: str = "\nBody.\n") -> bytes:
    return f"---\n{yaml}\n---\n{body}".encode()


def fixed(yaml: str, folder: str = "my-skill") -> str:
    """Return a frontmatter after mending."""
    text = fix_main(skill(yaml), folder).raw.decode()
    assert text.startswith("---\n")
    assert text.endswith("\n---\n\nBody.\n")
    return text[4 : -len("\n---\n\nBody.\n")]


def codes(raw: bytes, folder: str = "my-skill") -> list[Reason]:
    return [found.code for found in fix_main(raw, folder).fixes]


def found_in(raw: bytes, folder: str) -> tuple[Diagnostic, ...]:
    return parse_instructions(raw, folder, "SKILL.md", Strictness.LENIENT).diagnostics


FIXES = {
    "a colon": ("description: Use when: asked", 'description: "Use when: asked"', "yaml_repaired"),
    "a colon over lines": ("description: a: b\n  c: d", 'description: "a: b c: d"', "yaml_repaired"),
    "an at sign": ("description: @you", 'description: "@you"', "yaml_repaired"),
    "a bracket": ("description: [never closed", 'description: "[never closed"', "yaml_repaired"),
    "quotes within": ('description: "a" and: b', 'description: "\\"a\\" and: b"', "yaml_repaired"),
    "text that is not indented": ('description: "a\nb"', 'description: "a\n  b"', "yaml_repaired"),
    "a number": ("description: d\nversion: 1.10", 'description: d\nversion: "1.10"', "invalid_field"),
    "a number and a comment": ("description: 5 # five", 'description: "5" # five', "invalid_field"),
    "a boolean": ("description: d\nlicense: True", 'description: d\nlicense: "True"', "invalid_field"),
    "a number further down": (
        "description: d\nmetadata: {jdai: {skillKey: 0x1F}}",
        'description: d\nmetadata: {jdai: {skillKey: "0x1F"}}',
        "invalid_field",
    ),
    "a number in a list": (
        "description: d\ntools:\n- name: a\n- {name: 7, description: d}",
        'description: d\ntools:\n- name: a\n- {name: "7", description: d}',
        "invalid_field",
    ),
    "a slip": ("discription: d", "description: d", "unknown_field"),
    "a slip in quotes": ("'descripton': d", "'description': d", "unknown_field"),
    "an underscore": ("description: d\nallowed_tools: Read", "description: d\nallowed-tools: Read", "unknown_field"),
    "another case": ("Description: d", "description: d", "unknown_field"),
    "letters in another order": ("descripiton: d", "description: d", "unknown_field"),
    "a hidden character": ("description: d\u200be", "description: de", "hidden_characters"),
    "a hidden character in a comment": ("description: d # \u202e!", "description: d # !", "hidden_characters"),
    "a hidden character in a key": ("descri\u200bption: d", "description: d", "hidden_characters"),
    "a control character": ("description: a\x07b", "description: ab", "hidden_characters"),
}


@pytest.mark.parametrize(("before", "after", "code"), FIXES.values(), ids=FIXES)
def test_a_mechanical_fault_is_fixed_and_everything_else_stays(before: str, after: str, code: str) -> None:
    around = "# first\nname: my-skill  # the name\n\n{}\n# last\nhomepage: 'x'"
    assert fixed(around.format(before)) == around.format(after)
    assert codes(skill(around.format(before))) == [code]


NAMES = {
    "missing": ("description: d", "name: my-skill\ndescription: d"),
    "empty": ("name:\ndescription: d", "name: my-skill\ndescription: d"),
    "empty before a comment": ("name: # why\ndescription: d", "name: my-skill # why\ndescription: d"),
    "null": ("name: ~\ndescription: d", "name: my-skill\ndescription: d"),
    "another": ("name: other # why\ndescription: d", "name: my-skill # why\ndescription: d"),
    "in quotes": ("name: 'My Skill'\ndescription: d", "name: my-skill\ndescription: d"),
    "a block": ("name: >\n  My\n  Skill\n\ndescription: d", "name: my-skill\n\ndescription: d"),
    "a number": ("name: 12\ndescription: d", "name: my-skill\ndescription: d"),
    "in braces": ("{name: x, description: d}", "{name: my-skill, description: d}"),
    "misspelt": ("nmae: x\ndescription: d", "name: my-skill\ndescription: d"),
}


@pytest.mark.parametrize(("before", "after"), NAMES.values(), ids=NAMES)
def test_an_invalid_name_is_replaced_by_the_folders(before: str, after: str) -> None:
    assert fixed(before) == after


@pytest.mark.parametrize("folder", ["12", "1e3", "2024-01-31", "true", "no", "on", "null", "0x1"])
def test_a_name_that_parsers_could_misread_is_quoted(folder: str) -> None:
    assert fixed("description: d", folder) == f'name: "{folder}"\ndescription: d'


@pytest.mark.parametrize("folder", ["My Skill", "a--b", "-a", "x" * 65, "snake_case", ""])
def test_the_name_stays_if_the_folders_name_is_invalid(folder: str) -> None:
    assert fixed("name: Other\ndescription: d", folder) == "name: Other\ndescription: d"


LEFT = {
    "not one similar field but several": "trigge: x\ndescription: d",
    "the known field is there too": "description: d\nversion: a\nverison: b",
    "two mean the same": "description: d\nverison: a\nversoin: b",
    "similar, but no slip": "description: d\nlicense_url: x",
    "one and several": "description: d\nmodels: [a, b]",
    "one letter of a short word": "description: d\nmode: plan",
    "a field of one's own": "description: d\nx-license: MIT",
    "the value is of another type": "description: d\nmetdata: text",
    "a number with a tag": "description: d\nversion: !!int 5",
    "a number that is repeated": "description: &d 5\nversion: *d",
    "an escape that can be seen": 'description: "a\\u202eb"',
    "a key twice": "description: d\nlicense: a\nlicense: b",
    "no description": "license: MIT",
    "a list for a name": "description: d\nhint: [a]",
}


@pytest.mark.parametrize("yaml", LEFT.values(), ids=LEFT)
def test_ambiguous_faults_are_left_to_the_author(yaml: str) -> None:
    yaml = f"name: my-skill\n{yaml}"
    assert fixed(yaml) == yaml


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"# No frontmatter\n", b"---\nname: x\n", b"---\n- x\n---\n", b"---\n{a: [\n---\n"),
        *(BOM, BOM + b"caf\xe9", BOM + b"---\n{a: [\n---\n\xe2\x80\x8b"),
    ],
)
def test_a_file_with_unreadable_frontmatter_stays_unchanged(raw: bytes) -> None:
    result = fix_main(raw, "my-skill")
    assert (result.raw, result.fixes) == (raw, ())


def test_a_byte_order_mark_is_removed_and_line_ends_stay() -> None:
    body = "Body\u200b \r\n"
    raw = f"---\r\n# c\r\ndescription: Use: it\r\n  or: not\r\nversion: 1.0\r\n---\r\n{body}".encode()
    result = fix_main(BOM + raw, "my-skill")
    expected = f'---\r\nname: my-skill\r\n# c\r\ndescription: "Use: it or: not"\r\nversion: "1.0"\r\n---\r\n{body}'
    assert result.raw == expected.encode()
    assert [(fix.line, fix.code) for fix in result.fixes] == [
        (1, Reason.HIDDEN_CHARACTERS),
        (2, Reason.MISSING_NAME),
        (4, Reason.YAML_REPAIRED),
        (5, Reason.INVALID_FIELD),
    ]


def test_a_repair_keeps_the_other_fields_with_any_line_ends() -> None:
    raw = b"---\r\nname: a\r\ndescription: b: c\r\ntags: [x, y]\r\ntrigger: true # yes\r\n---\r\n"
    fields = parse_document(raw, "SKILL.md").fields
    assert fields == {"name": "a", "description": "b: c", "tags": ["x", "y"], "trigger": True}


def test_a_comment_below_an_invalid_value_is_not_part_of_it() -> None:
    fields = parse_document(skill("name: a\ndescription: b: c\n# why\n\nlicense: MIT"), "SKILL.md").fields
    assert fields == {"name": "a", "description": "b: c", "license": "MIT"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text_after_the_closing_fence_moves_to_its_own_line(end: str) -> None:
    raw = end.join(["---", "description: d", "---# Title", "", "A rule:", "---", "More.", ""]).encode()
    result = fix_main(raw, "my-skill")
    written = ["---", "name: my-skill", "description: d", "---", "# Title", "", "A rule:", "---", "More.", ""]
    assert result.raw == end.join(written).encode()
    assert [(fix.line, fix.code) for fix in result.fixes] == [
        (2, Reason.MISSING_NAME),
        (4, Reason.YAML_REPAIRED),
    ]
    assert parse_document(result.raw, "").body == parse_document(raw, "").body


def test_hidden_characters_stay_if_their_removal_makes_keys_equal() -> None:
    yaml = "name: my-skill\ndescription: d\nlicense: a\nlicen\u200bse: b"
    assert fixed(yaml) == yaml


@pytest.mark.parametrize("text", ["\u200b", "\x07", "'\u202e '"])
def test_a_description_of_only_hidden_characters_stays(text: str) -> None:
    raw = skill(f"name: my-skill\ndescription: {text}")
    assert Reason.HIDDEN_CHARACTERS not in codes(raw)


def test_removing_hidden_characters_never_creates_a_fence() -> None:
    yaml = "name: my-skill\ndescription: |\n  d\n-\u200b--\nlicense: b"
    assert fixed(yaml) == 'name: my-skill\ndescription: "| d ---"\nlicense: b'


VALUES = st.sampled_from(
    [
        *("d", "Use when: x", "@x", "[x", "1.0", "true", "~", "", "'q'", '"a\n b"', "|\n  a\n  b", "x # c", "a\u200bb"),
        *("[a, b]", "{a: 1}", "0x1F", "e\u0301", "\u202e", "\x07", "- a", "a\n  b: c\n\n# d", "'a\n# b'", "👩\u200d"),
    ]
)
KEYS = st.sampled_from(
    [
        *("name", "nmae", "description", "discription", "version", "verison", "license", "licence", "compatibility"),
        *("hint", "tags", "metadata", "allowed_tools", "trigger", "x", "colour", "when_to_use", "argument_hint"),
    ]
)
LINES = st.one_of(
    st.builds("{}: {}".format, KEYS, VALUES),
    st.sampled_from(["# comment", "", "  # indented", "metadata: {jdai: {skillKey: 5}}", "tools:\n- name: 5"]),
)
FOLDERS = st.sampled_from(["my-skill", "d", "12", "true", "My Skill", "é", "e\u0301", "x" * 65])
BODIES = st.sampled_from(["", "\nBody\n", "a\u200bb", "---\nx: y: z\n---\n", "\r\nBody \r\n", "\ufeff"])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    text = "\n".join(["---", *draw(st.lists(LINES, max_size=7)), f"---\n{draw(BODIES)}"])
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from([b"", BOM, BOM * 2])) + text.encode()


def body_of(raw: bytes) -> str:
    text = raw.decode().lstrip("\ufeff")
    fences = find_fences(text)
    assert isinstance(fences, Fences)
    return text[fences.end :]


@given(files(), FOLDERS)
def test_fixing_is_idempotent_and_never_changes_the_body(raw: bytes, folder: str) -> None:
    result = fix_main(raw, folder)
    again = fix_main(result.raw, folder)
    assert (again.raw, again.fixes) == (result.raw, ())
    assert body_of(result.raw) == body_of(raw)
    assert bool(result.fixes) == (result.raw != raw)


@given(files(), FOLDERS)
@example(b"---\nname: \x07\nname: \n---\n", "my-skill")
def test_fixing_adds_no_fault_and_every_fix_names_its_line(raw: bytes, folder: str) -> None:
    result = fix_main(raw, folder)
    assume(parse_document(raw, "").fault is None)
    before, after = found_in(raw, folder), found_in(result.raw, folder)
    assert len(after) <= len(before)
    # While a value needs a repair, the parser does not report duplicate keys.
    unreported = {Reason.DUPLICATE_KEY} if Reason.YAML_REPAIRED in {found.code for found in before} else set()
    faults = {found.code for found in after if found.severity is not Severity.INFO}
    assert faults <= {found.code for found in before} | NAME_FAULTS | unreported
    lines = result.raw.decode().split("\n")
    assert all(1 <= fix.line <= len(lines) for fix in result.fixes)


@given(files().filter(lambda raw: parse_document(raw, "").fault is None))
def test_after_fixing_no_fixable_fault_is_left(raw: bytes) -> None:
    result = fix_main(raw, "my-skill")
    text = result.raw.decode()
    after = found_in(result.raw, "my-skill")
    assert not text.startswith("\ufeff")
    assert Reason.YAML_REPAIRED not in {found.code for found in after}
    fields = parse_document(result.raw, "").fields
    if not isinstance(fields.get("name"), list | dict):
        assert not NAME_FAULTS & {found.code for found in after}
    assert not any(found.message.endswith("should be a quoted string") for found in after)


@given(
    st.lists(st.sampled_from(["license: MIT", "tags: [a]", "# c", "", "metadata: {a: 1}", "homepage: x"]), unique=True)
)
def test_a_file_without_faults_stays_unchanged(lines: list[str]) -> None:
    raw = skill("\n".join(["name: my-skill", "description: Does a thing.", *lines]), "Body\u200b")
    assert fix_main(raw, "my-skill").raw is raw


@given(st.text(alphabet="a\u200b\u200d\u00e9\ufe0f\U000e0041 ", max_size=12))
def test_either_all_hidden_characters_are_removed_or_none(text: str) -> None:
    raw = skill(f"name: my-skill\ndescription: d\nhomepage: '{text}'")
    after = fix_main(raw, "my-skill").raw
    assert after == raw or not find_hidden(after.decode())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fences_of_stars_become_dashes_and_breaks_in_the_body_stay(end: str) -> None:
    raw = "***\nname: my-skill\ndescription: d\n***\n\nOne\n\n***\n\nTwo\n".replace("\n", end).encode()
    result = fix_main(raw, "my-skill")
    expected = "---\nname: my-skill\ndescription: d\n---\n\nOne\n\n***\n\nTwo\n"
    assert result.raw.decode() == expected.replace("\n", end)
    assert [(fix.code, fix.line) for fix in result.fixes] == [(Reason.STAR_FENCES, 1)]
    assert found_in(result.raw, "my-skill") == ()


@pytest.mark.parametrize("reason", list(ADVICE))
def test_advice_is_one_short_sentence(reason: Reason) -> None:
    advice = ADVICE[reason]
    assert advice[0].isupper()
    assert advice.endswith(".")
    assert ". " not in advice
    assert advice.isprintable()
    assert len(advice) <= 100
