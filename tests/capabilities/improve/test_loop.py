"""The whole loop: a run fails, the skill is improved, the next run passes, and the change can be taken back."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from server.capabilities.history.histories import Histories
from server.capabilities.improve.checks import measured_by_benchmark
from server.capabilities.improve.settings import ImproveSettings
from server.config.machine import state_home
from skills_core.guard.tool import CallDecision
from skills_core.testing import Call
from tests.capabilities.improve.conftest import OpenLoop
from tests.capabilities.improve.loops import FIXES, RIGHT, SKILL, WRONG, Model
from tests.model_endpoint import Answer, Hang, ModelEndpoint


async def test_a_failed_run_improves_its_skill_and_a_rollback_restores_each_byte(
    loop: OpenLoop, model: Model, skills: Path
) -> None:
    async with loop() as found:
        first = await found.run("first")
        assert [call.decision for call in first.tool_calls] == [CallDecision.UNKNOWN_TOOL]
        assert found.main.read_text() == SKILL.replace(WRONG, RIGHT)
        [record] = found.records
        assert (record["status"], record["run_id"], record["measured"]) == ("improved", "first", {"by": "replay"})
        assert f"-Call the tool {WRONG}" in record["diff"]
        second = await found.run("second")
        assert [call.decision for call in second.tool_calls] == [CallDecision.DONE]
        assert len(model.tasks) == len(found.records) == 1
        with Histories.of(found.settings).open(skills) as history:
            newest = history.commits("tidy")[0]
            assert (newest.cause, newest.trace_id, newest.rev) == ("improvement", "first", record["commit"])
            history.rollback("tidy")
        assert found.main.read_bytes() == SKILL.encode()


async def test_the_model_is_told_steps_and_tools_as_data(loop: OpenLoop, model: Model) -> None:
    async with loop() as found:
        await found.run()
    [task] = model.tasks
    assert f'"tool": "{WRONG}"' in task
    assert f'"{RIGHT}"' in task
    assert "there is no such tool" in task


async def test_the_model_has_files_of_a_copy_and_nothing_else(loop: OpenLoop, endpoint: ModelEndpoint) -> None:
    async with loop() as found:
        await found.run()
        improving = [each for each in endpoint.requests if "# Improving a skill" in str(each["messages"])]
        tools = {tool["function"]["name"] for each in improving for tool in each["tools"]}
        assert tools - {"run_command"} == {"read_file", "write_file", "list_directory", "grep"}
        assert str(found.main.parent) not in str(improving)


async def test_it_is_off_by_default_and_for_other_sources(loop: OpenLoop, model: Model, tmp_path: Path) -> None:
    for sources in ([], ["workspace"], [str(tmp_path / "elsewhere")]):
        async with loop(improve=sources) as found:
            await found.run()
            assert found.main.read_text() == SKILL
            assert not found.records
    assert not model.tasks


async def test_without_a_history_or_after_a_run_without_errors_nothing_is_improved(
    loop: OpenLoop, model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with loop(history_automatic=False) as found:
        await found.run()
        assert "skipped: no_history" in caplog.text
        assert not found.records
        found.main.write_text(SKILL.replace(WRONG, RIGHT))
        await found.run()
    assert not model.tasks


async def test_a_text_that_fails_again_or_cannot_be_measured_is_dropped(loop: OpenLoop, model: Model) -> None:
    for answer, reason in (
        (Call("AnotherTool", {}), "same_failure"),
        (Call(RIGHT, {"path": 7}), "same_failure"),
        (Call(WRONG, {}), "same_failure"),
    ):
        model.replayed = answer
        async with loop(improve_per_day=9) as found:
            await found.run()
            assert found.main.read_text() == SKILL
            assert found.records[0]["reason"] == reason


async def test_runs_of_one_skill_at_once_improve_it_once(loop: OpenLoop, model: Model) -> None:
    go = threading.Event()
    model.fixes = [Hang(go, FIXES[0]), *FIXES[1:]]  # type: ignore[arg-type]
    async with loop() as found, anyio.create_task_group() as tasks:
        tasks.start_soon(found.run, "one")
        with anyio.fail_after(20):
            while not model.tasks:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        second = await found.run("two")
        assert second.tool_calls[0].decision is CallDecision.UNKNOWN_TOOL
        go.set()
    assert [(each["run_id"], each["status"]) for each in found.records] == [("one", "improved")]


async def test_an_edit_meanwhile_wins(loop: OpenLoop, model: Model) -> None:
    edited = SKILL + "A line of the user.\n"
    async with loop() as found:
        model.on_improve = lambda: found.main.write_text(edited)
        await found.run()
        assert found.main.read_text() == edited
        assert found.records[0]["reason"] == "skill_changed"


async def test_an_edit_after_the_measurement_wins_too(loop: OpenLoop, endpoint: ModelEndpoint, model: Model) -> None:
    edited = SKILL + "A line of the user.\n"
    async with loop() as found:

        def reply(asked: dict[str, Any]) -> Answer:
            if len(endpoint.requests) == 6:
                found.main.write_text(edited)
            return model(asked)

        endpoint.reply = reply
        await found.run()
        assert found.main.read_text() == edited
        assert (found.records[0]["reason"], len(endpoint.requests)) == ("skill_changed", 6)


async def test_other_edits_meanwhile_stay_and_a_removed_skill_stays_away(loop: OpenLoop, model: Model) -> None:
    async with loop() as found:
        notes = found.main.parent / "notes.md"
        model.on_improve = lambda: notes.write_text("Mine.")
        await found.run()
        assert (notes.read_text(), found.main.read_text()) == ("Mine.", SKILL.replace(WRONG, RIGHT))
        found.main.write_text(SKILL)
        model.on_improve = lambda: shutil.rmtree(found.main.parent)
        await found.run()
        assert not found.main.parent.exists()
        assert found.records[0]["reason"] == "skill_changed"


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS])
async def test_a_disk_that_takes_nothing_leaves_the_old_skill_and_says_why(
    fault: int, loop: OpenLoop, model: Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(fault, os.strerror(fault))

    async with loop() as found:
        with monkeypatch.context() as patched:
            patched.setattr("skills_core.history.changes.write_state", full)
            await found.run()
        assert found.main.read_text() == SKILL
        [record] = found.records
        assert (record["reason"], os.strerror(fault).lower() in record["message"]) == ("not_written", True)
        with monkeypatch.context() as patched:
            patched.setattr("server.capabilities.improve.records.JsonFile.write", full)
            outcome = await found.run()
        assert (outcome.output, found.main.read_text()) == ("All of them stay.", SKILL)
        assert found.records == [record]
        assert len(model.tasks) == 1
        assert os.strerror(fault) in caplog.text
        assert {path.suffix for path in (state_home() / "improvements").iterdir()} <= {".json", ".lock", ".sqlite", ""}


async def test_a_model_that_does_not_end_is_stopped(loop: OpenLoop, model: Model) -> None:
    assert ImproveSettings().seconds == 120
    model.fixes = [Hang()]
    async with loop(improve_seconds=1) as found:
        await found.run()
        assert (found.records[0]["reason"], found.main.read_text()) == ("time_limit", SKILL)


async def test_the_commit_states_facts_and_none_of_the_models_words(loop: OpenLoop, model: Model, skills: Path) -> None:
    model.fixes = [*FIXES[:2], "I made everything safe. Please accept all proposals."]
    async with loop() as found:
        await found.run("first")
        facts = f"Name of a tool in SKILL.md, line 5: {WRONG} is now {RIGHT}"
        assert found.records[0]["summary"] == facts
        with Histories.of(found.settings).open(skills) as history:
            assert history.commits("tidy")[0].message == f"{facts} (after the run first)"


ASKING = SKILL.replace("Then say which of them should go.", "Ask the user for consent, wait, then delete the newest.")


async def test_a_question_that_nobody_answers_improves_nothing(
    loop: OpenLoop, endpoint: ModelEndpoint, model: Model
) -> None:
    question = Call("ask_user", {"question": "May I delete it?"})
    endpoint.reply = lambda _: question if len(endpoint.requests) == 1 else "I left it as it is."
    async with loop() as found:
        found.main.write_text(ASKING)
        outcome = await found.run()
        assert [call.decision for call in outcome.tool_calls] == [CallDecision.NOBODY_TO_ASK]
        assert (found.records, model.tasks, found.main.read_text()) == ([], [], ASKING)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ask the user for consent, wait, then delete the newest.", "Delete the newest."),
        ("to see the files.", "and skip it if it fails."),
        (WRONG, f"{RIGHT} (or `ls`, if it fails)"),
    ],
)
async def test_what_is_more_than_a_correction_is_proposed_even_without_review(
    old: str, new: str, loop: OpenLoop, model: Model
) -> None:
    model.fixes = [
        Call("write_file", {"path": "SKILL.md", "replace": WRONG, "content": RIGHT}),
        Call("write_file", {"path": "SKILL.md", "replace": old.replace(WRONG, RIGHT), "content": new}),
        "Better now.",
    ]
    model.replayed = Call(RIGHT, {})
    async with loop() as found:
        found.main.write_text(ASKING)
        outcome = await found.run()
        [record] = found.records
        assert (record["status"], record["reason"]) == ("proposed", "not_a_correction"), record
        assert found.main.read_text() == ASKING
        [change] = await found.service.improvements([outcome.run_id])
        assert (change["id"], change["diff"]) == (record["id"], record["diff"])


async def test_evals_do_not_perform_a_text_that_no_person_has_seen(loop: OpenLoop, model: Model, skills: Path) -> None:
    (skills / "tidy" / "evals").mkdir(parents=True)
    (skills / "tidy" / "evals" / "evals.json").write_text(evals("true"))
    (skills / "tidy" / "SKILL.md").write_text(SKILL)
    model.fixes = [Call("write_file", {"path": "SKILL.md", "replace": WRONG, "content": f"{RIGHT} twice"}), "Done."]
    async with loop() as found:
        await found.run()
        assert (found.records[0]["status"], found.records[0]["measured"]) == ("proposed", {"by": "replay"})


async def test_improvements_of_a_day_are_bounded(loop: OpenLoop, model: Model) -> None:
    model.fixes = ["I found nothing to change."]
    async with loop(improve_per_day=2) as found:
        for _ in range(4):
            await found.run()
        assert [each["reason"] for each in found.records] == ["nothing_changed"] * 2


def evals(check: str) -> str:
    assertion = {"text": "The list stays.", "check": check}
    cases = [{"id": 1, "prompt": "Tidy this.", "expected_output": "A list.", "assertions": [assertion]}]
    return json.dumps({"skill_name": "tidy", "evals": cases})


@pytest.mark.parametrize(
    ("document", "status", "reason"),
    [(evals("true"), "improved", None), ("{", "dropped", "evals_failed")],
)
async def test_evals_measure_both_versions(
    document: str, status: str, reason: str | None, loop: OpenLoop, skills: Path
) -> None:
    folder = skills / "tidy" / "evals"
    folder.mkdir(parents=True)
    (folder / "evals.json").write_text(document)
    (skills / "tidy" / "SKILL.md").write_text(SKILL)
    async with loop() as found:
        await found.run()
        [record] = found.records
        assert (record["status"], record.get("reason")) == (status, reason), record
        assert record["measured"]["by"] == "evals"
        if reason is None:
            assert (record["measured"]["before"], record["measured"]["after"]) == (1.0, 1.0)


async def test_a_correction_that_lowers_the_pass_rate_without_a_verdict_is_left_to_a_person(
    loop: OpenLoop, endpoint: ModelEndpoint, model: Model, skills: Path
) -> None:
    (skills / "tidy" / "evals").mkdir(parents=True)
    (skills / "tidy" / "evals" / "evals.json").write_text(evals("test -f list.md"))
    (skills / "tidy" / "SKILL.md").write_text(SKILL)

    def reply(asked: dict[str, Any]) -> Answer:
        """Write the list that the eval expects, but only by the text as it was."""
        system, user = (str(each["content"]) for each in asked["messages"][:2])
        is_eval = "Tidy this." in user and "# Improving a skill" not in system
        if is_eval and WRONG in system and len(asked["messages"]) == 2:
            return Call("write_file", {"path": "outputs/list.md", "content": "A list."})
        return "Done." if is_eval else model(asked)

    endpoint.reply = reply
    async with loop(run_tools=["list_directory", "write_file"]) as found:
        await found.run()
        [record] = found.records
        measured = {"by": "evals", "before": 1.0, "after": 0.0, "verdict": "no verdict"}
        assert record["measured"] == measured, record
        assert (record["status"], record["reason"]) == ("proposed", "pass_rate_lower")
        assert found.main.read_text() == SKILL


def test_a_change_with_the_verdict_worse_is_refused_and_one_that_cannot_be_measured_too() -> None:
    def benchmark(before: float | None, after: float | None, verdict: str, errors: int = 0) -> dict[str, Any]:
        summary = {"old_skill": {"pass_rate": {"mean": before}}, "with_skill": {"pass_rate": {"mean": after}}}
        runs = [{"result": {"errors": errors}}]
        return {"run_summary": summary, "runs": runs, "effect": {"verdict": verdict}}

    def reasons(*values: Any) -> tuple[str | None, str | None]:
        refusal, doubt, _ = measured_by_benchmark(benchmark(*values))
        return (refusal.reason.value if refusal else None, doubt.reason.value if doubt else None)

    assert reasons(0.5, 0.5, "no verdict") == reasons(0.5, 1.0, "no verdict") == (None, None)
    assert reasons(0.2, 0.9, "better") == (None, None)
    assert reasons(1.0, 0.5, "worse") == ("pass_rate_lower", None)
    assert reasons(1.0, 0.5, "no verdict") == (None, "pass_rate_lower")
    failed = ("evals_failed", None)
    assert reasons(None, 1.0, "better") == reasons(1.0, None, "better") == reasons(1.0, 1.0, "better", 1) == failed
