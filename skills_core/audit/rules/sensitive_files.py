"""Files that code must not touch: credentials that it reads or sends, and files that it must not write.

Those start programs later, or steer agents. A path that is only named is not a finding: the rules look for code that
opens the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.audit.code_parsers import UNKNOWN
from skills_core.audit.code_units import Language
from skills_core.audit.effects import (
    command_sends,
    normal_path,
    read_words,
    reads_of,
    units_with_senders,
    writes_of,
)
from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import hit_at
from skills_core.audit.search import find

if TYPE_CHECKING:
    from skills_core.audit.code_parsers import Pipeline, PythonCode
    from skills_core.audit.code_units import CodeUnit
    from skills_core.audit.skill import SkillUnderAudit


_HOME_FILES = (
    r"\.ssh(?:/(?:\*|id_(?:rsa|dsa|ecdsa|ed25519)\w*|identity|[^/\n]*\.pem))?|\.aws(?:/(?:credentials|sso/cache[^\n]*))?|\.azure(?:/[^\n]*)?"
    r"|\.gnupg(?:/[^\n]*)?|\.netrc|_netrc|\.npmrc|\.pypirc|\.git-credentials|\.docker/config\.json|\.kube/config|\.vault-token|\.pgpass"
    r"|\.config/(?:gcloud(?:/[^\n]*)?|gh/hosts\.yml|solana/id\.json|op/[^\n]*)|\.terraform\.d/credentials[^\n]*|\.cargo/credentials(?:\.toml)?"
    r"|\.claude/\.credentials\.json|\.codex/auth\.json|\.gemini/oauth_creds\.json|\.local/share/keyrings[^\n]*|Library/Keychains[^\n]*"
    r"|\.(?:bash|zsh)_history|\.ethereum/keystore[^\n]*|\.bitcoin/wallet\.dat"
)
_CREDENTIAL = re.compile(
    rf"""(?:^|[@=<:,])~?/?(?:[^\n@]*/)?(?:
        \.ssh/(?:id_(?:rsa|dsa|ecdsa|ed25519)\w*|\*)|\.aws/credentials|\.kube/config|\.docker/config\.json|\.git-credentials
        |Login\ Data|Local\ State|cookies\.sqlite|logins\.json|key4\.db|login\.keychain(?:-db)?|wallet\.dat
    )/?$
    |(?:^|[@=<:,])~/(?:{_HOME_FILES})/?$
    |(?:^|[@=<:,])/?(?:etc/(?:shadow|sudoers)|proc/(?:self|\d+)/environ)$""",
    re.VERBOSE | re.MULTILINE,
)
_PROJECT_SECRET = re.compile(r"(?:^|[@=</])\.env(?:\.(?!example|sample|template|dist)\w+)?$", re.MULTILINE)
# Programs read it every day; a finding only if it leaves the machine.

_KEYCHAIN = {"find-generic-password", "find-internet-password", "dump-keychain"}

_PACKERS = {"tar", "zip", "cp", "mv", "gzip", "7z", "read", "install", "mapfile"}

_SWEEPS = {"env", "printenv", "set"}
_JS_SWEEP = re.compile(
    r"(?<!env:\s)(?<!env:)(?<!env\s=\s)\b(?:JSON\.stringify|Object\.(?:entries|keys|values|fromEntries|assign))\s*\([^()\n]{0,40}\bprocess\.env\s*[,)]"
)
_MAX_CHAIN = 16
# Expressions around a use of the environment that are looked at.

_ENVIRONMENTS = frozenset({"env", "environ"})
_WHOLE_METHODS = {"items", "copy", "keys", "values"}


@dataclass(frozen=True, slots=True)
class _Secret:
    """Where a piece of code reads something secret."""

    unit: CodeUnit
    start: int
    what: str


def _credential_reads(unit: CodeUnit) -> Iterator[_Secret]:
    for access in reads_of(unit):
        if (match := _CREDENTIAL.search(access.path)) and not access.path.endswith(".pub"):
            yield _Secret(unit, access.start, match[0].lstrip("@=<:,"))
    for command in unit.commands:
        if command.name == "security" and len(command.arguments) > 1 and command.arguments[0].text in _KEYCHAIN:
            yield _Secret(unit, command.start, "the keychain")


def _sweeps(unit: CodeUnit) -> Iterator[_Secret]:
    """Yield where the whole environment is taken."""
    if unit.python is not None:
        yield from (_Secret(unit, unit.position(node), "os.environ") for node in _python_sweeps(unit.python))
    elif unit.language is Language.JAVASCRIPT:
        yield from (_Secret(unit, unit.start + match.start(), "process.env") for match in _JS_SWEEP.finditer(unit.text))
    for command in unit.commands:
        if command.name in _SWEEPS and not command.arguments:
            yield _Secret(unit, command.start, command.name)


def _python_sweeps(code: PythonCode) -> Iterator[ast.AST]:
    """Yield where a program takes all variables, unless it passes them to another program as its environment."""
    named, called = _environments(code)
    parents = {id(child): node for node in code.nodes for child in ast.iter_child_nodes(node)}
    for node in code.nodes:
        if not (isinstance(node, (ast.Attribute, ast.Name)) and code.name_of(node) == "os.environ"):
            continue
        chain: list[ast.AST] = [node]
        while (
            (parent := parents.get(id(chain[-1]))) is not None
            and not isinstance(parent, ast.Module)
            and len(chain) < _MAX_CHAIN
        ):
            chain.append(parent)
        if _takes_all(chain) and not _for_a_program(chain, named, called):
            yield node


def _takes_all(chain: Sequence[ast.AST]) -> bool:
    node, parent = chain[0], chain[1] if len(chain) > 1 else None
    if isinstance(parent, ast.Attribute):
        return parent.attr in _WHOLE_METHODS
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is node
    return isinstance(parent, (ast.Call, ast.FormattedValue, ast.Dict, ast.Assign, ast.keyword))


def _environments(code: PythonCode) -> tuple[set[str], set[str]]:
    """Return the names of the values, and of the functions whose results, are the argument `env` of a call."""
    uses = [each.value for each in code.nodes if isinstance(each, ast.keyword) and each.arg in _ENVIRONMENTS]
    named = {use.id for use in uses if isinstance(use, ast.Name)}
    return named, {code.name_of(use.func).rpartition(".")[2] for use in uses if isinstance(use, ast.Call)}


def _for_a_program(chain: Sequence[ast.AST], named: set[str], called: set[str]) -> bool:
    """Tell whether what the expression makes is the environment of another program: directly, by name, or returned."""
    for node in chain:
        if isinstance(node, ast.keyword) and node.arg in _ENVIRONMENTS:
            return True
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return any(isinstance(target, ast.Name) and target.id in named for target in targets)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return node.name in called
    return False


def _sent(skill: SkillUnderAudit, sources: Callable[[CodeUnit], Iterable[_Secret]], message: str) -> Iterator[Hit]:
    """Yield the sources whose code, or code that it belongs with, sends data."""
    for unit, sends in units_with_senders([unit for _, unit in skill.code]):
        for source in sources(unit) if sends else ():
            if not _only_prints(unit, source):
                what = f"{message}: {source.what}"
                yield hit_at(skill, skill.files[unit.path], source.start, what, Severity.ERROR)


def _only_prints(unit: CodeUnit, source: _Secret) -> bool:
    """Tell whether a shell command only prints what it reads: it is in a pipeline that neither sends nor writes."""
    if unit.language is not Language.SHELL:
        return False
    pipeline = next(
        (each for each in unit.pipelines if any(command.start == source.start for command in each.commands)), None
    )
    if pipeline is None:
        return False
    return not any(command_sends(each) or each.written or each.name in _PACKERS for each in pipeline.commands)


def _credentials_sent(skill: SkillUnderAudit) -> Iterator[Hit]:
    def sources(unit: CodeUnit) -> Iterator[_Secret]:
        yield from _credential_reads(unit)
        for pipeline in unit.pipelines:
            yield from _uploads(unit, pipeline)

    yield from _sent(skill, sources, "reads credentials, and its code sends data to another machine")


def _uploads(unit: CodeUnit, pipeline: Pipeline) -> Iterator[_Secret]:
    """Yield the secrets of a project that a pipeline sends itself."""
    if any(command_sends(command) for command in pipeline.commands):
        for command in pipeline.commands:
            for word in read_words(command):
                if match := _PROJECT_SECRET.search(normal_path(word.text)):
                    yield _Secret(unit, command.start, match[0].lstrip("@=<"))


def _credential_read(skill: SkillUnderAudit) -> Iterator[Hit]:
    sent = {(hit.file.path, hit.start) for hit in _credentials_sent(skill)}
    for file, unit in skill.code:
        for source in _credential_reads(unit):
            if (file.path, source.start) not in sent:
                yield hit_at(skill, file, source.start, f"reads credentials: {source.what}", Severity.WARNING)


def _environment_sent(skill: SkillUnderAudit) -> Iterator[Hit]:
    yield from _sent(skill, _sweeps, "takes the whole environment, and its code sends data to another machine")


_STARTS_LATER = re.compile(
    r"""(?:^|/)(?:
        \.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zshenv|zprofile|zlogin|kshrc|cshrc|tcshrc|xinitrc|xprofile|xsession|inputrc)
        |\.config/fish/(?:config\.fish|conf\.d/[^\n]*)
        |Library/Launch(?:Agents|Daemons)(?:/[^\n]*)?
        |\.config/(?:systemd/user|autostart)(?:/[^\n]*)?
        |\.git/hooks(?:/[^\n]*)?|\.config/git/hooks(?:/[^\n]*)?
        |\.ssh/(?:authorized_keys2?|rc|config)
        |Start\ Menu/Programs/Startup(?:/[^\n]*)?
        |Documents/(?:Windows)?PowerShell/[^\n]*profile\.ps1
        |(?:sitecustomize|usercustomize)\.py
        )$
    |^/(?:etc/(?:cron[^\n]*|systemd/[^\n]*|init\.d/[^\n]*|rc\.local|profile(?:\.d/[^\n]*)?|bash\.bashrc|zshrc|ld\.so\.preload|sudoers(?:\.d/[^\n]*)?)
        |(?:usr/)?lib/systemd/[^\n]*|var/spool/cron[^\n]*|Library/Launch[^\n]*)$
    |CurrentVersion/Run(?:Once)?\b|\$PROFILE\b""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)

