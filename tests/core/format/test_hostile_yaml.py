"""Hostile frontmatter: a bad skill affects neither other skills nor the commands.

What single texts mean is in `test_yaml12`; here whole skills are loaded, on a real disk, beside a good one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import skills_core
from skills_core import Catalog, Library, Reason, Skill, State, render_activation, render_catalog
from skills_core.format.yaml12 import load_mapping
from tests.thoroughness import examples

REPOSITORY = Path(skills_core.__file__).parents[1]

MANY_TOLD = 100
"""More diagnostics than this about one skill nobody reads."""


def bomb(opening: str, item: str, closing: str, levels: int = 60) -> str:
    """Return fields of which each holds the one above it nine times."""
    rows = [f"a0: &a0 {opening}{item.format('x') * 9}{closing}"]
    rows += [f"a{i}: &a{i} {opening}{item.format(f'*a{i - 1} ') * 9}{closing}" for i in range(1, levels)]
    return "\n".join(rows)


ALL_WRONG = "\n".join(
    [
        *("name: [a]", "description: {a: b}", "license: [1]", "metadata: [x]", "allowed-tools: {a: 1}"),
        *("version: {}", "tags: {a: b}", "trigger: 7", "when: [x]", "evaluation: x", "triggers: 9"),
        *("tools: [x]", "requires: {}", "user-invocable: []", "argument-hint: {}", "when_to_use: []"),
    ]
)

BEYOND_A_BOUND: dict[str, str] = {
    "billion laughs": bomb("[", "{}, ", "]"),
    "billion laughs in mappings": "a0: &a0 {k: x}\n"
    + "\n".join(f"a{i}: &a{i} {{k: *a{i - 1} , l: *a{i - 1} }}" for i in range(1, 60)),
    "aliases of a long text": "a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 30_000 + "]",
    "an alias in its own list": "a: &a [*a ]",
    "an alias in its own mapping": "a: &a {b: {c: *a }}",
    "brackets": "a: " + "[" * 10_000 + "]" * 10_000,
    "brackets that never close": "a: " + "[" * 200_000,
    "braces": "a: " + "{a: " * 10_000 + "}" * 10_000,
    "levels": "\n".join(" " * level + "a:" for level in range(700)),
    "dashes": "a:\n  " + "- " * 10_000 + "x",
    "a line of 1 MB": "a: " + "x" * 1_000_000,
    "the whole in itself": "&a\nb: *a \nREST",
}

NO_FRONTMATTER: dict[str, str] = {
    "python": "a: !!python/object/apply:os.system ['touch hacked']",
    "python name": "a: !!python/name:os.system ''",
    "python tuple": "a: !!python/tuple [1, 2]",
    "a tag of its own": "a: !<tag:example.com,2000:x> {b: c}",
    "tabs": "a:\n\tb: 1",
    "an end in the middle": "a: 1\n...\nb: 2",
    "question marks": "? " * 10_000 + "\nREST",
    "python module": "!!python/object/new:os.system\nREST",
    "a list": "- a\n- b\nREST",
    "a text": "just words\nREST",
}

READ_ALL_THE_SAME: dict[str, str] = {
    "an alias as key": "a: &a k\n*a : v",
    "repeated keys": "a: 1\na: 2\nname: other\na: 3",
    "merge key": "base: &base {x: 1}\na:\n  <<: *base \n  <<: [*base , *base ]\n  y: 2",
    "merge key at the top": "base: &base {name: other}\n<<: *base ",
    "dates": "a: 2001-12-14\nb: 2001-12-14t21:59:43.10-05:00\nc: 0000-00-00\nd: 99999-99-99",
    "no numbers": "a: .nan\nb: [.inf, -.inf]\nc: 1e999\nd: {.nan: .nan}",
    "binary": "a: !!binary R0lGODlhDAAMAIQAAP\nb: !!binary '%%%'",
    "keys that are no strings": "1: a\ntrue: b\nnull: c\n1.5: d\n? \n: e\n0x10: f",
    "keys that are collections": "? [a, b]\n: c\n? {d: e}\n: f",
    "tabs after keys": "a:\t1\nb:\t\t- 2",
    "NUL": "a: x\0y",
    "control characters": "a: x\x01\x1b[31my\x7f\nb\x07: z",
    "escaped control characters": 'a: "\\0\\a\\e\\x1b[2J\\x7f\\x85\\u2028\\u202e"\n"\\0\\e": b',
    "half a character": 'a: "\\ud800"\n"\\udfff": "\\udc00\\ud800"',
    "half a character as name": 'name: "\\ud800"',
    "half a character as description": 'description: "a\\ud83d b"',
    "characters beyond Unicode": 'a: "\\U00110000"',
    "huge integers": "a: " + "9" * 200_000 + "\nb: 0x" + "f" * 20_000 + "\nc: -" + "1" * 5_000,
    "a huge integer as name": "name: " + "9" * 300,
    "huge exponents": "a: 1e" + "9" * 50_000 + "\nb: 1e-" + "9" * 50_000,
    "many documents": "a: 1\n--- # two\nb: 2\n--- # three\nc: 3",
    "directives": "%YAML 1.1\n%TAG ! tag:yaml.org,2002:python/\n--- # one\nREST\na: yes",
    "a directive for tags in the middle": "a: 1\n%TAG ! tag:x,2002:\nb: !c d",
    "line separators": "a\u2028b: c\nd: e\u2029f\ng\x85h: i\n\ufeffj: k",
    "carriage returns": "a: 1\rb: 2\rname: other",
    "nothing": "# only words",
    "twenty thousand fields": "\n".join(f"k{number}: v" for number in range(20_000)),
    "a fence in a text": "a: |\n  x\n  ---\nb: '\n---\n'",
}

HOSTILE: dict[str, tuple[str, Reason | None]] = {
    **{case: (fields, Reason.YAML_LIMIT) for case, fields in BEYOND_A_BOUND.items()},
    **{case: (fields, Reason.INVALID_YAML) for case, fields in NO_FRONTMATTER.items()},
    **{case: (fields, None) for case, fields in READ_ALL_THE_SAME.items()},
    "10 MB": ("a: |\n" + "  x\n" * 2_500_000, Reason.TOO_LARGE),
    "gates of all wrong types": (
        "when: {os: {a: b}, requires: [1]}\nmetadata: {jdai: {skillKey: [], always: {}}}",
        Reason.UNREADABLE_CONDITION,
    ),
    "fields of all wrong types": (ALL_WRONG, Reason.MISSING_DESCRIPTION),
}

TOLD_AT_LENGTH: dict[str, str] = {
    "keys that are numbers": "a: {" + "".join(f"{number}: 1, " for number in range(20_000)) + "}",
    "values that JSON lacks": "a: [" + ".nan, " * 20_000 + "]",
    "keys that repeat": "a: {" + "b: 1, " * 15_000 + "}",
    "unknown conditions": "when: {" + "".join(f"k{number}: 1, " for number in range(20_000)) + "}",
    "tools with an unknown field": "tools: [" + "{name: t, nmae: t}, " * 8_000 + "]",
    "tools without a name": "tools: [" + "{}, " * 20_000 + "]",
}


def written(fields: str, name: str = "bad") -> bytes:
    """Return a SKILL.md with a good name and description before hostile fields, or where these say REST."""
    good = f"name: {name}\ndescription: d"
    text = fields.replace("REST", good) if "REST" in fields else f"{good}\n{fields}"
    return f"---\n{text}\n---\nBody.\n".encode()


def check_sound(skill: Skill) -> None:
    """Check that a skill is active with JSON frontmatter, or inactive with a reason."""
    assert skill.state in {State.ACTIVE, State.INVALID, State.EXCLUDED}
    assert (skill.state is State.ACTIVE) == (skill.reason is None)
    assert skill.reason is None or isinstance(skill.reason, Reason)
    raw = json.dumps(dict(skill.frontmatter.raw), allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert json.loads(raw) == skill.frontmatter.raw
    told = [f"{found}{found.message}" for found in skill.diagnostics]
    texts = [skill.key, skill.uri, skill.detail, skill.description, skill.body, *told]
    texts += [render_activation(skill), render_catalog(Catalog((skill,)), 10_000).text]
    "".join(texts).encode("utf-8")
    assert all(len(text) < 1_000 for text in told)


@pytest.mark.parametrize(("fields", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_frontmatter_affects_only_its_own_skill(
    fields: str,
    reason: Reason | None,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_skill(tmp_path, "bad").joinpath("SKILL.md").write_bytes(written(fields))
    write_skill(tmp_path, "good", fields="license: MIT", files={"data": "x"})
    catalog = load(tmp_path).catalog
    good, bad = catalog.skill("good"), next(skill for skill in catalog.skills if skill.content.folder == "bad")
    check_sound(bad)
    assert bad.reason is reason
    assert (good.frontmatter.license, list(good.content.files), good.diagnostics) == ("MIT", ["SKILL.md", "data"], ())
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("fields", TOLD_AT_LENGTH.values(), ids=TOLD_AT_LENGTH.keys())
def test_a_fault_repeated_without_end_is_reported_in_few_diagnostics(
    fields: str,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
) -> None:
    write_skill(tmp_path, "bad").joinpath("SKILL.md").write_bytes(written(fields))
    skill = only(load(tmp_path))
    check_sound(skill)
    assert 0 < len(skill.diagnostics) <= MANY_TOLD


@pytest.fixture
def crowd(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    """Every hostile skill beside the others and a good one."""
    for number, (fields, _) in enumerate(HOSTILE.values()):
        write_skill(tmp_path, f"bad-{number}").joinpath("SKILL.md").write_bytes(written(fields, f"bad-{number}"))
    write_skill(tmp_path, "good")
    return tmp_path


def command(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command of the product as its users do."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, "-m", "server", *arguments], capture_output=True, env=environment, timeout=60, check=False
    )


@pytest.mark.parametrize("name", ["status", "validate"])
def test_the_commands_print_json_for_all_hostile_skills_together(name: str, crowd: Path) -> None:
    done = command(name, str(crowd), "--json")
    assert b"Traceback" not in done.stderr
    assert done.returncode == (0 if name == "status" else 1)

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    answer = json.loads(done.stdout.decode("utf-8"), parse_constant=refuse)
    assert len(answer["skills" if name == "status" else "results"]) == len(HOSTILE) + 1
    json.dumps(answer, ensure_ascii=False).encode("utf-8")


FIELDS = st.sampled_from(
    [
        *("name", "description", "license", "compatibility", "metadata", "allowed-tools", "version", "tags", "hint"),
        *("references", "trigger", "when", "evaluation", "triggers", "tools", "danger_patterns", "confirm_patterns"),
        *(
            "requires",
            "disable-model-invocation",
            "user-invocable",
            "argument-hint",
            "when_to_use",
            "os",
            "env",
            "bins",
        ),
        *("jdai", "skillKey", "always", "enabled", "minScore", "maxRetries", "criteria", "parameters", "openclaw", "x"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | FIELDS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=12
)
PIECES = st.sampled_from(
    [
        *(
            "---\n",
            "\n---\n",
            "name: a\n",
            "description: d\n",
            "\n",
            "\r\n",
            "\r",
            "  ",
            "\t",
            ": ",
            "- ",
            "? ",
            "a",
            "'",
        ),
        *('"', "|", ">-", "&a ", "*a ", "!!str ", "!x ", "%YAML 1.1\n", "...\n", "[", "]", "{", "}", ",", "#", "\0"),
        *(
            "\x1b",
            "\u2028",
            "\ufeff",
            "\\ud800",
            ".nan",
            "0x",
            "1e999",
            "2001-12-14",
            "<<",
            "=",
            "`",
            "@",
            "\xe9",
            "\U0001f600",
        ),
    ]
)
DOCUMENTS = (
    st.binary(max_size=200)
    | st.binary(max_size=200).map(lambda raw: b"---\nname: a\ndescription: d\n" + raw + b"\n---\nBody")
    | st.lists(PIECES, max_size=30).map(lambda pieces: "".join(pieces).encode())
    | st.lists(PIECES, max_size=30).map(lambda pieces: ("---\nname: a\n" + "".join(pieces) + "\n---\n").encode())
    | st.dictionaries(FIELDS, VALUES, max_size=8).map(
        lambda fields: f"---\n{json.dumps(fields)}\n---\nBody {{{{x}}}}".encode()
    )
)


@settings(deadline=None, max_examples=examples(100))
@given(raw=DOCUMENTS)
def test_any_bytes_as_a_skill_file_give_a_skill_in_some_state(
    raw: bytes, load: Callable[..., Library], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-bytes" / "a"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(raw)
    (skill,) = load(folder.parent).catalog.skills
    check_sound(skill)
    assert skill.content.files["SKILL.md"].size == len(raw)


class Quoting(yaml.SafeDumper):
    """Writes YAML that 1.1 and 1.2 read alike: each string in a style that says that it is one."""

    string_style = '"'


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    assert isinstance(dumper, Quoting)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=dumper.string_style)


Quoting.add_representer(str, _represent)

# Without the line breaks that are some in YAML 1.1 only: the tool breaks lines at them.
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029")
TEXTS = st.text(LETTERS, max_size=60) | st.text("ab \n:#-'\"\\{[", max_size=60)
PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TREES = st.recursive(
    PLAIN | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc:- #'", max_size=20), inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None, max_examples=examples(100))
@given(
    value=st.dictionaries(st.text("abc:- #'", max_size=20), TREES, max_size=4),
    style=st.sampled_from(["'", '"', "|", ">"]),
    width=st.sampled_from([20, 80, 10_000]),
    unicode=st.booleans(),
)
def test_yaml_that_another_tool_wrote_is_read_back_equal(
    value: dict[str, Any],
    style: str,
    width: int,
    unicode: bool,  # noqa: FBT001 - a layout of two
) -> None:
    dumper = type("Dumper", (Quoting,), {"string_style": style, "ignore_aliases": lambda *_: True})
    text = yaml.dump(
        value, Dumper=dumper, default_flow_style=False, width=width, allow_unicode=unicode, sort_keys=False
    )
    # The tool cannot read all that it folds: it breaks lines that begin with a space.
    assume(style != ">" or yaml.safe_load(text) == value)
    assert json.dumps(load_mapping(text).value) == json.dumps(value)
