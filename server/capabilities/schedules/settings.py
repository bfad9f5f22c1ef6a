"""Whether a server keeps time for schedules, what their runs may use, and where their results are delivered."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError, PositiveInt, SecretStr

if TYPE_CHECKING:
    from server.cli.config_check.finding import ConfigFinding
    from server.cli.config_check.settings_check import Configuration

SCHEDULE_SKILL: Final = "schedule_skill"
LIST_SCHEDULES: Final = "list_schedules"
SHOW_SCHEDULE: Final = "show_schedule"
PAUSE_SCHEDULE: Final = "pause_schedule"
RESUME_SCHEDULE: Final = "resume_schedule"
RUN_SCHEDULE: Final = "run_schedule"
REMOVE_SCHEDULE: Final = "remove_schedule"
PREFIX: Final = "sched-"
"""The beginning of the names of schedules' prompts."""

SCHEDULE_TOOLS: Final = (
    SCHEDULE_SKILL,
    LIST_SCHEDULES,
    SHOW_SCHEDULE,
    PAUSE_SCHEDULE,
    RESUME_SCHEDULE,
    RUN_SCHEDULE,
    REMOVE_SCHEDULE,
)


class ScheduleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scheduler skills: their firing by a server, their prompts, their budgets, and the delivery of results."""

    enabled: bool = False
    """Whether this server fires schedules, offers them as prompts `sched-NAME`, and serves the skill
    `scheduler-skill-creator`. `skillserve schedule daemon` fires them without it."""
    command: tuple[str, ...] = ()
    """A program and its arguments, which gets the result of each run as JSON on its standard input."""
    webhook: SecretStr | None = None
    """An `https://` address, or `http://` of this machine, to which the result of each run is posted as JSON."""
    runs_per_day: PositiveInt | None = None
    """Number of runs of all schedules together on a day, by this machine's clock. Further firings are skipped."""
    tokens_per_day: PositiveInt | None = None
    """Number of tokens that the runs of all schedules together may use on a day. A run gets what is left of it."""
    dollars_per_day: Annotated[float, Meta(gt=0)] | None = None
    """Dollars that the runs of all schedules together may cost on a day. A model whose price is unknown then runs only
    if `prices` under `[runs]` has it."""
    requests_per_day: PositiveInt | None = None
    """Number of requests to models that the runs of all schedules together may make on a day."""
    seconds_per_day: PositiveInt | None = None
    """Seconds that the runs of all schedules together may last on a day."""
    each_runs_per_day: PositiveInt | None = None
    """Number of runs of each schedule on a day."""
    each_tokens_per_day: PositiveInt | None = None
    """Number of tokens that the runs of each schedule may use on a day."""
    each_dollars_per_day: Annotated[float, Meta(gt=0)] | None = None
    """Dollars that the runs of each schedule may cost on a day."""
    each_requests_per_day: PositiveInt | None = None
    """Number of requests to models that the runs of each schedule may make on a day."""
    each_seconds_per_day: PositiveInt | None = None
    """Seconds that the runs of each schedule may last on a day."""
    failures_to_pause: Annotated[int, Meta(ge=0, le=1000)] = 5
    """Number of runs in a row that fail, after which a schedule pauses until you resume it; 0 for never."""
    paid_interval_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 60
    """Seconds that lie at least between two firings of a schedule whose model costs money. Models at an address of this
    machine count as free unless `prices` has them."""
    unsandboxed: bool = False
    """Whether runs of schedules may start programs (commands, scripts, tools of skills) where no sandbox works. These
    have all your rights, and no user watches them: they can make schedules, and change the settings."""
    delivery_seconds: Annotated[int, Meta(ge=1, le=600)] = 30
    """Seconds after which a delivery is given up."""

    def __post_init__(self) -> None:
        if self.webhook is not None and not _is_address(self.webhook.get_secret_value()):
            raise InvalidValueError("expected an https:// address, or http:// of this machine", ("webhook",))

    @property
    def delivers(self) -> bool:
        """Whether results are delivered."""
        return bool(self.command) or self.webhook is not None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    is_local = host in {"localhost", "127.0.0.1", "::1"}
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_local))


def can_schedule() -> bool:
    """Tell whether the libraries for times are installed; they come with the extra `run`."""
    return find_spec("cronsim") is not None and find_spec("dbos") is not None


SECTION: Final = Section(
    name="schedules",
    kind=ScheduleSettings,
    prefix="schedule_",
    options={"enabled": "schedules"},
    secrets=frozenset({"webhook"}),
)


def check_schedules(configuration: Configuration) -> Iterator[ConfigFinding]:
    """Check schedules; sections with a fault of their own are left out."""
    from server.capabilities.runs.checks import check_shared_store
    from server.capabilities.runs.offered import runs_unavailable_reason
    from server.capabilities.runs.settings import RunSettings
    from server.cli.config_check.finding import Level

    checked = configuration.checked
    if not checked.can_compare("schedules", "runs", "tools", "access"):
        return
    settings = checked.settings
    tools = [each for each in settings.tools.enabled if each in SCHEDULE_TOOLS]
    if tools and settings.access.known_roles:
        message = f"{', '.join(tools)}: schedules are those of the server's user, so no caller with roles has the tools"
        yield checked.finding(Level.WARNING, "tools.enabled", message, "remove the tools, or the roles")
    enabled = settings.section(ScheduleSettings).enabled
    if enabled and (reason := runs_unavailable_reason(settings.section(RunSettings))):
        message = f"schedules cannot run skills: {reason}"
        yield checked.finding(Level.WARNING, "schedules.enabled", message, "set runs.model")
    if enabled:
        yield from check_shared_store(checked)
    if SCHEDULE_SKILL in tools and not enabled:
        message = "schedule_skill makes schedules that this server does not fire"
        advice = "set schedules.enabled, or run `skillserve schedule daemon`"
        yield checked.finding(Level.WARNING, "tools.enabled", message, advice)
