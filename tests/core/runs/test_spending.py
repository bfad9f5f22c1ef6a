"""What several processes use counts together, and bounds are exceeded by no more than what is under way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skills_core.runs.spending import BoundReachedError, Bounds, SpendingError, SpendingFile, Use

RUN = "run"


def used(file: SpendingFile, cost: float | None, requests: int | None = 1) -> None:
    number = file.begin(RUN, Bounds(), 1)
    assert number is not None
    file.end(number, Use(requests, cost, 100))


@pytest.fixture
def file(tmp_path: Path) -> SpendingFile:
    return SpendingFile(tmp_path / "spending.sqlite")


def other(file: SpendingFile) -> SpendingFile:
    """Return the file as another process has it."""
    return SpendingFile(file.file)


def test_nothing_is_spent_before_the_first_piece_of_work(file: SpendingFile) -> None:
    assert (file.spent().requests, file.spent().cost) == (0, 0.0)
    assert not file.file.exists()


def test_what_others_have_used_counts(file: SpendingFile) -> None:
    used(file, 0.6)
    used(other(file), 0.3)
    with pytest.raises(BoundReachedError, match=r"\$0.9000 of \$1 are used, and further work may cost \$0.6000"):
        other(file).begin(RUN, Bounds(cost=1.0), 1)
    assert file.begin(RUN, Bounds(cost=2.0), 1) is not None


def test_the_first_of_a_kind_sets_aside_all_that_is_left_and_others_wait(file: SpendingFile) -> None:
    bounds = Bounds(cost=1.0)
    first = file.begin(RUN, bounds, 1)
    assert first is not None
    assert other(file).begin(RUN, bounds, 1) is None
    file.end(first, Use(1, 0.2))
    assert other(file).begin(RUN, bounds, 1) is not None


def test_as_many_run_at_once_as_there_is_room_for_at_twice_the_highest_cost_so_far(file: SpendingFile) -> None:
    used(file, 0.1)
    used(file, 0.3)
    bounds = Bounds(cost=1.7)
    begun = [file.begin(RUN, bounds, 1) for _ in range(3)]
    assert [number is None for number in begun] == [False, False, True]
    for number in filter(None, begun):
        file.end(number, Use(1, 0.3))
    assert file.spent().cost == pytest.approx(1.0)


def test_close_to_the_bound_one_goes_at_a_time_and_the_last_one_has_room_for_the_highest_cost(
    file: SpendingFile,
) -> None:
    used(file, 0.3)
    bounds = Bounds(cost=1.0)
    for _ in range(2):
        number = file.begin(RUN, bounds, 1)
        assert number is not None
        assert other(file).begin(RUN, bounds, 1) is None
        file.end(number, Use(1, 0.3))
    with pytest.raises(BoundReachedError):
        file.begin(RUN, bounds, 1)
    assert file.spent().cost == pytest.approx(0.9)


def test_requests_are_never_exceeded_where_their_number_is_known_before(file: SpendingFile) -> None:
    bounds = Bounds(requests=3)
    begun = [file.begin(RUN, bounds, 1) for _ in range(3)]
    assert file.begin(RUN, bounds, 1) is None
    for number in filter(None, begun):
        file.end(number, Use(1))
    with pytest.raises(BoundReachedError, match="3 of 3 requests are used"):
        file.begin(RUN, bounds, 1)


def test_a_run_that_makes_several_requests_sets_aside_as_many_as_the_longest_one(file: SpendingFile) -> None:
    bounds = Bounds(requests=10)
    first = file.begin(RUN, bounds)
    assert first is not None
    assert file.begin(RUN, bounds) is None
    file.end(first, Use(6))
    with pytest.raises(BoundReachedError, match="6 of 10 requests are used, and further work may take 6"):
        file.begin(RUN, bounds)


def test_an_unknown_cost_is_never_zero(file: SpendingFile) -> None:
    used(file, None)
    with pytest.raises(BoundReachedError, match="the cost of 1 run is unknown"):
        file.begin(RUN, Bounds(cost=5.0), 1)
    used(file, 0.4)
    assert file.spent().cost == pytest.approx(0.8)
    assert file.begin(RUN, Bounds(cost=5.0), 1) is not None


def test_what_was_cut_counts_like_the_most_expensive_of_its_kind(file: SpendingFile) -> None:
    number = file.begin(RUN, Bounds(cost=5.0), 1)
    assert number is not None
    file.end(number, None)
    used(file, 0.5)
    assert file.spent().cost == pytest.approx(1.0)


def test_what_a_killed_process_has_set_aside_is_free_after_a_while_and_counts_as_cut(
    file: SpendingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("skills_core.runs.spending.time.time", lambda: now[0])
    used(file, 0.5)
    killed = other(file)
    assert killed.begin("new", Bounds(cost=2.0), 1) is not None
    assert file.begin(RUN, Bounds(cost=2.0), 1) is None
    now[0] += 100
    number = file.begin("new", Bounds(cost=2.0), 1)
    assert number is not None
    file.end(number, Use(1, 0.25))
    assert file.spent().cost == pytest.approx(1.0)


def test_everything_counts_for_a_day(file: SpendingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("skills_core.runs.spending.time.time", lambda: now[0])
    used(file, 0.9)
    now[0] += 86_000
    assert file.spent().cost == pytest.approx(0.9)
    now[0] += 500
    assert file.spent().cost == 0.0


def test_seconds_are_those_in_which_processes_work(file: SpendingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("skills_core.runs.spending.time.time", lambda: now[0])
    bounds = Bounds(seconds=60)
    number = file.begin(RUN, bounds, 1)
    now[0] += 25
    assert number is not None
    file.end(number, Use(1))
    second = other(file).begin(RUN, bounds, 1)
    assert second is not None
    now[0] += 20
    with pytest.raises(
        BoundReachedError, match="45 of 60 seconds are used, and a further piece of this work may take 25"
    ):
        file.begin(RUN, bounds, 1)


def test_a_file_that_is_damaged_is_reported(file: SpendingFile) -> None:
    file.file.write_bytes(b"nothing that SQLite reads" * 100)
    with pytest.raises(SpendingError, match="repair or remove the file"):
        file.begin(RUN, Bounds(cost=1.0), 1)


WORKER = """
import sys, time
from pathlib import Path
from skills_core.runs.spending import BoundReachedError, Bounds, SpendingFile, Use
file = SpendingFile(Path(sys.argv[1]))
made = 0
while True:
    try:
        number = file.begin("run", Bounds(cost=1.0, requests=100), 1)
    except BoundReachedError:
        break
    if number is not None:
        file.end(number, Use(1, 0.1))
        made += 1
    else:
        time.sleep(0.01)
print(made)
"""


def test_two_processes_at_once_share_one_bound(file: SpendingFile) -> None:
    command = [sys.executable, "-c", WORKER, str(file.file)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(made) == 10
    assert file.spent().cost == pytest.approx(1.0)
