from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Evaluation, Gate, Instructions, Library, Reason, Severity, Skill, State, Strictness
from skills_core import ToolDeclaration as Tool
from skills_core.format.frontmatter import Frontmatter, packed_fields
from skills_core.format.instructions import parse_instructions

if TYPE_CHECKING:
    from collections.abc import Callable


def read(yaml: str, folder: str = "a", strictness: Strictness = Strictness.LENIENT) -> Instructions:
    """Read frontmatter that is complete but for the lines under test, which begin at line 4 of the file."""
    raw = f"---\nname: a\ndescription: d\n{yaml}\n---\nBody\n".encode()
    return parse_instructions(raw, folder, f"{folder}/SKILL.md", strictness)


def told(instructions: Instructions) -> list[tuple[Severity, Reason, int | None]]:
    return [(found.severity, found.code, found.line) for found in instructions.diagnostics]


@pytest.mark.parametrize(
    ("yaml", "field", "value"),
    [
        ("license: MIT", "license", "MIT"),
        ("compatibility: Needs git", "compatibility", "Needs git"),
        ("metadata:\n  author: me\n  deep: {x: [1]}", "metadata", {"author": "me", "deep": {"x": [1]}}),
        ("allowed-tools: []", "allowed_tools", ()),
        ("allowed-tools: ''", "allowed_tools", ()),
        ("allowed-tools:", "allowed_tools", None),
        ("license: MIT", "allowed_tools", None),
        ("allowed-tools: Read", "allowed_tools", ("Read",)),
        ("allowed-tools: Read Grep", "allowed_tools", ("Read", "Grep")),
        ("allowed-tools: Read, Grep,Glob", "allowed_tools", ("Read", "Grep", "Glob")),
        ("allowed-tools: Bash(git:*) Read", "allowed_tools", ("Bash(git:*)", "Read")),
        (
            "allowed-tools: Bash(git add *, git commit *), Read",
            "allowed_tools",
            ("Bash(git add *, git commit *)", "Read"),
        ),
        ("allowed-tools: mcp__srv__tool Bash(jq:*)", "allowed_tools", ("mcp__srv__tool", "Bash(jq:*)")),
        ("allowed-tools: [Read, 'Bash(git add *)']", "allowed_tools", ("Read", "Bash(git add *)")),
        ("allowed-tools:\n  - Read\n  - Grep", "allowed_tools", ("Read", "Grep")),
        ("version: 1.4.0-rc.1+build.7", "version", "1.4.0-rc.1+build.7"),
        ("metadata: {version: '1.0'}", "version", "1.0"),
        ("metadata: {version: 1.5}", "version", "1.5"),
        ("metadata: {version: [1]}", "version", None),
        ("version: 2.0.0\nmetadata: {version: '1.0'}", "version", "2.0.0"),
        ("tags: [x, y]", "tags", ("x", "y")),
        ("tags: x, y,", "tags", ("x", "y")),
        ("references: [a.json]", "references", ("a.json",)),
        ("trigger: true", "trigger", True),
        ("trigger: 'true'", "trigger", True),
        ("hint: say it", "hint", "say it"),
        ("when:\n  os: LINUX", "gates", (Gate(os=("linux",)),)),
        ("when:\n  os: [windows, macos]", "gates", (Gate(os=("windows", "macos")),)),
        ("when:\n  os: linux, darwin", "gates", (Gate(os=("linux", "macos")),)),
        ("when: {os: [any, linux]}", "gates", ()),
        ("when: {os: null, requires: {bins: null, anyBins: [], env: '', config: {}}}", "gates", ()),
        (
            "when:\n  requires:\n    bins: [git]\n    anyBins: [a, b]\n    env: [E]\n    config: {k.x: 1}",
            "gates",
            (Gate((), ("git",), ("a", "b"), ("E",), (("k.x", 1),)),),
        ),
        ("evaluation:\n  enabled: true", "evaluation", Evaluation(True, 0.7, 2, (), False)),
        (
            "evaluation:\n  enabled: true\n  minScore: 1\n  maxRetries: 0\n  criteria: [one, 'two, three']",
            "evaluation",
            Evaluation(True, 1.0, 0, ("one", "two, three"), False),
        ),
        ("license: MIT", "evaluation", None),
        ("metadata:\n  jdai:\n    skillKey: k", "skill_key", "k"),
        ("metadata:\n  jdai:\n    always: true", "always", True),
        ("metadata:\n  openclaw:\n    always: true", "always", False),
        ("metadata:\n  jdai:\n    primaryEnv: TOKEN", "primary_env", "TOKEN"),
        ("metadata:\n  clawdbot:\n    primaryEnv: TOKEN", "primary_env", "TOKEN"),
        ("triggers: ['*']", "triggers", ("*",)),
        ("triggers: one, two words", "triggers", ("one", "two words")),
        ("danger_patterns: ['rm -rf', 'a,b']", "danger_patterns", ("rm -rf", "a,b")),
        ("danger_patterns: 'rm {1,2}'", "danger_patterns", ("rm {1,2}",)),
        ("confirm_patterns: ['^git push']", "confirm_patterns", ("^git push",)),
        ("requires: [shell]", "requires", ("shell",)),
        ("tools: []", "tools", ()),
        (
            "tools:\n  - name: t\n    description: does\n    script: ./x.py\n    parameters: {type: object}",
            "tools",
            (Tool("t", "does", {"type": "object"}, "x.py"),),
        ),
        ("tools:\n  - {name: t, description: d, parameters: {}, script: x.py}", "tools", (Tool("t", "d", {}, "x.py"),)),
        ("disable-model-invocation: true", "disable_model_invocation", True),
        ("disable-model-invocation: true", "model_invocable", False),
        ("trigger: true", "model_invocable", False),
        ("trigger: false", "model_invocable", True),
        ("user-invocable: false", "user_invocable", False),
        ("license: MIT", "user_invocable", True),
        ("argument-hint: '[file]'", "argument_hint", "[file]"),
        ("when_to_use: always", "when_to_use", "always"),
    ],
)
def test_a_field_is_typed(yaml: str, field: str, value: Any) -> None:
    instructions = read(yaml)
    assert getattr(instructions.frontmatter, field) == value
    assert (instructions.diagnostics, instructions.fault) == ((), None)


