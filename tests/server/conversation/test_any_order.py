"""Whatever clients and work do, in whatever order: nothing hangs, and no caller resumes another's work."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.conversation.lifecycle import ENDED
from tests.server.conversation.simulation import SETTLED, Simulation, actions
from tests.server.sessions import Era
from tests.thoroughness import examples

Step = tuple[str, int]

ACTIONS = actions()
USUAL = ["come back", "work: ask"]
STEP = st.tuples(st.sampled_from([*ACTIONS, *USUAL, *USUAL, *USUAL]), st.sampled_from([0, 0, 0, 1, 1, *range(2, 12)]))
BURST = st.tuples(st.lists(STEP, min_size=1, max_size=3), st.sampled_from([*range(1, 8), SETTLED, SETTLED]))
"""What happens at the same time, and for how many turns of the event loop nothing else does."""

Burst = tuple[list[Step], int]


async def simulate(era: Era, bursts: list[Burst], *, keeps: bool = True) -> Simulation:
    """Do all steps, then stop serving: each request and all work must end by that."""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            simulation = Simulation(tasks, era, keeps=keeps)
            async with simulation.registry.serving():
                try:
                    simulation.call(0)
                    for steps, turns in [([], SETTLED), *bursts, ([], SETTLED)]:
                        for name, number in steps:
                            ACTIONS[name](simulation, number)
                        await simulation.settle(turns)
                        if turns == SETTLED:
                            simulation.check()
                finally:
                    simulation.release()
    assert all(call.ended for call in simulation.calls)
    exchanges = [work.exchange for work in simulation.works if work.exchange is not None]
    assert all(exchange.state in ENDED for exchange in exchanges)
    assert not simulation.registry.is_busy
    assert not simulation.problems
    return simulation


@pytest.mark.parametrize("era", ["modern", "handshake"])
@pytest.mark.parametrize("keeps", [True, False], ids=["in time", "too late"])
def test_everything_ends_and_reaches_only_its_own_caller(era: Era, keeps: bool) -> None:  # noqa: FBT001 - a case
    @settings(max_examples=examples(50), deadline=None)
    @given(st.lists(BURST, min_size=5, max_size=30))
    def holds(bursts: list[Burst]) -> None:
        anyio.run(lambda: simulate(era, bursts, keeps=keeps))

    holds()


ASK, COME_BACK = ("work: ask", 0), ("come back", 0)

LOST: list[tuple[str, list[Step], dict[str, Any]]] = [
    ("cancels", [("cancel", 0)], {}),
    ("closes its request", [("close", 0)], {}),
    ("disconnects", [ASK, ("disconnect", 0)], {}),
    ("does not come back", [ASK], {"keeps": False}),
]


@pytest.mark.parametrize(("steps", "more"), [case[1:] for case in LOST], ids=[case[0] for case in LOST])
async def test_a_client_that_is_lost_stops_its_work(steps: list[Step], more: dict[str, Any]) -> None:
    async with anyio.create_task_group() as tasks:
        simulation = Simulation(tasks, "modern", keeps=more.get("keeps", True))
        async with simulation.registry.serving():
            for name, number in [("begin", 0), *steps]:
                ACTIONS[name](simulation, number)
                await simulation.settle()
            assert simulation.works[0].ended
            assert not simulation.registry.is_busy


async def test_consent_to_a_withdrawn_question_does_not_answer_the_next_one() -> None:
    first = [([("work: consent", 0)], SETTLED), ([("work: withdraw", 0)], SETTLED)]
    second = [([("work: consent", 0)], SETTLED), ([("come back", 1)], SETTLED)]
    simulation = await simulate("modern", [*first, *second])
    confirm, *_, newer = simulation.tokens
    assert (confirm.question, newer.question) == ("0:1", "0:2")
    assert simulation.works[0].consented.get("0:2") is not True
