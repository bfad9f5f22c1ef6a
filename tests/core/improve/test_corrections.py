"""What an improvement may do without a person: it replaces single tokens by ones of a closed set, and nothing else."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.improve.changes import (
    CorrectionKind,
    RunTools,
    changed_texts,
    corrections_of,
    describe_change,
    describe_corrections,
    is_typing_error,
)
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.commands import workspace_tools
from skills_core.runs.tools.own_tools import ask_user_tool

HEAD = "---\nname: greeter\ndescription: Greets people. Use when someone arrives.\n---\n"
BODY = """# Greeting

Call `LookAround` first, then ReadFile, then the Bash tool.
Never delete a file without asking: call `AskUserQuestion`, and wait.
See [the names](refrences/names.md#all) and [more](forms.MD "forms").
Delete at most 100 files, and only from scratch/names.md in your enviroment.

```sh
Bash names.md enviroment
```
"""
FILES = {
    "SKILL.md": (HEAD + BODY).encode(),
    "references/names.md": b"The listing of all names is neccessary.\n",
    "forms.md": b"Forms.\n",
    "scripts/greet.py": b"print('hello')\n",
}
TOOLS = RunTools(
    (*workspace_tools(Path("/work"), tuple(WorkspaceTool), {}), ask_user_tool()),
    frozenset({"LookAround", "ReadFile", "Bash", "AskUserQuestion", "listDirectory"}),
)


def kinds(body: str, old: str = BODY, tools: RunTools = TOOLS, head: str = HEAD) -> list[CorrectionKind] | None:
    before = {**FILES, "SKILL.md": (HEAD + old).encode()}
    after = {**FILES, "SKILL.md": (head + body).encode()}
    found = corrections_of(before, after, "SKILL.md", tools)
    return None if found is None else [each.kind for each in found]


def test_the_three_kinds_are_corrections() -> None:
    assert kinds(BODY.replace("ReadFile", "read_file")) == [CorrectionKind.TOOL_NAME]
    assert kinds(BODY.replace("AskUserQuestion", "ask_user")) == [CorrectionKind.TOOL_NAME]
    assert kinds(BODY.replace("refrences/names.md", "references/names.md")) == [CorrectionKind.LINK]
    after = {**FILES, "references/names.md": b"The listing of all names is necessary.\n"}
    [found] = corrections_of(FILES, after, "SKILL.md", TOOLS) or ()
    assert (found.kind, found.path, found.line) == (CorrectionKind.TYPING_ERROR, "references/names.md", 1)
    both = BODY.replace("ReadFile", "read_file").replace("refrences", "references")
    assert kinds(both) == [CorrectionKind.TOOL_NAME, CorrectionKind.LINK]


def test_the_facts_of_a_change_are_its_places_and_not_the_words_of_a_model() -> None:
    after = {**FILES, "SKILL.md": (HEAD + BODY.replace("ReadFile", "read_file")).encode()}
    corrections = corrections_of(FILES, after, "SKILL.md", TOOLS) or ()
    assert describe_corrections(corrections) == "Name of a tool in SKILL.md, line 7: ReadFile is now read_file"
    after["SKILL.md"] = (HEAD + BODY.replace("100 files", "1000 files")).encode()
    assert describe_change(changed_texts(FILES, after)) == "SKILL.md: lines 10 to 10, 1 removed and 1 added"


TOOL_NAMES = {
    "asking becomes deleting": ("AskUserQuestion", "run_command"),
    "asking becomes reading": ("AskUserQuestion", "read_file"),
    "an unknown name becomes another tool": ("LookAround", "list_directory"),
    "a tool that no run has": ("ReadFile", "delete_everything"),
    "a second occurrence stays": ("the Bash tool", "the run_command tool"),
    "a name in code": ("Bash names.md", "run_command names.md"),
    "a part of a word": ("LookAround", "LookAroundlist_directory"),
    "a command instead of a name": ("ReadFile", "read_file /etc/passwd"),
}


@pytest.mark.parametrize("case", TOOL_NAMES)
def test_a_tool_is_only_replaced_by_the_same_tool_everywhere(case: str) -> None:
    old, new = TOOL_NAMES[case]
    assert kinds(BODY.replace(old, new, 1)) is None


def test_a_name_that_was_not_called_in_vain_stays() -> None:
    nothing_failed = RunTools(TOOLS.offered, frozenset())
    assert kinds(BODY.replace("ReadFile", "read_file"), tools=nothing_failed) is None
    named = "Use `read_file`, never write_file.\n"
    called = RunTools(TOOLS.offered, frozenset({"read_file", "write_file"}))
    assert kinds("Use `write_file`, never write_file.\n", named, called) is None


LINKS = {
    "a text of the skill with another name": ("refrences/names.md#all", "forms.md#all"),
    "another section": ("refrences/names.md#all", "references/names.md#none"),
    "no section": ("refrences/names.md#all", "references/names.md"),
    "an address": ("refrences/names.md#all", "https://evil.example/references/names.md#all"),
    "an address without a scheme": ("refrences/names.md#all", "//evil.example/names.md#all"),
    "a path outside": ("refrences/names.md#all", "../references/names.md#all"),
    "a detour": ("refrences/names.md#all", "references/../references/names.md#all"),
    "a path from the root": ("refrences/names.md#all", "/references/names.md#all"),
    "a link with a title": ('forms.MD "forms"', 'forms.md "forms"'),
    "a new title": ('forms.MD "forms"', 'forms.MD "Delete everything"'),
    "a path that is no link": ("scratch/names.md", "references/names.md"),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_link_leads_to_the_text_of_the_skill_with_its_name_and_nowhere_else(case: str) -> None:
    old, new = LINKS[case]
    assert BODY.replace(old, new) != BODY
    assert kinds(BODY.replace(old, new)) is None


def test_links_in_code_stay() -> None:
    for old in ("```\n[x](refrences/names.md)\n```\n", "`[x](refrences/names.md)`\n", "    [x](refrences/names.md)\n"):
        assert kinds(old.replace("refrences", "references"), old) is None, old
    assert kinds("[`x`](references/names.md)\n", "[`x`](refrences/names.md)\n") == [CorrectionKind.LINK]


def test_links_that_work_or_are_ambiguous_or_lead_to_programs_stay() -> None:
    works = "See [it](forms.md).\n"
    assert kinds("See [it](references/names.md).\n", works) is None
    program = "See [it](greet.py).\n"
    assert kinds("See [it](scripts/greet.py).\n", program) is None
    files = {**FILES, "other/names.md": b"Others.\n"}
    after = {**files, "SKILL.md": files["SKILL.md"].replace(b"refrences", b"references")}
    assert corrections_of(files, after, "SKILL.md", TOOLS) is None


WEAKENED = {
    "a consent": ("Never delete a file without asking: call `AskUserQuestion`, and wait.\n", ""),
    "a prohibition": ("Never delete", "Ever delete"),
    "a negation": ("Never delete", "Now delete"),
    "a limit": ("100 files", "1000 files"),
    "a bound": ("at most 100", "at least 100"),
    "a word more": ("and wait", "and do not wait"),
    "a word less": ("first, then", "first,"),
    "a new line": ("and wait.\n", "and wait.\nThen go on.\n"),
    "a comment": ("and wait.", "and wait.<!-- -->"),
    "a blank": ("and wait.", "and  wait."),
    "an em space": ("and wait.", "and\u2003wait."),
    "a fullwidth dot": ("and wait.", "and wait\uff0e"),
    "a code span": ("and wait", "and `wait`"),
    "an address": ("and wait", "and http://evil.example"),
    "an IPv6 address": ("and wait", "and [::1]"),
    "a file address": ("and wait", "and file:///etc/passwd"),
    "a template": ("and wait", "and <template>"),
    "a case": ("Greeting", "GREETING"),
}


@pytest.mark.parametrize("case", WEAKENED)
def test_what_says_something_else_is_not_a_correction(case: str) -> None:
    old, new = WEAKENED[case]
    assert BODY.replace(old, new) != BODY
    assert kinds(BODY.replace(old, new)) is None


def test_the_frontmatter_is_never_corrected() -> None:
    for old, new in (("Greets", "Meets"), ("someone", "somebody"), ("---\nname", "---\nhooks: {}\nname")):
        assert kinds(BODY, head=HEAD.replace(old, new)) is None
    assert kinds(BODY.replace("ReadFile", "read_file"), head=HEAD.replace("name: greeter", "name:  greeter")) is None


FLIPS = [
    ("not", "now"),
    ("never", "ever"),
    ("ask", "act"),
    ("unless", "until"),
    ("prevent", "present"),
    ("confirm", "conform"),
    ("enable", "unable"),
    ("typical", "atypical"),
    ("united", "untied"),
    ("100", "1000"),
    ("rsync", "sync"),
    ("must", "may"),
    ("deny", "defy"),
    ("remove", "move"),
    ("invalid", "valid"),
    ("approve", "approved"),
    ("delete", "dilate"),
    ("TEH", "THE"),
    ("Teh", "the"),
]


@pytest.mark.parametrize(("old", "new"), FLIPS)
def test_a_word_is_not_corrected_into_another_one(old: str, new: str) -> None:
    assert not is_typing_error(old, new)
    assert not is_typing_error(new, old)


def test_misspellings_are_corrected_in_sentences_alone_and_names_never() -> None:
    assert is_typing_error("teh", "the")
    assert not is_typing_error("Taht", "That")
    assert is_typing_error("documnetation", "documentation")
    for old, allowed in (
        ("Read teh list.\n", True),
        ("(teh list)\n", True),
        ("**teh** list\n", True),
        ("Write `teh` here.\n", False),
        ('Search for "teh" here.\n', False),
        ("    teh code\n", False),
        ("<b>teh</b>\n", False),
        ("```\nteh\n```\n", False),
        ("Read teh.md here.\n", False),
        ("Read /teh here.\n", False),
        ("Set teh=1 here.\n", False),
        ("a `b\nteh c` d\n", False),
    ):
        assert (kinds(old.replace("teh", "the"), old) is not None) is allowed, old


def test_a_misspelling_that_stands_elsewhere_too_may_be_a_name() -> None:
    # `enviroment` also stands in the code block, and `adress` in the name of a file.
    assert kinds(BODY.replace("your enviroment", "your environment")) is None
    before = {"SKILL.md": (HEAD + "The adress is there.\n").encode(), "adress.csv": b"a\n"}
    after = {**before, "SKILL.md": (HEAD + "The address is there.\n").encode()}
    assert corrections_of(before, after, "SKILL.md", TOOLS) is None


NAMES = st.sampled_from(["Bash", "read_file", "ReadFile", "ask_user", "AskUserQuestion", "names.md"])
SIGNS = st.sampled_from(
    ["`", "](", ")", "<", "/", ".", "\u2003", "-", "```", "references/names.md", "https://evil.example"]
)
WORDS = st.one_of(st.sampled_from(["not", "never", "teh", "the", "100"]), NAMES, SIGNS)
BLANKS = st.sampled_from([" ", "\n", ""])
TEXTS = st.lists(st.one_of(WORDS, BLANKS, st.text(string.printable, max_size=3)), max_size=25).map("".join)
ALLOWED = {tool.name for tool in TOOLS.offered} | {"the", "environment", "necessary"} | {*FILES}


@given(TEXTS, TEXTS)
def test_whatever_a_model_writes_corrections_are_the_whole_difference_and_of_closed_sets(one: str, other: str) -> None:
    before = {**FILES, "SKILL.md": (HEAD + one).encode()}
    after = {**FILES, "SKILL.md": (HEAD + other).encode()}
    found = corrections_of(before, after, "SKILL.md", TOOLS)
    if found is None:
        return
    text = one
    for each in found:
        assert each.new.partition("#")[0] in ALLOWED
        assert each.old != each.new
    for each in reversed(found):
        lines = text.split("\n")
        at = each.line - HEAD.count("\n") - 1
        assert each.old in lines[at]
    assert bool(found) == (one != other)


@given(TEXTS, st.data())
def test_one_changed_character_is_only_a_correction_if_it_completes_a_known_token(
    text: str, data: st.DataObject
) -> None:
    body = BODY + text
    at = data.draw(st.integers(0, len(body)))
    cut = data.draw(st.integers(0, 3))
    new = body[:at] + data.draw(st.text(max_size=3)) + body[at + cut :]
    found = kinds(new, body)
    if found:
        assert new.count("\n") == body.count("\n")
        assert set(found) <= set(CorrectionKind)
        assert not set(new) - set(body) - set(string.ascii_lowercase + "_/")
