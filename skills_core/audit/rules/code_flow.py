"""What Python does with what it decodes, downloads, or reads from a secret variable, over several lines."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from skills_core.audit.context import severity_at
from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.skill.network import command_sends, sends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core.audit.code.code_units import CodeUnit
    from skills_core.audit.code.python_code import PythonCode
    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_RUNS = {"exec", "eval", "builtins.exec", "builtins.eval", "marshal.loads", "pickle.loads"}
_DECODES = re.compile(
    r"(?:^|\.)(?:b64decode|urlsafe_b64decode|b32decode|b16decode|a85decode|b85decode|unhexlify|fromhex|decodebytes|decompress)$|^codecs\.decode$"
)
_DOWNLOADS = re.compile(
    r"^(?:requests|httpx|urllib\.request|urllib3)\.(?:\w+\.)*(?:get|post|request|urlopen|urlretrieve)$"
)
_MAX_STEPS = 400

_SECRET_NAME = re.compile(r"(?i)(?:^|_)(?:key|apikey|secret|token|passw(?:or)?d|credentials?)(?:_|$)|api_?key")
_BODY = frozenset({"json", "data", "params", "content", "files", "body"})
_SHELL_SECRET = re.compile(
    r"\$\{?(?:\w*_)?(?:API_?KEY|KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?)(?:_\w+)?\}?(?!\w)"
)
_BODY_OPTION = re.compile(r"^(?:-d|-F|--data[\w-]*|--form[\w-]*|--json|--post-data|--body-data)$")


def _sources(code: PythonCode, node: ast.expr, is_source: Callable[[PythonCode, ast.expr], bool]) -> bool:
    """Tell whether a value comes from a source, by way of any names and calls."""
    waiting: list[ast.AST] = [node]
    seen: set[int] = set()
    while waiting and len(seen) < _MAX_STEPS:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, ast.expr) and is_source(code, each):
            return True
        if isinstance(each, ast.Name):
            waiting.extend(code.values.get(each.id, ()))
        waiting.extend(ast.iter_child_nodes(each))
    return False


def _is_decoded(code: PythonCode, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _DECODES.search(_called(code, node)) is not None


def _is_downloaded(code: PythonCode, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _DOWNLOADS.search(_called(code, node)) is not None


def _called(code: PythonCode, call: ast.Call) -> str:
    name = code.name_of(call.func)
    return name or (call.func.attr if isinstance(call.func, ast.Attribute) else "")


def _is_secret_variable(code: PythonCode, node: ast.expr) -> bool:
    name: ast.expr | None = None
    if isinstance(node, ast.Subscript) and code.name_of(node.value) == "os.environ":
        name = node.slice
    elif isinstance(node, ast.Call) and code.name_of(node.func) in {"os.getenv", "os.environ.get"} and node.args:
        name = node.args[0]
    return name is not None and _SECRET_NAME.search(code.text_of(name) or "") is not None


def _hidden_code(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, unit, code in _programs(skill):
        for name, call in code.calls:
            if name not in _RUNS or not call.args:
                continue
            for source, what in ((_is_decoded, "decodes"), (_is_downloaded, "downloads")):
                if _sources(code, call.args[0], source):
                    start = unit.position(call)
                    severity = severity_at(skill, file, start, Severity.ERROR)
                    yield Hit(file, f"{name}() runs what the program {what}", start, severity)


def _secret_in_request(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        for unit in file.code:
            for start in (*_python_requests(unit), *_shell_requests(unit)):
                severity = severity_at(skill, file, start, Severity.WARNING)
                yield Hit(file, "sends a secret in the address or the body of a request", start, severity)


def _python_requests(unit: CodeUnit) -> Iterator[int]:
    if unit.python is None:
        return
    for name, call in unit.python.calls:
        parts = [*call.args, *(each.value for each in call.keywords if each.arg in _BODY or each.arg == "url")]
        if sends(unit.python, name, call) and any(_sources(unit.python, part, _is_secret_variable) for part in parts):
            yield unit.position(call)


def _shell_requests(unit: CodeUnit) -> Iterator[int]:
    for pipeline in unit.pipelines:
        sending = [command for command in pipeline.commands if command_sends(command)]
        for command in sending:
            option = ""
            for word in command.arguments:
                if (_BODY_OPTION.match(option) or "://" in word.text) and _SHELL_SECRET.search(word.raw):
                    yield word.start
                    break
                option = word.text


def _programs(skill: SkillUnderAudit) -> Iterator[tuple[AuditedFile, CodeUnit, PythonCode]]:
    for file in skill.texts:
        for unit in file.code:
            if unit.python is not None:
                yield file, unit, unit.python


RULES = (
    Rule(
        "hidden-code",
        Severity.ERROR,
        "Program that runs what it decodes or downloads",
        "What runs is not what a reviewer reads.",
        "Write the code in plain text, and import it.",
        _hidden_code,
        9.0,
    ),
    Rule(
        "secret-in-request",
        Severity.WARNING,
        "Secret in the address or the body of a request",
        "Addresses and bodies are logged, and a service needs its key in a header only.",
        "Send the key in the header that its own service asks for, and send no key to any other address.",
        _secret_in_request,
        6.5,
    ),
)
