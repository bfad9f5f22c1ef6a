from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from skills_core import Credential, Environment, Gate, Reason, SkillEntry, State, evaluate_gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skills_core import Library, Skill

HERE = Environment(
    os="linux",
    has_bin={"git", "rg"}.__contains__,
    variables={"TOKEN": "x", "BLANK": ""},
    config={"on": True, "off": False, "one": 1, "zero": 0, "provider": "a", "nothing": None, "half": 0.5},
)


@pytest.mark.parametrize(
    ("gate", "reason", "missing"),
    [
        (Gate(), None, ""),
        (Gate(os=("linux",)), None, ""),
        (Gate(os=("windows",)), Reason.OS_MISMATCH, "windows"),
        (Gate(os=("macos",)), Reason.OS_MISMATCH, "macos"),
        (Gate(os=("plan9",)), Reason.OS_MISMATCH, "plan9"),
        (Gate(bins=("git",)), None, ""),
        (Gate(bins=("git", "rg")), None, ""),
        (Gate(bins=("git", "docker")), Reason.MISSING_BIN, "docker"),
        (Gate(any_bins=("ag", "rg")), None, ""),
        (Gate(any_bins=("ag", "ack")), Reason.MISSING_BIN, "ag, ack"),
        (Gate(env=("TOKEN",)), None, ""),
        (Gate(env=("TOKEN", "OTHER")), Reason.MISSING_ENV, "OTHER"),
        (Gate(env=("BLANK",)), Reason.MISSING_ENV, "BLANK"),
        (Gate(config=(("on", True),)), None, ""),
        (Gate(config=(("off", False), ("provider", "a"), ("one", 1), ("half", 0.5))), None, ""),
        (Gate(config=(("nothing", None),)), None, ""),
        (Gate(config=(("on", False),)), Reason.CONFIG_DISABLED, "on"),
        (Gate(config=(("on", "true"),)), Reason.CONFIG_DISABLED, "on"),
        (Gate(config=(("on", 1),)), Reason.CONFIG_DISABLED, "on"),
        (Gate(config=(("one", True),)), Reason.CONFIG_DISABLED, "one"),
        (Gate(config=(("zero", False),)), Reason.CONFIG_DISABLED, "zero"),
        (Gate(config=(("off", None),)), Reason.CONFIG_DISABLED, "off"),
        (Gate(config=(("absent", None),)), Reason.CONFIG_DISABLED, "absent"),
        (Gate(config=(("provider", "A"),)), Reason.CONFIG_DISABLED, "provider"),
    ],
)
def test_the_detail_of_a_closed_gate_names_what_is_missing(gate: Gate, reason: Reason | None, missing: str) -> None:
    exclusion = evaluate_gate(gate, HERE)
    assert (exclusion.reason if exclusion else None) is reason
    assert exclusion is None or missing in exclusion.detail


FAILING: list[tuple[str, dict[str, object], Reason]] = [
    ("os", {"os": ("windows",)}, Reason.OS_MISMATCH),
    ("bins", {"bins": ("docker",)}, Reason.MISSING_BIN),
    ("any_bins", {"any_bins": ("ag",)}, Reason.MISSING_BIN),
    ("env", {"env": ("OTHER",)}, Reason.MISSING_ENV),
    ("config", {"config": (("on", False),)}, Reason.CONFIG_DISABLED),
]


@pytest.mark.parametrize("start", range(len(FAILING)))
def test_the_first_condition_that_fails_gives_the_reason(start: int) -> None:
    conditions: dict[str, object] = {}
    for _, condition, _ in FAILING[start:]:
        conditions |= condition
    exclusion = evaluate_gate(Gate(**conditions), HERE)  # type: ignore[arg-type]
    assert exclusion is not None
    assert exclusion.reason is FAILING[start][2]


