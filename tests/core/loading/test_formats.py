"""Skills in the style of each system that defined a format load and behave as that system specifies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from skills_core import (
    Environment,
    Library,
    Reason,
    Scope,
    Severity,
    Source,
    State,
    Strictness,
    evaluate_gate,
    render_activation,
    render_request,
)
from skills_core.disk.sources import Places, default_sources
from skills_core.format.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from skills_core import Skill

JDAI = """\
---
name: code-review
description: Looks at changes for faults, holes and missing tests
when:
  os: any              # 'windows', 'linux', 'macos', or 'any'
  requires:
    bins: [git]
    anyBins: [rg, grep]
    env: [GITHUB_TOKEN]
    config:
      feature.codeReview: true
allowed-tools:
  - read_file
  - git_diff
metadata:
  jdai:
    skillKey: code-review
    always: false
    primaryEnv: GITHUB_TOKEN
evaluation:
  enabled: true
  minScore: 0.75
  maxRetries: 2
  criteria:
    - names a file and a line for each finding
---
Read what changed, then say what is wrong with it.
"""

ADK = """\
---
name: zenith-voice-receptionist
description: Voice of a plumber's front desk.
version: "1.1.0"
license: MIT
compatibility: a voice model
allowed-tools:
  - user_profile
  - knowledge
references:
  - references/technicians.json
tags: [voice, plumbing]
trigger: true
hint: Say what is broken
---
You answer the telephone.
"""

CAPABILITY = """\
---
name: git-procedures
version: 0.2.0
description: How this house uses git
triggers: [git, pull request]
tools: []
danger_patterns:
  - 'shell_exec .*push --force'
confirm_patterns:
  - 'shell_exec .*push'
requires: [shell]
---
Commit small.
"""

AGENVOY = """\
---
name: code-reviewer
description: Reviews code for quality and architecture
version: 1.0.0
---
You review code strictly.
"""

SPECIFICATION = """\
---
name: pdf-processing
description: Extracts text and tables from PDF files, fills forms. Use when a PDF is to be read or filled in.
license: Apache-2.0
compatibility: Needs pdftotext
metadata:
  author: example-org
  version: "1.0"
