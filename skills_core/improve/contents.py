"""Check what the new lines of a text say: nothing that leads out of the skill, is hidden, or is carried out by clients.

A reviewer reads the diff of a change later or never, so the text may gain no way out: no address, no path outside, no
variable, no command or file that a client inserts when it loads the skill.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skills_core.audit.suppressions import MARK
from skills_core.diagnostics import one_line
from skills_core.format.hidden import find_hidden
from skills_core.improve.languages import foreign_script
from skills_core.improve.reasons import ImprovementReason as Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["faults_of_contents", "repeats_record"]

_FILES: Final = (
    "c|cfg|conf|cpp|css|csv|docx?|go|gz|h|html?|ini|java|jpe?g|js|json|lock|log|md|pdf|png|pptx?|py|rb|rs|sh"
)
_MORE_FILES: Final = "sql|svg|toml|ts|tsx|txt|xlsx?|xml|ya?ml|zip"

_ADDRESS: Final = re.compile(
    rf"""[a-z][a-z0-9+.-]*://[^\s<>()"'`]+ | \bwww\.[^\s<>()"'`]+ | (?<![\w.])[\w.+-]+@[\w-]+(?:\.[\w-]+)+
      | \b(?:\d{{1,3}}\.){{3}}\d{{1,3}}\b
      | (?<![\w./-])(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|app|ru|cn|xyz|site|top|me|co)\b
      | (?<![\w./-])(?:[a-z0-9-]+\.)+[a-z]{{2,24}}/[^\s<>()"'`]*
      | (?<![\w./-])(?:[a-z0-9-]+\.)+(?!(?:{_FILES}|{_MORE_FILES}):)[a-z]{{2,24}}:\d{{2,5}}\b""",
    re.IGNORECASE | re.VERBOSE,
)
_OUTSIDE: Final = re.compile(
    r"(?<![\w.:/~-])~[\w]*/[\w.-]*|(?<![\w.:/<-])/(?:[\w.-]+/)*[\w.-]+|\.\.[/\\]|\b[A-Za-z]:\\|\\\\[\w.-]+"
)
# A path from the root, from the home folder or out of the skill. An end tag as `</b>` is none.

_VARIABLE: Final = re.compile(
    r"\$\{?[A-Za-z_]\w*\}?|%\w+%|\{\{[^{}]*\}\}|\bprintenv\b|`env`|\bos\.environ\b|\bgetenv\b|\bprocess\.env\b"
)
_INSERTED: Final = re.compile(r"(?<!\w)!`[^`]*`?|^[ \t]*(?:```|~~~)!.*|(?<![\w.@`])@[\w./~-]+", re.MULTILINE)
# Clients carry out the commands and insert the files, or the skills, that are marked like this.

_COMMENT: Final = re.compile(
    r"<!--|^[ \t]*\[[^\]\n]*\]:[ \t]*(?:#|<>)|<[^>\n]*\shidden\b"
    r"|display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0",
    re.MULTILINE | re.IGNORECASE,
)
_PADDING: Final = re.compile(r"\S[ \t\xa0]{60,}\S|\n(?:[ \t]*\n){9,}")

_SEARCHES: Final = (
    (_ADDRESS, Reason.ADDRESS_ADDED, "the address"),
    (_OUTSIDE, Reason.PATH_ADDED, "the path"),
    (_VARIABLE, Reason.VARIABLE_ADDED, "the variable"),
    (_INSERTED, Reason.COMMAND_ADDED, "the command or file that clients insert,"),
)
_PUNCTUATION: Final = ".,;:!?"
_MAX_COPIED: Final = 60
"""Characters in a row that a new line may share with the record of a run: the name of a tool, a short message."""


def faults_of_contents(before: str, added: str, after: str, whole: str) -> Iterator[tuple[Reason, str]]:
    """Yield each reason against a text with the new lines `added`; `whole` are all texts of the skill as they were."""
    if MARK in added:
        yield Reason.SUPPRESSION_ADDED, "it would switch off a rule of the audit"
    if hidden := find_hidden(added.removeprefix("\ufeff")):
        yield Reason.HIDDEN_TEXT, f"it contains {hidden[0]}"
    if _COMMENT.search(added):
        yield Reason.HIDDEN_TEXT, "the new text contains a comment or a style that readers do not see"
    if len(_PADDING.findall(after)) > len(_PADDING.findall(before)):
        yield Reason.HIDDEN_TEXT, "blank space pushes text out of sight"
    for pattern, reason, what in _SEARCHES:
        known = {found.rstrip(_PUNCTUATION) for found in pattern.findall(whole)}
        for match in pattern.finditer(added):
            if match[0].rstrip(_PUNCTUATION) not in known:
                yield reason, f"the skill did not name {what} {one_line(match[0])[:100]} before"
    if script := foreign_script(before, added, after):
        why = f"the text must keep its language; this changes its use of {script.title()} letters"
        yield Reason.LANGUAGE_CHANGED, why


def repeats_record(added: str, whole: str, record: Iterable[str]) -> bool:
    """Tell whether new lines repeat a long piece of the texts of a record.

    The texts may hold what no reader of the skill should see. What the skill said before is not counted.
    """
    new, known = _plain(added), _plain(whole)
    pieces = {new[place : place + _MAX_COPIED] for place in range(len(new) - _MAX_COPIED + 1)}
    for text in record:
        plain = _plain(text)
        for place in range(len(plain) - _MAX_COPIED + 1):
            piece = plain[place : place + _MAX_COPIED]
            if piece in pieces and piece not in known:
                return True
    return False


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