@pytest.mark.parametrize(
    ("when", "state", "reason"),
    [
        ("when: {}", State.ACTIVE, None),
        ("when:", State.ACTIVE, None),
        ("when:\n  os: any", State.ACTIVE, None),
        ("when:\n  os: Linux", State.ACTIVE, None),
        ("when:\n  os: windows", State.EXCLUDED, Reason.OS_MISMATCH),
        ("when:\n  requires:\n    bins: [git]", State.ACTIVE, None),
        ("when:\n  requires:\n    bins: git", State.ACTIVE, None),
        ("when:\n  requires:\n    bins: git, docker", State.EXCLUDED, Reason.MISSING_BIN),
        ("when:\n  requires:\n    bins:\n      - docker", State.EXCLUDED, Reason.MISSING_BIN),
        ("when:\n  requires:\n    anyBins: [ag, rg]", State.ACTIVE, None),
        ("when:\n  requires:\n    env: [OTHER]", State.EXCLUDED, Reason.MISSING_ENV),
        ("when:\n  requires:\n    config:\n      provider: a", State.ACTIVE, None),
        ("when:\n  requires:\n    config:\n      one: '1'", State.EXCLUDED, Reason.CONFIG_DISABLED),
        ("when:\n  os: windows\n  requires:\n    env: [OTHER]", State.EXCLUDED, Reason.OS_MISMATCH),
    ],
)
def test_the_when_block_of_a_skill_decides_on_its_state(
    when: str,
    state: State,
    reason: Reason | None,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    write_skill(tmp_path, "a", fields=when)
    skill = only(load(tmp_path, environment=HERE))
    assert (skill.state, skill.reason) == (state, reason)
    assert bool(skill.detail) == (state is State.EXCLUDED)


PROVIDER = """metadata:
  {provider}:
    skillKey: my-key
    primaryEnv: KEY
    {conditions}"""


@pytest.mark.parametrize("provider", ["jdai", "openclaw", "clawdbot", "moltbot", "clawdis"])
@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ("os: [linux]", None),
        ("os: linux", None),
        ("os: [darwin, linux]", None),
        ("os: [darwin, win32]", Reason.OS_MISMATCH),
        ("os: [Windows]", Reason.OS_MISMATCH),
        ("requires: {bins: [git]}", None),
        ("requires: {bins: [git, docker]}", Reason.MISSING_BIN),
        ("requires: {anyBins: [ag, rg]}", None),
        ("requires: {anyBins: [ag]}", Reason.MISSING_BIN),
        ("requires: {env: [TOKEN]}", None),
        ("requires: {env: [BLANK]}", Reason.MISSING_ENV),
        ("requires: {config: ['on', provider, half]}", None),
        ("requires: {config: ['off']}", Reason.CONFIG_DISABLED),
        ("requires: {config: [zero]}", Reason.CONFIG_DISABLED),
        ("requires: {config: [nothing]}", Reason.CONFIG_DISABLED),
        ("requires: {config: [absent.key]}", Reason.CONFIG_DISABLED),
        ("requires: {bins: [docker], env: [OTHER]}\n    always: true", None),
    ],
)
def test_conditions_under_metadata_are_gates_too(
    provider: str,
    conditions: str,
    reason: Reason | None,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    write_skill(tmp_path, "a", fields=PROVIDER.format(provider=provider, conditions=conditions))
    assert only(load(tmp_path, environment=HERE)).reason is reason


METADATA: dict[str, tuple[str, Reason | None]] = {
    "one line of JSON": ('metadata: {"clawdbot":{"emoji":"x","requires":{"bins":["docker"]}}}', Reason.MISSING_BIN),
    "JSON in a string": ("""metadata: '{"openclaw":{"requires":{"bins":["docker"]}}}'""", Reason.MISSING_BIN),
    "what no longer is JSON": ("""metadata: '{"openclaw":{"requires":'""", Reason.UNREADABLE_CONDITION),
    "a list with a host": ("metadata: [{jdai: {os: [linux]}}]", Reason.UNREADABLE_CONDITION),
    "a text that says something else": ("metadata: for openclaw", None),
    "the name of today first": ("metadata: {clawdbot: {os: [darwin]}, openclaw: {os: [linux]}}", None),
    "its own name before all": ("metadata: {openclaw: {os: [linux]}, jdai: {os: [darwin]}}", Reason.OS_MISMATCH),
    "always, of JD.AI": ("metadata: {jdai: {always: true, os: [darwin]}}", None),
    "always, of others": ("metadata: {openclaw: {always: true, os: [darwin]}}", Reason.OS_MISMATCH),
    "a host without conditions": ("metadata: {vercel: {requires: {bins: [docker]}}}", None),
}


@pytest.mark.parametrize(("fields", "reason"), METADATA.values(), ids=METADATA)
def test_conditions_are_read_as_public_skills_write_them(
    fields: str,
    reason: Reason | None,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    write_skill(tmp_path, "a", fields=fields)
    assert only(load(tmp_path, environment=HERE)).reason is reason


def test_when_and_metadata_must_both_be_met(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    write_skill(
        tmp_path,
        "a",
        fields="when: {requires: {bins: [docker]}}\n" + PROVIDER.format(provider="jdai", conditions="always: true"),
    )
    assert only(load(tmp_path, environment=HERE)).reason is Reason.MISSING_BIN


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"a.b.c": True}, "a.b.c"),
        ({"a": {"b": {"c": True}}}, "a.b.c"),
        ({"a": {"b": {"c": False}}, "a.b.c": True}, "a.b.c"),
    ],
)
def test_a_configuration_key_may_be_dotted_or_nested(config: dict[str, Any], key: str) -> None:
    environment = Environment(os="linux", has_bin=lambda _: True, config=config)
    assert evaluate_gate(Gate(config=((key, True),)), environment) is None
    assert evaluate_gate(Gate(settings=(key,)), environment) is None
    assert evaluate_gate(Gate(settings=(f"{key}.d",)), environment) is not None


