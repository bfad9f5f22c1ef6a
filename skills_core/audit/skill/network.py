"""Where code sends data to other machines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.audit.code.code_units import Language
from skills_core.audit.code.python_code import UNKNOWN

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from skills_core.audit.code.code_units import CodeUnit
    from skills_core.audit.code.python_code import PythonCode
    from skills_core.audit.code.shell_code import Command
    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["command_sends", "sends", "sends_data", "units_with_senders"]

_LOCAL = re.compile(r"^\w+://(?:localhost|127\.\d|0\.0\.0\.0|\[::1\])")
_MODULES = (
    "requests.",
    "httpx.",
    "urllib.request.",
    "urllib3.",
    "aiohttp.",
    "http.client.",
    "socket.",
    "smtplib.",
    "ftplib.",
    "paramiko.",
    "websocket",
)
_SENDING = re.compile(
    r"(?:\.|^)(?:post|put|patch|delete|request|get|head|urlopen|Request|HTTPS?Connection|create_connection|connect|sendall|sendto|send"
    r"|SMTP|SMTP_SSL|FTP|FTP_TLS|SSHClient|urlencode|stream|Session|Client|AsyncClient|ClientSession|socket)$"
)
_GETS = re.compile(r"(?:\.|^)(?:get|head|urlopen|Request|stream)$")
_PLAIN_KEYWORDS = frozenset({"timeout", "verify", "stream", "allow_redirects", "follow_redirects", "context"})

_JAVASCRIPT = re.compile(
    r"\bfetch\s*\(|\baxios\b|\bhttps?\.request\b|\bgot(?:\.\w+)?\s*\(|XMLHttpRequest|\bsendBeacon\b"
    r"|\bnet\.(?:connect|createConnection)\b|new WebSocket\b|\bdgram\b"
)
_FETCHERS = frozenset({"curl", "wget", "http", "https", "xh", "aria2c"})
_CONNECTORS = frozenset(
    {"nc", "ncat", "netcat", "socat", "sftp", "ftp", "telnet", "sendmail", "mail", "mailx", "s_client"}
)
_UPLOAD = re.compile(
    r"^(?:-d|-F|-T|--data.*|--form.*|--upload-file|--post-.*|--body-.*|--json)(?:=.*)?$|^-[A-Za-z]*[dFT]\S*$"
)
_ADDRESS = re.compile(r"^\w+://.*[$`]|^\$")
_REMOTE = re.compile(r"^[\w.$@{}-]+:(?!//)")


_IMPORTS_JS = re.compile(r"""(?:from|require\(|import\()\s*["']\.{1,2}/(?:[\w./-]*/)?([\w-]+)(?:\.\w+)?["']""")


def units_with_senders(skill: SkillUnderAudit) -> Iterator[tuple[CodeUnit, bool]]:
    """Yield all code of a skill, with whether it, or a script that it runs together with, sends data.

    Scripts run together that import one another, directly or by way of others.
    """
    units = [unit for file in skill.texts for unit in file.code]
    programs = {unit.stem: unit for unit in units if not unit.in_document}
    links = {stem: set(_imported(unit)) & programs.keys() for stem, unit in programs.items()}
    for stem, imported in [*links.items()]:
        for each in imported:
            links[each] = links[each] | {stem}
    sending = _reached({stem for stem, unit in programs.items() if sends_data(unit)}, links)
    for unit in units:
        yield unit, sends_data(unit) if unit.in_document else unit.stem in sending


def _imported(unit: CodeUnit) -> Iterator[str]:
    if unit.python is not None:
        yield from (part for module in unit.python.modules for part in module.split("."))
    elif unit.language is Language.JAVASCRIPT:
        yield from _IMPORTS_JS.findall(unit.text)


def _reached(start: set[str], links: dict[str, set[str]]) -> set[str]:
    reached, waiting = set(start), [*start]
    while waiting:
        new = links[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return reached


def sends_data(unit: CodeUnit) -> bool:
    """Tell whether a piece of code sends data that it computes to another machine."""
    if unit.python is not None and any(sends(unit.python, name, call) for name, call in unit.python.calls):
        return True
    if unit.language is Language.JAVASCRIPT and _JAVASCRIPT.search(unit.text):
        return True
    return any(command_sends(command) for pipeline in unit.pipelines for command in pipeline.commands)


def sends(code: PythonCode, name: str, call: ast.Call) -> bool:
    """Tell whether a call of a Python program sends data that the program computes to another machine."""
    if not (_SENDING.search(name) and _of_network(code, name)):
        return False
    first = call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "url"), None)
    text = code.text_of(first)
    if text is not None and _LOCAL.match(text):
        return False
    constant = text is not None and UNKNOWN not in text
    plain = len(call.args) <= 1 and all(each.arg in _PLAIN_KEYWORDS or each.arg == "url" for each in call.keywords)
    return not (_GETS.search(name) and constant and plain)


def _of_network(code: PythonCode, name: str) -> bool:
    """Tell whether a name is that of a module for networks, or of a value that such a module made."""
    if name.startswith(_MODULES):
        return True
    owner = name.rpartition(".")[0].rpartition(".")[2]
    made = (getattr(value, "func", None) for value in code.values.get(owner, ()))
    return any(func is not None and code.name_of(func).startswith(_MODULES) for func in made)


def command_sends(command: Command) -> bool:
    """Tell whether a shell command sends data to another machine."""
    texts = [word.text for word in command.arguments]
    if (
        any(word.text.startswith("/dev/tcp/") for word in (*command.written, *command.read))
        or command.name in _CONNECTORS
    ):
        return True
    if command.name in _FETCHERS:
        return any(_UPLOAD.match(text) or _ADDRESS.match(text) for text in texts) and not any(
            _LOCAL.match(text) for text in texts
        )
    if command.name in {"scp", "rsync"}:
        return any(_REMOTE.match(text) for text in texts)
    if command.name in {"nslookup", "dig", "host", "ping"}:
        return any("$(" in text or "`" in text for text in texts)
    return command.name == "openssl" and texts[:1] == ["s_client"]
