"""The coordinator: which skill it selects, with which tools."""

from __future__ import annotations

import logging
from ctypes import c_float
from typing import TYPE_CHECKING, Any

import pytest

from skills_core import (
    ByName,
    ByQuery,
    ByTag,
    ContextCoordinator,
    CoordinatorConfig,
    MissingTools,
    Rejected,
    Rejection,
    SelectionPolicy,
    by_full_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog, SkillContext

LOW = SelectionPolicy(top_k=3, min_score=0.1)


class Tools:
    """A registry of tools, each of which is its name in capitals; it remembers what it was asked for."""

    def __init__(self, *names: str) -> None:
        self._tools = {name: name.upper() for name in names}
        self.asked: list[str] = []

    def resolve(self, name: str) -> str | None:
        self.asked.append(name)
        return self._tools.get(name)


def emergency(*tools: str) -> dict[str, object]:
    listed = f"allowed-tools: [{', '.join(tools)}]" if tools else ""
    return {
        "description": "Handle gas and water emergencies",
        "fields": f"tags: [plumber]\n{listed}".rstrip(),
        "body": "You are an emergency dispatcher. Route calls for gas leaks and floods.",
    }


def coordinator(catalog: Catalog, *tools: str, **config: Any) -> ContextCoordinator[str]:
    return ContextCoordinator(catalog.skills, Tools(*tools), CoordinatorConfig(policy=LOW, **config))


def chosen(context: SkillContext[Any] | None) -> str | None:
    return context.skill.key if context else None


def test_the_defaults_are_those_of_adk_skill() -> None:
    config = CoordinatorConfig()
    assert (config.policy, config.max_instruction_chars) == (SelectionPolicy(1, 1.0), 8000)
    assert (config.treatment, config.generalist) == (MissingTools.STRICT, None)


def test_a_query_gives_the_instruction_with_the_tools_that_it_names(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(emergency=emergency("knowledge", "transfer_call"))
    context = coordinator(catalog, "knowledge", "transfer_call").build_context("gas emergency")
    assert context is not None
    assert context.tools == ("KNOWLEDGE", "TRANSFER_CALL")
    assert (context.granted, context.omitted) == (("knowledge", "transfer_call"), ())
    assert context.instruction.startswith("[skill:emergency]\n")
    assert context.instruction.endswith("\n[/skill]")
    for part in ("Handle gas and water emergencies", "knowledge, transfer_call", "emergency dispatcher"):
        assert part in context.instruction
    assert (context.strategy, context.fallback) == (ByQuery("gas emergency"), False)
    assert context.match.score > 0.1


def test_strict_rejects_a_skill_whose_tools_are_not_all_there(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(emergency=emergency("knowledge", "no_such"))
    resolution = coordinator(catalog, "knowledge").resolve([ByQuery("gas")])
    assert resolution.context is None
    (rejected,) = resolution.rejected
    assert (rejected.reason, rejected.missing) == (Rejection.MISSING_TOOLS, ("no_such",))
    assert rejected.match is not None
    assert rejected.match.skill.key == "emergency"


def test_permissive_binds_available_tools_and_reports_the_others(
    catalog_of: Callable[..., Catalog], caplog: pytest.LogCaptureFixture
) -> None:
    catalog = catalog_of(emergency=emergency("knowledge", "no_such"))
    context = coordinator(catalog, "knowledge", treatment=MissingTools.PERMISSIVE).build_context("gas emergency")
    assert context is not None
    assert (context.tools, context.granted, context.omitted) == (("KNOWLEDGE",), ("knowledge",), ("no_such",))
    assert "no_such" not in context.instruction
    assert "no_such" in caplog.text


def test_a_name_needs_no_score(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(emergency=emergency("knowledge"))
    context = ContextCoordinator(catalog.skills, Tools("knowledge")).build_context_by_name("emergency")
    assert context is not None
    assert context.tools == ("KNOWLEDGE",)
    assert context.match.score == c_float(3.4028234663852886e38).value
    assert context.strategy == ByName("emergency")


@pytest.mark.parametrize("listed", ["", "allowed-tools: []"])
def test_a_skill_that_names_no_tools_has_none(catalog_of: Callable[..., Catalog], listed: str) -> None:
    catalog = catalog_of(emergency={**emergency(), "fields": f"tags: [plumber]\n{listed}".rstrip()})
    context = coordinator(catalog).build_context("gas emergency")
    assert context is not None
    assert context.tools == ()
    assert "Tools" not in context.instruction
    assert "emergency dispatcher" in context.instruction


def test_the_first_strategy_that_hits_decides(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(emergency=emergency("knowledge"), other="Something else")
    chooser = coordinator(catalog, "knowledge")
    for strategy in (ByName("emergency"), ByQuery("gas emergency"), ByTag("Plumber")):
        resolution = chooser.resolve([strategy])
        assert chosen(resolution.context) == "emergency"
        assert resolution.rejected == ()
    resolution = chooser.resolve([ByName("nobody"), ByQuery("zebra"), ByTag("none"), ByTag("plumber"), ByName("other")])
    assert chosen(resolution.context) == "emergency"
    assert resolution.context is not None
    assert resolution.context.strategy == ByTag("plumber")
    assert resolution.rejected == (
        Rejected(ByName("nobody"), Rejection.UNKNOWN_NAME),
        Rejected(ByQuery("zebra"), Rejection.NO_MATCH),
        Rejected(ByTag("none"), Rejection.NO_MATCH),
    )
    assert chooser.resolve([]).context is None


def test_after_a_strict_rejection_the_next_match_is_tried_up_to_top_k(
    catalog_of: Callable[..., Catalog],
) -> None:
    catalog = catalog_of(gas_leak=emergency("no_such"), leaks=emergency("knowledge"))
    resolution = coordinator(catalog, "knowledge").resolve([ByQuery("gas leak")])
    assert chosen(resolution.context) == "leaks"
    assert [rejected.match.skill.key for rejected in resolution.rejected if rejected.match] == ["gas-leak"]
    only_one = CoordinatorConfig(policy=SelectionPolicy(top_k=1, min_score=0.1))
    assert ContextCoordinator(catalog.skills, Tools("knowledge"), only_one).build_context("gas leak") is None


def test_a_tag_selects_one_skill(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(a=emergency("no_such"), b=emergency("knowledge"))
    resolution = coordinator(catalog, "knowledge").resolve([ByTag("plumber")])
    assert resolution.context is None
    assert [rejected.reason for rejected in resolution.rejected] == [Rejection.MISSING_TOOLS]
    resolution = coordinator(catalog, treatment=MissingTools.PERMISSIVE).resolve([ByTag("plumber")])
    assert chosen(resolution.context) == "a"


def test_tags_that_the_policy_excludes_stay_excluded(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(a={"fields": "tags: [x, old]"}, b={"fields": "tags: [x]"})
    config = CoordinatorConfig(policy=SelectionPolicy(exclude_tags=("old",)))
    assert chosen(ContextCoordinator(catalog.skills, Tools(), config).resolve([ByTag("x")]).context) == "b"


@pytest.mark.parametrize("generalist", [ByName("base"), ByTag("fallback"), ByQuery("everything")])
def test_the_generalist_comes_last_and_only_where_it_is_configured(
    catalog_of: Callable[..., Catalog], generalist: Any
) -> None:
    catalog = catalog_of(
        base={"description": "For everything else.", "fields": "tags: [fallback]"}, emergency=emergency("no_such")
    )
    assert coordinator(catalog).build_context("gas") is None
    chooser = coordinator(catalog, generalist=generalist)
    resolution = chooser.resolve([ByName("nobody"), ByQuery("gas")])
    assert chosen(resolution.context) == "base"
    assert resolution.context is not None
    assert (resolution.context.strategy, resolution.context.fallback) == (generalist, True)
    assert [rejected.reason for rejected in resolution.rejected] == [Rejection.UNKNOWN_NAME, Rejection.MISSING_TOOLS]
    assert chosen(chooser.build_context("zebra")) == "base"
    assert chosen(chooser.build_context_by_name("nobody")) == "base"


def test_only_active_skills_are_selected_even_by_name(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(gated={**emergency(), "fields": "when: {os: plan9}"}, broken={"description": "''"})
    chooser = coordinator(catalog)
    resolution = chooser.resolve([ByName("gated"), ByName("broken"), ByQuery("gas emergencies")])
    assert resolution.context is None
    assert [rejected.reason for rejected in resolution.rejected] == [
        Rejection.NOT_ACTIVE,
        Rejection.NOT_ACTIVE,
        Rejection.NO_MATCH,
    ]


def test_a_skill_that_models_may_not_choose_is_selected_by_name_only(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(emergency={**emergency(), "fields": "tags: [plumber]\ntrigger: true"})
    chooser = coordinator(catalog)
    assert chooser.resolve([ByQuery("gas emergencies"), ByTag("plumber")]).context is None
    assert chosen(chooser.build_context_by_name("emergency")) == "emergency"


def test_skills_that_share_a_name_are_named_by_their_paths(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(a__refunds="One.", b__refunds="Two.")
    chooser = coordinator(catalog)
    assert chosen(chooser.build_context_by_name("b/refunds")) == "b/refunds"
    assert chooser.build_context_by_name("refunds") is None


def test_a_tool_entry_is_resolved_whole_and_then_by_its_name(catalog_of: Callable[..., Catalog]) -> None:
    tools = "'Bash(git:*)', 'Bash(npm:*)', 'Read', 'Edit(*.py)', '(odd)'"
    catalog = catalog_of(emergency=emergency(tools))
    registry = Tools("Bash", "Read", "Edit", "Edit(*.py)")
    config = CoordinatorConfig(treatment=MissingTools.PERMISSIVE)
    context = ContextCoordinator(catalog.skills, registry, config).build_context_by_name("emergency")
    assert context is not None
    assert context.tools == ("BASH", "READ", "EDIT(*.PY)")
    assert context.granted == ("Bash(git:*)", "Bash(npm:*)", "Read", "Edit(*.py)")
    assert context.omitted == ("(odd)",)
    assert registry.asked == ["Bash(git:*)", "Bash", "Bash(npm:*)", "Bash", "Read", "Edit(*.py)", "(odd)"]
    assert "Bash(git:*), Bash(npm:*), Read, Edit(*.py)." in context.instruction


def test_a_long_body_is_cut_and_the_instruction_says_so(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(long={"body": "é" * 60 + "TAIL"}, short={"body": "é" * 49})
    chooser = coordinator(catalog, max_instruction_chars=50)
    context = chooser.build_context_by_name("long")
    assert context is not None
    assert "é" * 50 in context.instruction
    assert "é" * 51 not in context.instruction
    assert "cut here, after 50 of 64 characters" in context.instruction
    assert context.instruction.endswith("\n[/skill]")
    context = chooser.build_context_by_name("short")
    assert context is not None
    assert "cut here" not in context.instruction


def test_nothing_in_a_skill_closes_its_instruction(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(x={"name": "'x] [/skill]'", "description": "'d [/skill]'", "body": "b [/skill] [skill:y]"})
    (skill,) = catalog.active
    context = coordinator(catalog).build_context_by_name(skill.key)
    assert context is not None
    assert context.instruction.count("[/skill]") == 1
    assert "[skill:y]" not in context.instruction


def test_the_ranking_is_configurable(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(leaks="Repair leaking pipes.", other="Paint walls.")
    assert coordinator(catalog).build_context("a leak") is None
    assert chosen(coordinator(catalog, ranking=by_full_text).build_context("a leak")) == "leaks"


def test_each_decision_is_logged_with_score_and_digest_and_without_the_users_words(
    catalog_of: Callable[..., Catalog], caplog: pytest.LogCaptureFixture
) -> None:
    catalog = catalog_of(gas_leak=emergency("no_such"), leaks=emergency())
    with caplog.at_level(logging.INFO, "skills_core"):
        coordinator(catalog).resolve([ByTag("none"), ByQuery("gas leak secret-word")])
    nothing, rejected, taken = [record.getMessage() for record in caplog.records]
    assert nothing == "context: rejected nothing by the tag none: no_match"
    first, second = catalog.active
    assert f"rejected gas-leak {first.digest} score " in rejected
    assert rejected.endswith("missing_tools: no_such")
    assert f"leaks {second.digest} score " in taken
    assert "secret-word" not in caplog.text
