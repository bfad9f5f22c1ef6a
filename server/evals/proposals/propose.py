"""Ask a model for a change to a skill, and write it as a diff that a person reviews and applies.

The skill itself is never written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from skills_core.diagnostics import one_line
from skills_core.disk.files import Location
from skills_core.disk.writing import write_file
from skills_core.errors import SkillsError
from skills_core.evals.proposals.proposal import INSTRUCTIONS, Proposal, question, read_proposal
from skills_core.evals.proposals.proposed_change import RefusedProposalError
from skills_core.run.models import describe_model_error
from skills_core.run.outcome import NO_USAGE, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic_ai.models import Model

    from skills_core.evals.proposals.proposed_change import CurrentSkill
    from skills_core.evals.proposals.signals import CaseSignals

__all__ = ["MAX_REQUESTS", "PROPOSAL", "ProposalFailedError", "ProposalRequest", "propose", "write_proposal"]

PROPOSAL: Final = "proposal.diff"
"""The file in the folder of an iteration."""

MAX_REQUESTS: Final = 3
"""Requests for one proposal: a model may answer in the wrong form, or break a rule."""

_CHARACTERS_PER_TOKEN: Final = 4
_MAX_SUMMARY_LINES: Final = 20


class ProposalFailedError(SkillsError):
    """No proposal was made; the message says why, `usage` what the attempt used."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """The skill and the signals of an iteration; `text` is the message that the model receives.

    Raises:
        RefusedProposalError: the SKILL.md is not UTF-8.
    """

    skill: CurrentSkill
    cases: tuple[CaseSignals, ...]
    text: str = field(init=False)

    def __post_init__(self) -> None:
        """Write the message once: its size is shown before it is sent."""
        object.__setattr__(self, "text", question(self.skill, self.cases))

    @property
    def tokens(self) -> int:
        """About how many tokens one request has, by four characters a token."""
        return (len(self.text) + len(INSTRUCTIONS)) // _CHARACTERS_PER_TOKEN


async def propose(request: ProposalRequest, model: Model, seconds: float) -> tuple[Proposal, Usage]:
    """Return the model's proposal and the usage; all requests together may take `seconds`.

    Raises:
        ProposalFailedError: a request fails, time is up, or no answer is a valid proposal.
    """
    used, prompt, fault = NO_USAGE, request.text, ""
    with anyio.move_on_after(seconds):
        for _ in range(MAX_REQUESTS):
            text, usage = await _ask(model, prompt, used)
            used += usage
            try:
                return read_proposal(text, request.skill), used
            except RefusedProposalError as error:
                fault = str(error)
            prompt = f"{request.text}\n\nAn answer of yours to this was refused: {fault} Answer again."
        raise ProposalFailedError(f"None of {MAX_REQUESTS} answers was a valid proposal. The last one: {fault}", used)
    raise ProposalFailedError(f"The model made no proposal within {seconds:g} seconds.", used)


async def _ask(model: Model, prompt: str, used: Usage) -> tuple[str, Usage]:
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    from skills_core.run.model_conversation import INSTRUMENTATION

    try:
        request = ModelRequest([UserPromptPart(prompt)], instructions=INSTRUCTIONS)
        response = await model_request(model, [request], instrument=INSTRUMENTATION)
    except Exception as error:
        raise ProposalFailedError(describe_model_error(error), used + Usage(1)) from error
    return response.text or "", Usage(1, response.usage.input_tokens, response.usage.output_tokens)


def write_proposal(iteration: Path, proposal: Proposal) -> Path:
    """Write the proposal into the folder of an iteration, and return the file.

    The reasons come first, as lines that `git apply` and `patch` skip.

    Raises:
        FileRefusedError: the file cannot be written, or is a link.
    """
    text = "".join([*_heading(proposal), proposal.diff])
    write_file(Location(iteration, PROPOSAL), text.encode("utf-8"))
    return iteration / PROPOSAL


def _heading(proposal: Proposal) -> Iterator[str]:
    # The mark keeps a line that begins like the header of a diff from being one.
    if not proposal.diff:
        yield "# No change is proposed.\n"
    for line in proposal.summary.split("\n")[:_MAX_SUMMARY_LINES]:
        yield f"# {one_line(line)}".rstrip() + "\n"
