"""Parse a skill's file: a SKILL.md, a document or a convention file, as its path decides.

Rules: adk-skill's. A file named `*.skill.md`, or a Markdown file below `.skills` or `.claude/skills`, is a document:
it needs frontmatter with name and description. A convention file (`AGENTS.md` and others) needs none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity
from skills_core.disk.folders import CLAUDE_SKILLS, DOCUMENTS_FOLDER, MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.disk.sources import SkillKind, Strictness
from skills_core.format.document import Document, has_frontmatter, parse_document
from skills_core.format.frontmatter import DESCRIPTION_LIMIT, Frontmatter, parse_frontmatter
from skills_core.format.placeholders import parameters_of
from skills_core.texts import find_hidden
from skills_core.values import value_type

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue


CONVENTIONS = {
    "AGENTS.MD": "agents",
    "AGENT.MD": "agents",
    "CLAUDE.MD": "claude",
    "GEMINI.MD": "gemini",
    "COPILOT.MD": "copilot",
    "SKILLS.MD": "skills",
    "SOUL.MD": "soul",
}
"""The names of convention files, compared in upper case, and of the skills that they make."""

_FIRST_LINE = 120
# Characters of the first line that are the description if it is not a heading.


_SKILL_SUFFIX = ".skill.md"


def kind_of_file(folders: Sequence[str], name: str) -> SkillKind | None:
    """Return the kind of skill that a file is by the names of its folders and its own; None for any other file."""
    if name in {MAIN_FILE, MAIN_FILE_LOWERCASE}:
        return SkillKind.FOLDER
    is_markdown = name.lower().endswith(".md")
    if is_named_as_skill(name) or (DOCUMENTS_FOLDER in folders and is_markdown):
        return SkillKind.DOCUMENT
    if name.upper() in CONVENTIONS:
        return SkillKind.CONVENTION
    return SkillKind.DOCUMENT if is_markdown and holds_documents(folders) else None


def may_be_document(path: Path) -> bool:
    """Tell whether the file at an absolute path may be a skill by itself, if its folder is a source."""
    return kind_of_file(path.parts[:-1], path.name) in {SkillKind.DOCUMENT, SkillKind.CONVENTION}


def holds_documents(folders: Sequence[str]) -> bool:
    """Tell whether Markdown files in a folder, given by the names of the folders that lead to it, are documents."""
    if DOCUMENTS_FOLDER in folders:
        return True
    above, below = CLAUDE_SKILLS.split("/")
    return any(pair == (above, below) for pair in itertools.pairwise(folders))


def is_named_as_skill(name: str) -> bool:
    """Tell whether a file is named `*.skill.md`; case does not matter."""
    return name.lower().endswith(_SKILL_SUFFIX)


def default_name(name: str) -> str:
    """Return the name of a skill whose file, called `name`, does not tell it."""
    return name[: -len(_SKILL_SUFFIX)] if is_named_as_skill(name) else name.rpartition(".")[0]


def strictness_for(strictness: Strictness, folders: Sequence[str], kind: SkillKind | None) -> Strictness:
    """Return the strictness for a file: documents, and all skills below `.skills`, need name and description."""
    if strictness is Strictness.LENIENT and (kind is SkillKind.DOCUMENT or DOCUMENTS_FOLDER in folders):
        return Strictness.REQUIRED
    return strictness


def convention_frontmatter(file_name: str, text: str) -> Frontmatter:
    """Return the frontmatter that a convention file's name and text imply."""
    name = CONVENTIONS[file_name.upper()]
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    # A line of dashes begins frontmatter that cannot be read, or is a rule; neither describes anything.
    first = "" if first and set(first) == {"-"} else first
    heading = first.lstrip("#").strip() if first.startswith("#") else ""
    description = heading[:DESCRIPTION_LIMIT] or first[:_FIRST_LINE] or f"Instructions of {file_name}"
    return Frontmatter(name=name, description=description, tags=("convention", f"{name}-md"))


_FREE_IN_JDAI = frozenset({Reason.INVALID_NAME, Reason.NAME_MISMATCH})
# In JD.AI, the name in the frontmatter identifies a skill, whatever its spelling and its folder.


@value_type(frozen=True, slots=True)
class InstructionsHead:
    """All of a parsed SKILL.md but its body: typed frontmatter, diagnostics, and where the body is in the file.

    `fault` is the reason if it is invalid. `verbatim` tells that other parsers read the same frontmatter. The body is
    verbatim the `body_length` characters of the decoded file from `body_offset` on. `parameters` are the names of its
    `{{parameters}}`.
    """

    name: str
    frontmatter: Frontmatter
    diagnostics: tuple[Diagnostic, ...] = ()
    fault: Reason | None = None
    verbatim: bool = True
    body_offset: int = 0
    body_length: int = 0
    parameters: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """What the skill does and when to use it."""
        return self.frontmatter.description


@value_type(frozen=True, slots=True)
class Instructions(InstructionsHead):
    """A parsed SKILL.md with its `body`, the Markdown for the model."""

    body: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "body_length", len(self.body))
        object.__setattr__(self, "parameters", parameters_of(self.body))

    @property
    def head(self) -> InstructionsHead:
        """All but the body."""
        return InstructionsHead(
            self.name,
            self.frontmatter,
            self.diagnostics,
            self.fault,
            self.verbatim,
            self.body_offset,
            self.body_length,
            self.parameters,
        )


