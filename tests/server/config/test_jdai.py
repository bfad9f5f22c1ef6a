"""JD.AI's `config.json` and `skills.json`, of the user and of the project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.config.jdai import JdaiFiles, JdaiSettings
from server.config.settings.layers import load_settings
from server.config.settings.model import Settings
from skills_core import Reason, SkillEntry
from skills_core.live.watch_options import WatchMode
from tests.conftest import MakeSkill
from tests.server.sessions import Connect

Write = Callable[[str, Any], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of the user (`home/…`) or of the project (`project/…`)."""

    def write(name: str, value: Any) -> None:
        where, _, file = name.partition("/")
        path = tmp_path / where / ".jdai" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")

    return write


@pytest.fixture
def read(tmp_path: Path) -> Callable[[], JdaiSettings]:
    return lambda: JdaiFiles(tmp_path / "home", tmp_path / "project").read(trusted=True)


def test_without_files_nothing_is_set(read: Callable[[], JdaiSettings]) -> None:
    assert read() == JdaiSettings()


def test_the_projects_values_win_key_by_key(write: Write, read: Callable[[], JdaiSettings]) -> None:
    write("home/config.json", {"a": {"b": 1, "c": 2}, "d": [1], "e": "user"})
    write("project/config.json", {"a": {"c": 3}, "d": [2], "f.g": True})
    assert read().config == {"a": {"b": 1, "c": 3}, "d": [2], "e": "user", "f.g": True}


def test_what_is_said_of_single_skills_is_merged_too(write: Write, read: Callable[[], JdaiSettings]) -> None:
    write(
        "home/skills.json",
        {"skills": {"entries": {"One": {"enabled": True, "env": {"A": "1", "B": 2}, "apiKey": "k"}}}},
    )
    write(
        "project/skills.json", {"entries": {"One": {"enabled": False, "env": {"A": "3"}}, "two": {"config": {"x": 1}}}}
    )
    assert read().entries == {
        "one": SkillEntry(enabled=False, variables={"A": "3", "B": "2"}, has_credential=True),
        "two": SkillEntry(config={"x": 1}),
    }


@pytest.mark.parametrize(
    ("key", "has"), [("secret", True), ({"value": "secret"}, True), ("", False), (" ", False), ({}, False), (1, False)]
)
def test_of_a_credential_only_the_presence_is_kept(
    key: object,
    has: bool,  # noqa: FBT001 - an expectation
    write: Write,
    read: Callable[[], JdaiSettings],
) -> None:
    write("home/skills.json", {"entries": {"one": {"apiKey": key}}})
    assert read().entries["one"].has_credential is has
    assert "secret" not in repr(read())


@pytest.mark.parametrize(
    ("given", "kept"), [(250, 250), (0, 50), (9000, 5000), (True, None), ("250", None), (1.5, None)]
)
def test_the_debounce_is_bounded_and_must_be_a_whole_number(
    given: object, kept: int | None, write: Write, read: Callable[[], JdaiSettings]
) -> None:
    write("home/skills.json", {"skills": {"load": {"watchDebounceMs": given}}})
    assert read().watch_debounce_ms == kept


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", "3", '{"a": 1} x', "{" * 5000, "\x00", '"' + "x" * 2_000_000 + '"']
)
def test_a_file_that_is_no_json_object_is_left_out_and_told_of(
    text: str, tmp_path: Path, write: Write, read: Callable[[], JdaiSettings]
) -> None:
    write("home/config.json", text)
    write("project/config.json", {"a": 1})
    settings = read()
    assert settings.config == {"a": 1}
    (problem,) = settings.problems
    assert (problem.code, problem.path) == (
        Reason.INVALID_CONFIGURATION,
        str(tmp_path / "home" / ".jdai" / "config.json"),
    )


@pytest.mark.parametrize(
    ("value", "enabled"),
    [
        (True, True),
        (False, False),
        ("true", True),
        ("False", False),
        ("no", False),
        (0, False),
        (1, False),
        ([], False),
    ],
)
def test_an_unclear_enabled_disables_the_skill_and_is_a_problem(
    value: Any,
    enabled: bool,  # noqa: FBT001 - a parameter of the test
    write: Write,
    read: Callable[[], JdaiSettings],
) -> None:
    write("home/skills.json", {"skills": {"entries": {"one": {"enabled": value}, "two": {"enabled": None}}}})
    settings = read()
    assert settings.entries == {"one": SkillEntry(enabled=enabled), "two": SkillEntry()}
    clear = isinstance(value, bool) or str(value).lower() in {"true", "false"}
    assert [problem.code for problem in settings.problems] == ([] if clear else [Reason.INVALID_CONFIGURATION])
    assert all("'one'" in problem.message for problem in settings.problems)


