"""What the user is shown of a question: who asks in the server's words, and what is asked in quotation marks.

A question holds words of skills and of models. They stand on one line of their own, between quotation marks that they
cannot close, with every character that nobody sees spelled out, so that they cannot pass for words of the server.
"""

from __future__ import annotations

import json

from skills_core.diagnostics import one_line

__all__ = ["MAX_CHOICE", "MAX_QUESTION", "answer_text", "consent_text", "quoted"]

MAX_QUESTION = 1000
"""Characters of a question that are shown; what is beyond is counted."""

MAX_CHOICE = 100
_MAX_NAME = 100


def consent_text(skill: str, question: str) -> str:
    """Return what the user is shown where consent is asked for."""
    return f"skillserve asks for your consent. The skill {quoted(skill, _MAX_NAME)} wants this:\n{quoted(question)}"


def answer_text(skill: str, question: str) -> str:
    """Return what the user is shown where an answer is asked for."""
    return (
        f"The skill {quoted(skill, _MAX_NAME)} asks you the following. Your answer goes to the model that performs it; "
        f"give no passwords.\n{quoted(question)}"
    )


def quoted(text: str, most: int = MAX_QUESTION) -> str:
    """Return `text` on one line, in quotation marks that it cannot close, cut after `most` characters."""
    more = f" … and {len(text) - most} more characters" if len(text) > most else ""
    return one_line(json.dumps(text[:most], ensure_ascii=False)) + more