_AGENT_FILES = re.compile(
    r"""(?:^|/)(?:CLAUDE(?:\.local)?\.md|AGENTS(?:\.override)?\.md|GEMINI\.md|QWEN\.md|\.cursorrules|\.windsurfrules|\.clinerules(?:/[^\n]*)?
        |\.mcp\.json|\.claude\.json|claude_desktop_config\.json|mcp_settings\.json|cline_mcp_settings\.json
        |\.claude/(?:settings(?:\.local)?\.json|hooks/[^\n]*|projects/[^\n]*memory[^\n]*)
        |\.cursor/(?:mcp\.json|rules(?:/[^\n]*)?)|\.vscode/mcp\.json|\.github/copilot-instructions\.md
        |\.(?:codex|gemini|qwen|copilot|opencode|continue)/[^\n]*(?:config|settings|mcp|hooks|memory|instructions|rules)[^\n]*
        |\.config/opencode/[^\n]*|MEMORY\.md|SOUL\.md
        )$""",
    re.VERBOSE | re.MULTILINE,
)

_AGENT_COMMANDS = re.compile(
    r"(?:^|/)\.(?:claude|cursor|codex|opencode|gemini)/(?:agents|commands|skills)/[^\n]+$", re.MULTILINE
)
# What an agent offers, and does not follow by itself; in the folder of a project, a user sees it.

