"""The command `review`: what a branch does to the skills of a repository, as a report for its pull request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from server.capabilities.evals.commands import AgentChoice as Agents
from server.capabilities.evals.commands import AgentModel, JudgeModel, ViaChoice, Way
from server.capabilities.evals.options import AgentHome
from server.capabilities.review.gates import FailOn
from server.cli.commands.options import AsJson, Model
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_notice, print_text
from server.cli.help_pages import OptionGroup

if TYPE_CHECKING:
    from server.capabilities.review.agents import AgentFlags
    from server.capabilities.review.report import SkillReview

_AGENT: Final = "The agent, for what needs one"
# A section of the help.


Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH]...", help="Folders of skills in one git repository.", show_default="the whole repository"
    ),
]
Base = Annotated[
    str | None,
    typer.Option(
        metavar="REV",
        help="The branch or commit to compare with, from the last commit in common.",
        show_default="origin/HEAD, else main or master",
    ),
]
Markdown = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the report as Markdown.", show_default="printed")
]
Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the new findings of the audit as SARIF 2.1.0.")]
FailOnChoice = Annotated[
    FailOn,
    typer.Option(
        "--fail-on",
        help="Exit with code 1 on new errors and skills that got worse, on new warnings too, or never.",
        rich_help_panel=OptionGroup.REPORTS,
    ),
]
NoSuppressions = Annotated[
    bool,
    typer.Option(
        "--no-suppressions",
        help="Ignore the comments by which skills accept findings. For changes of strangers.",
        rich_help_panel=OptionGroup.REPORTS,
    ),
]
Agent = Annotated[
    Agents | None,
    typer.Option("--agent", help="The agent; skillserve is our own executor with --model.", rich_help_panel=_AGENT),
]
AgentCommand = Annotated[
    str | None,
    typer.Option(
        metavar="TEMPLATE",
        help="A shell command that is the agent, as `eval` and `triggers` take it.",
        rich_help_panel=_AGENT,
    ),
]
Runs = Annotated[
    int, typer.Option(min=1, max=100, metavar="N", help="Runs of each case and query.", rich_help_panel=_AGENT)
]
Jobs = Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Runs at the same time.", rich_help_panel=_AGENT)]
Workspace = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Where the results of runs go.", show_default="a new folder", rich_help_panel=_AGENT
    ),
]


def review(  # noqa: PLR0913 - one parameter for each flag
    paths: Paths = None,
    *,
    base: Base = None,
    markdown: Markdown = None,
    sarif: Sarif = None,
    as_json: AsJson = False,
    fail_on: FailOnChoice = FailOn.ERROR,
    no_suppressions: NoSuppressions = False,
    agent: Agent = None,
    agent_command: AgentCommand = None,
    via: ViaChoice = Way.FOLDER,
    agent_model: AgentModel = None,
    agent_home: AgentHome = None,
    model: Model = None,
    judge_model: JudgeModel = None,
    runs: Runs = 3,
    jobs: Jobs = 4,
    workspace: Workspace = None,
) -> None:
    """Report what a branch does to skills, for its pull request.

    The report says which skills differ from the commit where the branch began, what the audit and validation find that
    was not there, and whether queries find the skills as before. None of this runs code of the skills. With an agent,
    it also compares what the skills do in its work. The exit code is 1 if the change makes something worse.
    """
    from server.capabilities.review.agents import AgentFlags

    choice = None
    if agent is not None or agent_command is not None or model is not None:
        choice = AgentFlags(
            workspace=workspace or _new_workspace(),
            agent=None if agent is None else agent.value,
            agent_command=agent_command,
            via=via.value,
            agent_model=agent_model,
            agent_home=agent_home,
            model=model,
            judge_model=judge_model,
            runs=runs,
            jobs=jobs,
            report=print_notice,
        )
    found = _made(paths or (), base, choice, suppressions=not no_suppressions)
    if not _write_reports(found, fail_on, markdown, sarif, as_json=as_json):
        raise typer.Exit(EXIT_NO)


def _made(paths: Sequence[Path], base: str | None, choice: AgentFlags | None, *, suppressions: bool) -> SkillReview:
    from server.capabilities.review.making import make_review
    from server.capabilities.review.revisions import ReviewError

    try:
        return make_review(paths, base, choice, suppressions=suppressions)
    except ReviewError as error:
        fail(str(error), EXIT_USAGE)


def _write_reports(
    found: SkillReview, fail_on: FailOn, markdown: Path | None, sarif: Path | None, *, as_json: bool
) -> bool:
    """Write and print what the user asked for; return whether the review passes."""
    from server.capabilities.review.gates import failures
    from server.capabilities.review.json_report import review_object, review_sarif
    from server.capabilities.review.markdown import review_markdown

    failed = failures(found, fail_on)
    text = review_markdown(found, failed)
    _write(markdown, text)
    if sarif is not None:
        _write(sarif, safe_json(review_sarif(found)))
    if as_json:
        print_text(safe_json(review_object(found, failed)))
    elif markdown is None:
        print_text(text.rstrip("\n"))
    return not failed


def safe_json(value: object) -> str:
    """Return a JSON document whose lines are no commands of a workflow, wherever they are printed."""
    from server.cli.console import json_text

    # A runner looks for commands of this form in the middle of lines too.
    return json_text(value).replace("##[", "#\\u0023[")


def _write(target: Path | None, text: str) -> None:
    from server.capabilities.evals.report.writing import write_text

    if target is not None:
        write_text(target, text)


def _new_workspace() -> Path:
    from tempfile import mkdtemp

    folder = Path(mkdtemp(prefix="skillserve-review-"))
    print_notice(f"the results of runs go to {folder}")
    return folder
