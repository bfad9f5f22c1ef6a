"""The counts: what is counted, that users are not named in them, and that they stay within bounds."""

from __future__ import annotations

import sqlite3
import stat
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from server.access import Principal, PrincipalKind
from server.capabilities.auditlog.analytics import Analytics, Counted, UsageEvent, UsageFile
from server.capabilities.auditlog.records import AuditLogError, bounded
from server.requests import Client, RequestDecision, RequestRecord, Use

TODAY = datetime.now(UTC).date()
TOMORROW = (TODAY + timedelta(days=1)).isoformat()


def request(user: str = "anna", client: str = "claude-code", **fields: Any) -> RequestRecord:
    principal = Principal(user, PrincipalKind.TOKEN)
    return RequestRecord(method="tools/call", request_id="1", principal=principal, client=Client(client, "1"), **fields)


def count(folder: Path, *requests: RequestRecord) -> UsageFile:
    file = UsageFile(folder)
    with Analytics(file, 30) as analytics:
        for each in requests:
            analytics(each)
    return file


def test_uses_are_counted_by_skill_event_client_and_user(tmp_path: Path) -> None:
    activated: dict[str, Any] = {"skill": "a", "use": Use.ACTIVATED}
    file = count(
        tmp_path,
        *(request(**activated) for _ in range(3)),
        request("ben", "Cursor", **activated),
        request(skill="a", use=Use.RAN),
        request(skill="a", use=Use.RAN, decision=RequestDecision.FAILED),
        request(skill="a", decision=RequestDecision.DENIED),
        request(found=("a", "b")),
        request(skill="c", use=Use.READ),
        request(decision=RequestDecision.INVALID, reason="unknown_skill", target="secret text"),
    )
    found = file.read(TODAY.isoformat(), TOMORROW)
    assert found.keys() == {"a", "b", "c"}
    assert {event: number for event, number in found["a"].events.items() if number} == {
        UsageEvent.ACTIVATED: 4,
        UsageEvent.RAN: 1,
        UsageEvent.FAILED: 1,
        UsageEvent.DENIED: 1,
        UsageEvent.FOUND: 1,
    }
    assert (found["a"].clients, found["a"].users) == ({"claude-code": 4, "Cursor": 1}, 2)
    assert (found["b"].clients, found["b"].users, found["c"].clients) == ({}, 0, {"claude-code": 1})
    assert (found["b"].events[UsageEvent.FOUND], found["c"].events[UsageEvent.READ]) == (1, 1)


def test_the_files_name_no_user_and_no_text_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    file = count(tmp_path, request("anna@example.com", skill="a", use=Use.ACTIVATED, target="secret text"))
    content = file.path.read_bytes()
    assert b"anna" not in content
    assert b"secret" not in content
    if sys.platform != "win32":
        assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}
    assert {each.name for each in tmp_path.iterdir()} == {"analytics.db", "analytics.key"}


def test_servers_of_one_user_count_a_user_once_whatever_server_counts_first(tmp_path: Path) -> None:
    files = [UsageFile(tmp_path) for _ in range(8)]
    row = Counted(TODAY.isoformat(), "a", UsageEvent.ACTIVATED, "x", "token:anna")
    threads = [threading.Thread(target=file.add, args=({row: 2}, "")) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = files[0].read(TODAY.isoformat(), TOMORROW)["a"]
    assert (found.events[UsageEvent.ACTIVATED], found.users) == (16, 1)


def test_old_days_are_deleted_and_a_period_is_respected(tmp_path: Path) -> None:
    file = UsageFile(tmp_path)
    days = [(TODAY - timedelta(days=back)).isoformat() for back in (40, 20, 0)]
    for day in days:
        file.add({Counted(day, "a", UsageEvent.ACTIVATED, "x", "u"): 1}, "")
    assert file.read("", TOMORROW)["a"].events[UsageEvent.ACTIVATED] == 3
    assert file.read(days[1], days[2])["a"].events[UsageEvent.ACTIVATED] == 1
    count(tmp_path, request(skill="b", use=Use.ACTIVATED))
    assert file.read("", TOMORROW)["a"].events[UsageEvent.ACTIVATED] == 2


@pytest.mark.parametrize(
    "secret",
    [
        "sks_0123456789ab_dGhpcyBpcyBhIHNlY3JldA",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJl",
        "ghp_0123456789abcdefghij0123456789abcdef",
    ],
)
def test_a_client_that_calls_itself_like_a_token_is_counted_under_the_same_replacement_as_in_the_audit_log(
    secret: str, tmp_path: Path
) -> None:
    file = count(tmp_path, request(client=f"app {secret}", skill="a", use=Use.ACTIVATED))
    assert file.read("", TOMORROW)["a"].clients == {bounded(f"app {secret}"): 1} == {"app [token]": 1}
    assert secret[:12].encode() not in file.path.read_bytes()


def test_clients_choose_their_names_within_bounds(tmp_path: Path) -> None:
    names = ["\x1b[31m" + "x" * 1000, "", *(f"client {number}" for number in range(500))]
    file = count(tmp_path, *(request(client=name, skill="a", use=Use.ACTIVATED) for name in names))
    clients = file.read("", TOMORROW)["a"].clients
    assert len(clients) == 101
    assert clients["other"] == 402
    assert max(map(len, clients)) <= 40
    assert all(name.isprintable() for name in clients)


def test_a_file_that_is_no_database_stops_no_server_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "analytics.db").write_bytes(b"this is no database, " * 100)
    file = count(tmp_path, request(skill="a", use=Use.ACTIVATED))
    (message,) = caplog.messages
    assert "cannot write how skills are used" in message
    with pytest.raises(AuditLogError, match="cannot be read"):
        file.read("", TOMORROW)


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    if sys.platform == "win32":
        pytest.skip("links need a right there")
    outside = tmp_path / "outside"
    (tmp_path / "state").mkdir()
    (tmp_path / "state/analytics.db").symlink_to(outside)
    count(tmp_path / "state", request(skill="a", use=Use.ACTIVATED))
    assert not outside.exists()
    assert "cannot write how skills are used" in caplog.text


def test_a_missing_file_has_no_counts(tmp_path: Path) -> None:
    assert UsageFile(tmp_path).read("", TOMORROW) == {}
    assert [*tmp_path.iterdir()] == []


def test_the_file_is_a_plain_table_that_other_programs_can_read(tmp_path: Path) -> None:
    file = count(tmp_path, request(skill="a", use=Use.ACTIVATED))
    with closing(sqlite3.connect(file.path)) as connection:
        (row,) = connection.execute("SELECT day, skill, event, client, count FROM uses")
    assert row == (TODAY.isoformat(), "a", "activated", "claude-code", 1)
