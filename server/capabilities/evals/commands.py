"""The commands of evals: `eval`, `eval import`, `triggers`, `report` and `lint`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from server.capabilities.evals.options import (
    AgentHome,
    MaxCost,
    MaxFalse,
    MaxRegression,
    MaxRequests,
    MaxSeconds,
    MinPassRate,
    MinRecall,
    NoIsolation,
    PriceIn,
    PriceOut,
    Readable,
)
from server.cli.commands.options import AsJson, Directories, FollowSymlinks, Model, RunTool, SkillTool, TrustWorkspace
from server.cli.completion import client_names
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_text
from server.cli.help_pages import OptionGroup

if TYPE_CHECKING:
    from server.capabilities.evals.triggers import TriggerFlags

_AGENT: Final = "The agent under test"
_GRADING: Final = "Grading"
_DESCRIPTION: Final = "A better description"
# Sections of the help.


class AgentChoice(StrEnum):
    """The agents that can be tested."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    SKILLSERVE = "skillserve"


class Way(StrEnum):
    """How an agent gets the skill."""

    FOLDER = "folder"
    SERVER = "server"


Agent = Annotated[
    AgentChoice | None,
    typer.Option("--agent", help="The agent under test; skillserve is our own executor with --model."),
]
ViaChoice = Annotated[
    Way,
    typer.Option(
        "--via",
        help="Whether the agent has the skill in its own folder, or from this server over MCP.",
        rich_help_panel=_AGENT,
    ),
]
AgentModel = Annotated[
    str | None,
    typer.Option(
        "--agent-model", metavar="NAME", help="The model of the agent, as it names it.", rich_help_panel=_AGENT
    ),
]
Ci = Annotated[
    bool,
    typer.Option(
        "--ci",
        help="Print plain lines, without a progress bar, a table or colours, for the log of a job.",
        rich_help_panel=OptionGroup.REPORTS,
    ),
]

Junit = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the newest results as JUnit XML.", rich_help_panel=OptionGroup.REPORTS),
]

Markdown = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a summary as Markdown.", rich_help_panel=OptionGroup.REPORTS)
]


SkillDirectory = Annotated[
    Path, typer.Argument(metavar="SKILL_DIR", help="The folder of the skill, with its cases in evals/evals.json.")
]
EvalsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file of cases; it may lie outside the skill, and its input files are relative to its folder then.",
        show_default="evals/evals.json of the skill",
    ),
]
EvalRuns = Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Runs of each case in each arm.")]
Results = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where results go.", show_default="SKILL_DIR-workspace beside the skill"),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="REV|DIR|SNAPSHOT",
        help="Compare with a version of the skill: a git revision, a folder or iteration-N.",
        show_default="no skill",
    ),
]
AgentCommand = Annotated[
    str | None,
    typer.Option(
        metavar="TEMPLATE",
        help="A shell command that is the agent; it has {prompt}, {skill}, {outputs} and {files} in it.",
        show_default="our own executor with --model",
        rich_help_panel=_AGENT,
    ),
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The model that grades assertions without a check.",
        show_default="--model, else --agent",
        rich_help_panel=_GRADING,
    ),
]
JudgeAgent = Annotated[
    AgentChoice | None,
    typer.Option(
        "--judge-agent",
        help="An agent that grades instead of a model, started once for each question.",
        rich_help_panel=_GRADING,
    ),
]
JudgeCommand = Annotated[
    str | None,
    typer.Option(
        "--judge-command",
        metavar="TEMPLATE",
        help="A shell command that grades: it has the question as {prompt}, and prints the answer.",
        rich_help_panel=_GRADING,
    ),
]
Grade = Annotated[
    bool,
    typer.Option(
        "--grade",
        help="Run nothing; grade the latest outputs by the present assertions. --agent is the judge then.",
        rich_help_panel=_GRADING,
    ),
]
NoGrade = Annotated[
    bool, typer.Option("--no-grade", help="Run the agents, and leave the outputs ungraded.", rich_help_panel=_GRADING)
]
EvalJobs = Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Runs at the same time.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=1,
        max=86_400,
        metavar="SECONDS",
        help="Seconds for each run.",
        show_default="runs.seconds, 900",
        rich_help_panel=_AGENT,
    ),
]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare", help="Also let the judge compare the outputs of both arms blindly.", rich_help_panel=_GRADING
    ),
]
Propose = Annotated[
    bool,
    typer.Option(
        "--propose",
        help="Run nothing; let --model propose a change of the skill from the latest iteration.",
    ),
]
New = Annotated[bool, typer.Option("--new", help="Begin a new iteration, even if the last one can be continued.")]
EvalDryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be run and what it would cost, and run nothing.")
]


