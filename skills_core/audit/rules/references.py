"""The files of a skill: links to missing files, paths in another case, files that nothing names, deep references."""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.skill.links import links_of, named_files, resolve, respelled_in
from skills_core.errors import did_you_mean, similar_paths
from skills_core.mentions import missing_scripts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_KNOWN_NAME_TEXT = (
    "license licence notice copying readme changelog contributing authors security skill codeowners __init__ package"
    " package-lock requirements pyproject uv setup tsconfig makefile dockerfile third_party_notices"
)
_KNOWN_NAMES = frozenset(_KNOWN_NAME_TEXT.split())
# Files that people and programs find by their names.

_OF_HOSTS = frozenset({"agents/openai.yaml"})
# Files that hosts find by their paths. What they name, hosts read.

_FOLDER_END = r"(?![\w.<{$-])"
# After the name of a folder that is meant as a whole, and not as the beginning of a path.

_GLOB = re.compile(r"(?<![\w.*/-])(?:[\w.-]{1,100}/){1,10}[\w.-]{0,100}\*[\w.*-]{0,100}")
_MAX_GLOBS = 50
# A pattern for files in a folder: `references/api-*.md`.

_MAX_FILES = 500
# Above this number, a comparison of every file with every text would take too long; such a skill cannot be published.


def _missing(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if file.is_eval:
            continue
        respelled = {written for _, written, _ in respelled_in(skill, file)}
        for link in links_of(file):
            if resolve(skill, file, link.target) is None and link.target.removeprefix("./") not in respelled:
                outside = posixpath.normpath(link.target).startswith("..") and not posixpath.dirname(file.path)
                what = "leads out of the skill" if outside else "leads to no file of the skill"
                # A path in a code span may be an example, or a file that the skill writes.
                severity = Severity.NOTE if link.in_code else Severity.WARNING
                hint = "" if outside else did_you_mean(similar_paths(link.target, skill.files), "; did")
                yield Hit(file, f"the link to {link.target[:200]!r} {what}{hint}", link.start, severity)
        yield from _missing_scripts(skill, file)


def _missing_scripts(skill: SkillUnderAudit, file: AuditedFile) -> Iterator[Hit]:
    if not file.is_markdown or file.text is None:
        return
    linked = {posixpath.normpath(link.target) for link in links_of(file)}
    names = {skill.name, skill.frontmatter.name or skill.name}
    for script in missing_scripts(file.text, skill.files, names):
        if script.path in linked:
            continue
        message = f"this runs {script.path[:200]!r}, which is not a file of the skill"
        if script.certain:
            yield Hit(file, message, script.position, Severity.WARNING)
        elif skill.is_folder:
            hint = "if it is one of the user's project, say so"
            yield Hit(file, f"{message}; {hint}", script.position, Severity.NOTE)


def _respelled(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if file.is_eval:
            continue
        for start, written, path in respelled_in(skill, file):
            yield Hit(file, f"{written[:200]!r} is spelled {path[:200]!r} on disk", start)


def _reached(skill: SkillUnderAudit) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files that SKILL.md names, and those that these name, at any distance."""
    main = skill.main
    if main is None or len(skill.files) > _MAX_FILES:
        return frozenset(skill.files), frozenset(skill.files)
    direct = named_files(skill, main) | frozenset(
        path for path in skill.files if any(path == each.removeprefix("./") for each in skill.frontmatter.references)
    )
    reached = {*direct, *(_OF_HOSTS & skill.files.keys())}
    waiting = sorted(reached)
    while waiting:
        file = skill.files[waiting.pop()]
        new = named_files(skill, file) - reached if file.text is not None else frozenset()
        reached |= new
        waiting += sorted(new)
    return direct, frozenset(reached - {main.path})


def _deep(skill: SkillUnderAudit) -> Iterator[Hit]:
    direct, reached = skill.once(_reached)
    for path in sorted(reached - direct):
        file = skill.files[path]
        if file.is_markdown and not file.is_eval and not _is_listed_folder(skill, file):
            by = next(
                (each for each in sorted(direct) if path in named_files(skill, skill.files[each])), "another file"
            )
            message = f"SKILL.md does not name this file, only {by} does"
            yield Hit(file, message)


def _unnamed(skill: SkillUnderAudit) -> Iterator[Hit]:
    _, reached = skill.once(_reached)
    for file in skill.files.values():
        stem = file.name.partition(".")[0].casefold()
        known = skill.is_main(file) or file.path in reached or stem in _KNOWN_NAMES or file.name.startswith(".")
        known = known or file.is_eval or file.link is not None or _is_listed_folder(skill, file)
        if not known and not _is_imported(skill, file, reached):
            yield Hit(file, "no file that the model reads names this file")


def _is_listed_folder(skill: SkillUnderAudit, file: AuditedFile) -> bool:
    """Tell whether SKILL.md names a folder above a file, as `assets/`, or a pattern for it: the model lists it."""
    parts = file.path.split("/")[:-1]
    above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    if any(
        re.search(rf"{re.escape(folder)}/{_FOLDER_END}|`(?:\./)?{re.escape(folder)}`", skill.body) for folder in above
    ):
        return True
    return any(fnmatchcase(file.path, pattern.removeprefix("./")) for pattern in _GLOB.findall(skill.body)[:_MAX_GLOBS])


def _is_imported(skill: SkillUnderAudit, file: AuditedFile, reached: frozenset[str]) -> bool:
    """Tell whether a program that the skill names, or its SKILL.md, may import or read a file.

    A program may if it has the file's stem, or its folder in quotes; SKILL.md has the full name of the module.
    """
    stem = file.name.rpartition(".")[0] or file.name
    words = {stem, *(f'"{folder}"' for folder in file.path.split("/")[:-1])}
    module = file.path.removesuffix(".py").replace("/", ".")
    if file.suffix == ".py" and "." in module and re.search(rf"\b{re.escape(module)}\b", skill.body):
        return True
    return any(
        any(word in (skill.files[path].text or "") for word in words)
        for path in skill.files
        if path != file.path and skill.files[path].is_script and (path in reached or file.is_script)
    )


RULES = (
    Rule(
        "missing-file",
        Severity.WARNING,
        "Missing file",
        "The model tries to read or run the file, fails, and goes on without it or writes one of its own.",
        "Correct the path (it is relative to the skill's folder), add the file, or remove the mention.",
        _missing,
    ),
    Rule(
        "path-case",
        Severity.WARNING,
        "Path in another case",
        "A host that reads the folder itself finds the file only where the file system ignores case.",
        "Write the path as the file is spelled, or rename the file.",
        _respelled,
    ),
    Rule(
        "unnamed-file",
        Severity.NOTE,
        "File that nothing names",
        "A model opens only files that it knows of; other files are dead weight, and a place to hide things.",
        "Name the file in SKILL.md and say when to read or run it, or remove it.",
        _unnamed,
    ),
    Rule(
        "deep-reference",
        Severity.WARNING,
        "Reference of a reference",
        "Models often read nested references in part or not at all.",
        "Name the file in SKILL.md itself: keep references one level deep.",
        _deep,
    ),
)
