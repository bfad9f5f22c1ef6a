"""Compare the product with `lifecycle_oracle` on real folders: which skill is served and why."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.config.jdai import JdaiFiles
from skills_core import Environment, Library, Strictness, explicit_sources
from skills_core.disk.sources import Places, default_sources
from tests.core.catalog.lifecycle_oracle import PLACES, Decision, Machine, Needs, Place, Raw, Written, decide
from tests.temporary import TEMPORARY
from tests.thoroughness import EVERY_CASE, examples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skills_core import Catalog

NODE_NAMES = {"windows": "win32", "macos": "darwin"}


@dataclass
class World:
    """A user, a project and a machine on a real disk; `changed` are the paths that were written."""

    space: Path
    machine: Machine = field(default_factory=Machine)
    skills: dict[Path, Written] = field(default_factory=dict)
    changed: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in ("home/.jdai", "project/.git", "project/.jdai", "project/sub", "xdg"):
            (self.space / folder).mkdir(parents=True)
        self.settle(self.machine)

    def folder(self, skill: Written) -> Path:
        return self.space / skill.place.path / skill.folder

    def write(self, skill: Written) -> None:
        folder = self.folder(skill)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(text_of(skill), encoding="utf-8")
        self.skills[folder] = skill
        self.changed.append(self.space / skill.place.path)
        self.changed.append(folder / "SKILL.md")

    def remove(self, folder: Path) -> None:
        del self.skills[folder]
        shutil.rmtree(folder)
        self.changed.append(folder)

    def settle(self, machine: Machine, *, nested: tuple[bool, bool] = (True, False)) -> None:
        """Write the configurations of this machine; `nested` tells if those of user and project nest their keys."""
        self.machine = machine
        configs = ((self.space / "home", machine.user_config), (self.space / "project", machine.project_config))
        for (owner, config), deep in zip(configs, nested, strict=True):
            spelled = as_objects(config) if deep else dict(config)
            (owner / ".jdai" / "config.json").write_text(json.dumps(spelled), encoding="utf-8")
        chosen: dict[str, Any] = {"entries": {name: {"enabled": False} for name in machine.switched_off}}
        if machine.allowed_bundled is not None:
            chosen["allowBundled"] = sorted(machine.allowed_bundled)
        (self.space / "home" / ".jdai" / "skills.json").write_text(json.dumps({"skills": chosen}), encoding="utf-8")

    def environment(self) -> Environment:
        project, machine = self.space / "project", self.machine
        jdai = JdaiFiles(self.space / "home", project).read(trusted=machine.trusted)
        return Environment(
            os=machine.os,
            has_bin=machine.bins.__contains__,
            variables=machine.env,
            config=jdai.config,
            entries=jdai.entries,
            bundled=jdai.bundled,
            trusts=lambda folder: folder == project and machine.trusted,
        )

    def load(self) -> Library:
        places = Places(self.space / "home", self.space / "project" / "sub", self.space / "xdg", self.space / "bundled")
        return Library(default_sources(places), self.environment)

    def check(self, catalog: Catalog, places: tuple[Place, ...] = PLACES) -> None:
        """Compare every skill of the catalog with the oracle's decision."""
        decisions = decide(self.skills.values(), self.machine, places)
        expected = {folder: decisions[skill] for folder, skill in self.skills.items()}
        found = outcomes(catalog)
        wrong = {
            str(folder.relative_to(self.space)): (found.get(folder), expected.get(folder))
            for folder in {*found, *expected}
            if folder not in found or not expected.get(folder, Decision("unknown")).allows(*found[folder])
        }
        assert wrong == {}


def outcomes(catalog: Catalog) -> dict[Path, tuple[str, str | None]]:
    return {
        skill.source.root / skill.content.folder: (skill.state.value, skill.reason.value if skill.reason else None)
        for skill in catalog.skills
    }