ENTRIES: dict[str, tuple[SkillEntry, Gate, Reason | None]] = {
    "a variable": (SkillEntry(variables={"OTHER": "x"}), Gate(env=("OTHER",)), None),
    "an empty variable": (SkillEntry(variables={"OTHER": ""}), Gate(env=("OTHER",)), Reason.MISSING_ENV),
    "a credential": (SkillEntry(has_credential=True), Gate(env=("KEY",)), None),
    "a credential, for another variable": (SkillEntry(has_credential=True), Gate(env=("OTHER",)), Reason.MISSING_ENV),
    "a value": (SkillEntry(config={"on": 2}), Gate(config=(("on", 2),)), None),
    "a value that takes one away": (SkillEntry(config={"on": 2}), Gate(config=(("on", True),)), Reason.CONFIG_DISABLED),
    "a setting": (SkillEntry(config={"absent": {"key": "x"}}), Gate(settings=("absent.key",)), None),
}


@pytest.mark.parametrize(("entry", "gate", "reason"), ENTRIES.values(), ids=ENTRIES)
def test_the_entry_of_a_skill_applies_to_its_gates(entry: SkillEntry, gate: Gate, reason: Reason | None) -> None:
    exclusion = evaluate_gate(gate, HERE, entry, primary_env="KEY")
    assert (exclusion.reason if exclusion else None) is reason


CREDENTIALS: dict[str, tuple[str, SkillEntry, bool]] = {
    "a variable": ("TOKEN", SkillEntry(), True),
    "a variable left empty": ("BLANK", SkillEntry(), False),
    "no variable": ("KEY", SkillEntry(), False),
    "a variable for this skill": ("KEY", SkillEntry(variables={"KEY": "x"}), True),
    "another variable for this skill": ("KEY", SkillEntry(variables={"OTHER": "x"}), False),
    "a credential for this skill": ("KEY", SkillEntry(has_credential=True), True),
}


