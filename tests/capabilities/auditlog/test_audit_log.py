"""The writer: it never makes a request wait, loses nothing that it took while the disk works, and counts the rest."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from server.capabilities.auditlog.audit_log import AuditLog, append_now
from server.capabilities.auditlog.log_folder import LogFile, anchors_of
from server.capabilities.auditlog.reading import LogReader, RecordFilter
from server.capabilities.auditlog.records import AuditEvent, AuditLogError, bounded, timestamp
from server.capabilities.auditlog.verification import LogFaultKind, LogVerdict, verify_log
from tests.capabilities.auditlog.helpers import TODAY, activation, damage, entries, kinds, skills_in, write_file
from tests.server.sessions import REPOSITORY, server_environment

posix = pytest.mark.skipif(sys.platform == "win32", reason="this is how POSIX does it")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_what_is_recorded_is_in_the_log_in_its_order_when_the_server_has_ended(folder: Path) -> None:
    with AuditLog(folder, 30) as log:
        for number in range(2000):
            log.record(activation(f"skill-{number}"))
    assert skills_in(folder) == [f"skill-{number}" for number in range(2000)]
    assert verify_log(folder).findings == []


@posix
def test_only_the_user_of_the_server_can_read_the_log(folder: Path) -> None:
    before = os.umask(0)
    try:
        with AuditLog(folder, 30):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()] == [0o600]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such owners")
def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(AuditLogError, match="it belongs to another user; "):
        AuditLog(tmp_path, 1)


@posix
def test_a_folder_that_others_can_write_to_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(AuditLogError, match="chmod 700"):
        AuditLog(folder, 30)


def test_a_file_in_the_place_of_the_folder_is_refused(folder: Path) -> None:
    folder.write_text("")
    with pytest.raises(AuditLogError, match="cannot be used"):
        AuditLog(folder, 30)


def test_threads_record_at_once(folder: Path) -> None:
    with AuditLog(folder, 30) as log:

        def record(own: int) -> None:
            for number in range(200):
                log.record(activation(f"{own}-{number}"))

        threads = [threading.Thread(target=record, args=(own,)) for own in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(skills_in(folder))) == 1600
    assert verify_log(folder).findings == []


def test_what_does_not_fit_into_memory_is_counted_as_a_gap(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(folder, 30, max_waiting=10)
    for number in range(25):  # its thread does not write yet
        log.record(activation(f"skill-{number}"))
    with log:
        pass
    assert skills_in(folder) == [f"skill-{number}" for number in range(10)]
    (gap,) = entries(folder, RecordFilter(event=AuditEvent.GAP))
    assert (gap.lost, kinds(folder), damage(folder)) == (15, {LogFaultKind.GAP}, set())
    assert caplog.messages == []


FULL_DISK = """
import logging, resource, sys
from pathlib import Path
from server.capabilities.auditlog.audit_log import AuditLog
from tests.capabilities.auditlog.helpers import activation, entries, skills_in

folder = Path(sys.argv[1])
logging.basicConfig(stream=sys.stderr, format="%(message)s")
seen = []

class Seen(logging.Handler):
    def emit(self, record):
        seen.append(record.getMessage())