@pytest.mark.parametrize(
    "value", [{"skills": []}, {"entries": 1}, {"entries": {"one": None}}, {"load": "x"}, {"allowBundled": []}]
)
def test_values_of_other_types_are_as_good_as_none(
    value: object, write: Write, read: Callable[[], JdaiSettings]
) -> None:
    write("home/skills.json", value)
    settings = read()
    assert (settings.watch, settings.watch_debounce_ms, settings.bundled) == (None, None, None)
    assert all(entry == SkillEntry() for entry in settings.entries.values())


def test_of_bundled_skills_those_are_wanted_that_are_named_in_any_case(
    write: Write, read: Callable[[], JdaiSettings]
) -> None:
    write("home/skills.json", {"skills": {"allowBundled": ["One", "two"]}})
    assert read().bundled == frozenset({"one", "two"})
    write("home/skills.json", {"skills": {"allowBundled": []}})
    assert read().bundled is None


def test_skills_json_speaks_of_watching_where_nothing_else_does(tmp_path: Path) -> None:
    frozen = JdaiSettings(watch=False, watch_debounce_ms=100)
    config = tmp_path / "config"
    settings = load_settings({}, {}, config, frozen)
    assert (settings.watch.mode, settings.watch.debounce_ms) == (WatchMode.OFF, 100)
    assert load_settings({}, {}, config, JdaiSettings(watch=True)).watch.mode is WatchMode.AUTO
    assert load_settings({"watch": "poll"}, {}, config, frozen).watch.mode is WatchMode.POLL
    assert load_settings({}, {"SKILLSERVE_WATCH": "native"}, config, frozen).watch.mode is WatchMode.NATIVE
    assert load_settings({}, {}, config, JdaiSettings()) == Settings()


GATED = "when:\n  requires:\n    config:\n      features.review: true"


async def test_a_change_of_the_configuration_opens_and_closes_gates(
    connect: Connect, make_skill: MakeSkill, write: Write, tmp_path: Path
) -> None:
    make_skill("gated", fields=GATED)
    async with connect(HOME=str(tmp_path / "home"), SKILLSERVE_WATCH_POLL_MS="100") as session:
        assert await session.enum() == []
        write("home/config.json", {"features": {"review": True}})
        await session.until_told("tools")
        assert await session.enum() == ["gated"]
        session.told.clear()
        write("home/skills.json", {"skills": {"entries": {"gated": {"enabled": False}}}})
        await session.until_told("tools")
        assert await session.enum() == []


@pytest.mark.parametrize(
    ("entries", "problems"),
    [
        ({"a": False}, 0),
        ({"a": "off"}, 1),
        ({"a": []}, 1),
        ({"A ": {"enabled": False}, "a": {}}, 0),
        ({"a": {"enabled": 0}}, 1),
    ],
)
def test_an_entry_of_any_shape_that_disables_a_skill_does(
    entries: object, problems: int, write: Write, read: Callable[[], JdaiSettings]
) -> None:
    write("home/skills.json", {"skills": {"entries": entries}})
    settings = read()
    assert settings.entries["a"].enabled is False
    assert len(settings.problems) == problems


@pytest.mark.parametrize("value", [{"skills": ["a"]}, {"entries": ["a"]}, {"allowBundled": {"a": True}}])
def test_settings_of_a_wrong_type_are_problems(
    value: dict[str, object], write: Write, read: Callable[[], JdaiSettings]
) -> None:
    write("home/skills.json", value)
    settings = read()
    assert [problem.code for problem in settings.problems] == [Reason.INVALID_CONFIGURATION]
    assert settings.bundled == (frozenset() if "allowBundled" in value else None)


def test_one_allowed_bundled_skill_needs_no_list(write: Write, read: Callable[[], JdaiSettings]) -> None:
    write("home/skills.json", {"allowBundled": "One"})
    assert read().bundled == frozenset({"one"})
