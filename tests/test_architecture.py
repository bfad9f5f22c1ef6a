from __future__ import annotations

import ast
import functools
import importlib
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import skills_core
import skills_core.errors
from server.wire.errors import CODES
from skills_core import Reason, SkillsError
from skills_core.runs.workflow.faults import InvalidWorkflowError

if TYPE_CHECKING:
    from collections.abc import Iterator

# All tests share the syntax trees.

ROOT = Path(skills_core.__file__).parents[1]
OF_SKILLS = ROOT / "server/capabilities/schedules/bundled"
OF_EVALS = ROOT / "skills_core/evals/importing/check_output.py"
"""Scripts that are written into skills: no module imports them."""
CORE = sorted(path for path in (ROOT / "skills_core").rglob("*.py") if path != OF_EVALS)
ALL = CORE + sorted(path for path in (ROOT / "server").rglob("*.py") if not path.is_relative_to(OF_SKILLS))

MAX_LINES = 600
MAX_FUNCTION = 50

SERVER_FLOORS = (
    {"__main__"},
    {"cli"},
    {"transport"},
    {"protocol"},
    {"clients", "conversation", "hosting"},
    {"listing"},
    {"capability"},
    {"config"},
    {"logs"},
    {"requests"},
    {"access", "html", "limits", "wire"},
)
"""The rooms of the core of `server`, from the top: a room imports itself and the rooms of lower floors."""

CORE_FLOORS = (
    {"testing"},
    {"improve"},
    {"evals"},
    {"audit", "authoring", "history", "integrations", "publish", "remote", "runs"},
    {"scripts"},
    {"live"},
    {"context"},
    {"rendering"},
    {"catalog"},
    {"guard", "loading", "selection"},
    {"skills"},
    {"format"},
    {"disk"},
    {"schedules", "texts"},
    {"errors", "installation", "mentions"},
    {"diagnostics", "interaction", "layered", "ordered", "sharing", "toolboxes", "values"},
)
"""The rooms of `skills_core`: its sub-packages, and the modules that lie directly in it."""

RUN_FLOORS = (
    {"executor"},
    {"structured_answers"},
    {"model_conversation"},
    {"trace", "workflow"},
    {"durable", "tools"},
    {"models", "run_skills"},
    {"journal", "outcome", "spending"},
)

EVALS_FLOORS = (
    {"commands"},
    {"importing", "lint", "options", "page", "run_eval"},
    {"proposals", "triggers"},
    {"report"},
    {"iterations"},
    {"agents"},
    {"tested_skills"},
    {"settings", "workspace"},
)
"""The rooms of `server.capabilities.evals`."""

CORE_EVALS_FLOORS = (
    {"importing", "proposals"},
    {"grading", "triggers"},
    {"agents"},
    {"feedback", "forecast", "statistics"},
)

AUDIT_FLOORS = (
    {"review"},
    {"engine"},
    {"rules"},
    {"effects", "matching"},
    {"findings"},
    {"skill"},
    {"code_units"},
    {"code_parsers", "search"},
)

FLOORS = {
    "server": SERVER_FLOORS,
    "server.capabilities.evals": EVALS_FLOORS,
    "skills_core": CORE_FLOORS,
    "skills_core.runs": RUN_FLOORS,
    "skills_core.evals": CORE_EVALS_FLOORS,
    "skills_core.audit": AUDIT_FLOORS,
}

CAPABILITIES = "capabilities"
SEAM = ROOT / "server/capability.py"
"""It names the types of all that it connects; only what it imports at run time has a direction."""
KNOWS_A_CAPABILITY = "server.__main__"
"""A hook answers for the guard from its first instruction on: whatever goes wrong has to deny the call."""
FORBIDDEN = {"server", "mcp", "mcp_types", "starlette", "uvicorn", "typer", "click", "rich"}


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@functools.cache
def imports_of(path: Path) -> tuple[str, ...]:
    names: list[str] = []
    nodes = ast.parse(path.read_text(encoding="utf-8")).body if path == SEAM else nodes_of(path)
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(names)


def modules(paths: list[Path] = CORE) -> dict[str, Path]:
    found = {path: shown(path).removesuffix(".py").replace("/", ".") for path in paths}
    return {name.removesuffix(".__init__"): path for path, name in found.items()}


def test_the_core_knows_nothing_of_protocol_http_and_command_line() -> None:
    for path in CORE:
        names = {name.partition(".")[0] for name in imports_of(path)}
        assert not names & FORBIDDEN, shown(path)


def test_the_core_reads_no_environment_and_prints_nothing() -> None:
    for path in CORE:
        for node in nodes_of(path):
            assert not is_outside(node), (shown(path), ast.unparse(node))
            if isinstance(node, ast.ImportFrom) and node.module == "os":
                assert "environ" not in ast.unparse(node), shown(path)