def as_objects(config: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in config.items():
        *above, last = key.split(".")
        inner = result
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return result


def text_of(skill: Written) -> str:
    """Return the text of a skill, with its frontmatter as JSON, which is valid YAML."""
    if not skill.frontmatter:
        return "Do it.\n"
    fields: dict[str, Any] = {"license": "MIT"} | ({"name": skill.name} if skill.name is not None else {})
    fields |= {"description": "Does a thing."} if skill.described else {}
    fields |= {"nobody-knows": 1} if skill.stray_field else {}
    if skill.raw is not None:
        return joined(fields | skill.raw.as_fields())
    if skill.when is not None:
        requires = required(skill.when) | ({"config": dict(skill.when.config)} if skill.when.config else {})
        fields["when"] = ({"os": skill.when.os[0]} if skill.when.os else {}) | {"requires": requires}
    if skill.metadata is not None:
        needs = skill.metadata
        inner = {"os": [NODE_NAMES.get(name, name) for name in needs.os]} if needs.os else {}
        requires = required(needs) | ({"config": list(needs.settings)} if needs.settings else {})
        fields["metadata"] = {skill.host: inner | {"requires": requires, "always": needs.always}}
    return joined(fields)


def joined(fields: Mapping[str, Any]) -> str:
    return "".join(["---\n", *(f"{key}: {json.dumps(value)}\n" for key, value in fields.items()), "---\nDo it.\n"])


def required(needs: Needs) -> dict[str, Any]:
    lists = {"bins": needs.bins, "anyBins": needs.any_bins, "env": needs.env}
    return {key: list(names) for key, names in lists.items() if names}


RICH = Machine(
    bins=frozenset({"git", "rg"}),
    env={"TOKEN": "x", "BLANK": ""},
    user_config={"some.flag": False, "level": 1, "provider": "a"},
    project_config={"some.flag": True},
)
POOR = Machine(
    os="macos",
    bins=frozenset({"docker"}),
    env={"TOKEN": "", "OTHER": "x"},
    user_config={"some.flag": True, "level": "1", "absent": True},
    project_config={"some.flag": False},
)

GATES: dict[str, dict[str, Any]] = {
    "a system": {"when": Needs(os=("linux",))},
    "a binary": {"when": Needs(bins=("git",))},
    "one of several binaries": {"when": Needs(any_bins=("ag", "rg"))},
    "a variable": {"when": Needs(env=("TOKEN",))},
    "a variable that may be absent": {"when": Needs(env=("OTHER",))},
    "a value": {"when": Needs(config=(("some.flag", True),))},
    "a value of a type": {"when": Needs(config=(("level", "1"),))},
    "a setting, to JD.AI": {"metadata": Needs(settings=("some.flag", "provider"))},
    "a variable, to OpenClaw": {"metadata": Needs(env=("TOKEN",)), "host": "openclaw"},
    "always, to JD.AI": {"metadata": Needs(os=("linux",), bins=("git",), always=True)},
}
"""Each kind of condition, for pairs of places."""

MORE_GATES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "any system": {"when": Needs(os=("any",))},
    "two binaries of which one is there": {"when": Needs(bins=("git", "docker"))},
    "a variable that may be empty": {"when": Needs(env=("BLANK",))},
    "a value that may be absent": {"when": Needs(config=(("absent", True),))},
    "a value that the project turns": {"when": Needs(config=(("some.flag", False),))},
    "two things": {"when": Needs(os=("linux",), env=("OTHER",))},
    "a system, to JD.AI": {"metadata": Needs(os=("linux", "windows"))},
    "a binary, to JD.AI": {"metadata": Needs(bins=("git",))},
    "one of several binaries, to OpenClaw": {"metadata": Needs(any_bins=("ag", "rg")), "host": "openclaw"},
    "always, to OpenClaw": {"metadata": Needs(os=("linux",), bins=("none",), always=True), "host": "openclaw"},
    "things in both": {"when": Needs(bins=("git",)), "metadata": Needs(env=("OTHER",), always=True)},
}


RAW: dict[str, tuple[str, str]] = {
    "a system instead of conditions": ("when", '"linux"'),
    "a list instead of conditions": ("when", '[{"os": "linux"}]'),
    "false instead of conditions": ("when", "false"),
    "no conditions": ("when", "{}"),
    "null instead of conditions": ("when", "null"),
    "a key that is no condition": ("when", '{"os": "linux", "requiers": {"bins": ["git"]}}'),
    "systems as a list": ("when.os", '["windows", "macos"]'),
    "systems as a list with this one": ("when.os", '["windows", "linux"]'),
    "systems with commas": ("when.os", '"linux, darwin"'),
    "an unknown system": ("when.os", '"solaris"'),
    "a known system and an unknown one": ("when.os", '["solaris", "linux"]'),
    "a system as a mapping": ("when.os", '{"linux": true}'),
    "a number for a system": ("when.os", "5"),
    "a program instead of requirements": ("when.requires", '"docker"'),
    "programs instead of requirements": ("when.requires", '["git"]'),
    "an unknown requirement": ("when.requires", '{"bin": ["x"]}'),
    "requirements of which one is unknown": ("when.requires", '{"bins": ["git"], "python": "3.11"}'),
    "programs as a mapping": ("when.requires", '{"bins": {"git": true}}'),
    "programs of which one is null": ("when.requires.bins", '["git", null]'),
    "programs as an empty mapping": ("when.requires.bins", "{}"),
    "any of a number": ("when.requires.anyBins", "1"),
    "a flag for variables": ("when.requires.env", "true"),
    "variables in lists": ("when.requires.env", '[["TOKEN"]]'),
    "keys without values": ("when.requires.config", '["some.flag"]'),
    "null for all requirements": ("when.requires", '{"bins": null, "anyBins": null, "env": null, "config": null}'),
    "true, to JD.AI": ("metadata.jdai", "true"),
    "a system as a mapping, to JD.AI": ("metadata.jdai.os", '{"linux": true}'),
    "an unknown system, to JD.AI": ("metadata.jdai.os", '["beos"]'),
    "a program instead of requirements, to JD.AI": ("metadata.jdai.requires", '"docker"'),
    "an unknown requirement, to JD.AI": ("metadata.jdai.requires", '{"bins": ["git"], "pip": ["x"]}'),
    "values instead of keys, to JD.AI": ("metadata.jdai.requires", '{"config": {"some.flag": true}}'),
    "an unknown key, to JD.AI": ("metadata.jdai", '{"allways": true, "emoji": "x"}'),
    "a score that is misspelt": ("evaluation", '{"enabled": true, "minscore": 0.5}'),
    "an evaluation as it should be": ("evaluation", '{"enabled": true, "minScore": 0.5}'),
    "a tool that is misspelt": ("tools", '[{"name": "t", "script": "x.py", "desc": "does", "params": {}}]'),
    "a tool as it should be": ("tools", '[{"name": "t", "script": "x.py", "description": "does", "parameters": {}}]'),
}
"""What may stand where conditions and other nested fields belong."""