def parse_instructions(
    raw: bytes, name: str, path: str, strictness: Strictness, *, in_folder: bool = True
) -> Instructions:
    """Parse the bytes of a SKILL.md or a document; diagnostics name the file as `path`.

    With lenient strictness only errors make the skill invalid. With strict, any breach of a rule does, and is an error;
    hidden characters break no rule. See `Strictness` for what lies between. `name` is that of the skill's folder, or
    the default name of a file that is not `in_folder`.
    """
    document = parse_document(raw, path)
    if document.fault is not None:
        return invalid_instructions(name, document.diagnostics, document.fault)
    front, found = parse_frontmatter(document, name if in_folder else None, path)
    breaches = document.diagnostics + found
    fault = next((diagnostic.code for diagnostic in breaches if _invalidates(diagnostic, strictness)), None)
    if fault is not None:
        breaches = tuple(
            replace(each, severity=Severity.ERROR) if _invalidates(each, strictness) else each for each in breaches
        )
    diagnostics = (*breaches, *_hidden(raw.decode("utf-8"), document, path))
    return Instructions(
        front.name or name,
        front,
        diagnostics,
        fault,
        document.verbatim,
        document.body_offset,
        body=document.body,
    )


def parse_convention(raw: bytes, file_name: str, path: str) -> Instructions:
    """Parse a convention file; without frontmatter that has name and description, it is plain Markdown."""
    document = parse_document(raw, path)
    if document.fault is Reason.NOT_UTF8:
        return invalid_instructions(file_name, document.diagnostics, document.fault)
    whole = raw.decode("utf-8")
    text = whole.removeprefix("\ufeff")
    hidden = tuple(_hidden(text, document, path))
    front, found = parse_frontmatter(document, None, path)
    if document.fault is None and front.name and front.description:
        diagnostics = (*document.diagnostics, *found, *hidden)
        return Instructions(
            front.name,
            front,
            diagnostics,
            verbatim=document.verbatim,
            body_offset=document.body_offset,
            body=document.body,
        )
    front = convention_frontmatter(file_name, document.body if document.fault is None else text)
    unused: tuple[Diagnostic, ...] = ()
    if has_frontmatter(raw):
        message = "the frontmatter lacks name or description, so the whole file is used as instructions"
        unused = (Diagnostic(Severity.WARNING, Reason.MISSING_FRONTMATTER, message, path, 1),)
    offset = len(whole) - len(text.lstrip())
    return Instructions(front.name, front, (*unused, *hidden), verbatim=False, body_offset=offset, body=text.strip())


def parse_single_file(raw: bytes, kind: SkillKind, name: str, path: str, strictness: Strictness) -> Instructions | None:
    """Parse a document or a convention file called `name`; diagnostics name it as `path`.

    Returns None if the file is not a skill: an empty convention file, and a document without frontmatter that is not
    named `*.skill.md`.
    """
    if kind is SkillKind.CONVENTION:
        return parse_convention(raw, name, path) if raw.strip() else None
    if not has_frontmatter(raw) and not is_named_as_skill(name):
        return None
    return parse_instructions(raw, default_name(name), path, strictness, in_folder=False)


def _invalidates(diagnostic: Diagnostic, strictness: Strictness) -> bool:
    """Tell whether a diagnostic makes the skill invalid."""
    if diagnostic.code is Reason.DECODED_PATTERN:
        return False  # an invalid skill would not guard at all, and skillserve matches the pattern as intended
    if diagnostic.severity is Severity.WARNING:
        match strictness:
            case Strictness.LENIENT:
                return False
            case Strictness.REQUIRED:
                return diagnostic.code is Reason.MISSING_NAME
            case Strictness.JDAI:
                return diagnostic.code not in _FREE_IN_JDAI
            case Strictness.STRICT:
                return True
    return diagnostic.severity is Severity.ERROR


def _hidden(text: str, document: Document, path: str) -> Iterator[Diagnostic]:
    """Yield diagnostics of hidden characters, both literal in the file and as escapes in its YAML."""
    for each in find_hidden(text.removeprefix("\ufeff")):
        message = f"{each}: invisible to people, but read by models"
        yield Diagnostic(Severity.WARNING, Reason.HIDDEN_CHARACTERS, message, path, each.line)
    if "\\" not in text:
        return
    for name, value in document.fields.items():
        for each in find_hidden(_text_of(value)):
            if each.first not in text:
                message = f"{name}: {each}, written as escapes"
                yield Diagnostic(Severity.WARNING, Reason.HIDDEN_CHARACTERS, message, path, document.lines.get(name))


def _text_of(value: JsonValue) -> str:
    """Return all strings in a value, joined."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            texts.append(each)
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            texts += each
            waiting += each.values()
    return " ".join(texts)


def invalid_instructions(name: str, diagnostics: tuple[Diagnostic, ...], fault: Reason) -> Instructions:
    """Return the instructions of an invalid skill, without content."""
    return Instructions(name, Frontmatter(), diagnostics, fault, verbatim=False)
