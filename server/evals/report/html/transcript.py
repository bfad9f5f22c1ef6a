"""A transcript, folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.evals.report.html.markup import Html, foreign, tag
from server.evals.report.html.parts import scrolled
from skills_core.diagnostics import counted

if TYPE_CHECKING:
    from server.evals.report.model import Transcript

__all__ = ["transcript_block"]


def transcript_block(title: str, label: str, transcript: Transcript, path: str) -> Html:
    """Return a transcript under a title; `label` names its area, and `path` is its file."""
    left_out = None
    if transcript.left_out:
        verb = "is" if transcript.left_out == 1 else "are"
        words = f"{counted(transcript.left_out, 'line')} {verb} left out here; read "
        left_out = tag("li", words, foreign("code", path), ".", class_="left-out")
    entries = tag("ol", *map(_entry, transcript.head), left_out, *map(_entry, transcript.tail))
    note = tag("p", transcript.note, class_="note") if transcript.note else None
    return tag(
        "details", tag("summary", foreign("span", title)), scrolled(label, entries, class_="scrolled transcript"), note
    )


def _entry(entry: tuple[str, str]) -> Html:
    return tag("li", foreign("span", entry[0], class_="label"), foreign("pre", entry[1]))
