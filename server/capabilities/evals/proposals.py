"""`eval --propose`: ask a model for a change to a skill by what an iteration says, and write it as a diff.

A person reviews and applies the diff; the skill itself is never written. Runs wrote into the folders of an iteration,
so nothing is read through a link, and files and folders have a maximum size.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.evals.agents.metered import counted_model
from server.capabilities.evals.report.folder import WorkspaceFolder, walk
from server.capabilities.evals.report.workspace import iteration_names, read_iteration
from server.capabilities.evals.workspace import EvalError
from server.capabilities.runs.offered import command_unavailable_reason
from server.capabilities.runs.settings import RunSettings
from server.cli.console import EXIT_BOUND, EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.transport.signals import until_signalled
from skills_core.diagnostics import counted, one_line, printable
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import EVALS, MAIN_FILE, find_main, list_folder
from skills_core.disk.writing import write_file
from skills_core.errors import Fault, FileRefusedError
from skills_core.evals.grading.results import TRANSCRIPT_FILE
from skills_core.evals.proposals import (
    INSTRUCTIONS,
    CaseSignals,
    CurrentSkill,
    Proposal,
    RunSignals,
    question,
    read_proposal,
    shortened_transcript,
)
from skills_core.loading.loader import MAX_MAIN_SIZE
from skills_core.runs.spending import BoundReachedError
from skills_core.runs.structured_answers import MAX_REQUESTS, NoAnswerError, UnusableAnswersError, ask_until_usable

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.capabilities.evals.report.model import Case, Iteration, Run
    from server.config.settings.model import Settings
    from skills_core.runs.outcome import Usage


_MAX_TRANSCRIPT: Final = 16 * 1024 * 1024
_MAX_OUTPUTS: Final = 500
_MAX_SKILL_FILES: Final = 4096
_MAX_DEPTH: Final = 6


def find_iteration(workspace: Path) -> Path:
    """Return the folder of the latest iteration in a workspace.

    Raises:
        EvalError: there is none.
    """
    with Reader() as reader:
        names = iteration_names(WorkspaceFolder(workspace, reader))
    if not names:
        raise EvalError(
            f"{printable(str(workspace))}: no folder `iteration-N` is here. Run `skillserve eval` on the skill first, "
            "or name the workspace with --workspace."
        )
    return workspace / names[-1]


def read_current_skill(folder: Path) -> CurrentSkill:
    """Return the skill in a folder, with the paths of all its files but those of its evals.

    Raises:
        FileRefusedError: the folder has no SKILL.md, or it is a link or cannot be read.
    """
    with Reader() as reader:
        try:
            with reader.entries(Location(folder, "")) as entries:
                main = find_main(list_folder(entries, fingerprints=False)) or MAIN_FILE
        except OSError:
            main = MAIN_FILE
        raw, _ = reader.read(Location(folder, main), MAX_MAIN_SIZE)
        paths, closed = _tree(reader, folder)
    return CurrentSkill(folder.resolve().name, raw, frozenset(paths), main, frozenset(closed))


def _tree(reader: Reader, folder: Path) -> tuple[set[str], set[str]]:
    """Return the paths of the files in a skill, and those of links and of other entries that are not files."""
    paths: set[str] = set()
    closed: set[str] = set()
    waiting = [""]
    while waiting and len(paths) < _MAX_SKILL_FILES:
        prefix = waiting.pop()
        files, folders, refused = _names(reader, folder, prefix.removesuffix("/"))
        paths.update(f"{prefix}{name}" for name in files)
        closed.update(f"{prefix}{name}" for name in refused)
        inner = [f"{prefix}{name}/" for name in folders if prefix or name.casefold() != EVALS]
        waiting += inner if prefix.count("/") < _MAX_DEPTH else []
    return paths, closed


def read_cases(iteration: Path) -> tuple[CaseSignals, ...]:
    """Return the signals of each case in an iteration, as the report shows it.

    What is missing or damaged counts as absent. Feedback on outputs that were replaced says nothing of the skill as it
    is and is left out.
    """
    with Reader() as reader:
        folder = WorkspaceFolder(iteration, reader)
        found = read_iteration(folder, "", 1, None)
        return tuple(_case(reader, folder, iteration, found, case) for case in found.cases)


def _case(reader: Reader, folder: WorkspaceFolder, root: Path, iteration: Iteration, case: Case) -> CaseSignals:
    return CaseSignals(
        case.key,
        case.prompt,
        case.expected,
        case.feedback or "",
        tuple(_run(reader, folder, root, run) for run in case.of(iteration.subject)),
        {} if iteration.baseline is None else _passed(case.of(iteration.baseline)),
    )


def _run(reader: Reader, folder: WorkspaceFolder, root: Path, run: Run) -> RunSignals:
    last = run.path.rpartition("/")[2]
    names = (name for name, entry in walk(folder, f"{run.path}/outputs") if not entry.refused)
    return RunSignals(
        f"{run.arm}/{printable(last)}" if last.startswith("run-") else run.arm,
        () if run.failed else run.checks,
        tuple(map(printable, islice(names, _MAX_OUTPUTS))),
        _transcript(reader, Location(root, f"{run.path}/{TRANSCRIPT_FILE}")),
        (run.error or run.status.value) if run.failed else "",
    )


def _transcript(reader: Reader, place: Location) -> str:
    try:
        return shortened_transcript(_spoken(reader.read(place, _MAX_TRANSCRIPT)[0]))
    except FileRefusedError as error:
        return "" if error.fault is Fault.ABSENT else f"[the transcript cannot be read: {error.message}]"


def _passed(runs: Iterable[Run]) -> dict[str, tuple[int, int]]:
    """Return for each assertion how often it passed in how many runs."""
    counts: dict[str, tuple[int, int]] = {}
    for run in runs:
        for check in run.checks:
            passed, total = counts.get(check.text, (0, 0))
            counts[check.text] = (passed + check.passed, total + 1)
    return counts


def _spoken(raw: bytes) -> str:
    """Return a transcript as text: a line that holds only `text` is plain output of the agent."""
    return "\n".join(map(_plain, raw.decode("utf-8", "replace").split("\n")))


def _plain(line: str) -> str:
    if not line.startswith('{"text":'):
        return line
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line
    text = value.get("text") if len(value) == 1 else None
    return text if isinstance(text, str) else line


def _names(reader: Reader, root: Path, path: str) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the files, folders and other entries in a folder; none if it cannot be listed."""
    try:
        with reader.entries(Location(root, path)) as entries:
            listing = list_folder(entries, fingerprints=False)
    except OSError:
        return [], [], []
    return listing.file_names, list(listing.folders), [name for name, _ in listing.refused]


