from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skills_core import Environment, Gate, Reason, State, evaluate_gate

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
        (Gate(os="any"), None, ""),
        (Gate(os="linux"), None, ""),
        (Gate(os="windows"), Reason.OS_MISMATCH, "windows"),
        (Gate(os="macos"), Reason.OS_MISMATCH, "macos"),
        (Gate(os="plan9"), Reason.OS_MISMATCH, "plan9"),
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
def test_a_closed_gate_says_what_is_missing(gate: Gate, reason: Reason | None, missing: str) -> None:
    exclusion = evaluate_gate(gate, HERE)
    assert (exclusion.reason if exclusion else None) is reason
    assert exclusion is None or missing in exclusion.detail


FAILING: list[tuple[str, dict[str, object], Reason]] = [
    ("os", {"os": "windows"}, Reason.OS_MISMATCH),
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
