"""The rules for entries of other servers, and the comparison of files with them."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from server.listing.resources import skill_entry as listing_entry
from skills_core import Environment, Library, Reason, Severity, explicit_sources
from skills_core.errors import EntryRefusedError
from skills_core.remote.installation import disk_faults
from skills_core.remote.verification import (
    Entry,
    entry_warnings,
    equal_as_json,
    incomplete_entries,
    parse_entry,
    path_below,
    verify_file,
    verify_frontmatter,
)
from tests.thoroughness import examples

MAIN = b"---\nname: one\ndescription: Does a thing.\n---\nDo it.\n"
ROOT = "skill://acme/one"


def listed(uri: str, raw: bytes) -> dict[str, Any]:
    return {"uri": uri, "digest": "sha256:" + hashlib.sha256(raw).hexdigest(), "size": len(raw)}


def good(**replaced: Any) -> dict[str, Any]:
    """Return an entry that keeps every rule, but for what is replaced."""
    return {
        "uri": f"{ROOT}/SKILL.md",
        "frontmatter": {"name": "one", "description": "Does a thing."},
        "resources": [listed(f"{ROOT}/SKILL.md", MAIN), listed(f"{ROOT}/sub/a%20b.md", b"a")],
        **replaced,
    }


def with_file(**fields: Any) -> dict[str, Any]:
    """Return an entry with one more file, which has `fields`."""
    value = good()
    value["resources"].append({**listed(f"{ROOT}/more.md", b"x"), **fields})
    return value


def without(key: str) -> dict[str, Any]:
    value = good()
    del value[key]
    return value


def faults(value: object) -> list[str]:
    with pytest.raises(EntryRefusedError) as caught:
        parse_entry(value)
    assert all(fault.severity is Severity.ERROR for fault in caught.value.diagnostics)
    return sorted({fault.code.value for fault in caught.value.diagnostics})


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def test_an_entry_gives_its_skill_path_its_name_and_its_files_by_decoded_paths() -> None:
    entry = parse_entry(good())
    assert (entry.path, entry.name, entry.description) == ("acme/one", "one", "Does a thing.")
    assert [file.path for file in entry.files] == ["SKILL.md", "sub/a b.md"]
    assert entry.main.uri == entry.uri
    assert entry.root == ROOT
    assert entry.size == len(MAIN) + 1


REFUSED: dict[str, tuple[object, str]] = {
    "a text": ("skill", "invalid_entry"),
    "an array": ([good()], "invalid_entry"),
    "nothing": (None, "invalid_entry"),
    "no uri": (without("uri"), "invalid_entry"),
    "no frontmatter": (without("frontmatter"), "invalid_entry"),
    "no resources": (without("resources"), "invalid_entry"),
    "frontmatter is a text": (good(frontmatter="name: one"), "invalid_entry"),
    "resources is an object": (good(resources={}), "invalid_entry"),
    "resources is another word": (good(resources="none"), "invalid_entry"),
    "dynamic": (good(resources="dynamic"), "dynamic_skill"),
    "deep frontmatter": (good(frontmatter={**good()["frontmatter"], "x": nested(5000)}), "invalid_entry"),
    "no name": (good(frontmatter={"description": "d"}), "missing_name"),
    "name is a number": (good(frontmatter={"name": 1, "description": "d"}), "missing_name"),
    "no description": (good(frontmatter={"name": "one"}), "missing_description"),
    "blank description": (good(frontmatter={"name": "one", "description": " \n"}), "missing_description"),
    "another name than the path's": (good(frontmatter={"name": "two", "description": "d"}), "name_mismatch"),
    "no scheme": (good(uri="acme/one/SKILL.md"), "invalid_uri"),
    "no folder": (good(uri="skill://SKILL.md"), "invalid_uri"),
    "another file": (good(uri=f"{ROOT}/skill.md"), "invalid_uri"),
    "an encoded SKILL.md": (good(uri=f"{ROOT}/SKILL%2Emd"), "invalid_uri"),
    "dots in the path": (good(uri="skill://acme/../one/SKILL.md"), "invalid_uri"),
    "encoded dots in the path": (good(uri="skill://acme/%2e%2e/one/SKILL.md"), "invalid_uri"),
    "a slash hidden in the path": (good(uri="skill://acme%2Fone/SKILL.md"), "invalid_uri"),
    "an empty segment": (good(uri="skill://acme//one/SKILL.md"), "invalid_uri"),
    "a query": (good(uri=f"skill://acme?x=/{ROOT}/SKILL.md"), "invalid_uri"),
    "a line end": (good(uri="skill://acme\n/one/SKILL.md"), "invalid_uri"),
    "half a character": (good(uri="skill://acme\ud800/one/SKILL.md"), "invalid_uri"),
    "a very long URI": (good(uri=f"skill://{'a/' * 9000}one/SKILL.md"), "invalid_uri"),
    "a file that is a text": (good(resources=[*good()["resources"], "x"]), "invalid_entry"),
    "a file without a URI": (with_file(uri=None), "invalid_entry"),
    "a file without a digest": (with_file(digest=None), "invalid_entry"),
    "a digest in capitals": (with_file(digest="sha256:" + "A" * 64), "invalid_entry"),
    "a short digest": (with_file(digest="sha256:" + "a" * 63), "invalid_entry"),
    "a digest with a line end": (with_file(digest="sha256:" + "a" * 64 + "\n"), "invalid_entry"),
    "another algorithm": (with_file(digest="sha512:" + "a" * 64), "invalid_entry"),
    "a size that is true": (with_file(size=True), "invalid_entry"),
    "a negative size": (with_file(size=-1), "invalid_entry"),
    "half a byte": (with_file(size=0.5), "invalid_entry"),
    "an endless size": (with_file(size=float("inf")), "invalid_entry"),
    "a size that is no number": (with_file(size=float("nan")), "invalid_entry"),
    "a size of thousands of digits": (with_file(size=10**5000), "invalid_entry"),
    "a size that is a text": (with_file(size="1"), "invalid_entry"),
    "a file above the skill": (with_file(uri="skill://acme/other.md"), "outside_skill"),
    "a file beside the skill": (with_file(uri=f"{ROOT}-more/a.md"), "outside_skill"),
    "the directory itself": (with_file(uri=ROOT), "outside_skill"),
    "the directory with a slash": (with_file(uri=f"{ROOT}/"), "outside_skill"),
    "a file on another host": (with_file(uri="skill://evil/one/a.md"), "outside_skill"),
    "a file of another scheme": (with_file(uri="file://acme/one/a.md"), "outside_skill"),
    "a scheme in capitals": (with_file(uri="SKILL://acme/one/a.md"), "outside_skill"),
    "a local file": (with_file(uri="file:/etc/passwd"), "outside_skill"),
    "dots": (with_file(uri=f"{ROOT}/../a.md"), "outside_skill"),
    "encoded dots": (with_file(uri=f"{ROOT}/%2E%2e/a.md"), "outside_skill"),
    "one dot": (with_file(uri=f"{ROOT}/./a.md"), "outside_skill"),
    "an encoded slash": (with_file(uri=f"{ROOT}/a%2f..%2fb.md"), "outside_skill"),
    "a backslash": (with_file(uri=f"{ROOT}/a\\b.md"), "outside_skill"),
    "an encoded backslash": (with_file(uri=f"{ROOT}/..%5Cb.md"), "outside_skill"),
    "an encoded NUL": (with_file(uri=f"{ROOT}/a%00.md"), "outside_skill"),
    "two slashes": (with_file(uri=f"{ROOT}//a.md"), "outside_skill"),
    "a fragment": (with_file(uri=f"{ROOT}/a.md#x"), "outside_skill"),
    "an escape sequence": (with_file(uri=f"{ROOT}/\x1b[2J.md"), "outside_skill"),
    "a file twice": (with_file(uri=f"{ROOT}/SKILL.md"), "duplicate_file"),
    "a file twice, spelled otherwise": (with_file(uri=f"{ROOT}/sub/%61%20b.md"), "duplicate_file"),
    "no SKILL.md": (good(resources=[listed(f"{ROOT}/a.md", b"")]), "missing_skill_file"),
    "no files": (good(resources=[]), "missing_skill_file"),
    "the SKILL.md spelled otherwise": (good(resources=[listed(f"{ROOT}/%53KILL.md", MAIN)]), "missing_skill_file"),
    "513 files": (
        good(resources=[*good()["resources"], *(listed(f"{ROOT}/{n}.md", b"") for n in range(511))]),
        "too_many_files",
    ),
    "16 MiB and a byte": (with_file(size=16 * 1024 * 1024 - len(MAIN)), "too_large"),
}


@pytest.mark.parametrize(("value", "reason"), REFUSED.values(), ids=REFUSED)
def test_an_entry_that_breaks_a_rule_is_refused_for_that_alone(value: object, reason: str) -> None:
    assert faults(value) == [reason]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("One", "invalid_name"),
        ("a--b", "invalid_name"),
        ("-a", "invalid_name"),
        ("a.b", "invalid_name"),
        ("a" * 65, "name_too_long"),
    ],
)
def test_a_name_keeps_the_naming_rules(name: str, reason: str) -> None:
    uri = f"skill://{name}/SKILL.md"
    front = {"name": name, "description": "d"}
    assert faults({"uri": uri, "frontmatter": front, "resources": [listed(uri, MAIN)]}) == [reason]


def test_all_faults_are_reported_at_once_with_the_claimed_uri_and_name() -> None:
    value = with_file(uri="skill://evil/x", digest="no")
    value["frontmatter"] = {"name": "two"}
    with pytest.raises(EntryRefusedError) as caught:
        parse_entry(value)
    assert {fault.code for fault in caught.value.diagnostics} == {
        Reason.MISSING_DESCRIPTION,
        Reason.NAME_MISMATCH,
        Reason.OUTSIDE_SKILL,
        Reason.INVALID_ENTRY,
    }
    assert (caught.value.uri, caught.value.name) == (f"{ROOT}/SKILL.md", "two")


def test_the_number_of_reported_faults_is_limited_and_says_so() -> None:
    with pytest.raises(EntryRefusedError) as caught:
        parse_entry(good(resources=[{}] * 400))
    assert len(caught.value.diagnostics) == 51
    assert "more faults" in caught.value.diagnostics[-1].message


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("skill://one/SKILL.md", "one"),
        ("skill://caf%C3%A9/one/SKILL.md", "café/one"),
        ("github://owner/repo/skills/one/SKILL.md", "owner/repo/skills/one"),
        ("repo:skills/one/SKILL.md", "skills/one"),
        ("file:///srv/one/SKILL.md", "srv/one"),
    ],
)
def test_every_uri_scheme_is_accepted(uri: str, path: str) -> None:
    entry = parse_entry(good(uri=uri, resources=[listed(uri, MAIN)]))
    assert entry.path == path


def test_limits_are_what_every_host_supports_and_not_less() -> None:
    files = [listed(f"{ROOT}/{number}.md", b"") for number in range(511)]
    assert len(parse_entry(good(resources=[listed(f"{ROOT}/SKILL.md", MAIN), *files])).files) == 512
    assert parse_entry(with_file(size=16 * 1024 * 1024 - len(MAIN) - 1)).size == 16 * 1024 * 1024
    assert parse_entry(good(frontmatter={**good()["frontmatter"], "x": nested(64)})).name == "one"
    assert parse_entry(with_file(size=5.0)).files[-1].size == 5


def test_bytes_of_another_size_or_digest_are_refused_and_others_are_not() -> None:
    file = parse_entry(good()).files[1]
    assert verify_file(file, b"a") is None
    for raw, reason in ((b"", Reason.SIZE_MISMATCH), (b"aa", Reason.SIZE_MISMATCH), (b"b", Reason.DIGEST_MISMATCH)):
        fault = verify_file(file, raw)
        assert fault is not None
        assert fault.code is reason
        assert fault.path == file.uri


def entry_with(front: dict[str, Any]) -> Entry:
    return parse_entry(good(frontmatter={"name": "one", "description": "Does a thing.", **front}))


def document(fields: str) -> bytes:
    return f"---\nname: one\ndescription: Does a thing.\n{fields}\n---\n".encode()


@pytest.mark.parametrize(
    ("front", "fields"),
    [
        ({}, ""),
        ({"x": 1}, "x: 1.0"),
        ({"x": 1.0}, "x: 1"),
        ({"x": "yes"}, "x: yes"),
        ({"x": "2026-01-02"}, "x: 2026-01-02"),
        ({"x": 10}, "x: 010"),
        ({"x": {"b": [1, {"c": True}], "a": ""}}, "x: {a: '', b: [1, {c: true}]}"),
        ({"x": 12345678901234567000}, "x: 12345678901234567890"),  # what a double leaves of it
    ],
)
def test_frontmatter_is_compared_as_json_values(front: dict[str, Any], fields: str) -> None:
    assert verify_frontmatter(entry_with(front), document(fields)) == ()


@pytest.mark.parametrize(
    ("front", "fields", "named"),
    [
        ({"x": True}, "x: 1", "x"),
        ({"x": 0}, "x: false", "x"),
        ({"x": "1"}, "x: 1", "x"),
        ({"x": None}, "", "x"),
        ({}, "x: null", "x"),
        ({"x": [1]}, "x: [1, 1]", "x"),
        ({"x": {"a": 1}}, "x: {a: 1, b: 2}", "x"),
        ({"x": []}, "x: {}", "x"),
        ({"allowed-tools": "Read"}, "allowed-tools: Read Bash", "allowed-tools"),
        ({"x": 10**5000}, "x: 1", "x"),
    ],
)
def test_a_field_that_differs_is_named(front: dict[str, Any], fields: str, named: str) -> None:
    (fault,) = verify_frontmatter(entry_with(front), document(fields))
    assert fault.code is Reason.FRONTMATTER_MISMATCH
    assert f"'{named}'" in fault.message


def test_the_number_of_reported_fields_is_limited_and_says_so() -> None:
    found = verify_frontmatter(entry_with({f"x{number}": 1 for number in range(100)}), document(""))
    assert len(found) == 21
    assert "80 more" in found[-1].message


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"no frontmatter", "missing_frontmatter"),
        (b"", "empty"),
        (b"---\nname: one\ndescription: Use when: always\n---\n", "yaml_repaired"),
        (b"---\nname: one\nname: one\ndescription: Does a thing.\n---\n", "duplicate_key"),
        (b"---\n{name: [\n---\n", "invalid_yaml"),
        (b"---\nname: one\ndescription: caf\xe9\n---\n", "not_utf8"),
    ],
)
def test_frontmatter_that_other_parsers_read_differently_is_refused_with_the_reason(raw: bytes, why: str) -> None:
    codes = {fault.code.value for fault in verify_frontmatter(parse_entry(good()), raw)}
    assert codes == {why, "frontmatter_mismatch"}


def test_an_overlong_description_is_a_warning() -> None:
    (note,) = entry_warnings(entry_with({"description": "d" * 1025}))
    assert (note.code, note.severity) == (Reason.DESCRIPTION_TOO_LONG, Severity.WARNING)
    assert entry_warnings(parse_entry(good())) == ()


def skill_entry(path: str, *files: str) -> Entry:
    uri = f"skill://{path}/SKILL.md"
    front = {"name": path.rpartition("/")[2], "description": "d"}
    resources = [listed(f"skill://{path}/{file}", b"") for file in ("SKILL.md", *files)]
    return parse_entry({"uri": uri, "frontmatter": front, "resources": resources})


def test_an_entry_that_omits_a_file_of_a_nested_skill_is_incomplete() -> None:
    inner = skill_entry("outer/inner", "a.md")
    whole = skill_entry("outer", "inner/SKILL.md", "inner/a.md")
    assert incomplete_entries([inner, whole, skill_entry("outer-more")]) == {}
    cut = skill_entry("outer", "inner/SKILL.md")
    found = incomplete_entries([inner, skill_entry("outer-more"), cut])
    assert [(uri, fault.code) for uri, fault in found.items()] == [(cut.uri, Reason.INCOMPLETE_ENTRY)]


@pytest.mark.parametrize(
    "paths",
    [
        ["README.md", "readme.md"],
        ["caf\u00e9.md", "cafe\u0301.md"],
        ["stra\u00dfe", "STRASSE"],
        ["a/x.md", "A/y.md"],
        ["a", "a/b"],
        ["a/b", "A"],
        [".skillserve-origin.json"],
        [".SkillServe-Origin.json/x"],
    ],
)
def test_paths_that_collide_on_some_disk_are_refused(paths: list[str]) -> None:
    assert {fault.code for fault in disk_faults(paths, windows=False)} == {Reason.NAME_COLLISION}


@pytest.mark.parametrize(
    "path", ["..", "a/../b", "a//b", "/a", "a\\b", "a\0", "", ".git/config", "x/.GIT/hooks/y", ".g\u200cit", "a" * 256]
)
def test_names_outside_the_folder_and_gits_names_are_refused_everywhere(path: str) -> None:
    assert Reason.UNSUPPORTED_NAME in {fault.code for fault in disk_faults([path], windows=False)}


@pytest.mark.parametrize(
    "path",
    ["con", "CON.txt", "aux .md", "x/lpt1.tar.gz", "com\u00b9", "a:b", "what?", "a.", "a ", "tab\there", "a\udcff.md"],
)
def test_names_that_windows_cannot_hold_are_refused_there_alone(path: str) -> None:
    assert [fault.code for fault in disk_faults([path], windows=True)] == [Reason.UNSUPPORTED_NAME]
    assert disk_faults([path], windows=False) == ()


def test_ordinary_names_are_written_everywhere() -> None:
    paths = ["SKILL.md", "a/b/c.md", "a/b.md", ".gitignore", "console.md", "d\u00e9j\u00e0.md", "a..b", "x.git"]
    assert disk_faults(paths, windows=True) == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
odd_uris = st.text(alphabet="skil:/%.2eEFf5cC\\\0aSKILL.md?#", max_size=40)
odd_files = st.fixed_dictionaries(
    {},
    optional={
        "uri": odd_uris.map(lambda text: f"{ROOT}/{text}") | odd_uris | json_values,
        "digest": json_values,
        "size": json_values,
    },
)
odd_entries = st.fixed_dictionaries(
    {},
    optional={
        "uri": st.just(f"{ROOT}/SKILL.md") | odd_uris | json_values,
        "frontmatter": st.dictionaries(st.sampled_from(["name", "description", "x"]), json_values) | json_values,
        "resources": st.lists(odd_files | json_values, max_size=5) | json_values,
    },
)


@given(value=json_values | odd_entries)
def test_any_json_is_an_entry_or_refused(value: object) -> None:
    try:
        claimed = parse_entry(value).name
    except EntryRefusedError as error:
        claimed = str(error)
    assert claimed


@given(text=odd_uris)
def test_no_uri_leads_out_of_its_skill(text: str) -> None:
    path = path_below(ROOT, f"{ROOT}/{text}")
    assume(path is not None)
    assert path is not None
    assert not {"", ".", ".."} & set(path.split("/"))
    assert not {"\\", "\0"} & set(path)


@given(one=json_values, other=json_values)
def test_being_equal_is_symmetric_and_every_value_equals_itself(one: object, other: object) -> None:
    assert equal_as_json(one, other) == equal_as_json(other, one)
    if "nan" not in repr(one):
        assert equal_as_json(one, copy.deepcopy(one))


LETTERS = "abcXYZ019-_%#é日" + ("" if os.name == "nt" else " .?\n\udcff")
file_names = st.text(alphabet=LETTERS, min_size=1, max_size=8).filter(
    lambda name: not name.startswith(".") and not name.endswith((".bak", ".orig", ".rej", ".swp", ".swo", "."))
)
real_files = st.dictionaries(
    st.lists(file_names, min_size=1, max_size=3).map("/".join), st.binary(max_size=60), max_size=4
)
field_names = st.sampled_from(["license", "version", "tags", "metadata", "x-more"])
yaml_fields = st.dictionaries(
    field_names,
    st.sampled_from(["MIT", "yes", "1", "1.50", "[a, b]", "{a: 1, b: [true, null]}", "2026-01-02", "'1'", "0x1f"]),
)


def folder_entry(where: Path) -> Any:
    library = Library(explicit_sources([where]), lambda: Environment(os="linux", has_bin=lambda _: True))
    (skill,) = library.catalog.skills
    return copy.deepcopy(listing_entry(skill)), {
        skill.file_uri(path): (where / "one" / path).read_bytes() for path in skill.content.files
    }


def problems(value: object, contents: dict[str, bytes]) -> list[str]:
    """Return what verifying finds: the way a host goes, from the entry over the files to the frontmatter."""
    try:
        entry = parse_entry(value)
    except EntryRefusedError as error:
        return [fault.code.value for fault in error.diagnostics]
    found = [fault for file in entry.files if (fault := verify_file(file, contents[file.uri]))]
    return [fault.code.value for fault in (*found, *verify_frontmatter(entry, contents[entry.uri]))]


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
    deadline=None,
)
@given(files=real_files, fields=yaml_fields, data=st.data())
def test_our_own_entries_verify_and_any_change_is_detected(
    tmp_path_factory: pytest.TempPathFactory,
    write_skill: Callable[..., Path],
    files: dict[str, bytes],
    fields: dict[str, str],
    data: st.DataObject,
) -> None:
    where = tmp_path_factory.mktemp("skills")
    try:
        write_skill(where, "one", fields="\n".join(f"{key}: {value}" for key, value in fields.items()), files=files)
    except OSError:  # one of the names is also a folder's
        assume(False)
    value, contents = folder_entry(where)
    assert problems(value, contents) == []

    uri = data.draw(st.sampled_from(sorted(uri for uri, raw in contents.items() if raw)))
    at = data.draw(st.integers(0, len(contents[uri]) - 1))
    flipped = bytearray(contents[uri])
    flipped[at] ^= data.draw(st.integers(1, 255))
    assert "digest_mismatch" in problems(value, {**contents, uri: bytes(flipped)})
    assert "size_mismatch" in problems(value, {**contents, uri: contents[uri] + b"x"})

    changed = copy.deepcopy(value)
    key = data.draw(st.sampled_from(sorted(changed["frontmatter"])))
    changed["frontmatter"][key] = data.draw(
        st.sampled_from([0, False, None, [], {}, "", "other", ["other"]]).filter(
            lambda new: not equal_as_json(new, value["frontmatter"][key])
        )
    )
    assert problems(changed, contents)
    del changed["frontmatter"][key]
    assert problems(changed, contents)
    assert problems({**value, "frontmatter": {**value["frontmatter"], "one-more": None}}, contents)
