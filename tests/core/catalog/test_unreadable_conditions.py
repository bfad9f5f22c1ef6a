"""A condition that cannot be read is not met, and a diagnostic says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Gate, Reason, Severity, State, Strictness, evaluate_gate
from skills_core.testing import evaluate_gates, mock_environment, skill_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skills_core import Diagnostic, Library, Skill

NOWHERE = mock_environment()
"""A machine with nothing on it, so that every condition is closed but those on the system."""


def skill_with(fields: str) -> Skill:
    return skill_of(f"---\nname: a\ndescription: d\n{fields}\n---\nBody\n")


def found_in(skill: Skill) -> list[Diagnostic]:
    """Return the diagnostics but that about the name: the text has no folder."""
    return [found for found in skill.diagnostics if found.code is not Reason.NAME_MISMATCH]


SEED = {
    "when: linux": "when must be a mapping, not a string",
    "when: {os: {linux: true}}": "when.os must be a list of strings, not a mapping",
    "when: {requires: docker}": "when.requires must be a mapping, not a string",
    "when: {requires: {bins: {git: true}}}": "when.requires.bins must be a list of strings, not a mapping",
    "when: {requires: {anyBins: 5}}": "when.requires.anyBins must be a list of strings, not a number",
    "when: {requires: {config: [a.b]}}": "when.requires.config must be a mapping, not a list",
    "when: {requires: {bin: [x]}}": "unknown field 'when.requires.bin'; did you mean 'bins'?",
    "when: {requiers: {bins: [x]}}": "unknown field 'when.requiers'; did you mean 'requires'?",
    "when: {python: true}": "unknown field 'when.python'; known are os, requires",
    "metadata: {jdai: [linux]}": "metadata.jdai must be a mapping, not a list",
    "metadata: {jdai: {os: {linux: true}}}": "metadata.jdai.os must be a list of strings, not a mapping",
    "metadata: {jdai: {requires: [git]}}": "metadata.jdai.requires must be a mapping, not a list",
    "metadata: {jdai: {requires: {binz: [git]}}}": "unknown field 'metadata.jdai.requires.binz'; did you mean 'bins'?",
    "metadata: {openclaw: {requires: [git]}}": "metadata.openclaw.requires must be a mapping, not a list",
    "metadata: {openclaw: {always: true, os: 5}}": "metadata.openclaw.os must be a list of strings, not a number",
    'metadata: \'{"jdai": {"os": ["linux"]}\'': "metadata must be a mapping, not a string",
}


@pytest.mark.parametrize(("fields", "fault"), SEED.items(), ids=SEED)
def test_a_condition_that_cannot_be_read_excludes_the_skill_and_says_why(
    fields: str,
    fault: str,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    write_skill(tmp_path, "a", fields=fields)
    skill = only(load(tmp_path))
    assert (skill.state, skill.reason, skill.detail) == (State.EXCLUDED, Reason.UNREADABLE_CONDITION, fault)
    (diagnostic,) = skill.diagnostics
    assert (diagnostic.severity, diagnostic.line) == (Severity.WARNING, 4)
    assert diagnostic.message.replace(", so the skill is excluded", "").startswith(fault)
    assert "the skill is excluded" in diagnostic.message
    strict = only(load(tmp_path, strictness=Strictness.STRICT))
    assert (strict.state, strict.reason) == (State.INVALID, diagnostic.code)


def test_the_detail_counts_further_conditions_that_cannot_be_read() -> None:
    excluded = evaluate_gates(skill_with("when: {os: 1, requires: {bins: 2, env: 3}}"), NOWHERE)
    assert excluded is not None
    assert excluded.detail == "when.os must be a list of strings, not a number (and 2 more)"


def test_what_cannot_be_read_is_told_before_what_is_not_met() -> None:
    excluded = evaluate_gate(Gate(os=("windows",), bins=("git",), unreadable=("no such thing",)), NOWHERE)
    assert excluded is not None
    assert (excluded.reason, excluded.detail) == (Reason.UNREADABLE_CONDITION, "no such thing")


SLIPS = {
    "When: {os: windows}": "unknown field 'When'; did you mean 'when'?",
    '"when\\u200b": {os: windows}': "unknown field 'when\\u200b'; did you mean 'when'?",
    "when.os: windows": "unknown field 'when.os'; did you mean 'when'?",
    "wehn: {os: windows}": "unknown field 'wehn'; did you mean 'when'?",
    "when:{os: windows}": "unknown field 'when:{os'; did you mean 'when'?",
    "when:{os: [windows]}": "when: the text is not valid YAML",
    "\twhen:\n\t  os: windows": "when: the text is not valid YAML",
    "when\n  os: windows": "when: the text is not valid YAML",
    "metadata:{jdai: {os: [windows]}}": "metadata: the text is not valid YAML",
    "requires:[a]": "requires: the text is not valid YAML",
    "<<: {when: {os: windows}}": "unknown field '<<'; did you mean 'when'?",
    "when: {os: windows}\nwhen: {}": "when: the key 'when' is repeated",
    "when:\n  os: windows\n  os: linux": "when: the key 'os' is repeated",
    "when: {requires: {bins: .inf}}": "when: JSON has no such number",
    "when: '{os: windows, os: linux}'": "when must be a mapping, not a string",
    "requires: {bins: [x]}": "requires must be a list of strings, not a mapping",
    "requires: [{skill: a}]": "requires must be a list of strings, not a list",
    "requires: [a]\nrequires: []": "requires: the key 'requires' is repeated",
    "Requires: [a]": "unknown field 'Requires'; did you mean 'requires'?",
    "Metadata: {jdai: {os: windows}}": "unknown field 'Metadata'; did you mean 'metadata'?",
    "metadata: {jdai: {os: windows}}\nmetadata: {}": "metadata: the key 'metadata' is repeated",
    "metadata: {JDAI: {os: windows}}": "unknown field 'metadata.JDAI'; did you mean 'jdai'?",
    "metadata: {jdai.os: windows}": "unknown field 'metadata.jdai.os'; did you mean 'jdai'?",
    "metadata: {jdai: {OS: windows}}": "unknown field 'metadata.jdai.OS'; did you mean 'os'?",
    "metadata: {jdai: {requiers: {bins: [x]}}}": "unknown field 'metadata.jdai.requiers'; did you mean 'requires'?",
    "metadata: {jdai: {bins: [x]}}": "unknown field 'metadata.jdai.bins'; did you mean 'requires'?",
    "metadata: {openclaw: {OS: [win32]}}": "unknown field 'metadata.openclaw.OS'; did you mean 'os'?",
    "metadata: {openclaw: [{os: [win32]}]}": "metadata.openclaw must be a mapping, not a list",
    "metadata: {openclaw: 'os: win32'}": "metadata.openclaw must be a mapping, not a string",
    "metadata: |\n  jdai:\n    os: windows": "metadata must be a mapping, not a string",
}


@pytest.mark.parametrize(("fields", "fault"), SLIPS.items(), ids=SLIPS)
def test_a_slip_in_a_condition_or_its_key_leaves_no_condition_out(fields: str, fault: str) -> None:
    skill = skill_with(fields)
    excluded = evaluate_gates(skill, NOWHERE)
    assert excluded is not None
    assert (excluded.reason, excluded.detail) == (Reason.UNREADABLE_CONDITION, fault)
    told = [found.severity for found in found_in(skill) if "the skill is excluded" in found.message]
    assert told == [Severity.WARNING]


def test_an_absent_host_leaves_the_conditions_of_the_next_in_force() -> None:
    excluded = evaluate_gates(skill_with("metadata: {jdai: null, openclaw: {os: [win32]}}"), NOWHERE)
    assert excluded is not None
    assert excluded.reason is Reason.OS_MISMATCH


HOSTILE = "\\e[31m\\u202e" + "a" * 999
PLACES_OF_NAMES = [
    "when: {os: %s}",
    "when: {requires: {bins: %s}}",
    "when: {requires: {anyBins: %s}}",
    "when: {requires: {env: %s}}",
    "metadata: {jdai: {requires: {config: %s}}}",
]


@pytest.mark.parametrize("place", PLACES_OF_NAMES)
def test_details_are_short_and_printable(place: str) -> None:
    excluded = evaluate_gates(skill_with(place % f'["{HOSTILE}", {", ".join(f"n{n}" for n in range(999))}]'), NOWHERE)
    assert excluded is not None
    assert excluded.detail.isprintable()
    assert len(excluded.detail) < 400


IGNORED = {
    "always does away with all conditions": "metadata: {jdai: {always: true, os: 5, requires: {bins: {git: true}}}}",
    "always does away with requirements": "metadata: {openclaw: {always: true, requires: {bins: {git: true}}}}",
    "another host's metadata is its own": "metadata: {openclaw: true}",
    "a requirement that only another host knows": "metadata: {openclaw: {emoji: x, requires: {pip: [requests]}}}",
    "a key of JD.AI that is no condition": "metadata: {jdai: {allways: true}}",
    "a repeated key that is no condition": "metadata: {author: a, author: b}",
    "a key of the author": "metadata: {JDAI: {theme: dark}}",
    "a misspelt field without conditions": "wen: {theme: dark}",
    "another field": "when-to-use: 'for os: windows'",
    "prose in a text that is not valid YAML": "license: Use this: always\n  When: the user asks",
    "a later host": "metadata: {jdai: {emoji: x}, OpenClaw: {os: [win32]}}",
    "blank conditions": "when: {os: ' ', requires: []}",
}


@pytest.mark.parametrize("fields", IGNORED.values(), ids=IGNORED)
def test_what_is_no_condition_of_the_skill_excludes_it_not(fields: str) -> None:
    assert evaluate_gates(skill_with(fields), NOWHERE) is None


def test_a_requirement_that_only_another_host_knows_is_an_info() -> None:
    (found,) = found_in(skill_with("metadata: {openclaw: {emoji: x, requires: {pip: [requests]}}}"))
    assert (found.severity, found.code) == (Severity.INFO, Reason.UNKNOWN_FIELD)
    assert "metadata.openclaw.requires.pip" in found.message


@pytest.mark.parametrize("fields", ["when: {os: solaris}", "metadata: {jdai: {os: [solaris]}}"])
def test_an_unknown_system_is_diagnosed_with_the_known_ones_and_never_met(fields: str) -> None:
    skill = skill_with(fields)
    (found,) = found_in(skill)
    assert (found.severity, found.code) == (Severity.WARNING, Reason.INVALID_FIELD)
    assert "'solaris'" in found.message
    assert "windows, linux, macos and any" in found.message
    for system in ("windows", "linux", "macos"):
        excluded = evaluate_gates(skill, mock_environment(os=system))
        assert excluded is not None
        assert excluded.reason is Reason.OS_MISMATCH


@pytest.mark.parametrize("expected", [True, False, None, "claude-code", 1.5, {"a": [True, None]}])
def test_the_detail_of_a_configured_value_is_json(expected: Any) -> None:
    skill = skill_with(f"when: {{requires: {{config: {{key: {json.dumps(expected)}}}}}}}")
    excluded = evaluate_gates(skill, NOWHERE)
    assert excluded is not None
    assert excluded.detail == f"the configuration key key is not {json.dumps(expected)}"


def test_the_detail_of_a_long_configured_value_is_short() -> None:
    excluded = evaluate_gates(skill_with(f"when: {{requires: {{config: {{key: {'x' * 9999}}}}}}}"), NOWHERE)
    assert excluded is not None
    assert len(excluded.detail) < 300


SCALARS = (
    st.none() | st.booleans() | st.integers(-9, 99) | st.sampled_from(["", " ", ",", "linux", "any", "git", "x y"])
)
KEYS = st.sampled_from(["os", "requires", "bins", "anyBins", "env", "config", "bin", "jdai", "always", ""])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
PLACES = ["when", *(f"{host}.{name}" for host in ("when", "metadata.jdai") for name in ("os", "requires"))]
PLACES += [f"{place}.requires.{name}" for place in ("when", "metadata.jdai") for name in ("bins", "anyBins", "env")]
PLACES += ["when.requires.config", "metadata.jdai.requires.config", "metadata.openclaw.requires.bins"]


def states_nothing(value: Any) -> bool:
    """Tell whether nothing in a value, at any depth, is a condition that this machine does not meet."""
    if isinstance(value, str):
        return {part.strip() for part in value.split(",")} <= {""}
    if isinstance(value, list):
        return all(isinstance(item, str) and not item.strip() for item in value)
    if isinstance(value, dict):
        met = {"os": names_this_system}
        return all(met.get(key, states_nothing)(inner) for key, inner in value.items())
    return value is None


def names_this_system(value: Any) -> bool:
    names = value.split(",") if isinstance(value, str) else value
    named = isinstance(names, list) and bool(
        {"linux", "any"} & {name.strip() for name in names if isinstance(name, str)}
    )
    return named or states_nothing(value)


@given(st.sampled_from(PLACES), VALUES)
def test_no_value_in_place_of_a_condition_leaves_a_skill_active_that_states_one(place: str, value: Any) -> None:
    fields: Any = value
    for key in reversed(place.split(".")):
        fields = {key: fields}
    skill = skill_with("\n".join(f"{key}: {json.dumps(inner)}" for key, inner in fields.items()))
    excluded = evaluate_gates(skill, NOWHERE)
    nothing = names_this_system(value) if place.endswith("os") else states_nothing(value)
    assert excluded is not None or nothing
    if excluded is not None and excluded.reason is Reason.UNREADABLE_CONDITION:
        assert Severity.WARNING in {found.severity for found in skill.diagnostics}
