"""Make and print a proposal for a skill, for `skillserve eval --propose`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.config.bootstrap import settings_of
from server.config.machine import Machine, current_places
from server.evals.proposals.propose import (
    MAX_REQUESTS,
    ProposalFailedError,
    ProposalRequest,
    find_iteration,
    propose,
    read_cases,
    read_current_skill,
    write_proposal,
)
from server.listing.runs import runs_unavailable_reason
from server.transport.signals import until_signalled
from skills_core.diagnostics import counted, one_line, printable
from skills_core.run.models import CLIENT, connected, open_model, parse_model

if TYPE_CHECKING:
    from pathlib import Path

    from server.config.settings import RunSettings
    from skills_core.evals.proposals.proposal import Proposal
    from skills_core.run.outcome import Usage

__all__ = ["print_proposal"]


def print_proposal(
    skill: Path, workspace: Path, *, model: str | None = None, dry_run: bool = False, as_json: bool = False
) -> None:
    """Write the model's proposal for the skill beside the latest iteration in `workspace`, and print it.

    The exit code is 1 if the model makes no valid proposal.
    """
    runs = settings_of(Machine(current_places()), {"model": model}).runs
    iteration = find_iteration(workspace)
    request = ProposalRequest(read_current_skill(skill), read_cases(iteration))
    if not dry_run and ((reason := runs_unavailable_reason(runs)) or runs.model == CLIENT):
        fail(reason or "the model `client` needs a connected client; name another model with --model", EXIT_USAGE)
    print_notice(
        f"the proposal takes 1 to {MAX_REQUESTS} requests of about {counted(request.tokens, 'token')} each to "
        f"{runs.model or 'a model'}, with {counted(len(request.cases), 'case')} of {iteration}"
    )
    if dry_run:
        if as_json:
            print_json({"iteration": str(iteration), "requests": MAX_REQUESTS, "tokens_per_request": request.tokens})
        return
    try:
        proposal, usage = until_signalled(lambda: _proposed(request, runs))
    except ProposalFailedError as error:
        fail(f"{error} {_used(error.usage)}", EXIT_NO)
    path = write_proposal(iteration, proposal)
    if as_json:
        used = {"requests": usage.requests, "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        shown = {"path": str(path), "summary": printable(proposal.summary), "diff": proposal.diff, "usage": used}
        print_json({"iteration": str(iteration), **shown})
        return
    _print(proposal, path, skill)
    print_notice(_used(usage))


async def _proposed(request: ProposalRequest, runs: RunSettings) -> tuple[Proposal, Usage]:
    key = runs.model_key.get_secret_value() if runs.model_key else None
    model = open_model(parse_model(runs.model or ""), key)
    async with connected(model):
        return await propose(request, model, runs.seconds)


def _print(proposal: Proposal, path: Path, skill: Path) -> None:
    for line in proposal.summary.split("\n"):
        print_notice(line)
    if not proposal.diff:
        print_notice("no change is proposed")
        return
    for line in proposal.diff.removesuffix("\n").split("\n"):
        print_text(_shown(line))
    print_notice(
        f"review {path}, then apply it: patch -p1 -d {shlex.quote(str(skill))} -i {shlex.quote(str(path.resolve()))}"
    )


def _shown(line: str) -> str:
    """Return a line of the diff for a terminal; the file has it unchanged."""
    return "\t".join(map(one_line, line.removesuffix("\r").split("\t")))


def _used(usage: Usage) -> str:
    requests, output = counted(usage.requests, "request"), counted(usage.output_tokens, "output token")
    return f"Used: {requests}, {counted(usage.input_tokens, 'input token')} and {output}."
