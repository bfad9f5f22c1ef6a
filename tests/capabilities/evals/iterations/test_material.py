"""What of a run is evidence: its outputs, and what the agent says by itself."""

from __future__ import annotations

import json
from pathlib import Path

from server.capabilities.evals.iterations.grading import final_material, read_material
from skills_core.evals.grading.cases import Assertion, EvalCase

INSTRUCTION = "Always put a table of the three best months above the chart, with totals in dollars."


def test_instructions_and_prompt_are_no_evidence_but_the_expected_answer_is(tmp_path: Path) -> None:
    """Else grading would favour the arm that has read the skill, and fail the answer that is exactly right."""
    (tmp_path / "outputs").mkdir()
    said = ["Which month was best?", f"     7\t{INSTRUCTION}", "March was best."]
    (tmp_path / "transcript.jsonl").write_text("".join(json.dumps({"text": each}) + "\n" for each in said))
    case = EvalCase(1, "one", "Which month was best?", None, "March was best.", (), (Assertion("March was best"),))
    material = read_material(tmp_path, case, (INSTRUCTION,))
    assert material.find("March was best") == "transcript"
    assert material.find("a table of the three best months above the chart") is None
    assert material.find("Which month") is None


def test_a_blind_comparison_shows_no_path_that_tells_the_arm(tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    place = "/var/skillserve-runs-x1_z/0123456789ab"
    (tmp_path / "outputs/log.md").write_text(f"See `{place}/skill/greeter/assets/template.txt`.")
    (tmp_path / "answer.txt").write_text(f"It is in {place}/workspace/outputs/log.md and ({place}/skill/greeter/).")
    shown = final_material(tmp_path).shown()
    assert "See `…`." in shown
    assert "It is in … and (…)." in shown
