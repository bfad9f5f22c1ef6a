"""What code does outside of itself: the files that it reads and writes, and where it sends data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.audit.code_parsers import UNKNOWN
from skills_core.audit.code_units import Language

if TYPE_CHECKING:
    from skills_core.audit.code_parsers import PythonCode, ShellCommand, Word
    from skills_core.audit.code_units import CodeUnit


_HOME = re.compile(
    r"""^["']?(?:\$\{?HOME\}?|\$\(echo[ ]~\)|%USERPROFILE%|%HOMEPATH%|\$env:(?:USERPROFILE|HOME)
        |/root|/home/[^/\s]+|/Users/[^/\s]+|[A-Z]:/Users/[^/\s]+)(?=/|$)""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_CONFIG = re.compile(r"^\$\{?XDG_CONFIG_HOME\}?", re.MULTILINE)
_SLASHES = re.compile(r"(?<!:)/(?:\.?/)+")


def normal_path(text: str) -> str:
    """Return a path, or several with one a line, in the form that the tables of the rules have."""
    text = text.replace("\\", "/").strip("\"'")
    text = _CONFIG.sub("~/.config", _HOME.sub("~", text))
    return _SLASHES.sub("/", text)


@dataclass(frozen=True, slots=True)
class Access:
    """One access: the path in its normal form, and its position in the file with the code."""

    path: str
    start: int


_OPENS = {"open", "io.open", "codecs.open", "builtins.open", ".open"}
_WRITING_MODE = re.compile("[wax+]")
_COPIES = {f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move")}
_READ_METHODS = {".read_text", ".read_bytes", ".glob", ".rglob", ".iterdir", ".read", ".add"}
_READ_FUNCTIONS = {"os.listdir", "os.walk", "glob.glob", "sqlite3.connect", "dotenv.dotenv_values", "netrc.netrc"}
_READ_FUNCTIONS |= _COPIES
_PYTHON_WRITES = {".write_text", ".write_bytes", ".touch", ".symlink_to", ".hardlink_to"}
_TO_SECOND = _COPIES | {"os.rename", "os.replace", "os.symlink", "os.link"}

_SHELL_READS_TEXT = """
cat tac less more head tail grep egrep rg awk sed cut sort uniq tr cp mv tar zip gzip bzip2 xz 7z base64
base32 xxd od hexdump openssl strings jq yq source . curl wget scp rsync sftp dd install sqlite3 type
Get-Content gc python3 python find ls
"""
_SHELL_READS = frozenset(_SHELL_READS_TEXT.split())
_KEY_OPTIONS = frozenset({"-i", "-F", "--key", "--cert", "--cacert", "-o", "--config", "-K", "-E"})
_TAKES_KEY = frozenset({"ssh", "scp", "sftp", "rsync", "ssh-add", "ssh-copy-id"})
# Programs that log in with a key: a key named to them stays on the machine.

_SHELL_WRITES = frozenset({"tee", "touch", "truncate", "sponge"})
_SHELL_COPIES = frozenset({"cp", "mv", "ln", "install", "rsync", "Copy-Item", "Move-Item"})
_POWERSHELL = re.compile(
    r"^(?:add-content|set-content|out-file|new-item|set-itemproperty|new-itemproperty|ac|sc)$", re.IGNORECASE
)

_JS_WRITES = re.compile(
    r"\b(?:writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream|outputFile|outputFileSync|writeTextFile|writeTextFileSync|Bun\.write)\s*\(\s*([^\n]{1,300})"
)
_JS_READS = re.compile(
    r"\b(?:readFile|readFileSync|createReadStream|readTextFile|readTextFileSync|copyFile|copyFileSync|readdirSync|Bun\.file)\s*\(\s*([^\n]{1,300})"
)
_JS_STRING = re.compile(r"""["'`]([^"'`\n]*)["'`]""")
_JS_HOME = re.compile(
    r"\$?\{?\s*\b(?:os\.homedir\(\)|homedir\(\)|process\.env\.(?:HOME|USERPROFILE)|process\.env\[[\"']HOME[\"']\])\s*\}?"
)
_JS_NAME = re.compile(r"[A-Za-z_$][\w$]*")


def reads_of(unit: CodeUnit) -> Iterator[Access]:
    """Yield the files that a piece of code reads."""
    if unit.python is not None:
        yield from _read_by_python(unit, unit.python)
    elif unit.language is Language.JAVASCRIPT:
        yield from _of_javascript(unit, _JS_READS)
    for command in unit.commands:
        for word in read_words(command):
            yield Access(normal_path(word.text), word.start)


def writes_of(unit: CodeUnit) -> Iterator[Access]:
    """Yield the files that a piece of code writes, moves something to, or makes a link of."""
    if unit.python is not None:
        yield from _written_by_python(unit, unit.python)
    elif unit.language is Language.JAVASCRIPT:
        yield from _of_javascript(unit, _JS_WRITES)
    for command in unit.commands:
        for word in _written_words(command):
            yield Access(normal_path(word.text), word.start)


def read_words(command: ShellCommand) -> Iterator[Word]:
    """Yield the words of a command that may name a file that it reads."""
    yield from command.read
    if command.name not in _SHELL_READS or (
        command.name == "sed" and any(word.text.startswith("-i") for word in command.arguments)
    ):
        return
    arguments = (
        command.arguments[:-1] if command.name in _SHELL_COPIES and len(command.arguments) > 1 else command.arguments
    )
    option = ""
    for word in arguments:
        if not (command.name in _TAKES_KEY and option in _KEY_OPTIONS):
            yield word
        option = word.text


def _written_words(command: ShellCommand) -> Iterator[Word]:
    yield from command.written
    if command.name in _SHELL_WRITES or _POWERSHELL.match(command.name):
        yield from (word for word in command.arguments if not word.text.startswith("-"))
    elif command.name in _SHELL_COPIES and len(command.arguments) > 1:
        yield command.arguments[-1]
    elif command.name == "sed" and any(word.text.startswith("-i") for word in command.arguments):
        yield from command.arguments[1:]
    elif command.name == "dd":
        yield from (word for word in command.arguments if word.text.startswith("of="))


def _read_by_python(unit: CodeUnit, code: PythonCode) -> Iterator[Access]:
    for name, call in code.calls:
        if name in _OPENS or name.endswith(".open"):
            if not _writes(code, call, name):
                yield from _access(unit, code, _opened(call, name), call)
        elif name in _READ_FUNCTIONS or _method(call) in _READ_METHODS:
            for node in (*call.args[:1], *([call.func.value] if isinstance(call.func, ast.Attribute) else [])):
                yield from _access(unit, code, node, call)


def _written_by_python(unit: CodeUnit, code: PythonCode) -> Iterator[Access]:
    for name, call in code.calls:
        if name in _OPENS or name.endswith(".open"):
            if _writes(code, call, name):
                yield from _access(unit, code, _opened(call, name), call)
        elif name in _TO_SECOND and len(call.args) > 1:
            yield from _access(unit, code, call.args[1], call)
        elif isinstance(call.func, ast.Attribute) and _method(call) in _PYTHON_WRITES:
            yield from _access(unit, code, call.func.value, call)


def _method(call: ast.Call) -> str:
    return f".{call.func.attr}" if isinstance(call.func, ast.Attribute) else ""


def _opened(call: ast.Call, name: str) -> ast.expr | None:
    """Return what `open(path)` or `path.open()` opens."""
    if name in _OPENS and name != ".open":
        return call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "file"), None)
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _writes(code: PythonCode, call: ast.Call, name: str) -> bool:
    place = 1 if name in _OPENS and name != ".open" else 0
    named = [each.value for each in call.keywords if each.arg == "mode"]
    mode = next(iter([*call.args[place : place + 1], *named]), None)
    return bool(_WRITING_MODE.search(code.text_of(mode) or ""))


