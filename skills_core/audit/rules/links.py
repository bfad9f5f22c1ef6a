"""Links and paths that leave the skill's folder."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from skills_core.audit.context import severity_at
from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_ABSOLUTE = re.compile(r"^(?:/|\\\\|[A-Za-z]:[/\\])")
_TARGET = re.compile(
    r"\]\(\s*<?((?:\.{1,2}/|file:|~/|/)[^)>\s]{1,300})>?(?:\s+[\"'][^)]*)?\)|^@((?:\.\./|~/|/)[^\s]{1,300})\s*$",
    re.MULTILINE,
)
_SENSITIVE = re.compile(r"/\.\w|^/(?:etc|root|home|proc|var)/|^~/|^file:|private|secret|credential", re.IGNORECASE)


def _symbolic_links(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        if file.link is None:
            continue
        target = file.link.replace("\\", "/")
        inside = not _ABSOLUTE.match(file.link) and not _leaves(file, target)
        if not inside:
            yield Hit(file, f"is a link to {file.link!r}, outside of the skill", evidence=file.link)


def _references(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Yield links of Markdown to private or system files; `missing-file` names all others that leave the skill."""
    for file in skill.texts:
        if not file.is_markdown:
            continue
        for match in _TARGET.finditer(file.unfenced):
            group = 1 if match[1] else 2
            target = unquote(match[group])
            if _SENSITIVE.search(target) and (target.startswith(("~", "file:", "/")) or _leaves(file, target)):
                start = match.start(group)
                severity = severity_at(skill, file, start, Severity.ERROR)
                yield Hit(file, f"names {target!r}, outside of the skill", start, severity)


def _leaves(file: AuditedFile, target: str) -> bool:
    folder = posixpath.dirname(file.path)
    path = target.partition("#")[0].partition("?")[0]
    return posixpath.normpath(posixpath.join(folder, path)).split("/")[0] == ".."


RULES = (
    Rule(
        "link-outside",
        Severity.ERROR,
        "Link out of the skill",
        "An agent that follows the link reads, and may show, a file of the user that the skill does not own.",
        "Copy the file into the skill, or let the user name it.",
        lambda skill: (*_symbolic_links(skill), *_references(skill)),
        7.0,
    ),
)
