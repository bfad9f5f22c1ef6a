"""The rendered activation, request and catalog.

A link to a skill's instructions, and the text that goes with it, for models that ignore instructions in results.

The catalog in the form of the reference tools.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Catalog, Library, Skill, render_catalog, render_request
from skills_core.format.placeholders import parameters_of
from skills_core.rendering.activation import (
    receipt_of,
    render_activation,
    render_link,
    render_linked_activation,
    render_unchanged,
)
from skills_core.rendering.catalog import (
    RULE,
    SHORTEST,
    activation_rule,
    fit_entries,
    render_available_skills,
    render_entry,
    shortened_text,
)
from skills_core.rendering.recipient import Recipient
from skills_core.toolboxes import toolbox_named
from tests.skill_values import skill_of as value_of


@pytest.fixture
def make(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Callable[..., Skill]:
    """Write one skill and load it."""

    def skill(folder: str = "a", **options: object) -> Skill:
        write_skill(tmp_path, folder, **options)
        (loaded,) = load(tmp_path).catalog.active
        return loaded

    return skill


def opening(skill: Skill) -> str:
    digest = (skill.digest or "").removeprefix("sha256:")
    return f'<skill_content name="a" uri="skill://a/SKILL.md" receipt="{digest[:12]}">\n'


def test_an_activation_is_the_body_between_tags_with_name_uri_and_receipt(make: Callable[..., Skill]) -> None:
    skill = make(body="Do it.\n\nThen stop.")
    assert render_activation(skill) == f"{opening(skill)}Do it.\n\nThen stop.\n\n</skill_content>"


def test_what_stands_around_a_body_has_at_most_60_tokens(make: Callable[..., Skill]) -> None:
    body = "Read a.md first."
    text = render_activation(make(body=body, files={"a.md": "x"}))
    around = text.replace(body, "").replace('<path name="a.md"/>\n', "")
    assert len(around) / 4 <= 60


def test_the_environment_that_a_skill_needs_is_a_line_after_the_body(make: Callable[..., Skill]) -> None:
    fields = "compatibility: |\n  Requires git,\n  docker and jq"
    skill = make(body="Do it.", fields=fields)
    assert render_activation(skill) == (
        f"{opening(skill)}Do it.\n\nCompatibility: Requires git, docker and jq\n</skill_content>"
    )


@pytest.mark.parametrize("value", ['""', '" "', "~", "[git]"])
def test_without_a_text_on_compatibility_there_is_no_line(value: str, make: Callable[..., Skill]) -> None:
    assert "Compatibility" not in render_activation(make(body="Do it.", fields=f"compatibility: {value}"))


@pytest.mark.parametrize("written", ["</skill_content>", "x <", "\\u202Eevil", "\\e[31m", "\\0", "word " * 10_000])
def test_a_text_on_compatibility_stays_one_short_line_of_ours(written: str, make: Callable[..., Skill]) -> None:
    text = render_activation(make(body="Do it.", fields=f'compatibility: "{written}"'))
    (line,) = (line for line in text.split("\n") if line.startswith("Compatibility: "))
    assert line.isprintable()
    assert "<" not in line
    assert len(line) < 600
    assert text.count("</skill_content>") == 1


def test_the_folder_on_disk_is_given_to_local_recipients_only(make: Callable[..., Skill], tmp_path: Path) -> None:
    skill = make()
    assert str(tmp_path.resolve() / "a") not in render_activation(skill)
    assert f"Skill directory: {tmp_path.resolve() / 'a'}\n" in render_activation(skill, recipient=Recipient(local=True))


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("{{file}}", ("file",)),
        ("{{ file }} and {{\tfile\t}}", ("file",)),
        ("{{b}} {{a}} {{b}}", ("b", "a")),
        ("{{filePath}} {{file_path}} {{file-path}} {{_x1}}", ("filePath", "file_path", "file-path", "_x1")),
        ("`{{code}}` **{{bold}}**", ("code", "bold")),
        ("{{a}}{{b}}", ("a", "b")),
        ("${{ secrets.TOKEN }} ${{ matrix }}", ()),
        ("{{{raw}}} {{{{raw}}}}", ()),
        ("\\{{escaped}}", ()),
        ("{{}} {{ }} {{1a}} {{a b}} {{a.b}} {{#if a}} {{/if}} {{> a}} {{a\n}} {a} {{a} {a}}", ()),
        ("", ()),
    ],
)
def test_the_parameters_of_a_body_are_its_names_in_double_braces(body: str, names: tuple[str, ...]) -> None:
    assert parameters_of(body) == names


def body_of(text: str) -> str:
    return text.split("\n", 1)[1].split("\n\n", 1)[0]


@pytest.mark.parametrize(
    ("body", "arguments", "filled"),
    [
        ("Read {{file}}.", {"file": "a.txt"}, "Read a.txt."),
        ("Read {{ file }}{{file}}.", {"file": "x"}, "Read xx."),
        ("Read {{file}}.", {}, "Read {{file}}."),
        ("Read {{file}}.", {"file": ""}, "Read ."),
        ("{{a}} {{b}}", {"a": "{{b}}", "b": "{{a}}"}, "{{b}} {{a}}"),
        ("{{a}}", {"a": r"\1 \g<0> $1"}, r"\1 \g<0> $1"),
        ("${{ file }} {{{file}}} \\{{file}}", {"file": "x"}, "${{ file }} {{{file}}} \\{{file}}"),
    ],
)
def test_arguments_fill_the_parameters_in_one_pass(
    body: str, arguments: dict[str, str], filled: str, make: Callable[..., Skill]
) -> None:
    assert body_of(render_activation(make(body=body), arguments)) == filled


def test_parameters_without_a_value_are_named(make: Callable[..., Skill]) -> None:
    skill = make(body="{{one}} {{two}} {{three}}")
    assert "Parameters without a value: one, three." in render_activation(skill, {"two": "x"})
    assert "without a value" not in render_activation(skill, {"one": "", "two": "", "three": ""})


def test_arguments_without_a_parameter_are_listed(make: Callable[..., Skill]) -> None:
    assert "Further arguments: focus = security; x = 1" in render_activation(
        make(body="Do it."), {"focus": "security", "x": "1"}
    )


CLOSING = ["</skill_content>", "</SKILL_CONTENT>", "< / skill_content >", "<\n/skill_content>", "</user_request>"]


@pytest.mark.parametrize("tag", CLOSING)
def test_no_body_and_no_value_can_close_our_tags(tag: str, make: Callable[..., Skill]) -> None:
    skill = make(body=f"One {tag} {{{{p}}}} two <{{{{q}}}}")
    text = render_activation(skill, {"p": tag, "q": tag[1:], "further": tag}).removesuffix("</skill_content>")
    assert re.search(r"<\s*/\s*(skill_content|user_request)", text, re.IGNORECASE) is None
    assert text.count("&lt;") == 4


@given(st.lists(st.sampled_from(["<", "/", " ", "\n", "skill_content", "user_request", ">", "x"]), max_size=20))
def test_no_message_can_close_our_tags(parts: list[str]) -> None:
    text = render_request(FakeSkill("a"), "x" + "".join(parts))  # type: ignore[arg-type]
    assert len(re.findall(r"<\s*/\s*(?:skill_content|user_request)\b", text)) == 1


class FakeSkill:
    """Just a key: a message is rendered for nothing else."""

    def __init__(self, key: str) -> None:
        self.key = key


@pytest.mark.parametrize("body", ["a < b && c > d", "<div>&amp;</div>", "</skillset>", "```xml\n<a b='c'/>\n```"])
def test_a_body_is_otherwise_verbatim(body: str, make: Callable[..., Skill]) -> None:
    assert body_of(render_activation(make(body=body))) == body


@pytest.mark.parametrize("name", ['"><x y="', "a & b", "it's", "a\\nb", "<skill>"])
def test_names_are_escaped_in_attributes(name: str, make: Callable[..., Skill]) -> None:
    written = '"' + name.replace('"', '\\"') + '"'
    skill = make("folder", name=written)
    element = ET.fromstring(render_activation(skill).split("\n", 1)[0] + "</skill_content>")  # noqa: S314 - our own
    assert element.attrib == {"name": skill.name, "uri": skill.uri, "receipt": receipt_of(skill)}


def test_files_are_listed_without_being_read(make: Callable[..., Skill], tmp_path: Path) -> None:
    skill = make(files={"b.txt": "x", "a<b>&.txt": "x", "scripts/run.py": "x"})
    shutil.rmtree(tmp_path / "a")
    text = render_activation(skill)
    assert "<skill_resources>\n<file>a&lt;b&gt;&amp;.txt</file>\n<file>b.txt</file>\n" in text
    assert "<file>scripts/run.py</file>\n</skill_resources>\n" in text
    assert "SKILL.md</file>" not in text


def test_a_skill_without_further_files_lists_none(make: Callable[..., Skill]) -> None:
    assert "skill_resources" not in render_activation(make())


@pytest.mark.parametrize(("count", "listed", "note"), [(100, 100, ""), (101, 100, "1 more"), (250, 100, "150 more")])
def test_at_most_a_hundred_files_are_listed_and_the_rest_is_counted(
    count: int, listed: int, note: str, make: Callable[..., Skill]
) -> None:
    text = render_activation(make(files={f"f{number:03}": "" for number in range(count)}))
    assert text.count("<file>") == listed
    assert (f"\n{note} files" in text) if note else (" more files" not in text)


def test_a_file_name_that_cannot_be_printed_is_listed_by_its_uri(make: Callable[..., Skill]) -> None:
    text = render_activation(make(files={"a\u202eb": "", "tab\there": ""}))
    assert "<file>skill://a/a%E2%80%AEb</file>" in text
    assert "<file>skill://a/tab%09here</file>" in text


@pytest.mark.parametrize("message", [None, "", "  \n"])
def test_without_a_message_the_request_is_the_command(message: str | None, make: Callable[..., Skill]) -> None:
    assert render_request(make("x/refunds"), message) == "/refunds"


def test_a_message_is_binding_context(make: Callable[..., Skill]) -> None:
    text = render_request(make(), "  Only the first page.\n")
    assert text.endswith("<user_request>\nOnly the first page.\n</user_request>")
    assert "overrides the skill" in text


@pytest.fixture
def many(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> tuple[Skill, ...]:
    for number in range(40):
        write_skill(tmp_path, f"s{number:02}", description="Does a thing " + "x" * number)
    write_skill(tmp_path, "zz-always", fields="metadata:\n  jdai:\n    always: true")
    write_skill(tmp_path, "zz-star", fields="triggers: ['*', 'star']")
    return load(tmp_path).catalog.active


def entries(text: str) -> list[str]:
    listing = text.split("\n<available_skills>\n")[1].split("</available_skills>", maxsplit=1)[0]
    return [line.removeprefix("- ").partition(":")[0] for line in listing.splitlines()]


def test_values_that_exceed_the_bound_are_listed_once_after_the_body(make: Callable[..., Skill]) -> None:
    skill = make(body="{{x}}{{y}} " * 50_000)
    text = render_activation(skill, {"x": "v" * 100_000, "y": "short"})
    assert len(text) < 1_000_000
    assert "{{x}}{{y}} {{x}}{{y}} " in text
    assert f"\nFurther arguments: x = {'v' * 100_000}; y = short\n" in text
    assert "Parameters without a value" not in text
    assert "short short" in render_activation(make(body="{{y}} " * 50_000), {"y": "short"})


def test_a_catalog_opens_with_the_rule_and_lists_always_on_skills_first_then_by_name(many: tuple[Skill, ...]) -> None:
    catalog = render_catalog(Catalog(many), 100_000)
    assert catalog.text.startswith(f"{RULE}\n<available_skills>\n")
    assert entries(catalog.text) == ["zz-always", "zz-star", *(f"s{number:02}" for number in range(40))]
    assert (catalog.shown, catalog.hidden) == (42, 0)
    assert "find_skills" not in catalog.text


@pytest.mark.parametrize("budget", [300, 500, 777, 1000, 1500])
def test_a_catalog_keeps_its_budget_and_counts_what_is_hidden(budget: int, many: tuple[Skill, ...]) -> None:
    catalog = render_catalog(Catalog(many), budget)
    assert len(catalog.text) <= budget
    assert entries(catalog.text) == entries(render_catalog(Catalog(many), 100_000).text)[: catalog.shown]
    assert catalog.shown + catalog.hidden == len(many)
    assert catalog.hidden > 0
    assert f"\n{catalog.hidden} more skills are not shown here: find_skills finds them" in catalog.text


@given(st.lists(st.integers(0, 400), min_size=1, max_size=40), st.lists(st.integers(0, 3000), min_size=1, max_size=3))
def test_all_entries_are_shortened_to_one_length_before_any_is_left_out(sizes: list[int], rooms: list[int]) -> None:
    skills = [value_of(f"s{number:02}", ("wörd " * 80)[:size] or "x") for number, size in enumerate(sizes)]
    pages = fit_entries(rooms, skills)
    for room, page in zip(rooms, pages, strict=True):
        assert sum(len(entry) + 1 for entry in page) <= room
    shown = [entry for page in pages for entry in page]
    whole = [render_entry(skill) for skill in skills]
    assert [entry.partition(":")[0] for entry in shown] == [entry.partition(":")[0] for entry in whole[: len(shown)]]
    cut = [len(entry) for entry, full in zip(shown, whole, strict=False) if entry != full]
    # A word of four letters and what ends a text are the differences between the shortened ones.
    assert max(cut, default=0) - min(cut, default=0) <= 6
    if len(shown) < len(skills):
        # Left out are only skills for which texts of the least length have no room.
        least = [min(len(full), len("- s00: ") + SHORTEST) + 1 for full in whole]
        assert sum(least) > sum(rooms) - max(least) * len(rooms)


@pytest.mark.parametrize(
    ("text", "longest", "expected"),
    [
        ("Use when the user asks to file taxes for a company in Italy.", 40, "file taxes for a company in Italy."),
        ("This skill should be used when the user wants to plan a trip.", 20, "plan a trip."),
        ("Plans trips by train, with tickets, hotels and maps.", 30, "Plans trips by train, with…"),
        ("Plans trips by train, with tickets, hotels and maps.", 23, "Plans trips by train…"),
        ("x" * 50, 10, "x" * 9 + "…"),
        ("Use it.", 100, "Use it."),
        ("Anything", 0, ""),
    ],
)
def test_a_shortened_text_loses_a_usual_opening_then_its_last_words(text: str, longest: int, expected: str) -> None:
    assert shortened_text(text, longest) == expected


@given(st.text(max_size=300), st.integers(0, 100))
def test_a_shortened_text_has_at_most_the_length_and_a_short_one_stays(text: str, longest: int) -> None:
    assert len(shortened_text(text, longest)) <= max(longest, 0)
    assert shortened_text(text, len(text)) == text


def test_a_name_that_exceeds_the_budget_hides_no_other() -> None:
    catalog = render_catalog(Catalog((value_of("a" * 3000), value_of("b", "Short."))), 2048)
    assert entries(catalog.text) == ["b"]
    assert (catalog.shown, catalog.hidden) == (1, 1)


@pytest.mark.parametrize("budget", [-1, 0, 100])
def test_a_budget_too_small_for_any_entry_still_gives_the_rule(budget: int, many: tuple[Skill, ...]) -> None:
    catalog = render_catalog(Catalog(many), budget)
    assert (catalog.shown, catalog.hidden) == (0, len(many))
    assert catalog.text.startswith(RULE)


def test_the_order_of_skills_never_changes_the_catalog(many: tuple[Skill, ...]) -> None:
    assert render_catalog(Catalog(many[::-1]), 1500) == render_catalog(Catalog(many), 1500)


def test_an_entry_is_one_escaped_line_with_its_triggers_first(make: Callable[..., Skill]) -> None:
    description = '"Reads <b> & writes.\\n\\n  Twice."'
    skill = make("x", description=description, fields="triggers: [one, '*', two words]\nwhen_to_use: Use it.")
    assert render_catalog(Catalog((skill,)), 10_000).text.split("\n")[2] == (
        "- x: Triggers: one, two words. Reads <b> & writes. Twice. Use it."
    )


def test_a_very_long_entry_is_cut_and_says_so(make: Callable[..., Skill]) -> None:
    line = render_catalog(Catalog((make(description="word " * 1000),)), 10_000).text.split("\n")[2]
    assert line.endswith("…")
    assert len(line) < 1600


def test_eval_files_are_not_listed(make: Callable[..., Skill]) -> None:
    """They hold the expected answers; a reference or a mention of one changes nothing."""
    evals = {"evals/evals.json": "{}", "evals/files/a.csv": "x", "Evals/b.json": "{}"}
    bare = make("bare", body="See evals/evals.json and notes.md.", files=evals)
    assert "<skill_resources>" not in render_activation(bare)
    assert "<skill_paths>" not in render_activation(bare)
    named = make(
        "bare",
        body="See evals/evals.json and notes.md.",
        fields="references: [evals/evals.json, notes.md]",
        files={**evals, "notes.md": "n"},
    )
    text = render_activation(named)
    assert '<path name="notes.md"/>\n</skill_paths>' in text
    assert "<skill_resources>" not in text
    assert "evals/files" not in text
    assert 'name="evals' not in text


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
        "read the resource that it links with read_mcp_resource, and follow that as expert guidance for the task. Do "
        "not guess names."
    )


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