def _access(unit: CodeUnit, code: PythonCode, node: ast.expr | None, call: ast.Call) -> Iterator[Access]:
    text = code.text_of(node)
    if text is not None:
        yield Access(normal_path(text), unit.position(call))


def _of_javascript(unit: CodeUnit, pattern: re.Pattern[str]) -> Iterator[Access]:
    for match in pattern.finditer(unit.text):
        yield Access(normal_path(_javascript_text(unit.text, match[1])), unit.start + match.start())


def _javascript_text(text: str, arguments: str) -> str:
    """Return the path that the first argument of a call stands for, as far as its literals say."""
    name = _JS_NAME.match(arguments)
    if name is not None and arguments[name.end() : name.end() + 1] in {",", ")", ";"}:
        assigned = re.search(rf"\b{re.escape(name[0])}\s*=\s*([^\n]{{1,300}})", text)
        arguments = assigned[1] if assigned else ""
    arguments = _JS_HOME.sub('"~"', _first_argument(arguments)).replace('`"~"', "`~")
    return "/".join(_JS_STRING.findall(arguments))


def _first_argument(arguments: str) -> str:
    """Return the text up to the comma or parenthesis that ends the first argument."""
    depth, quote = 0, ""
    for place, char in enumerate(arguments):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and not quote and char == ","):
            return arguments[:place]
    return arguments


_LOCAL = re.compile(r"^\w+://(?:localhost|127\.\d|0\.0\.0\.0|\[::1\])")
_NETWORK_MODULES_TEXT = """
requests. httpx. urllib.request. urllib3. aiohttp. http.client. socket. smtplib. ftplib. paramiko. websocket
"""
_NETWORK_MODULES = tuple(_NETWORK_MODULES_TEXT.split())
_SENDING = re.compile(
    r"(?:\.|^)(?:post|put|patch|delete|request|get|head|urlopen|Request|HTTPS?Connection|create_connection|connect|sendall|sendto|send"
    r"|SMTP|SMTP_SSL|FTP|FTP_TLS|SSHClient|urlencode|stream|Session|Client|AsyncClient|ClientSession|socket)$"
)
_GETS = re.compile(r"(?:\.|^)(?:get|head|urlopen|Request|stream)$")
_PLAIN_KEYWORDS = frozenset({"timeout", "verify", "stream", "allow_redirects", "follow_redirects", "context"})

_JS_SENDS = re.compile(
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


_JS_IMPORTS = re.compile(r"""(?:from|require\(|import\()\s*["']\.{1,2}/(?:[\w./-]*/)?([\w-]+)(?:\.\w+)?["']""")


def units_with_senders(units: Sequence[CodeUnit]) -> Iterator[tuple[CodeUnit, bool]]:
    """Yield each piece of a skill's code, with whether it, or a script that it runs together with, sends data.

    Scripts run together that import one another, directly or by way of others.
    """
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
        yield from _JS_IMPORTS.findall(unit.text)


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
    if unit.language is Language.JAVASCRIPT and _JS_SENDS.search(unit.text):
        return True
    return any(map(command_sends, unit.commands))


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
    if name.startswith(_NETWORK_MODULES):
        return True
    owner = name.rpartition(".")[0].rpartition(".")[2]
    made = (getattr(value, "func", None) for value in code.values.get(owner, ()))
    return any(func is not None and code.name_of(func).startswith(_NETWORK_MODULES) for func in made)


def command_sends(command: ShellCommand) -> bool:
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
