"""The chain: whatever somebody does to records that a later file names, the verification finds it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.capabilities.auditlog.log_folder import FileEnd, LogFile, LogFileName, chained_line, contents, read_line
from server.capabilities.auditlog.reading import RecordFilter
from server.capabilities.auditlog.records import AuditEvent
from server.capabilities.auditlog.verification import LogFaultKind, LogVerdict, anchors_in, verify_log
from tests.capabilities.auditlog.helpers import TODAY, damage, entries, kinds, skills_in, write_file
from tests.thoroughness import examples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_log_as_it_was_written_is_consistent_and_its_ends_are_told(folder: Path) -> None:
    first, second = write_file(folder, "a", "b"), write_file(folder, "c")
    found = verify_log(folder)
    assert (found.findings, found.records, found.verdict) == ([], 7, LogVerdict.CONSISTENT)
    assert {(end.file, end.records) for end in found.ends} == {(first.name, 4), (second.name, 3)}
    assert {*skills_in(folder)} == {"a", "b", "c"}


def test_a_missing_folder_is_an_empty_log(folder: Path) -> None:
    assert verify_log(folder).ends == []
    assert entries(folder) == []


Change = Callable[[list[bytes], int], list[bytes]]
CHANGES: dict[str, Change] = {
    "a line removed": lambda lines, at: lines[:at] + lines[at + 1 :],
    "a line twice": lambda lines, at: lines[: at + 1] + lines[at:],
    "two lines exchanged": lambda lines, at: lines[:at] + lines[at : at + 2][::-1] + lines[at + 2 :],
    "the rest removed": lambda lines, at: lines[:at],
    "an empty line": lambda lines, at: [*lines[:at], b"\n", *lines[at:]],
    "a line of something else": lambda lines, at: [*lines[:at], b'{"seq":1}\n', *lines[at:]],
    "a line of another file": lambda lines, at: [*lines[:at], lines[0], *lines[at + 1 :]] if at else [*lines, lines[0]],
    "the end of a line removed": lambda lines, at: [*lines[:at], lines[at][:-1], *lines[at + 1 :]],
}


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=st.sampled_from(sorted(CHANGES)), data=st.data(), count=st.integers(0, 6))
def test_each_change_of_the_lines_of_a_file_that_another_names_is_found(
    name: str, data: st.DataObject, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log") / "log"
    file = write_file(folder, *(f"s{number}" for number in range(count)))
    write_file(folder, "later")
    lines = file.read_bytes().splitlines(keepends=True)
    changed = CHANGES[name](lines, data.draw(st.integers(0, len(lines) - 1)))
    file.write_bytes(b"".join(changed))
    assert bool(damage(folder)) == (changed != lines)
    shutil.rmtree(folder)


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_each_byte_counts(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("log") / "log"
    file = write_file(folder, "a", "b")
    write_file(folder, "later")
    content = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    assert damage(folder)
    shutil.rmtree(folder)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=300), mode=st.sampled_from(["ab", "wb"]))
def test_no_bytes_stop_the_reader_or_the_verification(
    content: bytes, mode: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log") / "log"
    file = write_file(folder, "a", ended=False)
    with file.open(mode) as opened:
        opened.write(content)
    verify_log(folder)
    assert skills_in(folder) == (["a"] if mode == "ab" else [])
    shutil.rmtree(folder)


def test_a_removed_file_is_found_unless_retention_deleted_it(folder: Path) -> None:
    file = write_file(folder, "a")
    write_file(folder, "b")
    file.unlink()
    assert damage(folder) == {LogFaultKind.REMOVED}


def write_retention(folder: Path, **fields: object) -> None:
    file = LogFile(folder, TODAY)
    file.append_all([{"when": f"{TODAY}T12:00:00.000Z", "event": AuditEvent.RETENTION, **fields}])
    file.close()


def test_a_file_that_retention_deletes_while_the_log_is_verified_is_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write_file(folder, "old", day=TODAY - timedelta(days=40))
    write_file(folder, "named by this")

    def list_and_delete(place: Path) -> tuple[list[LogFileName], list[str]]:
        listed = contents(place)
        if old.exists():
            # The record of it is in a file that is not listed, as after midnight.
            write_retention(folder, before=f"{TODAY - timedelta(days=30)}", deleted=[old.name])
            old.unlink()
        return listed

    monkeypatch.setattr("server.capabilities.auditlog.verification.contents", list_and_delete)
    assert verify_log(folder).findings == []


def test_a_file_that_somebody_removes_while_the_log_is_verified_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = write_file(folder, "a")
    write_file(folder, "named by this")
    listed = contents(folder)
    gone.unlink()
    monkeypatch.setattr("server.capabilities.auditlog.verification.contents", lambda _: listed)
    assert kinds(folder) == {LogFaultKind.REMOVED}


def test_retention_by_a_wrong_clock_accounts_for_the_files_that_it_names_only(folder: Path) -> None:
    deleted, removed = (write_file(folder, "a", day=TODAY - timedelta(days=back)) for back in (40, 39))
    write_retention(folder, before="2098-01-01", deleted=[deleted.name])
    deleted.unlink()
    assert verify_log(folder).findings == []
    removed.unlink()
    (found,) = verify_log(folder).findings
    assert (found.kind, found.file) == (LogFaultKind.REMOVED, removed.name)


def test_retention_without_names_as_older_versions_wrote_it_accounts_for_all_earlier_files(folder: Path) -> None:
    old, later = (write_file(folder, "a", day=TODAY - timedelta(days=back)) for back in (40, 20))
    write_retention(folder, before=f"{TODAY - timedelta(days=30)}")
    old.unlink()
    assert verify_log(folder).findings == []
    later.unlink()
    assert damage(folder) == {LogFaultKind.REMOVED}


@pytest.mark.parametrize("day", [TODAY, date(2099, 1, 1)])
def test_retention_by_a_wrong_clock_accounts_for_nothing(day: date, folder: Path) -> None:
    removed = write_file(folder, "a")
    file = LogFile(folder, day)
    file.append_all([{"when": "2099-01-01T00:00:00.000Z", "event": AuditEvent.RETENTION, "before": "2098-01-01"}])
    file.close()
    removed.unlink()
    assert damage(folder) == {LogFaultKind.REMOVED}


@pytest.mark.parametrize("seq", [10**9, 10**15])
def test_a_record_with_a_high_number_takes_no_memory_for_those_that_are_missing(seq: int, folder: Path) -> None:
    file = write_file(folder, "a", ended=False)
    last = read_line(file.read_bytes().splitlines()[-1])
    line, _ = chained_line({"when": last.when, "event": "activation"}, seq, last.hash)
    with file.open("ab") as opened:
        opened.write(line)
    assert damage(folder) == {LogFaultKind.MISSING}


@pytest.mark.parametrize("seq", [-1, -3, pytest.param(10**4299, id="huge")])
def test_a_number_that_no_record_can_have_makes_a_line_no_record(seq: int, folder: Path) -> None:
    file = write_file(folder, "a", ended=False)
    last = read_line(file.read_bytes().splitlines()[-1])
    line, _ = chained_line({"when": last.when, "event": "activation"}, last.seq + 1, last.hash)
    body = line[: line.rindex(b',"hash"')].replace(b'"seq":2', b'"seq":%d' % seq, 1)
    digest = hashlib.sha256(body + b"}").hexdigest()
    with file.open("ab") as opened:
        opened.write(b'%s,"hash":"%s"}\n' % (body, digest.encode()))
    assert damage(folder) == {LogFaultKind.CHANGED}


def test_a_file_under_the_name_of_another_is_found(folder: Path) -> None:
    first, second = write_file(folder, "a"), write_file(folder, "b")
    first.write_bytes(second.read_bytes())
    assert LogFaultKind.FOREIGN in damage(folder)


def test_a_record_computed_again_is_found_by_the_record_after_it(folder: Path) -> None:
    file = write_file(folder, "a", "b")
    lines = file.read_bytes().splitlines(keepends=True)
    entry = read_line(lines[1].rstrip())
    forged, _ = chained_line({"when": entry.when, "event": "activation", "skill": "x"}, 1, entry.prev)
    file.write_bytes(b"".join([lines[0], forged, *lines[2:]]))
    assert damage(folder) == {LogFaultKind.CHANGED}


def test_a_torn_tail_is_told_and_is_no_damage(folder: Path) -> None:
    file = write_file(folder, "a", ended=False)
    with file.open("ab") as opened:
        opened.write(b'{"seq":2,"when":"2026')
    write_file(folder, "b")
    assert kinds(folder) == {LogFaultKind.TORN, LogFaultKind.OPEN}
    assert verify_log(folder).verdict is LogVerdict.CONSISTENT
    assert {*skills_in(folder)} == {"a", "b"}


@pytest.mark.parametrize("place", ["link", "folder", "fifo", "other"])
def test_what_is_no_file_of_the_log_is_told_and_never_opened(place: str, folder: Path, tmp_path: Path) -> None:
    own = write_file(folder, "a")
    name = f"{TODAY}-{'0' * 16}.jsonl"
    if place == "link":
        outside = tmp_path / "outside"
        outside.write_bytes(own.read_bytes())
        (folder / name).symlink_to(outside)
    elif place == "folder":
        (folder / name).mkdir()
    elif place == "fifo":
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no FIFOs")
        os.mkfifo(folder / name)
    else:
        (folder / "notes.txt").write_text("{}")
    expected = LogFaultKind.IGNORED if place == "other" else LogFaultKind.FOREIGN
    assert kinds(folder) == {expected}
    assert skills_in(folder) == ["a"]


def test_files_name_the_ends_of_the_latest_days(folder: Path) -> None:
    files = [write_file(folder, "a", day=TODAY - timedelta(days=back)) for back in (9, 5, 3, 1)]
    write_file(folder)
    starts = entries(folder, RecordFilter(event=AuditEvent.START))
    assert [name for name, _, _ in starts[-1].seen] == [file.name for file in files[1:]]


def ends(folder: Path) -> list[FileEnd]:
    return verify_log(folder).ends


def test_without_an_anchor_the_verdict_claims_nothing_about_the_end(folder: Path) -> None:
    first, second = write_file(folder, "a", "b"), write_file(folder, "c")
    assert verify_log(folder).verdict is LogVerdict.CONSISTENT
    second.unlink()
    assert (verify_log(folder).verdict, verify_log(folder).anchored_records) == (LogVerdict.CONSISTENT, 0)
    first.unlink()
    assert verify_log(folder).verdict is LogVerdict.EMPTY
    folder.rmdir()
    assert verify_log(folder).verdict is LogVerdict.EMPTY


def test_files_without_a_whole_record_are_an_empty_log(folder: Path) -> None:
    write_file(folder, "a").write_bytes(b"")
    assert verify_log(folder).verdict is LogVerdict.EMPTY


def remove_all(file: Path) -> None:
    for each in file.parent.iterdir():
        each.unlink()


LOSSES: dict[str, Callable[[Path], object]] = {
    "its tail": lambda file: file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-2])),
    "all but its first record": lambda file: file.write_bytes(file.read_bytes().splitlines(keepends=True)[0]),
    "all of its records": lambda file: file.write_bytes(b""),
    "the file": Path.unlink,
    "all files": remove_all,
    "the folder": lambda file: shutil.rmtree(file.parent),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("writes_again", [False, True])
def test_an_anchor_shows_that_the_newest_file_lost(
    lose: Callable[[Path], object], folder: Path, *, writes_again: bool
) -> None:
    write_file(folder, "a")
    newest = write_file(folder, "b", "c")
    anchors = [end for end in ends(folder) if end.file == newest.name]
    assert verify_log(folder, anchors).verdict is LogVerdict.ANCHORED
    lose(newest)
    if writes_again:
        write_file(folder, "b", "c")
    found = verify_log(folder, anchors)
    assert found.verdict is LogVerdict.DAMAGED
    assert {each.kind for each in found.findings if each.kind.is_damage} <= {
        LogFaultKind.REMOVED,
        LogFaultKind.SHORTENED,
    }


SEALS = {"seq", "prev", "hash"}


def test_a_file_that_was_written_again_does_not_hold_to_its_anchor(folder: Path) -> None:
    file = write_file(folder, "a", "b")
    anchors = ends(folder)
    lines = file.read_bytes().splitlines(keepends=True)
    prev, forged = read_line(lines[0][:-1]).hash, lines[:1]
    for seq, line in enumerate(lines[1:], 1):
        fields = {name: value for name, value in json.loads(line).items() if name not in SEALS}
        text, prev = chained_line({**fields, **({"skill": "x"} if "skill" in fields else {})}, seq, prev)
        forged.append(text)
    file.write_bytes(b"".join(forged))
    assert verify_log(folder).verdict is LogVerdict.CONSISTENT
    found = verify_log(folder, anchors)
    assert (found.verdict, {each.kind for each in found.findings}) == (LogVerdict.DAMAGED, {LogFaultKind.CHANGED})


def test_an_anchor_covers_what_its_file_names_and_not_what_came_after_it(folder: Path) -> None:
    first = write_file(folder, "a", "b")
    second = LogFile(folder, TODAY)
    second.append([{"when": "2999-01-01T00:00:00.000Z", "event": "read"}])
    anchor = second.anchor
    second.append([{"when": "2999-01-02T00:00:00.000Z", "event": "read"}] * 3)
    second.close(ended=False)
    write_file(folder, "later")
    found = verify_log(folder, [anchor])
    assert (found.verdict, found.anchored_records, found.anchored_until) == (
        LogVerdict.ANCHORED,
        6,
        "2999-01-01T00:00:00.000Z",
    )
    assert {end.file: end.anchored for end in found.ends if end.anchored} == {first.name: 4, str(second.name): 2}


def delete_by_retention(folder: Path, *deleted: str) -> LogFile:
    file = LogFile(folder, TODAY)
    file.append([{"when": f"{TODAY}T00:00:00.000Z", "event": "retention", "before": str(TODAY), "deleted": [*deleted]}])
    return file


@pytest.mark.parametrize("covered", [False, True])
def test_retention_explains_a_missing_file_to_an_anchor_only_where_an_anchor_covers_it(
    folder: Path, *, covered: bool
) -> None:
    old = write_file(folder, "a", day=TODAY - timedelta(days=40))
    anchors = ends(folder)
    old.unlink()
    file = delete_by_retention(folder, old.name)
    file.close(ended=False)
    if covered:
        anchors += [file.anchor]
    found = verify_log(folder, anchors)
    unconfirmed = {each.kind for each in found.findings} - {LogFaultKind.OPEN}
    expected = (LogVerdict.ANCHORED, set()) if covered else (LogVerdict.CONSISTENT, {LogFaultKind.UNCONFIRMED})
    assert (found.verdict, unconfirmed) == expected


def test_anchors_are_found_in_any_text(folder: Path, tmp_path: Path) -> None:
    write_file(folder, "a")
    write_file(folder, "b")
    found = ends(folder)
    text = tmp_path / "server.log"
    lines = [f"Nov 24 host[1]: INFO audit log anchor: {found[0].anchor}", f'{{"anchor":"{found[1].anchor}"}}', "\xff x"]
    text.write_bytes("\n".join(lines * 2).encode("latin-1"))
    assert anchors_in(text) == {FileEnd(each.file, each.records, each.hash) for each in found}


def test_two_anchors_that_contradict_each_other_are_damage(folder: Path) -> None:
    write_file(folder, "a")
    (end,) = ends(folder)
    other = FileEnd(end.file, end.records, "0" * 64)
    for anchors in ([end, other], [other, end]):
        assert verify_log(folder, anchors).verdict is LogVerdict.DAMAGED
