"""Rules about the writing of a skill: grants, description, size, files, menus.

The figures of the audit on labelled skills do not get worse, and the labels are sound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from skills_core.audit.engine import RULES_BY_ID
from skills_core.audit.findings import Finding, Severity
from skills_core.audit.rules.body import MAX_LINES, MAX_TOKENS, estimated_tokens
from tools.audit_figures.judgements import Skills, read_judgements
from tools.audit_figures.manifests import Kind, Part, read_cases
from tools.audit_figures.measure import Counts, measure

Found = Callable[..., tuple[Finding, ...]]
Severities = Callable[..., dict[str, str]]


def test_a_good_skill_has_no_findings(found_in: Found) -> None:
    files = {"scripts/run.py": "import helper\n", "scripts/helper.py": "", "references/forms.md": "x", "LICENSE": "x"}
    assert found_in("Run `scripts/run.py`; read [forms](references/forms.md) for forms.\n", files) == ()


@pytest.mark.parametrize(
    "grant",
    ["*", "Bash", "Bash(*)", "Bash(*:*)", "Bash(python3:*)", "Bash(sudo *)", "mcp__*", "mcp__github__*", "Write(/**)"],
)
def test_an_over_wide_grant_is_found(severities: Severities, grant: str) -> None:
    assert severities(head=f'allowed-tools: ["{grant}"]\n') == {"wildcard-grant": "warning"}


@pytest.mark.parametrize("grant", ["Bash(git:*)", "Bash(git status)", "Read", "Write(docs/**)", "mcp__github__search"])
def test_a_narrow_grant_is_accepted(severities: Severities, grant: str) -> None:
    assert severities(head=f'allowed-tools: ["{grant}"]\n') == {}


def test_a_tool_that_is_not_granted_is_found(severities: Severities) -> None:
    text = "Ask with the AskUserQuestion tool, and read with the Read tool.\n"
    assert severities(text, head="allowed-tools: Read\n") == {"undeclared-tool": "warning"}
    assert severities(text, head="allowed-tools: Read AskUserQuestion\n") == {}
    assert severities(text) == {}


@pytest.mark.parametrize("text", ["Helps with PDFs.", "PDF tools", "Process data."])
def test_a_vague_description_is_found(severities: Severities, text: str) -> None:
    assert severities(description=text)["vague-description"] == "warning"


def test_a_lone_surrogate_in_a_field_stops_no_rule(found_in: Found) -> None:
    found = found_in(description='"Use when asked for \\ud800 in a PDF."')
    assert [each.message for each in found if "failed" in each.message] == []


def test_a_description_says_what_and_when(severities: Severities) -> None:
    what = "Extracts text and tables from PDF files, fills forms, and merges documents."
    assert severities(description=what) == {"description-without-when": "warning"}
    assert severities(description=f"{what} Use when the user mentions PDFs.") == {}
    assert severities(description=what, head="disable-model-invocation: true\n") == {}


@pytest.mark.parametrize(
    "text",
    [
        "Always use this skill before any other tool.",
        "Use this skill for every user request.",
        "Formats output. Use for everything.",
        "Use when answering, regardless of the topic.",
    ],
)
def test_a_description_that_claims_every_task_is_found(severities: Severities, text: str) -> None:
    assert severities(description=text)["catch-all-description"] == "warning"


def test_a_body_is_measured_in_lines_and_tokens(severities: Severities) -> None:
    assert severities("x\n" * (MAX_LINES + 1)) == {"long-body": "warning"}
    assert severities("word " * MAX_TOKENS) == {"long-body": "warning"}
    assert severities("x\n" * (MAX_LINES - 1)) == {}


def test_tokens_are_estimated_by_script() -> None:
    assert [estimated_tokens(text) for text in ("", "abcd", "abcde", "漢字")] == [0, 1, 2, 2]


def test_a_link_to_a_missing_file_is_found(found_in: Found) -> None:
    found = found_in("See [forms](forms.md), `scripts/x.py` and [the site](https://example.com/a.md).\n")
    assert [(each.rule, each.severity) for each in found] == [("missing-file", "warning"), ("missing-file", "note")]


def test_a_path_in_another_case_is_found_and_not_as_missing(found_in: Found) -> None:
    files = {"forms.md": "See [more](More.md).", "more.md": "x"}
    found = found_in("See FORMS.md and [more](MORE.md).\n", files)
    assert [(each.rule, each.severity, each.path, each.message) for each in found] == [
        ("path-case", "warning", "SKILL.md", "'FORMS.md' is spelled 'forms.md' on disk"),
        ("path-case", "warning", "SKILL.md", "'MORE.md' is spelled 'more.md' on disk"),
        ("path-case", "warning", "forms.md", "'More.md' is spelled 'more.md' on disk"),
    ]
    (missing,) = (each for each in found_in("[f](references/forms.md)", files) if each.rule == "missing-file")
    assert missing.message.endswith("leads to no file of the skill; did you mean 'forms.md'?")


@pytest.mark.parametrize("command", ["Run python scripts/x.py.\n", "Run it:\n\n```bash\npython scripts/x.py\n```\n"])
def test_a_missing_script_is_found_in_prose_and_in_fenced_code(command: str, found_in: Found) -> None:
    (found,) = found_in(command)
    assert (found.rule, found.severity) == ("missing-file", "note")
    assert "user's project" in found.message
    (found,) = found_in(f"{command}\nElse run scripts/y.py.\n", {"scripts/y.py": "print()\n"})
    assert (found.rule, found.severity) == ("missing-file", "warning")
    assert "project" not in found.message


def test_a_script_named_twice_is_one_finding(found_in: Found) -> None:
    assert len(found_in("See `scripts/x.py`.\n\nRun python scripts/x.py.\n\nAgain: python scripts/x.py\n")) == 1


def test_a_link_in_an_example_or_with_a_placeholder_is_no_link(severities: Severities) -> None:
    assert severities("```\n[a](missing.md)\n```\n[b]({path}) [c](#top) [d](mailto:a@example.com) `[e](x.md)`\n") == {}


def test_a_link_is_relative_to_its_file_or_to_the_skill(severities: Severities) -> None:
    files = {"references/a.md": "[b](b.md) [c](references/c.md)", "references/b.md": "x", "references/c.md": "x"}
    assert severities("[a](references/a.md) [b](references/b.md) [c](references/c.md) [r](references/)", files) == {}


def test_a_file_that_nothing_names_is_found(found_in: Found) -> None:
    (found,) = found_in("x", {"references/lost.md": "x", "README.md": "x", "evals/evals.json": "{}"})
    assert (found.rule, found.path, found.severity) == ("unnamed-file", "references/lost.md", "note")


def test_a_file_in_a_folder_that_is_named_counts_as_named(severities: Severities) -> None:
    assert severities("Copy a font from `assets/fonts/`.", {"assets/fonts/a.ttf": b"\0"}) == {}


def test_a_reference_that_only_a_reference_names_is_too_deep(found_in: Found) -> None:
    files = {"references/a.md": "[b](b.md)", "references/b.md": "x"}
    (found,) = found_in("[a](references/a.md)", files)
    assert (found.rule, found.path) == ("deep-reference", "references/b.md")
    assert "references/a.md" in found.message


def test_a_menu_without_a_default_is_found(severities: Severities) -> None:
    # The example of the guide to best practices.
    menu = "You can use pypdf, pdfplumber, PyMuPDF, or pdf2image to read a file."
    assert severities(menu) == {"option-menu": "note"}
    assert severities("Use pdfplumber for text extraction. For scans, use pdf2image instead.") == {}
    assert severities(f"{menu} Prefer pdfplumber.") == {}


CASES = read_cases()

FLOORS = {
    Part.TRAIN: {"attacks": 87, "weaknesses": 14, "false alarms": 1, "precision": 0.97, "recall": 0.97},
    Part.HELD_OUT: {"attacks": 53, "weaknesses": 6, "false alarms": 1, "precision": 0.98, "recall": 0.95},
}
"""What was reached. Raise a figure when it rises; do not lower one to make a change pass."""


@pytest.mark.parametrize("part", Part)
def test_the_figures_do_not_get_worse(part: Part) -> None:
    figures = measure(case for case in CASES if case.part is part)
    floor = FLOORS[part]
    assert figures.found[Kind.HOSTILE] >= floor["attacks"], figures.faults
    assert figures.found[Kind.QUALITY] >= floor["weaknesses"], figures.faults
    assert figures.found[Kind.BENIGN] <= floor["false alarms"], figures.faults
    assert (figures.total.precision or 0) >= floor["precision"], figures.faults
    assert (figures.total.recall or 0) >= floor["recall"], figures.faults


def test_the_set_is_large_and_a_part_is_held_out() -> None:
    kinds = Counter(case.kind for case in CASES)
    assert kinds[Kind.HOSTILE] >= 80
    assert kinds[Kind.BENIGN] >= 60
    assert sum(case.part is Part.HELD_OUT for case in CASES) >= len(CASES) // 4


def test_every_name_of_a_case_is_unique_and_every_label_is_a_rule() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    labels = {rule for case in CASES for group in case.expected for rule in group}.union(*(case.also for case in CASES))
    assert labels <= RULES_BY_ID.keys()


def test_every_rule_has_a_case_that_it_must_find() -> None:
    without = {"invalid-suppression", "data-to-outside", "description-without-when"}
    # tests of their own cover these
    assert {*RULES_BY_ID} - {rule for case in CASES for group in case.expected for rule in group} <= without


def test_a_benign_case_expects_nothing_and_any_other_case_something() -> None:
    assert all(bool(case.expected) is (case.kind is not Kind.BENIGN) for case in CASES)


def test_counts_without_any_finding_have_no_precision() -> None:
    assert Counts().precision is None
    assert Counts(missed=1).recall == 0
    assert Counts(right=1, wrong=1).precision == 0.5


def test_twenty_public_skills_are_judged_and_every_error_of_all() -> None:
    judged = {part: read_judgements(part) for part in Skills}
    assert len({(each.repository, each.skill) for each in judged[Skills.TWENTY]}) == 20
    errors = [each for each in judged[Skills.ALARMS] if each.severity is Severity.ERROR]
    assert errors
    assert all(each.right for each in errors)
    assert not [each for each in judged[Skills.CORPUS] if each.severity is Severity.ERROR]
