from __future__ import annotations

import ast
import importlib
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import skills_core
import skills_core.errors
from server.wire.errors import CODES
from skills_core import Reason, SkillsError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(skills_core.__file__).parents[1]
CORE = sorted((ROOT / "skills_core").rglob("*.py"))
ALL = CORE + sorted((ROOT / "server").rglob("*.py"))

MAX_LINES = 400
MAX_FUNCTION = 50

ROOMS = ("skills_core.run", "skills_core.authoring", "skills_core.remote", "skills_core.testing")

SERVER_FLOORS = (
    {"__main__"},
    {"cli"},
    {"transport"},
    {"protocol"},
    {"run", "admin", "visibility"},
    {"hosting", "exchange", "remote", "clients"},
    {"listing", "scripts", "hook"},
    {"config", "wire", "authoring"},
)
"""The rooms of `server`, from the top: a room imports itself and the rooms of lower floors."""

FORBIDDEN = {"server", "mcp", "mcp_types", "starlette", "uvicorn", "typer", "click", "rich"}


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a module without what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_run_time(child)


def imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(paths: list[Path] = CORE) -> dict[str, Path]:
    found = {path: shown(path).removesuffix(".py").replace("/", ".") for path in paths}
    return {name.removesuffix(".__init__"): path for path, name in found.items()}


@pytest.mark.parametrize("path", CORE, ids=shown)
def test_the_core_knows_nothing_of_protocol_http_and_command_line(path: Path) -> None:
    names = {name.partition(".")[0] for name in imported(ast.walk(tree_of(path)))}
    assert not names & FORBIDDEN


@pytest.mark.parametrize("path", CORE, ids=shown)
def test_the_core_reads_no_environment_and_prints_nothing(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        text = ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Call)) else ""
        assert not text.startswith(("os.environ", "os.getenv", "os.putenv", "print(", "sys.stdout", "sys.argv"))
        assert not (isinstance(node, ast.ImportFrom) and node.module == "os" and "environ" in ast.unparse(node))


def test_no_module_of_the_core_imports_itself_by_way_of_others() -> None:
    known = modules()
    graph = {
        name: {other for other in imported(at_run_time(tree_of(path))) if other in known and other != "skills_core"}
        for name, path in known.items()
        if name != "skills_core"
    }
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_no_module_of_the_server_imports_itself_by_way_of_others_not_even_in_its_types() -> None:
    known = modules(ALL)
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    graph = {
        name: {other for other in imported(ast.walk(tree_of(path))) if other in known and other not in packages}
        for name, path in known.items()
        if name.startswith("server.")
    }
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError


def rooms_of(package: str) -> set[str]:
    return {name.split(".")[1] for name in modules(ALL) if name.startswith(f"{package}.")}


def test_every_room_of_the_server_has_its_floor_once() -> None:
    assert sorted(room for floor in SERVER_FLOORS for room in floor) == sorted(rooms_of("server"))


def test_a_room_of_the_server_imports_itself_and_lower_rooms_alone_not_even_in_its_types() -> None:
    floor_of = {room: number for number, floor in enumerate(SERVER_FLOORS) for room in floor}
    for name, path in modules(ALL).items():
        if not name.startswith("server."):
            continue
        room = name.split(".")[1]
        for other in imported(ast.walk(tree_of(path))):
            target = other.split(".")[1] if other.startswith("server.") else room
            assert target == room or target not in floor_of or floor_of[target] > floor_of[room], (
                f"{name} imports {other}"
            )


def private_imports(path: Path) -> Iterator[str]:
    """Yield each private name of ours that a module takes from another one."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"server", "skills_core"}:
            yield from (
                alias.name for alias in node.names if alias.name.startswith("_") and not alias.name.startswith("__")
            )


@pytest.mark.parametrize("path", ALL, ids=shown)
def test_a_private_name_stays_in_its_module(path: Path) -> None:
    assert list(private_imports(path)) == []


def test_every_error_of_the_core_has_its_code_on_the_wire() -> None:
    errors = [error for error in vars(skills_core.errors).values() if isinstance(error, type)]
    ours = {error for error in errors if issubclass(error, SkillsError)} - {SkillsError}
    assert ours <= CODES.keys()


def test_optional_rooms_build_on_the_core_and_never_the_other_way() -> None:
    for name, path in modules().items():
        room = ".".join(name.split(".")[:2])
        for other in imported(at_run_time(tree_of(path))):
            if other.startswith(ROOMS):
                assert room in ROOMS, f"{name} imports {other}"


@pytest.mark.parametrize(("lower", "higher"), [("disk", "format"), ("disk", "loading"), ("format", "loading")])
def test_the_way_of_the_data_leads_from_disk_to_format_to_loading_and_never_back(lower: str, higher: str) -> None:
    for name, path in modules().items():
        if name.startswith(f"skills_core.{lower}"):
            back = {other for other in imported(ast.walk(tree_of(path))) if other.startswith(f"skills_core.{higher}")}
            assert not back, name


def test_the_public_names_are_what_can_be_imported_and_nothing_else() -> None:
    assert dir(skills_core) == sorted(skills_core.__all__)
    assert list(skills_core.__all__) == sorted(skills_core.__all__)
    assert all(hasattr(skills_core, name) for name in skills_core.__all__)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        skills_core.no_such_name  # noqa: B018 - to look is to import


@pytest.mark.parametrize("name", [name for name in modules() if not name.rpartition(".")[2].startswith("_")])
def test_every_name_that_a_module_offers_is_defined(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert [offered for offered in getattr(module, "__all__", ()) if not hasattr(module, offered)] == []


def test_every_reason_is_given_somewhere() -> None:
    given = {
        node.attr
        for path in ALL
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason"
    }
    assert [reason.name for reason in Reason if reason.name not in given] == []


def test_the_values_of_reasons_are_lower_case_words() -> None:
    assert all(reason.value.replace("_", "").isalnum() and reason.value.islower() for reason in Reason)


@pytest.mark.parametrize("path", ALL, ids=shown)
def test_no_file_and_no_function_is_long(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    long = [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION
    ]
    assert long == []