allowed-tools: Bash(git:*) Bash(jq:*) Read
---
# PDF processing
"""

OPEN = Environment(
    os="linux",
    has_bin=lambda _: True,
    variables={"GITHUB_TOKEN": "set"},
    config={"feature": {"codeReview": True}},
)


@pytest.fixture
def load_text(tmp_path: Path, only: Callable[[Library], Skill]) -> Callable[..., Skill]:
    """Load one SKILL.md in a folder of this name."""

    def load(text: str, folder: str, environment: Environment = OPEN, **policy: Any) -> Skill:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "SKILL.md").write_text(text, encoding="utf-8")
        return only(Library([Source(tmp_path.resolve(), **policy)], lambda: environment))

    return load


def test_jdai_a_skill_with_all_conditions_met_is_active_in_a_strict_source(
    load_text: Callable[..., Skill],
) -> None:
    skill = load_text(JDAI, "code-review", strictness=Strictness.STRICT)
    assert (skill.state, skill.diagnostics) == (State.ACTIVE, ())
    front = skill.frontmatter
    assert (front.skill_key, front.primary_env, front.always_on) == ("code-review", "GITHUB_TOKEN", False)
    assert front.allowed_tools == ("read_file", "git_diff")
    assert front.evaluation is not None
    assert (front.evaluation.min_score, front.evaluation.max_retries) == (0.75, 2)


@pytest.mark.parametrize(
    ("changed", "reason", "named"),
    [
        ({"has_bin": lambda name: name != "git"}, Reason.MISSING_BIN, "git"),
        ({"has_bin": lambda name: name not in {"rg", "grep"}}, Reason.MISSING_BIN, "rg, grep"),
        ({"variables": {}}, Reason.MISSING_ENV, "GITHUB_TOKEN"),
        ({"variables": {"GITHUB_TOKEN": ""}}, Reason.MISSING_ENV, "GITHUB_TOKEN"),
        ({"config": {}}, Reason.CONFIG_DISABLED, "feature.codeReview"),
        ({"config": {"feature.codeReview": "true"}}, Reason.CONFIG_DISABLED, "feature.codeReview"),
    ],
)
def test_jdai_one_failing_condition_excludes_the_skill_with_its_reason(
    changed: dict[str, Any], reason: Reason, named: str, load_text: Callable[..., Skill]
) -> None:
    skill = load_text(JDAI, "code-review", replace(OPEN, **changed))
    assert (skill.state, skill.reason) == (State.EXCLUDED, reason)
    assert named in skill.detail


def test_jdai_a_gate_is_evaluated_against_an_environment_value() -> None:
    machine = Environment(os="linux", has_bin=lambda _: False)
    exclusion = evaluate_gate(Gate(bins=("docker-that-does-not-exist",)), machine)
    assert exclusion is not None
    assert exclusion.reason == "missing_bin"


def test_jdai_an_unknown_top_level_field_is_invalid_in_jdai_folders(
    tmp_path: Path, only: Callable[[Library], Skill]
) -> None:
    folder = tmp_path.resolve() / "home" / ".jdai" / "skills" / "my-skill"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: my-skill\ndescription: d\nmood: good\n---\n", encoding="utf-8")
    here = tmp_path.resolve() / "work"
    here.mkdir()
    sources = default_sources(Places(tmp_path.resolve() / "home", here, tmp_path.resolve() / "config"))
    skill = only(Library(sources, lambda: OPEN))
    assert (skill.state, skill.reason, skill.source.scope) == (State.INVALID, Reason.UNKNOWN_FIELD, Scope.MANAGED)


@pytest.mark.parametrize("name", ["CodeReview", "code-review", "Code Review", "code_review"])
def test_jdai_a_name_of_its_own_and_with_capitals_is_active_with_a_warning(
    name: str, tmp_path: Path, only: Callable[[Library], Skill]
) -> None:
    space = tmp_path.resolve()
    folder = space / "work" / ".jdai" / "skills" / "review"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n", encoding="utf-8")
    sources = default_sources(Places(space / "home", space / "work", space / "config"))
    skill = only(Library(sources, lambda: replace(OPEN, trusts=lambda _: True)))
    assert (skill.state, skill.name) == (State.ACTIVE, name)
    codes = {Reason.NAME_MISMATCH} | ({Reason.INVALID_NAME} if name != "code-review" else set())
    warnings = {each.code for each in skill.diagnostics if each.severity is Severity.WARNING}
    assert warnings == codes


def test_jdai_a_name_too_long_or_missing_is_invalid(load_text: Callable[..., Skill]) -> None:
    for field, reason in ((f"name: {'n' * 65}", Reason.NAME_TOO_LONG), ("license: MIT", Reason.MISSING_NAME)):
        skill = load_text(f"---\n{field}\ndescription: d\n---\n", "review", strictness=Strictness.JDAI)
        assert (skill.state, skill.reason) == (State.INVALID, reason)


def test_jdai_parameters_of_a_workflow_step_are_filled_into_the_body(load_text: Callable[..., Skill]) -> None:
    text = "---\nname: summarize\ndescription: d\nallowed-tools: [read_file]\n---\nRead `{{filePath}}` as {{format}}.\n"
    activation = render_activation(load_text(text, "summarize"), {"filePath": "a.md", "format": "short"})
    assert "Read `a.md` as short." in activation


def test_adk_every_field_of_the_format_is_read_below_dot_skills(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    (tmp_path / ".skills" / "references").mkdir(parents=True)
    (tmp_path / ".skills" / "voice.md").write_text(ADK, encoding="utf-8")
    (tmp_path / ".skills" / "references" / "technicians.json").write_text("[]", encoding="utf-8")
    skill = only(load(tmp_path))
    front = skill.frontmatter
    assert (skill.name, front.version, front.license) == ("zenith-voice-receptionist", "1.1.0", "MIT")
    assert (front.allowed_tools, front.tags) == (("user_profile", "knowledge"), ("voice", "plumbing"))
    assert list(skill.content.files) == ["voice.md", "references/technicians.json"]
    assert [d.code for d in skill.diagnostics] == [Reason.NOT_PUBLISHED]


def test_adk_a_skill_with_trigger_is_invoked_by_name_and_has_a_hint(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    (tmp_path / ".skills").mkdir()
    (tmp_path / ".skills" / "voice.md").write_text(ADK, encoding="utf-8")
    skill = only(load(tmp_path))
    assert (skill.model_invocable, skill.user_invocable) == (False, True)
    assert skill.frontmatter.hint == "Say what is broken"


def test_capability_a_skill_is_excluded_while_a_requirement_is_missing(
    tmp_path: Path, load: Callable[..., Library], write_skill: Callable[..., Path]
) -> None:
    (tmp_path / "git-procedures").mkdir()
    (tmp_path / "git-procedures" / "SKILL.md").write_text(CAPABILITY, encoding="utf-8")
    (skill,) = load(tmp_path).catalog.skills
    assert (skill.state, skill.reason) == (State.EXCLUDED, Reason.UNMET_REQUIREMENT)
    write_skill(tmp_path, "shell")
    skill = load(tmp_path).catalog.skill("git-procedures")
    front = skill.frontmatter
    assert (front.triggers, front.tools, front.requires) == (("git", "pull request"), (), ("shell",))
    assert (len(front.danger_patterns), len(front.confirm_patterns)) == (1, 1)
    assert "shell" in render_activation(skill)


@pytest.mark.parametrize(("tools", "always_on"), [("[]", True), ("[{name: run, description: d}]", False)])
def test_capability_the_trigger_of_every_message_counts_for_skills_without_tools(
    tools: str,
    always_on: bool,  # noqa: FBT001 - what is expected
    load_text: Callable[..., Skill],
) -> None:
    text = f'---\nname: manners\ndescription: d\ntriggers: ["*"]\ntools: {tools}\n---\nBe brief.\n'
    assert load_text(text, "manners").frontmatter.always_on is always_on


def test_agenvoy_the_users_text_is_binding_and_without_it_the_command_is_used(
    load_text: Callable[..., Skill],
) -> None:
    skill = load_text(AGENVOY, "code-reviewer")
    assert skill.state is State.ACTIVE
    assert render_request(skill, None) == "/code-reviewer"
    request = render_request(skill, "review src/parser.go")
    assert "binding" in request
    assert "review src/parser.go" in request
    assert "/code-reviewer" not in request


def test_specification_its_example_is_valid_if_strict_and_published(load_text: Callable[..., Skill]) -> None:
    skill = load_text(SPECIFICATION, "pdf-processing", strictness=Strictness.STRICT)
    assert (skill.state, skill.diagnostics, skill.content.published) == (State.ACTIVE, (), True)
    assert skill.frontmatter.allowed_tools == ("Bash(git:*)", "Bash(jq:*)", "Read")


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("name: PDF-Processing", Reason.INVALID_NAME),
        ("name: -pdf", Reason.INVALID_NAME),
        ("name: pdf--processing", Reason.INVALID_NAME),
        (f"name: {'p' * 65}", Reason.NAME_TOO_LONG),
        ("name: other", Reason.NAME_MISMATCH),
        (f"description: {'d' * 1025}", Reason.DESCRIPTION_TOO_LONG),
        ("description:", Reason.MISSING_DESCRIPTION),
        (f"compatibility: {'c' * 501}", Reason.COMPATIBILITY_TOO_LONG),
    ],
)
def test_specification_each_breach_of_its_rules_is_invalid_if_strict(
    field: str, reason: Reason, load_text: Callable[..., Skill]
) -> None:
    fields = {"name": "name: pdf-processing", "description": "description: d"} | {field.partition(":")[0]: field}
    text = "\n".join(["---", *fields.values(), "---", "Body.", ""])
    skill = load_text(text, "pdf-processing", strictness=Strictness.STRICT)
    assert (skill.state, skill.reason) == (State.INVALID, reason)
    lenient = load_text(text, "pdf-processing")
    assert lenient.state is (State.INVALID if reason is Reason.MISSING_DESCRIPTION else State.ACTIVE)
    assert reason in {diagnostic.code for diagnostic in lenient.diagnostics}