@pytest.mark.parametrize(
    ("yaml", "field", "default"),
    [
        ("license: [MIT]", "license", None),
        ("compatibility: {a: b}", "compatibility", None),
        ("metadata: text", "metadata", {}),
        ("metadata: '{a'", "metadata", {}),
        ("metadata: '[a]'", "metadata", {}),
        ("metadata: '{\"a\": [1]}'", "metadata", {"a": [1]}),
        ("metadata: [a]", "metadata", {}),
        ("version: [1]", "version", None),
        ("tags: {a: b}", "tags", ()),
        ("tags: 5", "tags", ()),
        ("tags: [[a]]", "tags", ()),
        ("tags: [a, null]", "tags", ()),
        ("references: true", "references", ()),
        ("hint: {a: b}", "hint", None),
        ("when: []", "gates", ()),
        ("evaluation:\n  minScore: 1.5", "evaluation", Evaluation(False, 0.7, 2, (), False)),
        ("evaluation:\n  minScore: high", "evaluation", Evaluation(False, 0.7, 2, (), False)),
        ("evaluation:\n  minScore: true", "evaluation", Evaluation(False, 0.7, 2, (), False)),
        ("evaluation:\n  maxRetries: -1", "evaluation", Evaluation(False, 0.7, 2, (), False)),
        ("evaluation:\n  maxRetries: 1000000", "evaluation", Evaluation(False, 0.7, 2, (), False)),
        ("metadata:\n  jdai: true", "always", False),
        ("metadata:\n  jdai:\n    always: maybe", "always", False),
        ("metadata:\n  jdai:\n    skillKey: [k]", "skill_key", None),
        ("triggers: {a: b}", "triggers", ()),
        ("tools: text", "tools", ()),
        ("tools: [text]", "tools", ()),
        ("tools: [{description: nameless}]", "tools", ()),
        ("tools: [{name: t, description: d, script: x.py, parameters: [a]}]", "tools", (Tool("t", "d", {}, "x.py"),)),
        ("requires: 1", "requires", ()),
        ("user-invocable: 0", "user_invocable", True),
        ("argument-hint: [file]", "argument_hint", None),
        ("when_to_use: {a: b}", "when_to_use", None),
    ],
)
def test_a_wrong_type_is_diagnosed_at_its_line_and_leaves_the_default(
    yaml: str,
    field: str,
    default: Any,
) -> None:
    instructions = read(yaml)
    assert getattr(instructions.frontmatter, field) == default
    last = 4 + yaml.count("\n")
    assert told(instructions) == [(Severity.WARNING, Reason.INVALID_FIELD, last)]
    assert instructions.fault is None