@pytest.fixture
def world() -> Iterator[World]:
    """Provide an empty world and remove it at once: pytest would keep its thousands of files for later runs."""
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        yield World(Path(space).resolve())


def pair(world: World, higher: Place, lower: Place, prefix: str) -> None:
    """Write skills of one name in both places: every condition above, and below what is plain, and what is invalid."""
    for number, gate in enumerate(GATES.values()):
        for fate in ("gated", "plain", "invalid"):
            if fate == "plain" and number and not higher.of_project:
                continue  # What is always trusted shadows whatever is below it: one is enough.
            name = f"{prefix}-{fate}-{number}"
            above = Written(higher, name, name, described=fate != "invalid", **(gate if fate == "gated" else {}))
            below = Written(lower, name, name, **({} if fate == "gated" else gate))
            world.write(above)
            world.write(below)


def check_on_all_machines(
    world: World, library: Library, places: tuple[Place, ...] = PLACES, *, trust: tuple[bool, ...] = (True, False)
) -> None:
    names = frozenset(skill.known_as for skill in world.skills.values())
    machines = [replace(machine, trusted=trusted) for machine in (RICH, POOR) for trusted in trust]
    for machine in (*machines, replace(POOR, switched_off=names), replace(RICH, allowed_bundled=frozenset({"other"}))):
        world.settle(machine)
        library.reload([world.space / "home" / ".jdai" / "skills.json"])
        world.check(library.catalog, places)


@pytest.mark.parametrize("rank", range(len(PLACES) - 1), ids=[place.path for place in PLACES[:-1]])
def test_two_skills_of_one_name_get_the_states_of_the_oracle(rank: int, world: World) -> None:
    for number, lower in enumerate(PLACES[rank + 1 :]):
        pair(world, PLACES[rank], lower, f"p{number}")
    # The folder of a project is trusted at every second place, unless each case is wanted.
    check_on_all_machines(world, world.load(), trust=(True, False) if EVERY_CASE else (rank % 2 == 0,))


def test_every_condition_decides_alike_in_every_source(world: World) -> None:
    for place_number, place in enumerate(PLACES):
        for number, gate in enumerate([*GATES.values(), *MORE_GATES.values()]):
            name = f"p{place_number}-{number}"
            world.write(Written(place, name, name, **gate))
    check_on_all_machines(world, world.load())


def test_nested_fields_of_any_form_decide_as_by_the_oracle(world: World) -> None:
    for place_number, place in enumerate(PLACES):
        for number, (path, text) in enumerate(RAW.values()):
            name = f"p{place_number}-{number}"
            world.write(Written(place, name, name, raw=Raw(path, text)))
    check_on_all_machines(world, world.load())


@pytest.mark.parametrize("spelled", [(True, False), (False, True), (True, True), (False, False)])
@pytest.mark.parametrize(
    ("user", "project"),
    [
        ({}, {}),
        ({"a.b": True}, {}),
        ({}, {"a.b": True}),
        ({"a.b": False}, {"a.b": True}),
        ({"a.b": True}, {"a.b": False}),
        ({"a.b": True, "a.c": 1}, {"a.c": 2}),
        ({"a.b": "true"}, {}),
        ({"a.b": 1}, {"x": True}),
    ],
    ids=str,
)
def test_the_project_s_configuration_wins_however_the_two_spell_their_keys(
    user: dict[str, Any], project: dict[str, Any], spelled: tuple[bool, bool], world: World
) -> None:
    for number, value in enumerate([True, False, "true", 1, None]):
        world.write(Written(PLACES[8], f"equal-{number}", f"equal-{number}", when=Needs(config=(("a.b", value),))))
    world.write(Written(PLACES[8], "on", "on", metadata=Needs(settings=("a.b",))))
    world.settle(replace(RICH, user_config=user, project_config=project), nested=spelled)
    world.check(world.load().catalog)


