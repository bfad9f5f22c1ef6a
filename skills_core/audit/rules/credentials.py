"""Credentials that code reads, and credentials and environments that it sends.

A path that is only named is no finding: the rules look for code that opens the file.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.audit.code.code_units import Language
from skills_core.audit.code.file_access import read_words, reads_of
from skills_core.audit.code.paths import normal_path
from skills_core.audit.context import severity_at
from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.skill.network import command_sends, units_with_senders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from skills_core.audit.code.code_units import CodeUnit
    from skills_core.audit.code.python_code import PythonCode
    from skills_core.audit.code.shell_code import Pipeline
    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["RULES"]

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

_SWEEPS = {"env", "printenv", "set"}
_JS_SWEEP = re.compile(
    r"(?<!env:\s)(?<!env:)(?<!env\s=\s)\b(?:JSON\.stringify|Object\.(?:entries|keys|values|fromEntries|assign))\s*\([^()\n]{0,40}\bprocess\.env\s*[,)]"
)
_MAX_CHAIN = 16
# Expressions around a use of the environment that are looked at.

_ENVIRONMENTS = frozenset({"env", "environ"})
_WHOLE_METHODS = {"items", "copy", "keys", "values"}


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a piece of code reads something secret."""

    unit: CodeUnit
    start: int
    what: str


def _credential_reads(unit: CodeUnit, pattern: re.Pattern[str]) -> Iterator[_Source]:
    for access in reads_of(unit):
        if (match := pattern.search(access.path)) and not access.path.endswith(".pub"):
            yield _Source(unit, access.start, match[0].lstrip("@=<:,"))
    for command in (command for pipeline in unit.pipelines for command in pipeline.commands):
        if command.name == "security" and len(command.arguments) > 1 and command.arguments[0].text in _KEYCHAIN:
            yield _Source(unit, command.start, "the keychain")


def _sweeps(unit: CodeUnit) -> Iterator[_Source]:
    """Yield where the whole environment is taken."""
    if unit.python is not None:
        yield from (_Source(unit, unit.position(node), "os.environ") for node in _python_sweeps(unit.python))
    elif unit.language is Language.JAVASCRIPT:
        yield from (_Source(unit, unit.start + match.start(), "process.env") for match in _JS_SWEEP.finditer(unit.text))
    for pipeline in unit.pipelines:
        for command in pipeline.commands:
            if command.name in _SWEEPS and not command.arguments:
                yield _Source(unit, command.start, command.name)


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


def _sent(skill: SkillUnderAudit, sources: Callable[[CodeUnit], Iterable[_Source]], message: str) -> Iterator[Hit]:
    """Yield the sources whose code, or code that it belongs with, sends data."""
    for unit, sends in units_with_senders(skill):
        for source in sources(unit) if sends else ():
            if not _apart(unit, source):
                file = skill.files[unit.path]
                severity = severity_at(skill, file, source.start, Severity.ERROR)
                yield Hit(file, f"{message}: {source.what}", source.start, severity)


def _apart(unit: CodeUnit, source: _Source) -> bool:
    """Tell whether a shell command only prints what it reads: it is in a pipeline that neither sends nor writes."""
    if unit.language is not Language.SHELL:
        return False
    pipeline = next(
        (each for each in unit.pipelines if any(command.start == source.start for command in each.commands)), None
    )
    if pipeline is None:
        return False
    return not any(command_sends(command) or command.written or _packs(command.name) for command in pipeline.commands)


def _packs(name: str) -> bool:
    return name in {"tar", "zip", "cp", "mv", "gzip", "7z", "read", "install", "mapfile"}


def _credentials_sent(skill: SkillUnderAudit) -> Iterator[Hit]:
    def sources(unit: CodeUnit) -> Iterator[_Source]:
        yield from _credential_reads(unit, _CREDENTIAL)
        for pipeline in unit.pipelines:
            yield from _uploads(unit, pipeline)

    yield from _sent(skill, sources, "reads credentials, and its code sends data to another machine")


def _uploads(unit: CodeUnit, pipeline: Pipeline) -> Iterator[_Source]:
    """Yield the secrets of a project that a pipeline sends itself."""
    if any(command_sends(command) for command in pipeline.commands):
        for command in pipeline.commands:
            for word in read_words(command):
                if match := _PROJECT_SECRET.search(normal_path(word.text)):
                    yield _Source(unit, command.start, match[0].lstrip("@=<"))


def _credential_read(skill: SkillUnderAudit) -> Iterator[Hit]:
    sent = {(hit.file.path, hit.start) for hit in _credentials_sent(skill)}
    for file in skill.texts:
        for unit in file.code:
            for source in _credential_reads(unit, _CREDENTIAL):
                if (file.path, source.start) not in sent:
                    severity = severity_at(skill, file, source.start, Severity.WARNING)
                    yield Hit(file, f"reads credentials: {source.what}", source.start, severity)


def _environment_sent(skill: SkillUnderAudit) -> Iterator[Hit]:
    yield from _sent(skill, _sweeps, "takes the whole environment, and its code sends data to another machine")


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
)
