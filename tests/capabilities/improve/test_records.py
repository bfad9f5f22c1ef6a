"""Records of improvements that cannot be read are not taken for absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.capabilities.improve.records import ImprovementRecords, UnknownImprovementError, UnreadableImprovementError


def begin(records: ImprovementRecords, run_id: str, per_day: int = 1) -> object:
    return records.begin(run_id, "tidy", Path("/skills"), "tidy", per_day)


def test_a_damaged_record_is_named_and_not_unknown(tmp_path: Path) -> None:
    records = ImprovementRecords(tmp_path)
    number = begin(records, "run-1")
    (tmp_path / f"{number}.json").write_text("{")
    with pytest.raises(UnreadableImprovementError, match="not JSON"):
        records.get(str(number))
    with pytest.raises(UnknownImprovementError, match="there is no improvement"):
        records.get("0123456789")


@pytest.mark.parametrize("content", ["{", "[]", '{"at": "now"}'])
def test_while_a_record_cannot_be_read_none_begins_because_the_limit_of_the_day_is_unknown(
    tmp_path: Path, content: str
) -> None:
    records = ImprovementRecords(tmp_path)
    number = begin(records, "run-1")
    (tmp_path / f"{number}.json").write_text(content)
    with pytest.raises(UnreadableImprovementError, match="repair or remove"):
        begin(records, "run-2")
    (tmp_path / f"{number}.json").unlink()
    assert isinstance(begin(records, "run-2"), str)