logging.getLogger().addHandler(Seen())
with AuditLog(folder, 30, max_waiting=50) as log:
    # A limit of the size of files: writes fail in the middle of a line, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
    number = 0
    while not seen:
        log.record(activation(f"skill-{number}"))
        number += 1
    for more in range(100):
        log.record(activation(f"more-{more}"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while len(seen) < 2:
        pass
print(number + 100)
"""


@posix
def test_while_the_disk_is_full_serving_goes_on_with_one_warning_and_the_gap_is_recorded(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, folder],
        cwd=REPOSITORY,
        env=server_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "the audit log cannot be written, so records wait in memory",
        "the audit log can be written again",
    ]
    recorded = [skill for skill in skills_in(folder) if skill is not None]
    gaps = entries(folder, RecordFilter(event=AuditEvent.GAP))
    assert len(recorded) == len(set(recorded))
    assert len(recorded) + sum(gap.lost for gap in gaps) == int(done.stdout)
    assert sum(gap.lost for gap in gaps) > 0
    assert kinds(folder) == {LogFaultKind.GAP}


def writer(folder: Path, name: str, number: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.capabilities.auditlog.writing_program", folder, name, str(number)],
        cwd=REPOSITORY,
        env=server_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_write_at_once_and_neither_harms_the_chain_of_the_other(folder: Path) -> None:
    with writer(folder, "one", 3000) as one, writer(folder, "two", 3000) as two:
        for each in (one, two):
            each.communicate(timeout=120)
    assert (one.returncode, two.returncode) == (0, 0)
    found = skills_in(folder)
    for name in ("one", "two"):
        assert [skill for skill in found if skill and skill.startswith(name)] == [f"{name}-{n}" for n in range(3000)]
    assert verify_log(folder).findings == []
    whens = [entry.when for entry in entries(folder)]
    assert whens == sorted(whens)


@posix
def test_a_killed_writer_leaves_what_it_wrote_and_the_next_one_goes_on(folder: Path) -> None:
    with writer(folder, "one", 100_000) as one:
        assert one.stdout is not None
        told = int(one.stdout.readline())
        one.send_signal(signal.SIGKILL)
        one.stdout.read()
    assert one.returncode == -signal.SIGKILL
    append_now(folder, activation("later"))
    found = skills_in(folder)
    assert found[: told + 1] == [f"one-{number}" for number in range(told + 1)]
    assert "later" in found
    assert damage(folder) == set()
    assert LogFaultKind.OPEN in kinds(folder)


@posix
@pytest.mark.parametrize("change", ["removed", "replaced", "shortened", "folder removed"])
def test_a_file_that_is_taken_from_its_writer_is_not_continued_and_the_loss_is_found(
    change: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = AuditLog(folder, 30)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    if change == "shortened":
        file.write_bytes(content[:-10])
    else:
        file.unlink()
        if change == "replaced":
            file.write_bytes(content)
        if change == "folder removed":
            folder.rmdir()
    with log:
        log.record(activation("after"))
    assert skills_in(folder) == ["after"]
    assert "cannot be continued" in caplog.text
    found = {"shortened": LogFaultKind.SHORTENED, "replaced": None}.get(change, LogFaultKind.REMOVED)
    assert damage(folder) == ({found} if found else set())  # a copy has the same bytes


def test_retention_deletes_whole_days_and_says_so(folder: Path) -> None:
    old = [write_file(folder, "old", day=TODAY - timedelta(days=back)) for back in (40, 32, 31)]
    kept = [write_file(folder, "kept", day=TODAY - timedelta(days=back)) for back in (30, 1)]
    (folder / "2020-01-01.txt").write_text("not ours")
    with AuditLog(folder, 30) as log:
        log.record(activation("now"))
    assert [file.exists() for file in (*old, *kept)] == [False, False, False, True, True]
    assert (folder / "2020-01-01.txt").exists()
    assert skills_in(folder).count("kept") == 2
    assert kinds(folder) == {LogFaultKind.IGNORED}
    kept[0].unlink()
    assert damage(folder) == {LogFaultKind.REMOVED}


def test_retention_never_deletes_through_a_link(folder: Path, tmp_path: Path) -> None:
    outside = write_file(tmp_path / "other", "a", day=TODAY - timedelta(days=90))
    folder.mkdir(mode=0o700)
    (folder / outside.name).symlink_to(outside)
    with AuditLog(folder, 30):
        pass
    assert outside.exists()
    assert (folder / outside.name).is_symlink()


def test_another_day_begins_another_file(folder: Path) -> None:
    days = [TODAY - timedelta(days=1)]
    log = AuditLog(folder, 30, today=lambda: days[0])
    days[0] = TODAY
    with log:
        log.record(activation("today"))
    assert skills_in(folder) == ["today"]
    assert [path.name[:10] for path in sorted(folder.iterdir())] == [str(TODAY - timedelta(days=1)), str(TODAY)]
    assert verify_log(folder).findings == []


FUTURE = date(2099, 1, 1)


def log_with_a_clock_that_was_ahead(folder: Path, *skills: str) -> AuditLog:
    """Return a log that was begun on a day that is yet to come; the clock is right by now."""
    days = [FUTURE]
    log = AuditLog(folder, 30, today=lambda: days[0])
    days[0] = TODAY
    for skill in skills:
        log.record(activation(skill))
    return log


def test_a_log_that_was_begun_while_the_clock_was_ahead_goes_on_in_a_file_of_the_day(folder: Path) -> None:
    with log_with_a_clock_that_was_ahead(folder, "a"):
        pass
    later, today = sorted(folder.iterdir(), reverse=True)
    assert (later.name[:10], today.name[:10]) == (str(FUTURE), str(TODAY))
    assert b'"skill":"a"' in today.read_bytes()
    assert verify_log(folder).findings == []


@pytest.mark.parametrize("which", [0, 1])
def test_files_of_earlier_and_of_later_days_are_named_by_those_that_are_begun_afterwards(
    which: int, folder: Path
) -> None:
    with log_with_a_clock_that_was_ahead(folder, "a"):
        pass
    for more in range(5):
        write_file(folder, "b", day=FUTURE + timedelta(days=more))
    append_now(folder, activation("c"))
    files = sorted(path for path in folder.iterdir() if b'"skill":"a"' in path.read_bytes())
    (changed,) = files if which == 0 else [max(folder.iterdir())]
    changed.write_bytes(b"".join(changed.read_bytes().splitlines(keepends=True)[:1]))
    assert damage(folder) == {LogFaultKind.SHORTENED}


def test_the_records_of_a_file_of_a_later_day_are_found_by_their_times(folder: Path) -> None:
    write_file(folder, "a", day=FUTURE)
    tomorrow = timestamp(datetime.now(UTC) + timedelta(days=1))
    assert [entry.skill for entry in entries(folder, RecordFilter(until=tomorrow))] == ["a"]
    assert entries(folder, RecordFilter(since=tomorrow)) == []
    assert entries(folder, RecordFilter(until=f"{TODAY - timedelta(days=30)}")) == []


def test_retention_judges_a_file_of_a_later_day_by_its_last_record(folder: Path) -> None:
    files = [LogFile(folder, FUTURE + timedelta(days=more)) for more in range(2)]
    for file, back in zip(files, (40, 20), strict=True):
        when = f"{TODAY - timedelta(days=back)}T12:00:00.000Z"
        file.append_all([activation("a", when=when)])
        file.close(ended=False)
    write_file(folder, day=TODAY - timedelta(days=1))
    with AuditLog(folder, 30):
        pass
    assert [(folder / str(file.name)).exists() for file in files] == [False, True]
    assert damage(folder) == set()


def test_a_clock_that_jumps_ahead_deletes_nothing_before_its_next_day(folder: Path) -> None:
    files = [write_file(folder, "a", day=TODAY - timedelta(days=back)) for back in (402, 401, 400)]
    for _ in range(2):
        with AuditLog(folder, 30) as log:
            log.record(activation("now"))
        assert all(file.exists() for file in files)
    with AuditLog(folder, 30, today=lambda: TODAY + timedelta(days=1)):
        pass
    assert not any(file.exists() for file in files)
    assert damage(folder) == set()


def test_a_file_that_was_begun_while_the_clock_was_ahead_confirms_no_day(folder: Path) -> None:
    file = write_file(folder, "a")
    with log_with_a_clock_that_was_ahead(folder, "b"):
        pass
    with AuditLog(folder, 30, today=lambda: FUTURE + timedelta(days=1)):
        pass
    assert file.exists()


def test_a_server_without_requests_deletes_old_days(folder: Path) -> None:
    file = write_file(folder, "a", day=TODAY - timedelta(days=70))
    days = [TODAY - timedelta(days=60)]
    log = AuditLog(folder, 30, today=lambda: days[0])
    days[0] = TODAY - timedelta(days=1)
    with log:
        pass
    assert file.exists()
    with AuditLog(folder, 30):
        pass
    assert not file.exists()


def test_the_end_does_not_wait_for_a_disk_that_does_not_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answered = threading.Event()
    log = AuditLog(folder, 30)
    monkeypatch.setattr("server.capabilities.auditlog.audit_log._STOP_SECONDS", 0.05)

    def hang(_: int, __: object) -> int:
        answered.wait(60)
        raise OSError("late")

    monkeypatch.setattr("skills_core.disk.writing.os.write", hang)
    with log:
        log.record(activation("never"))
    assert "ends without 1 records" in caplog.text
    answered.set()
    log._thread.join(30)
    assert not log._thread.is_alive()


def test_the_log_tells_its_anchors_from_its_start_to_its_end(folder: Path) -> None:
    write_file(folder, "earlier")
    told: list[str] = []
    with AuditLog(folder, 30, tell_anchor=told.append) as log:
        log.record(activation("a"))
    anchors = {*anchors_of(" ".join(told))}
    assert len(anchors) == len(told) <= 2
    found = verify_log(folder, anchors)
    assert (found.verdict, found.anchored_records) == (LogVerdict.ANCHORED, found.records)


def test_an_idle_log_tells_an_anchor_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.capabilities.auditlog.audit_log._ANCHOR_SECONDS", 0.0)
    told: list[str] = []
    turns = threading.Semaphore(0)
    log = AuditLog(folder, 30, tell_anchor=told.append)
    log.call_regularly(turns.release)
    monkeypatch.setattr("server.capabilities.auditlog.audit_log._IDLE_SECONDS", 0.001)
    with log:
        for _ in range(5):
            assert turns.acquire(timeout=30)
        count = len(told)
    assert (count, len(told)) == (1, 2)


def test_a_file_that_others_changed_is_told_as_it_was(folder: Path) -> None:
    told: list[str] = []
    with AuditLog(folder, 30, tell_anchor=told.append) as log:
        log.record(activation("a"))
        deadline = time.monotonic() + 30
        while skills_in(folder) != ["a"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (file,) = folder.iterdir()
        file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
        log.record(activation("b"))
    assert LogFaultKind.SHORTENED in {each.kind for each in verify_log(folder, anchors_of(" ".join(told))).findings}


@pytest.mark.parametrize(
    "text",
    [
        "sks_0123456789ab_abcdefghijklmnopqrstuvwxyz",
        "x Bearer abc.def",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
        "skill://sks_0123456789ab_abcdefghijkl/SKILL.md",
    ],
)
def test_no_token_is_recorded_whatever_field_a_client_puts_it_in(text: str) -> None:
    kept = bounded(text)
    assert kept is not None
    assert "[token]" in kept
    assert not any(secret in kept for secret in ("abcdefghij", "abc.def", "c2lnbmF0dXJl", "eyJ"))


OF_SERVICES = {
    "GitHub": "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
    "a part of one of GitHub": "ghp_0123456789abcdef",
    "a new one of GitHub": "github_pat_" + "11ABCDEFG0" * 8,
    "GitLab": "glpat-abcdefghij0123456789",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "Slack": "xoxb-123456789012-123456789012-abcdefghijklmnopqrstuvwx",
    "Anthropic": "sk-ant-api03-abcdefghijklmnop",
    "OpenAI": "sk-" + "a1b2c3d4" * 6,
    "a project of OpenAI": "sk-proj-abcdefghijklmnop",
    "a part of a JSON Web Token": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIi",
}


@pytest.mark.parametrize("secret", OF_SERVICES.values(), ids=OF_SERVICES.keys())
@pytest.mark.parametrize("text", ["{}", "skill://{}/SKILL.md", "a name_{} and more", "x" * 250 + " {}"])
def test_no_token_of_a_well_known_service_is_recorded(secret: str, text: str) -> None:
    kept = bounded(text.format(secret))
    assert kept is not None
    assert "[token]" in kept
    assert not any(part in kept for part in (secret, secret[4:14]))


@pytest.mark.parametrize(
    "name", ["password", "db_password", "TOKEN", "client_secret", "api_key", "x-api-key", "apiKey"]
)
@pytest.mark.parametrize(
    "value", ["{}=hunter2", "{} = 'hunter2 twice'", '{}="hunter2"', "skill://x/?a=b&{}=hunter2&c=d"]
)
def test_no_value_of_a_secret_name_is_recorded(name: str, value: str) -> None:
    kept = bounded(value.format(name))
    assert kept is not None
    assert f"{name}" in kept
    assert "hunter2" not in kept


@pytest.mark.parametrize(
    "name",
    [
        "sk-learn-tutorial-for-beginners",
        "hf_transformers_and_datasets",
        "npm_publish",
        "secret_santa",
        "risk-ant-colony-optimization",
        "reset-password",
        "token:usage",
        "skill://SKILLS/AKIA.md",
        "basics",
        "sha256:" + "0a" * 32,
    ],
)
def test_names_of_skills_are_recorded_as_they_are(name: str) -> None:
    assert bounded(name) == name


def test_long_names_and_lone_surrogates_are_recorded_in_part(folder: Path) -> None:
    append_now(folder, activation(bounded("\ud800" + "x" * 10_000_000) or ""))
    (entry,) = entries(folder)
    assert entry.skill is not None
    assert len(entry.skill) == 300


def test_records_are_filtered_by_their_fields_and_times(folder: Path) -> None:
    for number, principal in enumerate(["anna", "ben", "anna"]):
        when = f"{TODAY - timedelta(days=2 - number)}T12:00:00.000Z"
        file = LogFile(folder, TODAY - timedelta(days=2 - number))
        file.append([activation(f"s{number}", principal, when)])
        file.close()

    def found(**wanted: str) -> list[str | None]:
        return [entry.skill for entry in entries(folder, RecordFilter(**wanted))]  # type: ignore[arg-type]

    middle = f"{TODAY - timedelta(days=1)}T12:00:00.000Z"
    assert found() == ["s0", "s1", "s2"]
    assert found(principal="anna") == ["s0", "s2"]
    assert found(since=middle) == ["s1", "s2"]
    assert found(until=middle) == ["s0"]
    assert found(skill="s1") == ["s1"]
    assert found(decision="denied") == []


def test_the_reader_counts_lines_that_are_no_records(folder: Path) -> None:
    file = write_file(folder, "a", ended=False)
    with file.open("ab") as opened:
        opened.write(b"x" * 2_000_000 + b"\n{}")
    reader = LogReader(folder)
    assert [entry.skill for entry in reader.records(RecordFilter())] == ["a"]
    assert reader.unreadable == 2
