from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from skills_core.errors import InvalidTimeError
from skills_core.schedules.description import describe, span_in_words
from skills_core.schedules.when import Cron, Every, Once

NOW = datetime.fromisoformat("2026-10-24T12:00:00+02:00")
BERLIN = "Europe/Berlin"


def test_a_cron_expression_is_put_into_words_with_its_zone_and_three_firings() -> None:
    assert describe(Cron("30 2 * * *", BERLIN), NOW) == (
        "At 02:30 every day, by the clocks of Europe/Berlin (cron 30 2 * * *).\n"
        "Next firings:\n"
        "- Sunday 2026-10-25 02:30:00 +02:00 (Europe/Berlin)\n"
        "- Monday 2026-10-26 02:30:00 +01:00 (Europe/Berlin)\n"
        "- Tuesday 2026-10-27 02:30:00 +01:00 (Europe/Berlin)"
    )


def test_a_span_says_that_it_is_elapsed_time() -> None:
    assert describe(Every(timedelta(hours=12), NOW), NOW, BERLIN) == (
        "Every 12 hours of elapsed time, whatever clocks show.\n"
        "Next firings:\n"
        "- Sunday 2026-10-25 00:00:00 +02:00 (Europe/Berlin)\n"
        "- Sunday 2026-10-25 11:00:00 +01:00 (Europe/Berlin)\n"
        "- Sunday 2026-10-25 23:00:00 +01:00 (Europe/Berlin)"
    )


def test_a_single_firing_is_shown_in_the_zone_of_the_schedule() -> None:
    when = Once(datetime(2026, 12, 24, 17, tzinfo=UTC))
    assert describe(when, NOW, BERLIN) == "Once at Thursday 2026-12-24 18:00:00 +01:00 (Europe/Berlin)."


def test_a_single_firing_that_is_past_says_so() -> None:
    assert describe(Once(NOW), NOW, "UTC") == (
        "Once at Saturday 2026-10-24 10:00:00 +00:00 (UTC), which is past.\nIt has no further firing."
    )


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidTimeError, match="no such time zone"):
        describe(Once(NOW), NOW, "Mars/Olympus")


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "1 second"), (90, "1 minute 30 seconds"), (7200, "2 hours"), (90_000, "1 day 1 hour")]
)
def test_a_span_in_words(seconds: int, words: str) -> None:
    assert span_in_words(timedelta(seconds=seconds)) == words
