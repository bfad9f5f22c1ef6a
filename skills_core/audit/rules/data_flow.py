"""What programs do with what they decode, download, or take as input, and with secret variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from skills_core.audit.code_units import PROGRAM_CALLS, SHELL_CALLS, Language
from skills_core.audit.effects import command_sends, sends
from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import hit_at

if TYPE_CHECKING:
    from skills_core.audit.code_parsers import PythonCode
    from skills_core.audit.code_units import CodeUnit
    from skills_core.audit.skill import SkillUnderAudit


_EVALUATES = {"exec", "eval", "builtins.exec", "builtins.eval", "marshal.loads", "pickle.loads"}
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


def _is_derived(code: PythonCode, node: ast.expr, is_source: Callable[[PythonCode, ast.expr], bool]) -> bool:
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


def _is_call_of(pattern: re.Pattern[str], code: PythonCode, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and pattern.search(code.name_of(node.func)) is not None


def _is_secret_variable(code: PythonCode, node: ast.expr) -> bool:
    name: ast.expr | None = None
    if isinstance(node, ast.Subscript) and code.name_of(node.value) == "os.environ":
        name = node.slice
    elif isinstance(node, ast.Call) and code.name_of(node.func) in {"os.getenv", "os.environ.get"} and node.args:
        name = node.args[0]
    return name is not None and _SECRET_NAME.search(code.text_of(name) or "") is not None


def _hidden_code(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, unit in skill.code:
        for start, message in _evaluations(unit):
            yield hit_at(skill, file, start, message, Severity.ERROR)


def _evaluations(unit: CodeUnit) -> Iterator[tuple[int, str]]:
    """Yield where a program evaluates what it decodes or downloads."""
    if unit.python is None:
        return
    for name, call in unit.python.calls:
        for pattern, what in ((_DECODES, "decodes"), (_DOWNLOADS, "downloads")):
            if (
                name in _EVALUATES
                and call.args
                and _is_derived(unit.python, call.args[0], partial(_is_call_of, pattern))
            ):
                yield unit.position(call), f"{name}() runs what the program {what}"


def _secret_in_request(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, unit in skill.code:
        for start in (*_python_requests(unit), *_shell_requests(unit)):
            message = "sends a secret in the address or the body of a request"
            yield hit_at(skill, file, start, message, Severity.WARNING)


def _python_requests(unit: CodeUnit) -> Iterator[int]:
    if unit.python is None:
        return
    for name, call in unit.python.calls:
        parts = [*call.args, *(each.value for each in call.keywords if each.arg in _BODY or each.arg == "url")]
        if sends(unit.python, name, call) and any(
            _is_derived(unit.python, part, _is_secret_variable) for part in parts
        ):
            yield unit.position(call)


def _shell_requests(unit: CodeUnit) -> Iterator[int]:
    for command in filter(command_sends, unit.commands):
        option = ""
        for word in command.arguments:
            if (_BODY_OPTION.match(option) or "://" in word.text) and _SHELL_SECRET.search(word.raw):
                yield word.start
                break
            option = word.text


_QUOTES = {"shlex.quote", "shlex.join", "pipes.quote", "subprocess.list2cmdline", "int", "float", "len", "bool"}

_JS_RUNS = re.compile(
    r"(?<![.\w])(?:(?:child_process|cp|childProcess)\.)?(?:exec|execSync|execaCommand|execAsync)\s*\(\s*(?P<quote>[`\"'])(?P<text>(?:\\.|(?!(?P=quote))[^\\])*+)(?P=quote)\s*(?P<plus>\+)?",
    re.DOTALL,
)
_JS_CHILD = re.compile(r"child_process|execa|\bpromisify\s*\(\s*exec\b")
_INPUT = re.compile(r"\$(?:\{)?(?:[1-9@*]|INPUT|QUERY|ARG)\w*\}?")
_SHELL_NAMES = frozenset({"sh", "bash", "zsh", "dash", "ksh"})


def _tainted(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, unit in skill.code:
        for start in () if unit.in_document else _unquoted_commands(unit):
            message = "runs a shell command with parts that are not quoted"
            yield hit_at(skill, file, start, message, Severity.WARNING)


def _unquoted_commands(unit: CodeUnit) -> Iterator[int]:
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
    if name in SHELL_CALLS:
        return True
    shell = next((each.value for each in call.keywords if each.arg == "shell"), None)
    return name in PROGRAM_CALLS and isinstance(shell, ast.Constant) and bool(shell.value)


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
    for command in unit.commands:
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