def evaluate(  # noqa: PLR0913 - one parameter for each flag
    skill_dir: SkillDirectory,
    *,
    evals: EvalsFile = None,
    runs: EvalRuns = 1,
    workspace: Results = None,
    baseline: Baseline = None,
    agent: Agent = None,
    agent_command: AgentCommand = None,
    via: ViaChoice = Way.FOLDER,
    agent_model: AgentModel = None,
    agent_home: AgentHome = None,
    readable: Readable = None,
    no_isolation: NoIsolation = False,
    model: Model = None,
    judge_model: JudgeModel = None,
    judge_agent: JudgeAgent = None,
    judge_command: JudgeCommand = None,
    run_tools: RunTool = None,
    skill_tools: SkillTool = None,
    jobs: EvalJobs = 4,
    timeout: Timeout = None,
    compare: Compare = False,
    grade: Grade = False,
    no_grade: NoGrade = False,
    new: New = False,
    propose: Propose = False,
    dry_run: EvalDryRun = False,
    max_cost: MaxCost = None,
    max_requests: MaxRequests = None,
    max_seconds: MaxSeconds = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
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
    graded, or if a gate does not pass, and 4 if a bound of the costs was reached.
    """
    flags = locals()
    from server.capabilities.evals.run_eval import EvalFlags, run_eval

    run_eval(EvalFlags(**flags))


def import_evals(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE_OR_FOLDER", help="The set of another tool: its file, or the folder with all its files."
        ),
    ],
    *,
    to: Annotated[
        Path,
        typer.Option(
            "--to",
            metavar="SKILL_DIR",
            help="The folder of the skill that gets the evals.",
            show_default="the current folder",
        ),
    ] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace evals that the skill has.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written, and write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a set of evals of another tool into a skill.

    Sets of promptfoo, waza, dotnet/skills, skilljack and tessl are read. Test cases go to evals/evals.json and trigger
    queries to evals/eval_queries.json. What cannot be carried over is listed; code of the other tool is never run. The
    exit code is 2 if nothing can be carried over.
    """
    from server.capabilities.evals.importing import import_into

    import_into(source, to, force=force, dry_run=dry_run, as_json=as_json)


SkillDir = Annotated[Path, typer.Argument(metavar="SKILL_DIR", help="The folder of the skill.")]
NoModel = Annotated[bool, typer.Option("--no-model", help="Rank the skill by the server's search, without a model.")]
QueryFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file of queries.",
        show_default="evals/eval_queries.json of the skill, or another usual name",
    ),
]
Catalogs = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="A folder of skills to rank the skill among; repeatable, highest precedence first.",
        show_default="the configured and standard folders",
        rich_help_panel=OptionGroup.SKILLS,
    ),
]
Clients = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY[@VERSION]",
        help="Tell whether this client, such as claude-code, or each (all) shows the skill; repeatable.",
        show_default="an unknown client",
        autocompletion=client_names,
        rich_help_panel=OptionGroup.SKILLS,
    ),
]
WriteQueries = Annotated[
    bool,
    typer.Option(
        "--write-queries",
        help="Draft twenty queries of each kind with the model into a new file of the skill, to be corrected.",
    ),
]


AgentCommandTemplate = Annotated[
    str | None,
    typer.Option(
        "--agent-command",
        metavar="TEMPLATE",
        help="A shell command that is the agent; it has {prompt} and {skill}, the folder, in it.",
        rich_help_panel=_AGENT,
    ),
]
Runs = Annotated[int, typer.Option("--runs", min=1, max=100, metavar="N", help="Number of runs of each query.")]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="A query triggers if a larger share of its runs loads the skill.",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, metavar="N", help="Number of runs at once.")]
RunSeconds = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=1.0,
        max=3600.0,
        metavar="SECONDS",
        help="Seconds after which a run is ended.",
        rich_help_panel=_AGENT,
    ),
]
MaxCalls = Annotated[
    int,
    typer.Option(
        "--max-calls",
        min=1,
        max=1000,
        metavar="N",
        help="Number of tool calls after which an agent counts as working without the skill.",
        rich_help_panel=_AGENT,
    ),
]
Optimize = Annotated[
    bool,
    typer.Option(
        "--optimize",
        help="Revise the description with --model, and choose by queries that the model never sees.",
        rich_help_panel=_DESCRIPTION,
    ),
]
Rounds = Annotated[
    int,
    typer.Option(
        "--rounds", min=1, max=5, metavar="N", help="Most revisions of the description.", rich_help_panel=_DESCRIPTION
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        help="Seed of the split into training, validation and test.",
        rich_help_panel=_DESCRIPTION,
    ),
]
Apply = Annotated[
    bool,
    typer.Option(
        "--apply",
        help="Write the adopted description into SKILL.md; without --optimize the last one found.",
        rich_help_panel=_DESCRIPTION,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="With --apply, write a description that is only proposed, without a verdict that it is better.",
        rich_help_panel=_DESCRIPTION,
    ),
]
Holdout = Annotated[
    Path | None,
    typer.Option(
        "--holdout",
        metavar="FILE",
        help="Fresh queries for a last check, after everything is decided.",
        rich_help_panel=_DESCRIPTION,
    ),
]
TriggerWorkspace = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        metavar="DIR",
        help="The folder for results.",
        show_default="SKILL-workspace beside the skill's folder",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how many runs there are at most, and run nothing.")]


