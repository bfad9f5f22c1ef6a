"""How far an improvement may change a skill: each rule is one refusal, whatever the model was told."""

from __future__ import annotations

import pytest

from skills_core.improve.changes import MAX_LINES, refusal_of, repeats_record
from skills_core.improve.improvement import ImprovementReason as Reason

HEAD = "---\nname: greeter\ndescription: Greets people. Use when someone arrives.\nallowed-tools: read_file\n---\n"
BODY = "# Greeting\n\nCall `LookAround` first.\nThen greet everybody by name.\nSee references/names.md and https://known.example/list.\n"
FILES = {
    "SKILL.md": (HEAD + BODY).encode(),
    "references/names.md": b"Names are in lists.\n",
    "scripts/greet.py": b"print('hello')\n",
    "nested/SKILL.md": b"---\nname: nested\ndescription: Another.\n---\nDo it.\n",
    "nested/more/notes.md": b"Of nested.\n",
    "AGENTS.md": b"# Agents\n",
    "requirements.txt": b"requests==2.32.0\n",
    "data/words.txt": b"one\n",
    "references/words.txt": b"one\n",
    "large.bin": b"\0\xff",
}


def changed(main: str = HEAD + BODY, **more: bytes) -> dict[str, bytes]:
    return {**FILES, "SKILL.md": main.encode(), **more}


def reason(after: dict[str, bytes], links: frozenset[str] = frozenset()) -> Reason | None:
    found = refusal_of(FILES, after, "SKILL.md", links)
    return None if found is None else found.reason


def test_the_five_kinds_of_corrections_are_within_the_bounds() -> None:
    for body in (
        BODY.replace("LookAround", "list_directory"),
        BODY.replace("Call `LookAround` first.\n", ""),
        BODY.replace("Call `LookAround` first.", "Call `list_directory` with the path `.`; if it fails, go on."),
        BODY.replace(
            "Call `LookAround` first.\nThen greet everybody by name.\n",
            "Greet everybody by name.\nCall `LookAround` then.\n",
        ),
        BODY.replace("everybody", "everyone"),
    ):
        assert reason(changed(HEAD + body)) is None, body
    assert reason({**FILES, "references/names.md": b"The names are in lists.\n"}) is None


RIGHTS = {
    "a name": HEAD.replace("name: greeter", "name: greeter2"),
    "a tool": HEAD.replace("allowed-tools: read_file", "allowed-tools: read_file run_command"),
    "no list of tools": HEAD.replace("allowed-tools: read_file\n", ""),
    "tools": HEAD.replace("---\nname", "---\ntools: [{name: x, command: [sh]}]\nname"),
    "a gate": HEAD.replace("allowed-tools", "confirm-patterns: []\nallowed-tools"),
    "hooks": HEAD.replace("allowed-tools", "hooks: {}\nallowed-tools"),
    "activation": HEAD.replace("allowed-tools", "disable-model-invocation: false\nallowed-tools"),
    "metadata": HEAD.replace("allowed-tools", "metadata: {jdai: {always: true}}\nallowed-tools"),
    "requires": HEAD.replace("allowed-tools", "requires: [other]\nallowed-tools"),
    "a comment": HEAD.replace("allowed-tools", "# audit: off\nallowed-tools"),
    "two of a key": HEAD.replace("allowed-tools", "allowed-tools: run_command\nallowed-tools"),
    "no frontmatter": "",
    "a description with a field": HEAD.replace("arrives.", "arrives.\nwhen: always"),
}


@pytest.mark.parametrize("case", RIGHTS)
def test_the_frontmatter_cannot_change_what_a_skill_may(case: str) -> None:
    expected = {Reason.FRONTMATTER_CHANGED, Reason.NAME_CHANGED}
    assert reason(changed(RIGHTS[case] + BODY)) in expected


def test_a_description_may_be_corrected_and_not_widened() -> None:
    old = "Greets people. Use when someone arrives."
    assert reason(changed(HEAD.replace(old, '"Greets peoples. Use when someone arrives."') + BODY)) is None
    for new in (
        '"Use for every request, always."',
        '"' + old + " Use always, for everything that any user asks." + '"',
    ):
        assert reason(changed(HEAD.replace(old, new) + BODY)) is Reason.DESCRIPTION_CHANGED


def test_files_do_not_come_or_go_and_programs_stay() -> None:
    assert reason({**FILES, "scripts/new.sh": b"#!/bin/sh\n"}) is Reason.FILE_ADDED
    assert reason({**FILES, "../out.md": b"x"}) is Reason.FILE_ADDED
    assert reason({path: raw for path, raw in FILES.items() if path != "scripts/greet.py"}) is Reason.FILE_REMOVED
    assert reason({**FILES, "scripts/greet.py": b"import os\n"}) is Reason.NOT_A_TEXT
    assert reason({**FILES, "references/names.md": b"\xff"}) is Reason.NOT_A_TEXT
    assert reason({**FILES, "references/names.md": b"a\0b"}) is Reason.NOT_A_TEXT
    assert reason(FILES, frozenset({"link.md"})) is Reason.LINK
    assert reason(dict(FILES)) is Reason.NOTHING_CHANGED


def test_other_skills_and_the_inputs_of_programs_stay() -> None:
    for path in ("nested/SKILL.md", "nested/more/notes.md", "AGENTS.md"):
        assert reason({**FILES, path: b"Do it all.\n"}) is Reason.OTHER_SKILL, path
    for path in ("requirements.txt", "data/words.txt", "large.bin"):
        assert reason({**FILES, path: b"evil\n"}) is Reason.NOT_A_TEXT, path
    assert reason({**FILES, "references/words.txt": b"two\n"}) is None


def test_the_diff_is_bounded() -> None:
    lines = "".join(f"Step {number}.\n" for number in range(MAX_LINES + 1))
    assert reason(changed(HEAD + BODY + lines)) is Reason.TOO_LARGE
    assert reason(changed(HEAD + BODY + "word " * 1000 + "\n")) is Reason.TOO_LARGE
    long = {**FILES, "references/names.md": b"".join(b"Name %d.\n" % number for number in range(40))}
    other = {**long, "references/names.md": b"".join(b"Name %d.\n" % number for number in range(25, 40))}
    found = refusal_of(long, other, "SKILL.md")
    assert found is not None
    assert found.reason is Reason.TOO_LARGE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("First greet\u200b\u200beverybody.", Reason.HIDDEN_TEXT),
        ("First greet\u202eeverybody.", Reason.HIDDEN_TEXT),
        ("<!-- skillserve-audit: ignore fetch-and-run -- known -->", Reason.SUPPRESSION_ADDED),
        ("# skillserve-audit: ignore-file hidden-text -- known", Reason.SUPPRESSION_ADDED),
    ],
)
def test_nothing_is_hidden_from_the_person_who_reads_the_diff(text: str, expected: Reason) -> None:
    assert reason(changed(HEAD + BODY + text + "\n")) is expected


def test_the_text_repeats_no_long_piece_of_the_record_of_a_run() -> None:
    error = "Connection of alice@home failed: the password of the shared account is   correct horse battery staple"
    assert repeats_record(f"First read this: {error.upper()}\n", "", ["x", error])
    assert not repeats_record("If the connection failed, ask for the password of the account.\n", "", [error])
    assert not repeats_record(error, f"The skill says: {error}", [error])
