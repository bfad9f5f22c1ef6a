"""The tool `activate_skill` of a run: what it returns, who may call it, and what an activation makes readable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_core import Catalog, Recipient, render_activation, render_request
from skills_core.guard.tool import CallDecision
from skills_core.runs import run_skills
from skills_core.runs.outcome import ActivatedSkill, ActivationOrigin
from skills_core.runs.run_skills import Offer, RunSkills, select_skills
from skills_core.runs.tools.own_tools import activate_skill_tool, read_skill_file_tool

HERE = Recipient(file_tool="read_skill_file")


@pytest.fixture
def catalog(tmp_path: Path, write_skill: Callable[..., Path], load: Any) -> Catalog:
    write_skill(tmp_path, "doer", fields="requires: [base]", files={"own.md": "own"})
    write_skill(tmp_path, "base", body="In {{lang}}.", files={"base.md": "base"})
    write_skill(
        tmp_path, "third", description="Does <third> things.", body="To {{who}}.", files={"x/third.md": "third"}
    )
    write_skill(tmp_path, "for-users", fields="disable-model-invocation: true")
    found: Catalog = load(tmp_path).catalog
    return found


@pytest.fixture
def skills(catalog: Catalog) -> RunSkills:
    selection = select_skills(catalog.skill("doer"), catalog)
    offers = {skill.key: Offer(skill.digest, skill) for skill in selection.offered}
    return RunSkills(catalog.skill("doer"), selection.companions, offers)


@pytest.fixture
def call(skills: RunSkills, make_gate: Any) -> Callable[..., Any]:
    """Call a tool as a run does, which notes each activation that was carried out."""
    gate = make_gate(activate_skill_tool(skills, lambda: HERE), read_skill_file_tool(skills))

    async def make(tool: str = "activate_skill", **arguments: Any) -> Any:
        made = await gate.call(tool, arguments, 1)
        if tool == "activate_skill" and made.decision is CallDecision.DONE:
            assert skills.activate(arguments["name"], arguments.get("arguments", {}))
        return made

    return make


async def test_an_activation_has_the_bytes_of_every_surface(catalog: Catalog, call: Any) -> None:
    third = catalog.skill("third")
    made = await call(name="third", arguments={"who": "Ana"})
    assert (made.decision, made.text) == (CallDecision.DONE, render_activation(third, {"who": "Ana"}, HERE))
    made = await call(name="third", arguments={"who": "Bo", "arguments": "kindly"})
    activation = render_activation(third, {"who": "Bo"}, HERE)
    assert made.text == f"{activation}\n\n{render_request(third, 'kindly')}"


async def test_instructions_that_are_too_long_for_one_reply_say_where_the_rest_is(
    tmp_path: Path, write_skill: Callable[..., Path], load: Any, make_gate: Any
) -> None:
    for name in ("doer", "long"):
        write_skill(tmp_path, name, body="A line with a secret.\n" * 500 + "The end.")
    catalog: Catalog = load(tmp_path).catalog
    skills = RunSkills(catalog.skill("doer"), (), {"long": Offer(None, catalog.skill("long"))})
    tools = (activate_skill_tool(skills, lambda: HERE), read_skill_file_tool(skills))
    for characters in range(2000, 2030):
        limited = make_gate(*tools, characters=characters, secrets={"KEY": "A line with a secret."})
        arguments = {"name": "long", "arguments": {"arguments": "kindly"}}
        made = await limited.call("activate_skill", arguments, 1)
        assert len(made.text) == characters
        text, _, note = made.text.rpartition("\n[The instructions do not end here. ")
        assert text.startswith('<skill_content name="long"')
        assert 'read_skill_file (skill "long", path "SKILL.md")' in note
        assert "</skill_content>\n\nThe user" in note
        assert not text.endswith(("A line with a secret", "A line with"))
    assert skills.activate("long", {})
    rest = {"skill": "long", "path": "SKILL.md", "first_line": 500}
    assert "The end." in (await make_gate(*tools).call("read_skill_file", rest, 1)).text


async def test_a_skill_that_is_there_already_is_not_repeated(call: Any, skills: RunSkills) -> None:
    assert "To {{who}}." in (await call(name="third")).text
    for name in ("third", "base", "doer"):
        assert (await call(name=name)).text == f"The skill {name} is part of this run already; its text stands above."
    # Other values make another text.
    assert "In French." in (await call(name="base", arguments={"lang": "French"})).text
    assert "already" in (await call(name="base", arguments={"lang": "French"})).text
    assert [(each.skill, each.origin) for each in skills.activated] == [
        ("base", ActivationOrigin.REQUIRED),
        ("third", ActivationOrigin.CALLED),
    ]


def test_the_tool_lists_what_may_be_activated_and_accepts_what_is_there(skills: RunSkills) -> None:
    tool = activate_skill_tool(skills, lambda: HERE)
    names = tool.parameters["properties"]["name"]["enum"]  # type: ignore[call-overload, index]
    assert names == ["third", "doer", "base"]
    assert "- third: Does <third> things." in tool.description
    assert "doer" not in tool.description


async def test_a_skill_key_names_a_skill_and_a_name_that_two_have_names_none(
    tmp_path: Path, write_skill: Callable[..., Path], load: Any, make_gate: Any
) -> None:
    for folder in ("a/refunds", "b/refunds", "doer"):
        write_skill(tmp_path, folder)
    write_skill(tmp_path, "third", fields="metadata: {jdai: {skillKey: third-key}}", files={"a.md": "of third"})
    catalog: Catalog = load(tmp_path).catalog
    offers = {skill.key: Offer(skill.digest, skill) for skill in catalog.offered if skill.key != "doer"}
    skills = RunSkills(catalog.skill("doer"), (), offers)
    assert skills.names == ("a/refunds", "b/refunds", "third", "doer", "third-key")
    gate = make_gate(activate_skill_tool(skills, lambda: HERE), read_skill_file_tool(skills))
    made = await gate.call("activate_skill", {"name": "third-key"}, 1)
    assert made.text == render_activation(catalog.skill("third"), {}, HERE)
    assert skills.activate(skills.key_of("third-key"), {})
    assert "already" in (await gate.call("activate_skill", {"name": "third"}, 1)).text
    assert (await gate.call("read_skill_file", {"skill": "third-key", "path": "a.md"}, 1)).text == "of third"
    assert (await gate.call("activate_skill", {"name": "refunds"}, 1)).decision is CallDecision.INVALID_ARGUMENTS
    assert (await gate.call("activate_skill", {"name": "b/refunds"}, 1)).decision is CallDecision.DONE


async def test_other_names_are_refused(call: Any) -> None:
    for name in ("for-users", "nobody", "", "../third", "third ", 1):
        assert (await call(name=name)).decision is CallDecision.INVALID_ARGUMENTS


async def test_the_number_of_activations_is_bounded(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_skills, "MAX_ACTIVATIONS", 2)
    for who in ("Ana", "Bo"):
        assert (await call(name="third", arguments={"who": who})).decision is CallDecision.DONE
    refused = await call(name="third", arguments={"who": "Cy"})
    assert (refused.decision, "at most" in refused.text) == (CallDecision.FAILED, True)
    assert "already" in (await call(name="third", arguments={"who": "Bo"})).text


async def test_a_skill_that_changed_since_the_run_began_is_not_activated(catalog: Catalog, make_gate: Any) -> None:
    skills = RunSkills(catalog.skill("doer"), (), {"third": Offer("sha256:old", None)})
    made = await make_gate(activate_skill_tool(skills, lambda: HERE)).call("activate_skill", {"name": "third"}, 1)
    assert (made.decision, "has changed" in made.text) == (CallDecision.FAILED, True)
    assert not skills.activate("third", {})
    assert skills.activated == ()


async def test_files_become_readable_with_the_activation(call: Any, catalog: Catalog) -> None:
    assert (await call("read_skill_file", path="own.md")).text == "own"
    assert (await call("read_skill_file", path="own.md", skill="doer")).text == "own"
    assert (await call("read_skill_file", path="base.md", skill="base")).text == "base"
    refused = await call("read_skill_file", path="x/third.md", skill="third")
    assert refused.decision is CallDecision.FAILED
    assert refused.text.endswith("only those of doer, base. Call activate_skill for it first.")
    uri = f"{catalog.skill('third').root_uri}x/third.md"
    assert (await call("read_skill_file", path=uri)).decision is CallDecision.FAILED
    await call(name="third")
    assert (await call("read_skill_file", path="x/third.md", skill="third")).text == "third"
    assert (await call("read_skill_file", path=uri)).text == "third"
    assert (await call("read_skill_file", path="../third/x/third.md")).decision is CallDecision.FAILED
    assert "only those of" in (await call("read_skill_file", path="SKILL.md", skill="for-users")).text


@pytest.mark.parametrize(
    ("allowed", "decision"),
    [
        (None, CallDecision.DONE),
        *(
            ([name], CallDecision.DONE)
            for name in ("activate_skill", "Skill", "run_skill", "Skill(thi*)", "Skill(third)")
        ),
        *(([name], CallDecision.NOT_PERMITTED) for name in ("Read", "Skill(base)", "activate_skills")),
        ([], CallDecision.NOT_PERMITTED),
    ],
)
async def test_a_skill_with_allowed_tools_must_name_the_tool(
    skills: RunSkills, make_gate: Any, allowed: Any, decision: CallDecision
) -> None:
    gate = make_gate(activate_skill_tool(skills, lambda: HERE), allowed=allowed)
    assert (await gate.call("activate_skill", {"name": "third"}, 1)).decision is decision


def test_an_activation_is_reported_with_its_digest(skills: RunSkills, catalog: Catalog) -> None:
    assert skills.activate("third", {})
    assert skills.activated[-1] == ActivatedSkill("third", catalog.skill("third").digest, ActivationOrigin.CALLED)
