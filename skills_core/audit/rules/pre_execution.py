"""Commands that a host runs while it loads the skill, before the model or the user sees anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.patterns import shown
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.search import find, is_found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_COMMAND = r"(?:^|[^\w!`\\])!`[^`\n]{1,400}`"
_FENCE = r"^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(?:```+|~~~+)!"

_HARMLESS = (
    r"^(?:git\s+(?:status|diff|log|branch|rev-parse|show|remote|config\s+--get|ls-files|describe|tag"
    r"|blame|shortlog)|gh\s+(?:pr|issue|repo|run)\s+(?:view|diff|list|status|checks)"
    r"|pwd|ls|date|cat\s+[\w./-]+|head\s+[\w./ -]+|wc\s|which\s|uname|echo\s|basename\s|dirname\s|(?:node"
    r"|npm|python3?|go|cargo|uv)\s+(?:--version|version|-V)|tree|command\s+-v)\b|^(?:find\s+\.|jq|test)\s"
)
_RISKY = (
    r"https?://|[;&`]|\$\(|\|\s*(?:sh|bash|zsh|python|node|perl|curl|wget|nc|xargs)\b|-exec\b|-delete\b"
    r"|>\s*[^&\s]|\.ssh|\.aws|\.env\b|/etc/|~/"
)


def _pre_executed(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Find commands in Markdown; those in SKILL.md that only look at the working folder are warnings.

    A host runs those of other files only where it loads the file as a command: one note tells how many there are.
    """
    for file in skill.texts:
        if not file.is_markdown or file.is_eval:
            continue
        hits = list(_in_file(file))
        if skill.is_main(file):
            yield from hits
        elif hits:
            first = min(hits, key=lambda hit: hit.start or 0)
            message = f"a host that loads this file as a command runs commands in it: {len(hits)}"
            yield replace(first, message=message, severity=Severity.NOTE)


def _in_file(file: AuditedFile) -> Iterator[Hit]:
    text = (file.text or "").replace("\r", " ")
    for found in find(_COMMAND, text):
        start = found.start + found.text.index("!`")
        command = found.text[found.text.index("!`") + 2 : -1].strip()
        harmless = is_found(_HARMLESS, command) and not is_found(_RISKY, command)
        severity = Severity.WARNING if harmless else Severity.ERROR
        yield Hit(file, f"a host runs this command when it loads the skill: {shown(command)}", start, severity)
    for found in find(_FENCE, text):
        yield Hit(file, "a host runs this block when it loads the skill", found.start, Severity.ERROR)


RULES = (
    Rule(
        "pre-execution",
        Severity.ERROR,
        "Command that runs on load",
        "Some hosts run `` !`command` `` while they load a skill, even inside a fence, before anyone can refuse it.",
        "Tell the model to run the command as a step, where the host asks for permission.",
        _pre_executed,
        7.5,
    ),
)
