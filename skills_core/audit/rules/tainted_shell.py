"""Shell commands that a program puts together from input."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from skills_core.audit.code.code_units import Language
from skills_core.audit.context import severity_at
from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.code.code_units import CodeUnit
    from skills_core.audit.code.python_code import PythonCode
    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["RULES"]

_SHELLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "commands.getoutput",
}
_RUNS = {f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")}
_QUOTES = {"shlex.quote", "shlex.join", "pipes.quote", "subprocess.list2cmdline", "int", "float", "len", "bool"}

_JS_RUNS = re.compile(
    r"(?<![.\w])(?:(?:child_process|cp|childProcess)\.)?(?:exec|execSync|execaCommand|execAsync)\s*\(\s*(?P<quote>[`\"'])(?P<text>(?:\\.|(?!(?P=quote))[^\\])*+)(?P=quote)\s*(?P<plus>\+)?",
    re.DOTALL,
)
_JS_CHILD = re.compile(r"child_process|execa|\bpromisify\s*\(\s*exec\b")
_INPUT = re.compile(r"\$(?:\{)?(?:[1-9@*]|INPUT|QUERY|ARG)\w*\}?")
_SHELL_NAMES = frozenset({"sh", "bash", "zsh", "dash", "ksh"})


def _tainted(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if file.is_markdown:
            continue
        for unit in file.code:
            for start in _places(unit):
                severity = severity_at(skill, file, start, Severity.WARNING)
                yield Hit(file, "runs a shell command with parts that are not quoted", start, severity)


def _places(unit: CodeUnit) -> Iterator[int]:
    if unit.python is not None:
        for name, call in unit.python.calls:
            if _by_shell(name, call) and call.args and _is_formatted(unit.python, call.args[0]):
                yield unit.position(call)
    elif unit.language is Language.JAVASCRIPT and _JS_CHILD.search(unit.text):
        for match in _JS_RUNS.finditer(unit.text):
            if match["plus"] or (match["quote"] == "`" and "${" in match["text"]):
                yield unit.start + match.start()
    elif unit.language is Language.SHELL:
        yield from _shell_places(unit)


def _by_shell(name: str, call: ast.Call) -> bool:
    if name in _SHELLS:
        return True
    shell = next((each.value for each in call.keywords if each.arg == "shell"), None)
    return name in _RUNS and isinstance(shell, ast.Constant) and bool(shell.value)


def _is_formatted(code: PythonCode, command: ast.expr) -> bool:
    """Tell whether a command is put together with parts that are neither constant nor quoted."""
    waiting, seen = [(command, False)], set[tuple[int, bool]]()
    while waiting:
        node, is_part = waiting.pop()
        if (id(node), is_part) in seen:
            continue
        seen.add((id(node), is_part))
        values = code.values.get(node.id, ()) if isinstance(node, ast.Name) else ()
        parts = _parts(node)
        waiting.extend((value, is_part) for value in values)
        waiting.extend((part, True) for part in parts)
        if is_part and not (values or parts or _is_safe(code, node)):
            return True
    return False


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return the parts that an expression puts together to a text."""
    if isinstance(node, ast.JoinedStr):
        return [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"format", "join"}:
        return [*node.args, *(each.value for each in node.keywords)]
    if isinstance(node, (ast.List, ast.Tuple)):
        return node.elts
    return []


def _is_safe(code: PythonCode, node: ast.expr) -> bool:
    """Tell whether a part of a command cannot add commands: it is constant, quoted or a number."""
    if isinstance(node, ast.Call):
        return code.name_of(node.func) in _QUOTES
    return isinstance(node, ast.Constant) or (isinstance(node, (ast.List, ast.Tuple)) and not node.elts)


def _shell_places(unit: CodeUnit) -> Iterator[int]:
    """Yield where a shell script evaluates its arguments as code."""
    for pipeline in unit.pipelines:
        for command in pipeline.commands:
            texts = [word.raw for word in command.arguments]
            if command.name == "eval":
                code = texts
            elif command.name in _SHELL_NAMES and "-c" in texts[:-1]:
                code = [texts[texts.index("-c") + 1]]
            else:
                continue
            if any(_INPUT.search(text) and not text.startswith("'") for text in code):
                yield command.start


RULES = (
    Rule(
        "tainted-shell",
        Severity.WARNING,
        "Shell command made of input",
        "A file name or an answer of a page with `;` or `$(…)` in it becomes a command.",
        "Pass a list of arguments without a shell, or quote each part (`shlex.quote`).",
        _tainted,
        6.0,
    ),
)