@pytest.mark.parametrize("strictness", ["lenient", "strict"])
def test_of_named_directories_the_first_wins(strictness: str, world: World) -> None:
    places = tuple(Place(name, strictness) for name in ("first", "second", "third"))
    for number, (higher, lower) in enumerate([places[:2], places[1:], places[::2]]):
        pair(world, higher, lower, f"p{number}")
    sources = explicit_sources([world.space / place.path for place in places], Strictness(strictness))
    check_on_all_machines(world, Library(sources, world.environment), places)


NAMES = st.sampled_from(["x", "y"])
BINS = st.sampled_from([(), (), ("git",), ("git", "rg")])
SYSTEMS = st.sampled_from([(), (), ("linux",), ("macos",), ("any",)])
VARIABLES = st.sampled_from([(), (), ("TOKEN",), ("TOKEN", "OTHER")])
VALUES = st.sampled_from([(), (), (("a.b", True),), (("a.b", 1), ("c", "x")), (("c", None),)])
KEYS = st.sampled_from([(), (), ("a.b",), ("a.b", "c")])
WHEN = st.builds(Needs, os=SYSTEMS, bins=BINS, any_bins=BINS, env=VARIABLES, config=VALUES)
METADATA = st.builds(Needs, os=SYSTEMS, bins=BINS, any_bins=BINS, env=VARIABLES, settings=KEYS, always=st.booleans())
CONFIGS = st.dictionaries(st.sampled_from(["a.b", "c"]), st.sampled_from([True, False, 1, "x", "", "0", None]))
SKILLS = st.builds(
    Written,
    place=st.sampled_from(PLACES),
    folder=st.sampled_from(["x", "x", "y", "group/x", "group/y"]),
    name=st.one_of(NAMES, NAMES, NAMES, st.sampled_from([None, "X"])),
    described=st.sampled_from([True, True, True, True, False]),
    stray_field=st.sampled_from([False, False, False, True]),
    frontmatter=st.sampled_from([True] * 6 + [False]),
    when=st.none() | WHEN,
    host=st.sampled_from(["jdai", "openclaw", "clawdbot"]),
    metadata=st.none() | METADATA,
    raw=st.sampled_from([None] * 60 + [Raw(*raw) for raw in RAW.values()]),
)
MACHINES = st.builds(
    Machine,
    os=st.sampled_from(["linux", "macos", "windows"]),
    bins=st.frozensets(st.sampled_from(["git", "rg"])),
    env=st.dictionaries(st.sampled_from(["TOKEN", "OTHER"]), st.sampled_from(["", "x"])),
    user_config=CONFIGS,
    project_config=CONFIGS,
    trusted=st.sampled_from([True, True, False]),
    switched_off=st.frozensets(st.sampled_from(["x", "y"]), max_size=1),
    allowed_bundled=st.none() | st.frozensets(NAMES, min_size=1),
)
EDITS = st.lists(st.one_of(SKILLS, SKILLS, MACHINES, st.integers(0, 5)), min_size=1, max_size=3)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    start=st.lists(SKILLS, max_size=6),
    machine=MACHINES,
    steps=st.lists(EDITS, max_size=4),
    spelled=st.tuples(st.booleans(), st.booleans()),
)
def test_any_world_and_any_edit_of_it_is_decided_as_by_the_oracle(
    start: list[Written],
    machine: Machine,
    steps: list[list[Written | Machine | int]],
    spelled: tuple[bool, bool],
    seen: Callable[[Catalog], Any],
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as space:
        world = World(Path(space).resolve())
        world.settle(machine, nested=spelled)
        for skill in start:
            world.write(skill)
        told, untold = world.load(), world.load()
        world.check(told.catalog)
        for edits in steps:
            world.changed.clear()
            for edit in edits:
                apply(world, edit, spelled)
            told.reload(world.changed)
            untold.reload()
            fresh = world.load().catalog
            world.check(fresh)
            assert seen(told.catalog) == seen(untold.catalog) == seen(fresh)


def apply(world: World, edit: Written | Machine | int, spelled: tuple[bool, bool]) -> None:
    """Write a skill while there are fewer than six or in place of one, be another machine, or remove a skill."""
    if isinstance(edit, Machine):
        world.settle(edit, nested=spelled)
    elif isinstance(edit, int):
        folders = sorted(world.skills)
        if folders:
            world.remove(folders[edit % len(folders)])
    elif world.folder(edit) in world.skills or len(world.skills) < 6:
        world.write(edit)
