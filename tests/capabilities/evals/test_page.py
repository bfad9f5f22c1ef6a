"""The panel of evals on a skill's page: the numbers of the newest results, and whether they are of this version."""

from __future__ import annotations

import json
from pathlib import Path

from server.capabilities.evals.tested_skills import load_version
from tests.capabilities.evals.report.workspaces import full_workspace, hostile_workspace, query, write_triggers
from tests.capabilities.web.test_catalog import page
from tests.conftest import MakeSkill
from tests.server.serving import serving


async def shown(skills: Path) -> str:
    async with serving(skills) as served:
        answer = await page(served, "/page/skill/one")
    assert answer.status_code == 200
    return answer.text


async def test_a_skill_without_results_has_no_panel(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    assert 'id="evals"' not in await shown(skills)


async def test_the_numbers_are_shown_without_prompts_and_outputs(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    full_workspace(skills / "one-workspace")
    text = await shown(skills)
    assert 'id="evals"' in text
    assert "Pass rate by iteration" in text
    assert "Loaded when it should be" in text
    assert "Make a chart." not in text
    assert "cannot be shown" not in text


async def test_results_of_another_version_say_so(skills: Path, make_skill: MakeSkill) -> None:
    folder = make_skill("one")
    workspace = skills / "one-workspace"
    full_workspace(workspace)
    newest = max(workspace.glob("iteration-*"), key=lambda each: int(each.name.rpartition("-")[2]))
    (newest / "config.json").write_text(json.dumps({"skill": load_version(folder).digest}))
    assert "measured before the latest change" not in await shown(skills)
    make_skill("one", body="Other words.")
    assert "measured before the latest change" in await shown(skills)


async def test_each_agent_has_its_latest_trigger_results(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    for number, (agent, triggers) in enumerate([("codex", 3), ("claude", 1), ("codex", 2)], 1):
        results = [query("Do it.", should=True, triggers=triggers), query("Do not.", should=False, triggers=0)]
        write_triggers(skills / f"one-workspace/triggers-{number}", results, agent=agent)
    text = await shown(skills)
    assert text.count(">codex<") == 1
    assert text.count(">claude<") == 1


async def test_hostile_results_are_text(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    hostile_workspace(skills / "one-workspace")
    text = await shown(skills)
    assert 'id="evals"' in text
    assert "<script>alert" not in text
    assert "onerror=" not in text.replace("onerror=&#34;", "")
