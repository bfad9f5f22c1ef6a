"""Fields in mappings of ours are checked as top-level fields are; and versions."""

from __future__ import annotations

import pytest

from skills_core import Instructions, Reason, Severity, Strictness
from skills_core.format.instructions import parse_instructions


def read(yaml: str, strictness: Strictness = Strictness.LENIENT) -> Instructions:
    """Read frontmatter that is complete but for the lines under test, which begin at line 4 of the file."""
    raw = f"---\nname: a\ndescription: d\n{yaml}\n---\nBody\n".encode()
    return parse_instructions(raw, "a", "a/SKILL.md", strictness)


EXCLUDED = ", so the skill is excluded"

UNKNOWN = {
    "when: {requires: {bin: [x]}}": f"unknown field 'when.requires.bin'{EXCLUDED}; did you mean 'bins'?",
    "when: {requiers: {bins: [x]}}": f"unknown field 'when.requiers'{EXCLUDED}; did you mean 'requires'?",
    "when: {requires: {anybins: [x]}}": f"unknown field 'when.requires.anybins'{EXCLUDED}; did you mean 'anyBins'?",
    "when: {requires: {python: '3'}}": (
        f"unknown field 'when.requires.python'{EXCLUDED}; known are anyBins, bins, config, env"
    ),
    "evaluation: {minscore: 0.8}": "unknown field 'evaluation.minscore'; did you mean 'minScore'?",
    "metadata: {jdai: {allways: true}}": "unknown field 'metadata.jdai.allways'; did you mean 'always'?",
    "metadata: {jdai: {requires: {ENV: [X]}}}": (
        f"unknown field 'metadata.jdai.requires.ENV'{EXCLUDED}; did you mean 'env'?"
    ),
    'metadata: \'{"jdai": {"skilKey": "k"}}\'': "unknown field 'metadata.jdai.skilKey'; did you mean 'skillKey'?",
    "tools: [{name: t, script: x, desc: d}]": "unknown field 'tools[0].desc'; did you mean 'description'?",
    "tools: [{name: t, script: x}, {name: u, script: x, params: {}}]": (
        "unknown field 'tools[1].params'; did you mean 'parameters'?"
    ),
}


@pytest.mark.parametrize(("yaml", "message"), UNKNOWN.items(), ids=UNKNOWN)
def test_an_unknown_nested_field_is_a_warning_and_invalid_if_strict(yaml: str, message: str) -> None:
    instructions = read(yaml)
    (found,) = [each for each in instructions.diagnostics if each.code is Reason.UNKNOWN_FIELD]
    assert (found.severity, found.message, found.line) == (Severity.WARNING, message, 4)
    assert instructions.fault is None
    strict = read(yaml, Strictness.STRICT)
    assert strict.fault in {Reason.UNKNOWN_FIELD, Reason.INVALID_FIELD}
    (found,) = [each for each in strict.diagnostics if each.code is Reason.UNKNOWN_FIELD]
    assert found.severity is Severity.ERROR


KNOWN = [
    "when: {os: linux, requires: {bins: [a], anyBins: [b], env: [C], config: {d.e: 1}}}",
    "evaluation: {enabled: true, minScore: 0.7, maxRetries: 2, criteria: [a], allowSideEffects: false}",
    "metadata: {author: me, anything: {at: all}}",
    "metadata: {jdai: {os: [linux], requires: {config: [a]}, always: false, skillKey: a, primaryEnv: B}}",
    "metadata: {jdai: {emoji: x, homepage: y, install: [{kind: brew}]}}",
    "metadata: {openclaw: {emoji: x, homepage: y, install: [{kind: brew}], nix: {plugin: z}, cliHelp: w}}",
    "tools: [{name: t, description: d, parameters: {type: object, whatever: 1}, script: x.py}]",
]


@pytest.mark.parametrize("yaml", KNOWN)
def test_known_nested_fields_and_those_of_others_are_valid_if_strict(yaml: str) -> None:
    instructions = read(yaml, Strictness.STRICT)
    assert (instructions.diagnostics, instructions.fault) == ((), None)


