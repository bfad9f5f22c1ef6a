"""The advice for each reason."""

from __future__ import annotations

import pytest

from skills_core import Reason
from skills_core.authoring.advice import ADVICE


@pytest.mark.parametrize("reason", list(ADVICE))
def test_advice_is_one_short_sentence(reason: Reason) -> None:
    advice = ADVICE[reason]
    assert advice[0].isupper()
    assert advice.endswith(".")
    assert ". " not in advice
    assert advice.isprintable()
    assert len(advice) <= 100