def triggers(  # noqa: PLR0913 - one parameter for each flag
    skill_dir: SkillDir,
    *,
    no_model: NoModel = False,
    queries: QueryFile = None,
    catalog: Catalogs = None,
    client: Clients = None,
    min_recall: MinRecall = None,
    max_false: MaxFalse = None,
    write_queries: WriteQueries = False,
    model: Model = None,
    agent: Agent = None,
    agent_command: AgentCommandTemplate = None,
    via: ViaChoice = Way.FOLDER,
    agent_model: AgentModel = None,
    agent_home: AgentHome = None,
    runs: Runs = 3,
    threshold: Threshold = 0.5,
    jobs: Jobs = 4,
    timeout: RunSeconds = 180.0,
    max_calls: MaxCalls = 20,
    optimize: Optimize = False,
    rounds: Rounds = 5,
    seed: Seed = 0,
    holdout: Holdout = None,
    apply: Apply = False,
    force: Force = False,
    workspace: TriggerWorkspace = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
    max_requests: MaxRequests = None,
    max_seconds: MaxSeconds = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    junit: Junit = None,
    markdown: Markdown = None,
    ci: Ci = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Test for which queries a skill is found or loaded.

    The exit code is 1 if a limit is exceeded or the numbers carry no verdict, 4 if a bound of the costs was reached.
    """
    flags = locals()

    from server.capabilities.evals.triggers import TriggerFlags

    _run(TriggerFlags(**flags))


def _run(flags: TriggerFlags) -> None:
    if flags.write_queries:
        from server.capabilities.evals.triggers.ranked_triggers import draft_into as run
    elif flags.no_model:
        from server.capabilities.evals.triggers.ranked_triggers import triggers_without_model as run
    else:
        from server.capabilities.evals.triggers.agent_triggers import triggers_with_agent as run
    run(flags)


_Workspace = Annotated[
    Path,
    typer.Argument(
        metavar="WORKSPACE", help="The folder of results, such as my-skill-workspace, or one of its iterations."
    ),
]

_Open = Annotated[
    bool,
    typer.Option("--open", help="Serve the page on this machine, open it in the browser, and save feedback there."),
]

_Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the page to this file.", show_default="report.html in WORKSPACE"),
]


def report(
    workspace: _Workspace,
    *,
    open_page: _Open = False,
    output: _Output = None,
    junit: Junit = None,
    markdown: Markdown = None,
    min_pass_rate: MinPassRate = None,
    max_regression: MaxRegression = None,
) -> None:
    """Show the results of evals and trigger queries as a page.

    The page is one file that requests nothing from elsewhere. It refreshes itself while the evals run.
    """
    from server.capabilities.evals.report.ci import ci_gates, gates_pass
    from server.capabilities.evals.report.workspace import read_workspace
    from server.capabilities.evals.report.writing import print_gates, write_ci_files, write_report

    results = read_workspace(workspace)
    gates = ci_gates(results, min_pass_rate=min_pass_rate, max_regression=max_regression)
    write_ci_files(junit, markdown, results, gates)
    print_text(f"Report: {write_report(workspace, output, gates=gates)}")
    print_gates(gates)
    if open_page:
        _serve_report(workspace)
    if not gates_pass(gates):
        raise typer.Exit(EXIT_NO)


def _serve_report(workspace: Path) -> None:
    import webbrowser

    from server.capabilities.evals.report.serving import ReportServer

    try:
        server = ReportServer(workspace)
    except OSError as error:
        fail(f"cannot listen on 127.0.0.1: {error.strerror or error}", EXIT_USAGE)
    print_text(f"Serving {server.url} until you press Ctrl+C; do not share this address.")
    server.serve(lambda: webbrowser.open(server.url))


def lint(
    directories: Directories = None,
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if skills compete or are the same.")
    ] = False,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Find skills that compete, are the same, or are never used.

    `validate` checks each skill by itself; `lint` compares the skills that models are offered with one another.
    """
    from server.capabilities.evals.lint import lint_catalog, lint_object, print_lint
    from server.config.bootstrap import open_catalog, settings_of
    from server.config.machine import Machine, current_places, state_home
    from server.hosting.usage import read_counts, usage_file

    machine = Machine(current_places())
    settings = settings_of(machine, {"follow_symlinks": follow_symlinks, "trust_workspace": trust_workspace})
    catalog = open_catalog(directories, settings, machine)
    # -1 stands for all in SQLite.
    used = read_counts(usage_file(state_home()), most=-1) if settings.catalog.usage else {}
    found = lint_catalog(catalog.offered, settings, used)
    if as_json:
        print_json(lint_object(found))
    else:
        print_lint(found)
    if strict and found.has_findings:
        raise SystemExit(EXIT_NO)
