"""What a run left behind, as a judge sees it: the files in `outputs/` and the transcript.

Quotes are looked up here, so that no PASS rests on evidence that a judge made up.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.format.hidden import without_hidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Material", "OutputFile", "transcript_text"]

_MAX_FILE: Final = 40_000
_MAX_FILES_SHOWN: Final = 200
_MAX_ALL: Final = 200_000
_MAX_TRANSCRIPT: Final = 60_000
# Characters that a judge is shown of one file, of all files, and of the transcript.

_MIN_QUOTE: Final = 4
# A shorter quote occurs in any text, so it must be a whole line.

_LONG_LINE: Final = 60
# A line of this length is no part of another one by chance.

_SAME: Final = str.maketrans(
    {**dict.fromkeys("\u2018\u2019\u201a\u201b", "'"), **dict.fromkeys("\u201c\u201d\u201e\u201f", '"')}
)
_SAME.update(dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-"))

_DECORATION: Final = "\"'`\u201c\u201d\u2018\u2019 \n\t"


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file in `outputs/`, by its relative path; `text` is None for a binary file or one that is too long to read."""

    path: str
    size: int
    text: str | None

    @property
    def line(self) -> str:
        """The file in a list of files."""
        return f"{self.path} ({self.size} bytes{'' if self.text is not None else ', not shown: binary or too long'})"


@dataclass(frozen=True, slots=True)
class Material:
    """The outputs and the transcript of a run; `given` are texts that the run was given, which prove nothing."""

    files: tuple[OutputFile, ...]
    transcript: str
    given: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the run left neither files nor a transcript."""
        return not self.files and not self.transcript.strip()

    def shown(self) -> str:
        """Return the material for a judge, with long texts cut in the middle."""
        listed = [file.line for file in self.files[:_MAX_FILES_SHOWN]]
        if len(self.files) > len(listed):
            listed.append(f"and {len(self.files) - len(listed)} more files")
        parts = ["Files in outputs:", *(listed or ["(none)"])]
        left = _MAX_ALL
        for file in self.files[:_MAX_FILES_SHOWN]:
            if file.text:
                text = _cut(file.text, min(_MAX_FILE, left))
                left -= len(text)
                parts += [f"\n=== outputs/{file.path} ===", text]
        parts += ["\n=== transcript ===", _cut(self.transcript, _MAX_TRANSCRIPT) or "(empty)"]
        return "\n".join(parts)

    def find(self, quote: str) -> str | None:
        """Return where a quote occurs: a file's path, `outputs` for the list of files, or `transcript`; else None.

        Blanks, the marks around a quote and the form of its characters do not matter. In the transcript, what only
        repeats a given text does not count: agents repeat their prompts.
        """
        wanted = _plain(quote.strip(_DECORATION))
        if not wanted:
            return None
        for file in self.files:
            if file.text is not None and _occurs(wanted, file.text):
                return f"outputs/{file.path}"
        if any(_occurs(wanted, file.line) for file in self.files):
            return "outputs"
        return "transcript" if _occurs(wanted, self._own_words()) else None

    def _own_words(self) -> str:
        """Return the transcript without the texts that the run was given."""
        words = _plain_lines(self.transcript)
        for given in sorted(filter(None, map(_plain_lines, self.given)), key=len, reverse=True):
            # There may be hundreds of lines of instructions; searching for each of them by a pattern is slow.
            if "\n" not in given and len(given) >= _LONG_LINE:
                words = words.replace(given, "\n")
                continue
            # An echo may break lines elsewhere.
            pattern = r"\s+".join(map(re.escape, given.split()))
            words = re.sub(rf"(?<!\w){pattern}(?!\w)", "\n", words)
        return words


def transcript_text(lines: Iterable[str]) -> str:
    """Return the text of a `transcript.jsonl`: the strings in its values, one a line, so that quotes can be found."""
    return "\n".join(text for line in lines for text in _strings_of(line) if text.strip())


def _strings_of(line: str) -> Iterator[str]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        yield line.rstrip("\n")
        return
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting.extend(reversed(each.values()))
        elif isinstance(each, list):
            waiting.extend(reversed(each))


def _occurs(wanted: str, text: str) -> bool:
    if len(wanted) < _MIN_QUOTE:
        return any(_plain(line) == wanted for line in text.splitlines())
    return wanted in _plain(text)


def _plain_lines(text: str) -> str:
    return "\n".join(map(_plain, text.splitlines()))


def _plain(text: str) -> str:
    """Return a text as quotes are compared: models change blanks, quotation marks, dashes and compositions."""
    same = text if text.isascii() else unicodedata.normalize("NFKC", without_hidden(text)).translate(_SAME)
    return re.sub(r"\s+", " ", same).strip()


def _cut(text: str, limit: int) -> str:
    """Return the beginning and the end of a text that is too long."""
    if len(text) <= limit:
        return text
    half = max(limit // 2, 0)
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters are left out …]\n{text[len(text) - half :]}"
