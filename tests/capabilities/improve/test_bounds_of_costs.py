"""Improvements stop at the bounds of their costs, which all processes of a user share."""

from __future__ import annotations

import pytest

from server.capabilities.improve.records import improvement_records
from skills_core.runs.spending import Bounds, SpendingFile, Use
from tests.capabilities.improve.conftest import OpenLoop
from tests.capabilities.improve.loops import SKILL, Model
from tests.model_endpoint import ModelEndpoint


def spending() -> SpendingFile:
    return SpendingFile(improvement_records().folder / "spending.sqlite")


async def test_an_improvement_counts_its_requests_and_dollars(
    loop: OpenLoop, model: Model, endpoint: ModelEndpoint
) -> None:
    prices = {endpoint.model: {"input": 1000.0, "output": 1000.0}}
    async with loop(improve_max_cost=50, run_prices=prices) as found:
        before = len(endpoint.requests)
        await found.run()
        # The failed run itself is no improvement: it asks twice.
        asked = len(endpoint.requests) - before - 2
        assert found.records[0]["status"] == "improved"
    spent = spending().spent()
    assert spent.requests == asked
    assert spent.cost == pytest.approx(asked * 0.11)
    assert model.tasks


async def test_what_was_used_elsewhere_lets_no_further_one_begin(loop: OpenLoop, model: Model) -> None:
    async with loop(improve_max_requests=5) as found:
        improvement_records().folder.mkdir(parents=True, exist_ok=True)
        number = spending().begin("another process", Bounds(), 5)
        assert number is not None
        spending().end(number, Use(5))
        await found.run()
        [record] = found.records
        assert (record["status"], record["reason"]) == ("dropped", "bound_reached")
        assert "5 of 5 requests are used" in record["message"]
        assert found.main.read_text() == SKILL
    assert not model.tasks


async def test_a_bound_that_is_reached_before_the_measurement_drops_the_change(loop: OpenLoop, model: Model) -> None:
    async with loop(improve_max_requests=1) as found:
        await found.run()
        [record] = found.records
        assert (record["status"], record["reason"]) == ("dropped", "bound_reached")
        assert found.main.read_text() == SKILL
    assert model.tasks


async def test_a_bound_of_the_cost_needs_a_price(
    loop: OpenLoop, model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with loop(improve_max_cost=1.0) as found:
        await found.run()
        assert "skipped: no_price" in caplog.text
        assert not found.records
    assert not model.tasks
