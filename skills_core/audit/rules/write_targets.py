"""Files that code must not write: those that start programs later, and those that steer agents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.audit.code.code_units import Language
from skills_core.audit.code.file_access import writes_of
from skills_core.audit.code.python_code import UNKNOWN
from skills_core.audit.context import severity_at
from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.search import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.code.code_units import CodeUnit
    from skills_core.audit.code.shell_code import Command
    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["RULES"]

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
    for file in skill.texts:
        for unit in file.code:
            for start, what in (*_targets(unit, _STARTS_LATER), *_scheduled(unit), *_windows(unit)):
                yield Hit(
                    file,
                    f"makes a program start later by itself: {what}",
                    start,
                    severity_at(skill, file, start, Severity.ERROR),
                )


def _agent_configuration(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        for unit in file.code:
            for start, what, severity in (*_configured(unit), *_registered(unit)):
                message = f"changes what an agent reads or may do: {what}"
                yield Hit(file, message, start, severity_at(skill, file, start, severity))


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
    for command in _commands(unit):
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


def _registered(unit: CodeUnit) -> Iterator[tuple[int, str, Severity]]:
    for command in _commands(unit):
        texts = [word.text for word in command.arguments]
        if (
            command.name in _MCP_CLIENTS
            and texts[:1] == ["mcp"]
            and texts[1:2] in (["add"], ["add-json"])
            and texts[2:]
        ):
            shows_form = _PLACEHOLDER.search(unit.line_at(command.start)) is not None
            yield command.start, f"{command.name} mcp add", Severity.NOTE if shows_form else Severity.ERROR


def _commands(unit: CodeUnit) -> Iterator[Command]:
    for pipeline in unit.pipelines:
        yield from pipeline.commands


RULES = (
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