@pytest.mark.parametrize(("name", "entry", "is_set"), CREDENTIALS.values(), ids=CREDENTIALS)
@pytest.mark.parametrize("fields", ["when: {os: windows}", "colour: red"])
def test_a_skill_in_any_state_says_whether_its_primary_credential_is_set(
    name: str,
    entry: SkillEntry,
    is_set: bool,  # noqa: FBT001 - a parameter of the test
    fields: str,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    metadata = f"metadata: {{jdai: {{skillKey: Mine, primaryEnv: {name}}}}}"
    write_skill(tmp_path, "one", fields=f"{fields}\n{metadata}")
    here = replace(HERE, entries={"mine": entry})
    assert only(load(tmp_path, environment=here)).credential == Credential(name, is_set)


def test_a_skill_that_names_no_credential_has_none_and_its_key_is_its_name(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    write_skill(tmp_path, "one", fields="metadata: {jdai: {primaryEnv: ''}}")
    skill = only(load(tmp_path))
    assert (skill.credential, skill.skill_key) == (None, "one")


@pytest.mark.parametrize("key", ["MY-KEY", "my-key"])
def test_a_skill_that_is_disabled_by_its_key_is_excluded(
    key: str,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    write_skill(tmp_path, "a", fields=PROVIDER.format(provider="jdai", conditions="always: true"))
    entries = {key.lower(): SkillEntry(enabled=False)}
    skill = only(load(tmp_path, environment=Environment("linux", lambda _: True, entries=entries)))
    assert (skill.state, skill.reason) == (State.EXCLUDED, Reason.DISABLED)


CHOICES: dict[str, tuple[dict[str, tuple[str, ...]], set[str]]] = {
    "all": ({}, {"a", "b", "c"}),
    "one by name": ({"enabled": ("a",)}, {"a"}),
    "one by its key": ({"enabled": ("my-key",)}, {"b"}),
    "all but one": ({"disabled": ("a",)}, {"b", "c"}),
    "by tag in any case": ({"enabled": ("tag:beta",)}, {"a", "c"}),
    "all but a tag": ({"disabled": ("tag: Beta",)}, {"b"}),
    "a tag but one of it": ({"enabled": ("tag:beta",), "disabled": ("c",)}, {"a"}),
    "by scope": ({"enabled": ("source:explicit",)}, {"a", "b", "c"}),
    "all but a scope": ({"disabled": ("source:explicit",)}, set()),
    "what nobody is": ({"enabled": ("x", "tag:x", "source:x", "other:x")}, set()),
}


@pytest.mark.parametrize(("choice", "served"), CHOICES.values(), ids=CHOICES)
def test_settings_choose_skills(
    choice: dict[str, tuple[str, ...]],
    served: set[str],
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    write_skill(tmp_path, "a", fields="tags: [Beta]")
    write_skill(tmp_path, "b", fields="metadata: {jdai: {skillKey: my-key}}")
    write_skill(tmp_path, "c", fields="tags: [beta, other]")
    enabled, disabled = choice.get("enabled", ()), choice.get("disabled", ())
    machine = Environment("linux", lambda _: True, enabled=enabled, disabled=disabled)
    catalog = load(tmp_path, environment=machine).catalog
    assert {skill.key for skill in catalog.active} == served
    assert {skill.reason for skill in catalog.skills if skill.key not in served} <= {Reason.DISABLED}


def test_gates_are_evaluated_again_at_each_reload(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", fields="when:\n  requires:\n    env: [TOKEN]")
    variables: dict[str, str] = {}
    library = load(tmp_path, environment=Environment(os="linux", has_bin=lambda _: True, variables=variables))
    assert library.catalog.active == ()
    variables["TOKEN"] = "x"  # noqa: S105 - no secret
    (pair,) = library.reload().updated
    assert [skill.state for skill in pair] == [State.EXCLUDED, State.ACTIVE]
