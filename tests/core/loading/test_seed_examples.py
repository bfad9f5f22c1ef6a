"""The examples of the systems that this product brings together, each translated to Python.

JD.AI: the section "Testing skills" of its documentation. adk-skill: the examples of its crate's documentation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from skills_core import (
    Environment,
    Injector,
    InvalidFrontmatterError,
    Message,
    MissingFieldError,
    Reason,
    SelectionPolicy,
    State,
    TextPart,
    by_shared_words,
    evaluate_gate,
    inject,
    load_skills,
    parse_skill,
)
from skills_core.format.gate import Gate
from skills_core.runs.workflow.build import RunSkill, WorkflowDefinition
from skills_core.testing import (
    ScriptedModel,
    SequentialScoreEvaluator,
    WorkflowCapture,
    evaluate_gates,
    mock_environment,
    perform,
    skill_of,
)

SAMPLES = Path(__file__).parents[3] / "sample_skills"
ANY = Environment(os="linux", has_bin=lambda _: True)


class TestJdai:
    def test_skill_file_has_required_frontmatter(self) -> None:
        content = (SAMPLES / "code-review" / "SKILL.md").read_text(encoding="utf-8")
        skill = parse_skill(content)
        assert skill.name == "code-review"
        assert skill.description
        assert skill.body

    def test_skill_is_excluded_when_binary_missing(self) -> None:
        gate = Gate(bins=("docker-that-does-not-exist",))
        result = evaluate_gate(gate, mock_environment(bins=["git"]))
        assert result is not None
        assert result.reason == "missing_bin"

    def test_the_skill_of_a_text_is_excluded_as_well(self, tmp_path: Path) -> None:
        text = (
            "---\nname: docker-helper\ndescription: Helps.\nwhen:\n  requires:\n"
            "    bins: [docker-that-does-not-exist]\n---\nHelp.\n"
        )
        result = evaluate_gates(skill_of(text), mock_environment())
        assert result is not None
        assert result.reason is Reason.MISSING_BIN
        (tmp_path / "docker-helper").mkdir()
        (tmp_path / "docker-helper" / "SKILL.md").write_text(text, encoding="utf-8")
        (skill,) = load_skills(tmp_path, mock_environment()).skills
        assert (skill.state, skill.reason) == (State.EXCLUDED, "missing_bin")

    async def test_skill_step_produces_output_in_workflow(self) -> None:
        definition = WorkflowDefinition(name="skill-test", steps=[RunSkill("code-review")])
        capture = WorkflowCapture({"code-review": "All good."})
        skill = skill_of("---\nname: code-review\ndescription: Reviews code.\n---\nReview.\n")
        result = await capture.run(definition, [skill])
        assert len(result.steps) == 1
        assert capture.steps[0].output is not None

    async def test_skill_evaluator_retries_when_score_too_low(self) -> None:
        skill = skill_of(
            "---\nname: summarize\ndescription: Summarizes.\nevaluation:\n  enabled: true\n  minScore: 0.8\n"
            "  maxRetries: 2\n  criteria: [Output is in Markdown format]\n---\nSummarize.\n"
        )
        evaluator = SequentialScoreEvaluator([0.5, 0.9])
        model = ScriptedModel("a summary", "# A summary")
        result = await perform(skill, "summarize this", model=model, evaluator=evaluator)
        assert evaluator.invocations == 2
        assert result.score is not None
        assert result.score.overall == 0.9


RECEPTIONIST = """---
name: zenith-voice-receptionist
description: Official voice persona for Mario's Plumbing Co. receptionist.
version: "1.1.0"
license: MIT
compatibility: Gemini Live 2.5 Flash Native Audio
allowed-tools:
  - user_profile
  - knowledge
  - reasoning_engine
references:
  - references/technicians.json
---
You are Zenith, the voice receptionist for Mario's Plumbing...
"""

EXPERT = """---
name: search-expert
description: Expert in semantic and keyword search.
allowed-tools:
  - knowledge
  - web_search
---
Use tools to find information...
"""


class TestAdkSkill:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        files = {
            ".skills/receptionist.md": RECEPTIONIST,
            "search-expert.skill.md": EXPERT,
            "AGENTS.md": "# Project Agent Instructions\nAlways prefer rg over grep.\n",
            ".skills/todo.md": "---\nname: todo\ndescription: Find TODO markers in code\n---\nUse rg first.\n",
            ".skills/emergency.md": "---\nname: gas-leak\ndescription: Gas leak emergency triage\n---\nGo out. Call.\n",
        }
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        return tmp_path

    def test_skills_of_both_conventions_are_parsed_by_their_paths(self) -> None:
        skill = parse_skill(RECEPTIONIST, ".skills/zenith-voice-receptionist.md")
        front = skill.frontmatter
        assert (skill.name, front.version, front.license) == ("zenith-voice-receptionist", "1.1.0", "MIT")
        assert front.compatibility == "Gemini Live 2.5 Flash Native Audio"
        assert front.allowed_tools == ("user_profile", "knowledge", "reasoning_engine")
        assert front.references == ("references/technicians.json",)
        plain = parse_skill("# Project Agent Instructions\nAlways prefer rg over grep.\n", "AGENTS.md")
        assert (plain.name, plain.description) == ("agents", "Project Agent Instructions")
        assert "agents-md" in plain.frontmatter.tags

    def test_strict_mode_refuses_a_document_without_name_or_description(self) -> None:
        with pytest.raises(MissingFieldError):
            parse_skill('---\nname: ""\ndescription: ""\n---\nbody\n', ".skills/bad.md")
        with pytest.raises(InvalidFrontmatterError) as caught:
            parse_skill("# Missing frontmatter", ".skills/missing.md")
        assert caught.value.path == Path(".skills/missing.md")

    def test_load_and_match_skills(self, root: Path) -> None:
        index = load_skills(root, ANY)
        assert {skill.name for skill in index.active} == {
            *("zenith-voice-receptionist", "search-expert", "agents", "todo", "gas-leak")
        }
        policy = SelectionPolicy(top_k=1, min_score=0.1, include_tags=(), exclude_tags=())
        matches = by_shared_words(index.offered)("find TODO markers in code", policy)
        assert [match.skill.name for match in matches] == ["todo"]

    def test_verification_of_emergency_triage(self, root: Path) -> None:
        index = load_skills(root, ANY)
        matches = by_shared_words(index.offered)("gas leak", SelectionPolicy())
        assert matches[0].score > 5.0, "Emergency skill must have high confidence for 'gas leak'"

    def test_inject_into_user_content(self, root: Path) -> None:
        index = load_skills(root, ANY)
        policy = SelectionPolicy(min_score=0.1)
        content = Message("user", (TextPart("Search this repository for TODO markers"),))
        found = inject(content, by_shared_words(index.offered), policy, 1500)
        assert found.match is not None
        assert found.match.skill.name == "todo"
        assert found.message.text == "[skill:todo]\nUse rg first.\n[/skill]\n\nSearch this repository for TODO markers"

    def test_an_injector_of_a_root(self, root: Path) -> None:
        injector = Injector.from_root(root, ANY)
        assert (injector.policy, injector.max_injected_chars) == (SelectionPolicy(1, 1.0, (), ()), 2000)
        assert injector.inject(Message("user", (TextPart("gas leak"),))).match is not None
