"""The text of a question to the user: the server's own words say who asks, then the question follows as a quotation.

Skills and models write the questions. So that a question cannot pass for words of the server, each of its lines begins
with a mark that no line of the server has, and invisible characters are escaped.
"""

from __future__ import annotations

from skills_core.diagnostics import one_line

__all__ = ["MARK", "MAX_CHOICE", "MAX_QUESTION", "answer_text", "consent_text"]

MAX_QUESTION = 4000
"""Characters of a question that are shown; the rest is counted."""

MAX_CHOICE = 100
_MAX_NAME = 100

MARK = "> "
"""The mark before each quoted line."""


def consent_text(skill: str, question: str, *, in_run: bool = True) -> str:
    """Return the text that asks for consent; `question` may have several lines.

    `in_run` is true for a tool call in a run of the skill, false for one that the client's own model makes.
    """
    what = (
        f"what a run of the skill {_name(skill)} wants" if in_run else f"a tool call that uses the skill {_name(skill)}"
    )
    return f"skillserve asks for your consent to {what}:\n{_quoted(question)}"


def answer_text(skill: str, question: str, *, in_run: bool = True) -> str:
    """Return the text that asks for an answer; `question` comes from a model and becomes one line.

    `in_run` is false for a question of the server's own tool, whose name is given for `skill`.
    """
    if not in_run:
        return f"skillserve asks you this for the tool call {_name(skill)}; give no passwords.\n{_quoted(question)}"
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