@pytest.mark.parametrize("value", ["yes", "on", "y", "1", "no", "[true]", "{a: b}", "'true!'"])
def test_an_unclear_opt_out_withholds_the_skill_from_models(value: str) -> None:
    instructions = read(f"disable-model-invocation: {value}")
    assert not instructions.frontmatter.model_invocable
    assert told(instructions) == [(Severity.WARNING, Reason.INVALID_FIELD, 4)]
    (diagnostic,) = instructions.diagnostics
    assert diagnostic.message.endswith("it is treated as true")
    assert instructions.fault is None


@pytest.mark.parametrize(
    ("value", "withheld"),
    [
        ("yes", True),
        ("On", True),
        ("1", True),
        ("'y'", True),
        ("0", False),
        ("Use it for reviews", False),
        ("[]", False),
    ],
)
def test_another_way_to_write_true_sets_the_trigger_and_a_text_does_not(value: str, *, withheld: bool) -> None:
    instructions = read(f"trigger: {value}")
    assert instructions.frontmatter.model_invocable is not withheld
    assert told(instructions) == [(Severity.WARNING, Reason.INVALID_FIELD, 4)]


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ("7", "7"),
        ("-0.5", "-0.5"),
        ("1.0000001", "1.0000001"),
        ("1e300", "1e+300"),
        ("1" + "0" * 300, "1e+300"),
        ("high", "a string"),
        ("true", "true or false"),
    ],
    ids=lambda text: text[:20],
)
def test_a_number_out_of_range_is_reported_with_its_value(value: str, got: str) -> None:
    instructions = read(f"evaluation: {{enabled: true, minScore: {value}}}")
    (diagnostic,) = instructions.diagnostics
    assert diagnostic.message == f"evaluation.minScore must be a number from 0 to 1, not {got}; the field is ignored"


@pytest.mark.parametrize("value", ["5", "{a: b}", "true", "[[Read]]", "[null]"])
def test_allowed_tools_of_a_wrong_type_are_diagnosed(value: str) -> None:
    assert told(read(f"allowed-tools: {value}")) == [(Severity.WARNING, Reason.INVALID_FIELD, 4)]


@pytest.mark.parametrize(("value", "text"), [("1.5", "1.5"), ("2", "2"), ("true", "true")])
def test_a_number_is_converted_to_text_with_a_warning(value: str, text: str) -> None:
    instructions = read(f"version: {value}")
    assert instructions.frontmatter.version == text
    assert told(instructions)[0] == (Severity.WARNING, Reason.INVALID_FIELD, 4)


