"""What the files of a skill name: links and paths in text, resolved to the files of the skill."""

from __future__ import annotations

import posixpath
import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from skills_core.mentions.paths import mentioned_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["Link", "links_of", "named_files", "resolve", "respelled_in"]

_LINK = re.compile(r"\]\(\s*(?:<([^<>\n]{1,255})>|([^()\s<>]{1,255}))(?:\s+[\"'][^\"'\n]{0,200}[\"'])?\s*\)")
_SPAN = re.compile(r"`((?:\./)?(?:scripts|references?|assets|templates|resources)/[\w./-]{1,200}\.\w{1,8})`")
MAX_LINKS = 2000
"""Links of each kind in one file that are looked at."""

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:|//|#|/|~|\.\.\./")
_PLACEHOLDER = re.compile(
    r"[{}<>*$]|\.\.\.|^(?:url|link|path|file|image|todo|example)\b|/path/to/|your[-_]|xxx", re.IGNORECASE
)


class Link(NamedTuple):
    """A relative path that a file names at a position, without its fragment; `in_code` if it is a code span."""

    start: int
    target: str
    in_code: bool = False


def links_of(file: AuditedFile) -> Iterator[Link]:
    """Yield the relative links of a Markdown file, and paths below the usual folders in code spans."""
    if not file.is_markdown:
        return
    text = file.unfenced
    line, marks, counted = 0, 0, 0
    for match in islice(_LINK.finditer(text), MAX_LINKS):
        begin = text.rfind("\n", counted, match.start()) + 1
        if begin > line:
            line = counted = begin
            marks = 0
        marks += text.count("`", counted, match.start())
        counted = match.start()
        target = unquote((match[1] or match[2]).partition("#")[0].partition("?")[0])
        in_code = marks % 2 == 1
        if target and not in_code and not _SCHEME.match(target) and not _PLACEHOLDER.search(target):
            yield Link(match.start(), target)
    for match in islice(_SPAN.finditer(text), MAX_LINKS):
        if not _PLACEHOLDER.search(match[1]):
            yield Link(match.start(1), match[1], in_code=True)


def resolve(skill: SkillUnderAudit, file: AuditedFile, target: str) -> str | None:
    """Return the path that a link leads to, from the file's folder or the skill's; None if nothing is there."""
    folder = posixpath.dirname(file.path)
    for base in (folder, ""):
        path = posixpath.normpath(posixpath.join(base, target))
        if path == "." or path in skill.files or any(each.startswith(f"{path}/") for each in skill.files):
            return path
    return None


def respelled_in(skill: SkillUnderAudit, file: AuditedFile) -> Iterator[tuple[int, str, str]]:
    """Yield where a Markdown file names another in a different case: the position, the path there, and the file's."""
    if not file.is_markdown or file.text is None:
        return
    names, folder = {skill.name, skill.frontmatter.name or skill.name}, posixpath.dirname(file.path)
    # A path is relative to the folder of the file or to that of the skill.
    for base in dict.fromkeys((f"{folder}/" if folder else "", "")):
        paths = [path.removeprefix(base) for path in skill.files if path.startswith(base) and path != file.path]
        for mention in mentioned_paths(file.text, paths, names).respelled:
            if resolve(skill, file, mention.written) is None:
                yield mention.position, mention.written, f"{base}{mention.path}"


def named_files(skill: SkillUnderAudit, file: AuditedFile) -> frozenset[str]:
    """Return the paths of the files of the skill that a text file names."""
    text = file.text or ""
    names = {skill.name, skill.frontmatter.name or skill.name}
    found = set(mentioned_paths(text, skill.files.keys(), names).paths)
    folder = posixpath.dirname(file.path)
    if folder:
        beside = {path.removeprefix(f"{folder}/"): path for path in skill.files if path.startswith(f"{folder}/")}
        found |= {beside[path] for path in mentioned_paths(text, beside.keys(), names).paths}
    for link in links_of(file):
        target = resolve(skill, file, link.target)
        if target is not None:
            found |= {target} if target in skill.files else {p for p in skill.files if p.startswith(f"{target}/")}
    return frozenset(found - {file.path})
