"""Which skills take part in a run besides the performed one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skills_core import Catalog, Skill, render_activation
from skills_core.runs import run_skills
from skills_core.runs.outcome import ActivationOrigin
from skills_core.runs.run_skills import SkillSelection, select_skills

Write = Callable[..., Catalog]


@pytest.fixture
def catalog_of(tmp_path: Path, write_skill: Callable[..., Path], load: Any) -> Write:
    def make(skills: Mapping[str, str | dict[str, Any]]) -> Catalog:
        for folder, given in skills.items():
            write_skill(tmp_path, folder, **(given if isinstance(given, dict) else {"fields": given}))
        catalog: Catalog = load(tmp_path).catalog
        return catalog

    return make


ALWAYS = "metadata: {jdai: {always: true}}"


def companions(selection: SkillSelection) -> list[tuple[str, str]]:
    return [(each.skill.key, each.origin.value) for each in selection.companions]


def of(catalog: Catalog, name: str) -> SkillSelection:
    return select_skills(catalog.skill(name), catalog)


def test_a_skill_alone_has_no_companions_and_may_activate_the_others(catalog_of: Write) -> None:
    selection = of(catalog_of({"doer": "", "b": "", "a": ""}), "doer")
    assert (companions(selection), [each.key for each in selection.offered]) == ([], ["a", "b"])


def test_always_on_skills_are_companions_if_they_declare_no_tools(catalog_of: Write) -> None:
    selection = of(
        catalog_of(
            {
                "doer": "",
                "jdai": ALWAYS,
                "star": 'triggers: ["*"]',
                "word": "triggers: [pdf]",
                "tooled": f"{ALWAYS}\ntools: [{{name: t, description: T.}}]",
            }
        ),
        "doer",
    )
    assert companions(selection) == [("jdai", "always_on"), ("star", "always_on")]
    assert [each.key for each in selection.offered] == ["tooled", "word"]


def test_required_skills_come_once_each_after_those_that_it_requires(catalog_of: Write) -> None:
    skills = {"doer": "requires: [c, a]", "a": "requires: [base]", "b": "requires: [base, a]", "c": "requires: [b]"}
    selection = of(catalog_of({**skills, "base": "", "other": ""}), "doer")
    assert companions(selection) == [(name, "required") for name in ("base", "a", "b", "c")]
    assert [each.key for each in selection.offered] == ["other"]


def test_always_on_skills_come_first_with_what_they_require(catalog_of: Write) -> None:
    skills = {"doer": "requires: [z, style]", "z": "", "style": ALWAYS, "rules": f"{ALWAYS}\nrequires: [words, doer]"}
    selection = of(catalog_of({**skills, "words": ""}), "doer")
    assert companions(selection) == [
        ("words", "required"),
        ("rules", "always_on"),
        ("z", "required"),
        ("style", "required"),
    ]


def test_skills_that_only_users_may_invoke_or_that_are_not_active_take_no_part(catalog_of: Write) -> None:
    only_users = "disable-model-invocation: true"
    selection = of(
        catalog_of(
            {
                "doer": "requires: [secret, open]",
                "secret": f"{only_users}\nrequires: [below]",
                "mention": f"trigger: true\n{ALWAYS}",
                "gated": f"{ALWAYS}\nwhen: {{os: plan9}}",
                "open": "user-invocable: false",
                "below": "",
            }
        ),
        "doer",
    )
    assert companions(selection) == [("open", "required")]
    assert [each.key for each in selection.offered] == ["below"]


def test_of_skills_that_share_a_name_the_first_by_path_is_required(catalog_of: Write) -> None:
    selection = of(
        catalog_of({"doer": "requires: [base]", "b/base": "requires: [doer2]", "a/base": "", "doer2": ""}), "doer"
    )
    assert companions(selection) == [("a/base", "required")]


def test_skills_with_one_name_that_require_each_other_in_a_circle_end(catalog_of: Write) -> None:
    selection = of(
        catalog_of({"doer": "requires: [x]", "a/x": "requires: [y]", "b/x": "", "y": "requires: [x]"}), "doer"
    )
    assert [name for name, _ in companions(selection)] in (["y", "a/x"], [])


def test_a_chain_of_any_length_is_followed(catalog_of: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_skills, "MAX_COMPANIONS", 3000)
    chain = {f"s{number}": f"requires: [s{number + 1}]" for number in range(1500)}
    found = companions(of(catalog_of({**chain, "s1500": ""}), "s0"))
    assert [found[0][0], found[-1][0], len(found)] == ["s1500", "s1", 1500]


def test_texts_that_do_not_fit_are_left_out_and_offered_and_required_ones_have_priority(catalog_of: Write) -> None:
    long = "x" * 40_000
    catalog = catalog_of(
        {
            "doer": "requires: [needed]",
            "a-rule": {"fields": ALWAYS, "body": long},
            "b-rule": ALWAYS,
            "needed": {"body": long},
        }
    )
    selection = of(catalog, "doer")
    assert [(each.skill.key, each.included) for each in selection.companions] == [
        ("a-rule", False),
        ("b-rule", True),
        ("needed", True),
    ]
    assert [each.key for each in selection.offered] == ["a-rule"]


@pytest.mark.parametrize("limit", ["MAX_COMPANIONS", "MAX_COMPANION_CHARACTERS"])
def test_of_a_long_chain_the_nearest_skills_take_part(
    catalog_of: Write, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    chain = {f"s{number}": f"requires: [s{number + 1}]" for number in range(9)}
    catalog = catalog_of({**chain, "s9": "", "always": ALWAYS})
    length = len(render_activation(catalog.skill("s1")))
    monkeypatch.setattr(run_skills, limit, 3 if limit == "MAX_COMPANIONS" else 3 * length + 1)
    selection = of(catalog, "s0")
    assert [each.skill.key for each in selection.companions if each.included] == ["s3", "s2", "s1"]


def test_a_text_that_cannot_fit_is_not_rendered(catalog_of: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = catalog_of({"doer": "", "long": {"fields": ALWAYS, "body": "x" * 64_001}, "short": ALWAYS})
    rendered: list[str] = []

    def render(skill: Skill) -> str:
        rendered.append(skill.key)
        return render_activation(skill)

    monkeypatch.setattr(run_skills, "render_activation", render)
    assert [each.included for each in of(catalog, "doer").companions] == [False, True]
    assert rendered == ["short"]


def test_the_number_of_companions_and_of_offered_skills_is_bounded(
    catalog_of: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_skills, "MAX_COMPANIONS", 2)
    monkeypatch.setattr(run_skills, "MAX_OFFERED", 2)
    skills: dict[str, Any] = {"doer": {"fields": "requires: [need]", "body": "Then use zeta."}, "need": "", "zeta": ""}
    selection = of(catalog_of({**skills, "r1": ALWAYS, "r2": ALWAYS, "alpha": "", "beta": ""}), "doer")
    assert companions(selection) == [("r1", ActivationOrigin.ALWAYS_ON), ("need", ActivationOrigin.REQUIRED)]
    # What the instructions mention comes first.
    assert [each.key for each in selection.offered] == ["zeta", "r2"]


def test_only_what_the_caller_sees_takes_part(catalog_of: Write) -> None:
    catalog = catalog_of({"doer": "", "rule": ALWAYS, "hidden": ALWAYS, "other": "", "hidden-other": ""})
    seen = catalog.restricted(lambda skill: not skill.name.startswith("hidden"))
    selection = of(seen, "doer")
    assert companions(selection) == [("rule", "always_on")]
    assert [each.key for each in selection.offered] == ["other"]
