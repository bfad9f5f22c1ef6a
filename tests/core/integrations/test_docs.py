"""The examples for programs in the documentation run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skills_core.testing import ScriptedModel

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def examples(section: str) -> list[str]:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    return BLOCK.findall(re.split(r"\n##+ ", page.partition(f" {section}\n")[2])[0])


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(code, names)  # noqa: S102 - of our own page
    return names


def test_the_example_of_loading_prints_the_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT / "sample_skills")
    (example,) = examples("Find and load the skills of a project")
    assert run(example, {})["catalog"].active
    assert "SKILL.md" in capsys.readouterr().out


async def test_the_examples_of_injection_inject(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    making, pydantic_ai, adk, mappings = examples("Injection in a framework")
    names = run(making, {})
    block = names["block"].text
    assert block.startswith("[skill:git-bisect-guide]")
    assert names["found"].message.text.startswith(block)

    model = ScriptedModel("done")
    names = run(pydantic_ai.replace('"anthropic:NAME"', "model"), {**names, "model": model})
    await names["agent"].run("Find the commit with git bisect")
    (request,) = model.conversations[0]
    assert request.parts[0].content == f"{block}\n\nFind the commit with git bisect"  # type: ignore[union-attr]

    types = SimpleNamespace(Content=SimpleNamespace, Part=lambda text: SimpleNamespace(text=text))
    plugin = run(adk, {**names, "BasePlugin": object, "types": types})["SkillsPlugin"]()
    message = SimpleNamespace(role="user", parts=[types.Part("git bisect"), types.Part(None)])
    changed = await plugin.on_user_message_callback(invocation_context=None, user_message=message)
    assert [part.text for part in changed.parts][1:] == ["git bisect", None]
    assert changed.parts[0].text == block

    names = run(mappings, {**names, "message": {"role": "user", "content": "git bisect"}})
    assert names["message"] == {"role": "user", "content": f"{block}\n\ngit bisect"}