def is_outside(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "print"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        outside = ("os.environ", "os.getenv", "os.putenv", "sys.stdout", "sys.argv")
        return f"{node.value.id}.{node.attr}".startswith(outside)
    return False


def imports_between(package: str) -> dict[str, set[str]]:
    """Return which children of a package import which others, those for type checkers included.

    Below `server` it is the core alone; its arrows into capabilities have a test of their own.
    """
    depth = package.count(".") + 1
    known = modules_of(package)
    graph: dict[str, set[str]] = {name.split(".")[depth]: set() for name in known if name.startswith(f"{package}.")}
    for name, path in known.items():
        if name.startswith(f"{package}."):
            child = name.split(".")[depth]
            others = {other.split(".")[depth] for other in imports_of(path) if is_in(other, package)}
            graph[child] |= {other for other in others - {child, CAPABILITIES} if not other.startswith("__")}
    return graph


def modules_of(package: str) -> dict[str, Path]:
    known = modules(ALL)
    if package == "server":
        return {name: path for name, path in known.items() if name.split(".")[1:2] != [CAPABILITIES]}
    return known


def is_in(name: str, package: str) -> bool:
    return name.startswith(f"{package}.")


def test_the_core_imports_nothing_of_capabilities_but_their_list() -> None:
    importing = {
        name
        for name, path in modules_of("server").items()
        for other in imports_of(path)
        if other in modules(ALL) and is_in(other, f"server.{CAPABILITIES}")
    }
    assert importing == {KNOWS_A_CAPABILITY}


def packages_with_packages() -> list[str]:
    packages = [name for name, path in modules(ALL).items() if path.name == "__init__.py"]
    return sorted({name.rpartition(".")[0] for name in packages} - {""})


def test_no_module_imports_itself_by_way_of_others_not_even_in_its_types() -> None:
    known = modules(ALL)
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    graph = {
        name: {other for other in imports_of(path) if other in known and other not in packages}
        for name, path in known.items()
    }
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError


@pytest.mark.parametrize("package", packages_with_packages())
def test_no_child_of_a_package_imports_itself_by_way_of_its_siblings(package: str) -> None:
    assert list(TopologicalSorter(imports_between(package)).static_order())  # raises CycleError


@pytest.mark.parametrize("package", FLOORS)
def test_every_room_has_its_floor_once(package: str) -> None:
    rooms = {name.split(".")[package.count(".") + 1] for name in modules_of(package) if is_in(name, package)}
    assert sorted(room for floor in FLOORS[package] for room in floor) == sorted(rooms)


@pytest.mark.parametrize("package", FLOORS)
def test_a_room_imports_itself_and_lower_rooms_alone_not_even_in_its_types(package: str) -> None:
    floor_of = {room: number for number, floor in enumerate(FLOORS[package]) for room in floor}
    for room, others in imports_between(package).items():
        # A name that is no room is one that the package re-exports from rooms of any floor.
        up = {other for other in others if floor_of.get(other, -1) <= floor_of[room]}
        assert not up, f"{package}.{room} imports {up}"


def private_imports(path: Path) -> Iterator[str]:
    """Yield each private name of ours that a module takes from another one, by import or as an attribute."""
    nodes = nodes_of(path)
    ours: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"server", "skills_core"}:
            ours |= {alias.asname or alias.name for alias in node.names}
            yield from (alias.name for alias in node.names if is_private(alias.name))
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ours:
            yield from [ast.unparse(node)] * is_private(node.attr)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_a_private_name_stays_in_its_module() -> None:
    assert {shown(path): names for path in ALL if (names := list(private_imports(path)))} == {}


HANDLERS = [path for path in ALL if shown(path).startswith(("server/protocol/", "server/conversation/"))]


def test_a_handler_of_requests_reads_the_view_of_its_caller_alone() -> None:
    assert HANDLERS
    for path in HANDLERS:
        read = {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute)}
        assert not read & {"everything", "library"}, shown(path)


def test_every_error_of_the_core_has_its_code_on_the_wire() -> None:
    errors = [error for error in vars(skills_core.errors).values() if isinstance(error, type)] + [InvalidWorkflowError]
    ours = {error for error in errors if issubclass(error, SkillsError)} - {SkillsError}
    assert ours <= CODES.keys()


def test_the_public_names_are_what_can_be_imported_and_nothing_else() -> None:
    assert dir(skills_core) == sorted(skills_core.__all__)
    assert list(skills_core.__all__) == sorted(skills_core.__all__)
    assert all(hasattr(skills_core, name) for name in skills_core.__all__)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        skills_core.no_such_name  # noqa: B018 - to look is to import


def test_every_name_that_a_module_offers_is_defined() -> None:
    for name in modules():
        if not name.rpartition(".")[2].startswith("_"):
            module = importlib.import_module(name)
            assert module.__doc__, name
            assert [offered for offered in getattr(module, "__all__", ()) if not hasattr(module, offered)] == [], name


def test_every_reason_is_given_somewhere() -> None:
    given = {
        node.attr
        for path in ALL
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason"
    }
    assert [reason.name for reason in Reason if reason.name not in given] == []


def test_the_values_of_reasons_are_lower_case_words() -> None:
    assert all(reason.value.replace("_", "").isalnum() and reason.value.islower() for reason in Reason)


def test_no_file_and_no_function_is_long() -> None:
    assert [shown(path) for path in ALL if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES] == []
    long = [
        (shown(path), node.name)
        for path in ALL
        for node in nodes_of(path)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION
    ]
    assert long == []