def test_all_faults_are_reported_in_the_order_of_their_lines() -> None:
    found = told(read("colour: red\ntrigger: 1\nlicense: [x]\nnmae: b"))
    assert [line for _, _, line in found] == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pdf-processing", None),
        ("a", None),
        ("a1-2b", None),
        ("données", None),
        ("技能", None),
        ("a" * 64, None),
        ("a" * 65, Reason.NAME_TOO_LONG),
        ("PDF", Reason.INVALID_NAME),
        ("-pdf", Reason.INVALID_NAME),
        ("pdf-", Reason.INVALID_NAME),
        ("pdf--x", Reason.INVALID_NAME),
        ("pdf_x", Reason.INVALID_NAME),
        ("pdf x", Reason.INVALID_NAME),
        ("pdf.x", Reason.INVALID_NAME),
        ("a/b", Reason.INVALID_NAME),
        ("../x", Reason.INVALID_NAME),
        ("a\\\\b", Reason.INVALID_NAME),
    ],
)
@pytest.mark.parametrize("strictness", Strictness)
def test_a_name_that_breaks_a_naming_rule_is_a_warning_and_invalid_if_strict(
    name: str, reason: Reason | None, strictness: Strictness
) -> None:
    written = name.replace("\\\\", "\\")
    raw = f'---\nname: "{name}"\ndescription: d\n---\n'.encode()
    instructions = parse_instructions(raw, written, "SKILL.md", strictness)
    assert instructions.name == written
    # In JD.AI, the spelling of a name is free.
    jdai = strictness is Strictness.JDAI and reason is Reason.NAME_TOO_LONG
    strict = strictness is Strictness.STRICT or jdai
    assert told(instructions) == ([(Severity.ERROR if strict else Severity.WARNING, reason, 2)] if reason else [])
    assert instructions.fault is (reason if strict else None)


@pytest.mark.parametrize(
    ("fields", "folder", "reason"),
    [
        ("name: a\ndescription: d", "a", None),
        ("name: a\ndescription: d", "b", Reason.NAME_MISMATCH),
        ("description: d", "a", Reason.MISSING_NAME),
        ("name: ''\ndescription: d", "a", Reason.MISSING_NAME),
        ("name: a\ndescription: " + "d" * 1024, "a", None),
        ("name: a\ndescription: " + "d" * 1025, "a", Reason.DESCRIPTION_TOO_LONG),
        ("name: a\ndescription: d\ncompatibility: " + "c" * 500, "a", None),
        ("name: a\ndescription: '" + "d" * 1024 + " '", "a", Reason.DESCRIPTION_TOO_LONG),
        ("name: a\ndescription: |\n  " + "d" * 1024, "a", Reason.DESCRIPTION_TOO_LONG),
        ("name: a\ndescription: d\ncompatibility: " + "c" * 501, "a", Reason.COMPATIBILITY_TOO_LONG),
        ("name: a\ndescription: d\ncompatibility: '" + "c" * 500 + " '", "a", Reason.COMPATIBILITY_TOO_LONG),
        ("name: " + "e\u0301" * 40 + "\ndescription: d", "\u00e9" * 40, None),
        ("name: " + "\ufb01" * 40 + "\ndescription: d", "\ufb01" * 40, Reason.NAME_TOO_LONG),
        ("name: a\ndescription: d\ncompatibility: ''", "a", Reason.COMPATIBILITY_TOO_LONG),
        ("name: a\ndescription: d\ncolour: red", "a", Reason.UNKNOWN_FIELD),
        ("name: a\ndescription: d\nname-space: x", "a", Reason.UNKNOWN_FIELD),
        ("name: a\ndescription: d\ntrigger: 1", "a", Reason.INVALID_FIELD),
        ("name: a\ndescription: x: y", "a", Reason.YAML_REPAIRED),
        ("name: a\ndescription: d\nauthor: me\nmodel: any", "a", None),
    ],
)
def test_a_breach_of_a_rule_is_a_warning_if_lenient_and_invalid_if_strict(
    fields: str, folder: str, reason: Reason | None
) -> None:
    raw = f"---\n{fields}\n---\nBody".encode()
    lenient = parse_instructions(raw, folder, "SKILL.md", Strictness.LENIENT)
    strict = parse_instructions(raw, folder, "SKILL.md", Strictness.STRICT)
    assert [code for _, code, _ in told(lenient)] == ([reason] if reason else [])
    assert (lenient.fault, strict.fault) == (None, reason)
    assert {each.severity for each in lenient.diagnostics} <= {Severity.WARNING}
    assert strict.diagnostics == tuple(replace(each, severity=Severity.ERROR) for each in lenient.diagnostics)


