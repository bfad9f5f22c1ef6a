"""The command `eval`: run a skill's test cases with and without it, and say what it is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.commands.agent_options import Agent, AgentChoice, AgentHome, AgentModel, ViaChoice, Way
from server.cli.commands.options import AsJson, Model, RunTool, SkillTool
from server.cli.commands.report_options import Ci, Junit, Markdown, MaxRegression, MinPassRate

__all__ = ["evaluate"]


SkillDirectory = Annotated[
    Path, typer.Argument(metavar="SKILL_DIR", help="The folder of the skill, with its cases in evals/evals.json.")
]
Runs = Annotated[int, typer.Option(min=1, max=100, help="Runs of each case in each arm.")]
Results = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where results go.", show_default="SKILL_DIR-workspace beside the skill"),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="REV|DIR|SNAPSHOT",
        help="Compare with an earlier version of the skill: a git revision, a folder, or iteration-N, the version that "
        "this iteration began with.",
        show_default="no skill",
    ),
]
AgentCommand = Annotated[
    str | None,
    typer.Option(
        metavar="TEMPLATE",
        help="The command of the agent under test, run by sh in an empty workspace for each run. {prompt}, {skill} "
        "(the skill's folder, empty without it), {outputs} (where files go) and {files} (input files) stand for "
        "quoted values.",
        show_default="our own executor, with the model of --model",
    ),
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The model that grades assertions without a check.",
        show_default="that of --model, else the agent of --agent",
    ),
]
JudgeAgent = Annotated[
    AgentChoice | None,
    typer.Option("--judge-agent", help="An agent that grades instead of a model, started once for each question."),
]
JudgeCommand = Annotated[
    str | None,
    typer.Option(
        "--judge-command",
        metavar="TEMPLATE",
        help="The command of an agent that grades: {prompt} stands for the question, and what it prints is the answer, "
        "read as that of --judge-agent or of any known agent.",
    ),
]
Grade = Annotated[
    bool,
    typer.Option(
        "--grade",
        help="Run no agent; grade the outputs of the latest iteration by the assertions that evals.json has now. The "
        "agent of --agent is the judge then.",
    ),
]
NoGrade = Annotated[bool, typer.Option("--no-grade", help="Run the agents, and leave the outputs ungraded.")]
Jobs = Annotated[int, typer.Option(min=1, max=64, help="Runs at the same time.")]
Timeout = Annotated[
    float | None,
    typer.Option(min=1, max=86_400, metavar="SECONDS", help="Seconds for each run.", show_default="runs.seconds, 900"),
]
Compare = Annotated[
    bool, typer.Option("--compare", help="Also let the judge compare the outputs of both arms blindly.")
]
Propose = Annotated[
    bool,
    typer.Option(
        "--propose",
        help="Run nothing; let the model of --model propose a change to the skill, as a diff, from the latest "
        "iteration.",
    ),
]
New = Annotated[bool, typer.Option("--new", help="Begin a new iteration, even if the last one can be continued.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be run and what it would cost, and run nothing.")
]


def evaluate(  # noqa: PLR0913 - one parameter for each flag
    skill_dir: SkillDirectory,
    *,
    runs: Runs = 1,
    workspace: Results = None,
    baseline: Baseline = None,
    agent: Agent = None,
    agent_command: AgentCommand = None,
    via: ViaChoice = Way.FOLDER,
    agent_model: AgentModel = None,
    agent_home: AgentHome = None,
    model: Model = None,
    judge_model: JudgeModel = None,
    judge_agent: JudgeAgent = None,
    judge_command: JudgeCommand = None,
    run_tools: RunTool = None,
    skill_tools: SkillTool = None,
    jobs: Jobs = 4,
    timeout: Timeout = None,
    compare: Compare = False,
    grade: Grade = False,
    no_grade: NoGrade = False,
    new: New = False,
    propose: Propose = False,
    dry_run: DryRun = False,
    min_pass_rate: MinPassRate = None,
    max_regression: MaxRegression = None,
    junit: Junit = None,
    markdown: Markdown = None,
    ci: Ci = False,
    as_json: AsJson = False,
) -> None:
    """Run a skill's test cases with and without it, and compare.

    Checks and a judge grade the outputs. A second call with the same arguments continues an unfinished iteration, and
    grades its outputs again if assertions have changed. The exit code is 1 if a run ended with an error or could not be
    graded, or if a gate does not pass.
    """
    flags = locals()

    from server.cli.evals.options import EvalFlags
    from server.cli.evals.run_eval import run_eval

    run_eval(EvalFlags(**flags))