_PLACEHOLDER = re.compile(r"<[A-Za-z][\w -]*>")

_LOADS = {
    "launchctl": {"load", "bootstrap"},
    "systemctl": {"enable"},
    "schtasks": {"/create"},
    "schtasks.exe": {"/create"},
}
_REGISTERS = frozenset({"Register-ScheduledTask", "Register-ScheduledJob"})
_CRON_READS = frozenset({"-l", "-h", "--help"})
_MCP_CLIENTS = frozenset({"claude", "codex", "gemini", "qwen", "copilot"})

_WINDOWS = (
    r"\b(?:Set-ItemProperty|New-ItemProperty|reg(?:\.exe)?\s+add)\b[^\n]*CurrentVersion\\Run|\bwinreg\.SetValueEx?\b|\bRegister-ScheduledTask\b"
    r"|\b(?:Add-Content|Set-Content|Out-File)\b[^\n]*\$PROFILE\b|>>?\s*\$PROFILE\b"
)


def _persistence(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, unit in skill.code:
        for start, what in (*_targets(unit, _STARTS_LATER), *_scheduled(unit), *_windows(unit)):
            message = f"makes a program start later by itself: {what}"
            yield hit_at(skill, file, start, message, Severity.ERROR)


def _agent_configuration(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, unit in skill.code:
        for start, what, severity in (*_configured(unit), *_registered_servers(unit)):
            yield hit_at(skill, file, start, f"changes what an agent reads or may do: {what}", severity)


def _configured(unit: CodeUnit) -> Iterator[tuple[int, str, Severity]]:
    for start, what in _targets(unit, _AGENT_FILES):
        yield start, what, Severity.ERROR
    for start, what in _targets(unit, _AGENT_COMMANDS):
        yield start, what, Severity.ERROR if what.startswith("~") else Severity.WARNING


def _targets(unit: CodeUnit, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for access in writes_of(unit):
        if match := pattern.search(access.path):
            what = match[0].lstrip("/") if "\n" in access.path else access.path
            yield access.start, what.replace(UNKNOWN, "…")


def _scheduled(unit: CodeUnit) -> Iterator[tuple[int, str]]:
    for command in unit.commands:
        texts = [word.text for word in command.arguments]
        if command.name == "crontab" and not _CRON_READS & set(texts) and "-r" not in texts and (texts or command.read):
            yield command.start, "crontab"
        elif _LOADS.get(command.name, set()) & {text.lower() for text in texts} or command.name in _REGISTERS:
            yield command.start, " ".join([command.name, *texts[:2]])
        elif command.name == "git" and "core.hooksPath" in texts and texts[:1] == ["config"]:
            yield command.start, "git hooks"


def _windows(unit: CodeUnit) -> Iterator[tuple[int, str]]:
    """Yield what scripts for Windows and other languages register, which have no parser here."""
    if unit.language in {Language.OTHER, Language.PYTHON}:
        for found in find(_WINDOWS, unit.text):
            yield unit.start + found.start, found.text.split()[0]


def _registered_servers(unit: CodeUnit) -> Iterator[tuple[int, str, Severity]]:
    for command in unit.commands:
        texts = [word.text for word in command.arguments]
        if (
            command.name in _MCP_CLIENTS
            and texts[:1] == ["mcp"]
            and texts[1:2] in (["add"], ["add-json"])
            and texts[2:]
        ):
            shows_form = _PLACEHOLDER.search(unit.line_at(command.start)) is not None
            yield command.start, f"{command.name} mcp add", Severity.NOTE if shows_form else Severity.ERROR


RULES = (
    Rule(
        "credentials-sent",
        Severity.ERROR,
        "Code that reads credentials and sends data",
        "Keys that leave the machine give the accounts of their owner away.",
        "Read one credential from one variable, and send it to its own service only.",
        _credentials_sent,
        9.5,
    ),
    Rule(
        "credential-read",
        Severity.WARNING,
        "Code that reads a file with credentials",
        "What the code reads can reach the model, its provider and the files that it writes.",
        "Let the program that owns the credential use it (`aws`, `gh`, `kubectl`), or take one variable.",
        _credential_read,
        6.5,
    ),
    Rule(
        "environment-sent",
        Severity.ERROR,
        "Code that takes all environment variables and sends data",
        "The environment of an agent has the keys of its user.",
        "Read only the variables that the skill needs, by their names.",
        _environment_sent,
        9.5,
    ),
    Rule(
        "persistence",
        Severity.ERROR,
        "Program that starts later by itself",
        "What a profile, a schedule or a hook starts outlives the task and the skill.",
        "Leave it to the user: say which line to add where.",
        _persistence,
        8.0,
    ),
    Rule(
        "agent-configuration",
        Severity.ERROR,
        "Change of an agent's configuration or memory",
        "Every later session reads these files as the user's own words.",
        "Show the change to the user, who makes it or approves it.",
        _agent_configuration,
        8.0,
    ),
)