@pytest.mark.parametrize("description", ["", "description:", "description: ''", "description: '  '"])
@pytest.mark.parametrize("strictness", Strictness)
def test_a_missing_or_empty_description_makes_a_skill_invalid(description: str, strictness: Strictness) -> None:
    raw = f"---\nname: a\n{description}\n---\nBody".encode()
    instructions = parse_instructions(raw, "a", "SKILL.md", strictness)
    assert instructions.fault is Reason.MISSING_DESCRIPTION


def test_a_missing_name_is_taken_from_the_folder() -> None:
    instructions = parse_instructions(b"---\ndescription: d\n---\n", "from-folder", "SKILL.md", Strictness.LENIENT)
    assert (instructions.name, instructions.frontmatter.name) == ("from-folder", "")
    assert instructions.fault is None


FOREIGN = "author authors category command command-arg-mode command-dispatch command-tool displayName homepage keywords"
FOREIGN += " model repo risk slug summary type"


@pytest.mark.parametrize("field", FOREIGN.split())
def test_a_field_of_another_host_is_no_breach_and_kept(field: str) -> None:
    instructions = read(f"{field}: x")
    assert (instructions.diagnostics, instructions.frontmatter.raw[field]) == ((), "x")


@pytest.mark.parametrize(
    ("field", "meant"),
    [("descripton", "description"), ("allowed_tools", "allowed-tools"), ("licence", "license"), ("tag", "tags")],
)
def test_the_warning_for_an_unknown_field_suggests_a_similar_one(field: str, meant: str) -> None:
    (found,) = read(f"{field}: x").diagnostics
    assert (found.code, found.line) == (Reason.UNKNOWN_FIELD, 4)
    assert repr(meant) in found.message


def test_the_warning_for_an_unknown_field_suggests_nothing_dissimilar() -> None:
    (found,) = read("zzzzzz: x").diagnostics
    assert "did you mean" not in found.message


def test_the_raw_frontmatter_keeps_every_field_as_it_was_written() -> None:
    raw = read("zzz: [1, {a: null}]\ntrigger: 1\nversion: 1.5").frontmatter.raw
    assert raw == {"name": "a", "description": "d", "zzz": [1, {"a": None}], "trigger": 1, "version": 1.5}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["name", "description", "license", "metadata", "é\ud800"]), _json))
def test_the_packed_frontmatter_has_every_value_with_its_type_in_its_place(fields: dict[str, Any]) -> None:
    name, description = (str(fields.get(key) or "").strip() for key in ("name", "description"))
    front = Frontmatter(written=packed_fields(fields, name, description), name=name, description=description)
    assert repr(front.raw) == repr(fields)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", Reason.EMPTY),
        (b"# no frontmatter", Reason.MISSING_FRONTMATTER),
        (b"---\nname: a\n", Reason.UNCLOSED_FRONTMATTER),
        (b"---\n- a\n---\n", Reason.INVALID_YAML),
        (b"---\nname: \xff\n---\n", Reason.NOT_UTF8),
        (b"---\nname: a\n---\n", Reason.MISSING_DESCRIPTION),
    ],
)
def test_an_invalid_skill_has_the_reason_and_message_of_its_fault(
    content: bytes,
    reason: Reason,
    tmp_path: Path,
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "SKILL.md").write_bytes(content)
    skill = only(load(tmp_path))
    assert (skill.state, skill.reason, skill.key, skill.name) == (State.INVALID, reason, "a", "a")
    assert skill.detail
    assert [found.path for found in skill.diagnostics] == [str(tmp_path.resolve() / "a" / "SKILL.md")]


def test_one_bad_skill_never_hurts_another(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "good")
    for number, content in enumerate((b"", b"\xff", b"---\n", b"---\n[\n---\n", b"\0" * 5000)):
        folder = tmp_path / f"bad{number}"
        folder.mkdir()
        (folder / "SKILL.md").write_bytes(content)
    catalog = load(tmp_path).catalog
    assert [skill.key for skill in catalog.active] == ["good"]
    assert len(catalog.skills) == 6


def test_a_skill_file_larger_than_a_mebibyte_is_refused(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    write_skill(tmp_path, "a", body="x" * 1024 * 1024)
    assert only(load(tmp_path)).reason is Reason.TOO_LARGE