PROPOSAL: Final = "proposal.diff"
"""The file in the folder of an iteration."""

_CHARACTERS_PER_TOKEN: Final = 4
_MAX_SUMMARY_LINES: Final = 20


async def propose(skill: CurrentSkill, message: str, model: Model, seconds: float) -> tuple[Proposal, Usage]:
    """Return the model's proposal and the usage; all requests together may take `seconds`.

    Raises:
        NoAnswerError: a request fails, time is up, or no answer is a valid proposal.
    """
    read = partial(read_proposal, current=skill)
    try:
        return await ask_until_usable(model, INSTRUCTIONS, message, read, seconds=seconds)
    except UnusableAnswersError as error:
        words = f"None of {error.usage.requests} answers was a valid proposal. The last one: {error.fault}"
        raise NoAnswerError(words, error.usage) from None


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


def print_proposal(
    skill: Path, workspace: Path, settings: Settings, *, dry_run: bool = False, as_json: bool = False
) -> None:
    """Write the model's proposal for the skill beside the latest iteration in `workspace`, and print it.

    The exit code is 1 if the model makes no valid proposal, and 4 if a bound of the costs leaves no room for it.
    """
    runs = settings.section(RunSettings)
    iteration = find_iteration(workspace)
    current, cases = read_current_skill(skill), read_cases(iteration)
    message = question(current, cases)
    tokens = (len(message) + len(INSTRUCTIONS)) // _CHARACTERS_PER_TOKEN
    if not dry_run and (reason := command_unavailable_reason(runs)):
        fail(reason, EXIT_USAGE)
    print_notice(
        f"the proposal takes 1 to {MAX_REQUESTS} requests of about {counted(tokens, 'token')} each to "
        f"{runs.model or 'a model'}, with {counted(len(cases), 'case')} of {iteration}"
    )
    if dry_run:
        if as_json:
            print_json({"iteration": str(iteration), "requests": MAX_REQUESTS, "tokens_per_request": tokens})
        return
    try:
        proposal, usage = until_signalled(lambda: _proposed(current, message, settings, workspace))
    except BoundReachedError as error:
        fail(f"stopped at the bound: {error}", EXIT_BOUND)
    except NoAnswerError as error:
        fail(f"{error} {_used(error.usage)}", EXIT_NO)
    path = write_proposal(iteration, proposal)
    if as_json:
        used = {"requests": usage.requests, "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        shown = {"path": str(path), "summary": printable(proposal.summary), "diff": proposal.diff, "usage": used}
        print_json({"iteration": str(iteration), **shown})
        return
    _print(proposal, path, skill)
    print_notice(_used(usage))


async def _proposed(skill: CurrentSkill, message: str, settings: Settings, workspace: Path) -> tuple[Proposal, Usage]:
    async with counted_model(settings, workspace, "proposal") as model:
        return await propose(skill, message, model, settings.section(RunSettings).seconds)


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