INCOMPLETE = {
    "tools: [{name: t, script: x, parameters: {}}]": "tools[0].description is missing, so models learn only the",
    "tools: [{name: t, script: x, description: d}]": "tools[0].parameters is missing, so models can pass no",
    "tools: [{name: t, script: x, description: d, parameters: {type: strange}}]": "tools[0].parameters.type must be",
}


@pytest.mark.parametrize(("yaml", "message"), INCOMPLETE.items(), ids=INCOMPLETE)
def test_a_tool_that_lacks_what_a_model_needs_is_diagnosed(yaml: str, message: str) -> None:
    instructions = read(yaml)
    [found] = instructions.diagnostics
    assert (found.severity, found.code, found.line) == (Severity.WARNING, Reason.INVALID_FIELD, 4)
    assert found.message.startswith(message)
    assert instructions.fault is None
    assert read(yaml, Strictness.STRICT).fault is Reason.INVALID_FIELD


def test_a_nested_fault_has_the_line_of_the_nested_field() -> None:
    yaml = "when:\n  os: linux\n  requires:\n    bins: {git: true}\n    bin:\n      - x\nevaluation:\n  minscore: 1"
    yaml += "\ntools:\n  - name: t\n    script: x\n    desc: d\nmetadata:\n  jdai:\n    requires:\n      bin: x"
    unknown = (found for found in read(yaml).diagnostics if found.code is Reason.UNKNOWN_FIELD)
    lines = {found.message.split("'")[1]: found.line for found in unknown}
    assert lines == {
        "when.requires.bin": 8,
        "evaluation.minscore": 11,
        "tools[0].desc": 15,
        "metadata.jdai.requires.bin": 19,
    }
    (bins,) = [found.line for found in read(yaml).diagnostics if found.message.startswith("when.requires.bins")]
    assert bins == 7


def test_a_nested_fault_in_repaired_yaml_has_the_line_of_its_top_level_field() -> None:
    instructions = read("hint: x: y\nwhen:\n  requires:\n    bin: x")
    assert [found.line for found in instructions.diagnostics if found.code is Reason.UNKNOWN_FIELD] == [5]


@pytest.mark.parametrize("field", ["metadata: {jdai: {always: FLAG}}", "metadata: {openclaw: {always: FLAG}}"])
@pytest.mark.parametrize("value", ["yes", "1", "[true]", "{a: b}", "on"])
def test_an_unclear_always_leaves_the_conditions_in_force(field: str, value: str) -> None:
    yaml = field.replace("FLAG", f"{value}, requires: {{bins: [git]}}")
    assert [gate.bins for gate in read(yaml).frontmatter.gates] == [("git",)]
    assert not read(yaml).frontmatter.always


@pytest.mark.parametrize("version", ["'1.0'", "v1.0.0", "1.0.0.0", "01.2.3", "latest", "''", "'" + "1" * 9999 + "'"])
def test_a_version_that_is_not_semantic_is_an_info_and_no_breach(version: str) -> None:
    instructions = read(f"version: {version}", Strictness.STRICT)
    (found,) = instructions.diagnostics
    assert (found.severity, found.code, found.line) == (Severity.INFO, Reason.INVALID_VERSION, 4)
    assert len(found.message) < 200
    assert instructions.fault is None


def test_the_version_in_metadata_counts_where_the_field_is_absent_and_is_free() -> None:
    instructions = read("metadata: {version: '1.0'}", Strictness.STRICT)
    assert (instructions.frontmatter.version, instructions.diagnostics) == ("1.0", ())


def test_a_byte_order_mark_before_the_fields_does_not_change_the_line_of_a_nested_fault() -> None:
    raw = "---\n\ufeffname: a\ndescription: d\nwhen:\n  oss: x\n---\nBody\n".encode()
    found = parse_instructions(raw, "a", "a/SKILL.md", Strictness.LENIENT).diagnostics
    assert [each.line for each in found if each.code is Reason.UNKNOWN_FIELD] == [5]
