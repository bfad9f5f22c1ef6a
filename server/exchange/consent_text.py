"""What the user is shown of a question: who asks in the server's words, and what is asked, marked as quoted.

A question holds words of skills and of models. Each line of it begins with a mark, which no line of the server's own
does, and every character that nobody sees is spelled out, so that they cannot pass for words of the server.
"""

from __future__ import annotations

from skills_core.diagnostics import one_line

__all__ = ["MARK", "MAX_CHOICE", "MAX_QUESTION", "answer_text", "consent_text"]

MAX_QUESTION = 4000
"""Characters of a question that are shown; those beyond are counted."""

MAX_CHOICE = 100
_MAX_NAME = 100

MARK = "> "
"""What stands before each line of a question that is quoted."""


def consent_text(skill: str, question: str, *, in_run: bool = True) -> str:
    """Return what the user is shown where consent is asked for; `question` may have lines.

    `in_run` tells that it is for a call in a run of the skill, and not for one that the client's own model makes.
    """
    what = (
        f"what a run of the skill {_name(skill)} wants" if in_run else f"a tool call that uses the skill {_name(skill)}"
    )
    return f"skillserve asks for your consent to {what}:\n{_quoted(question)}"


def answer_text(skill: str, question: str) -> str:
    """Return what the user is shown where an answer is asked for; `question` is a model's, and becomes one line."""
    return (
        f"A run of the skill {_name(skill)} asks you this. Your answer goes to the model that performs it; give no "
        f"passwords.\n{_quoted(one_line(question))}"
    )


def _name(skill: str) -> str:
    return one_line(repr(skill[:_MAX_NAME]))


def _quoted(question: str) -> str:
    lines = [MARK + one_line(line) for line in question[:MAX_QUESTION].split("\n") if line.strip()]
    if more := len(question[MAX_QUESTION:]):
        lines.append(f"{more} more characters are not shown.")
    return "\n".join(lines)
