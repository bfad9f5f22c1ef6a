"""The seam between the core of the server and its capabilities: what a capability can add.

The core knows capabilities only from the tuple `server.capabilities.CAPABILITIES`. Every command reads the settings and
so imports this tuple: the functions of a `Capability` import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import typer
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.routing import Route
    from starlette.types import ASGIApp

    from server.access import Principal
    from server.cli.config_check.finding import CheckedFile, ConfigFinding
    from server.cli.config_check.settings_check import Configuration
    from server.config.settings.model import Settings
    from server.config.settings.section import Section
    from server.hosting.host import Host
    from server.hosting.views import View
    from server.protocol.server import SkillServer
    from server.protocol.tool_call import Handler, ToolServices
    from server.requests import CommandRecord
    from server.transport.event_streams import Draining
    from skills_core.catalog.catalog import Catalog
    from skills_core.disk.sources import Source
    from skills_core.format.frontmatter import ToolDeclaration
    from skills_core.live.library import Change, Library, Review
    from skills_core.runs.durable.engine import Engine
    from skills_core.runs.durable.worker import Job
    from skills_core.runs.executor import RunRequest
    from skills_core.runs.outcome import RunOutcome
    from skills_core.selection.fusion import Reranker
    from skills_core.skills.skill import Skill

    AfterRun = Callable[["FinishedRun"], Awaitable[None]]
    FollowUp = Callable[["FinishedRun"], None]
    Improvements = Callable[[Sequence[str]], Sequence[Mapping[str, Any]]]
    ImprovementsAfter = Callable[[Sequence[str]], Awaitable[Sequence[Mapping[str, Any]]]]


class ToolModule(NamedTuple):
    """A module whose `TOOLS` are the definitions of the tools with these names, in their order.

    It is imported when one of its tools is listed. `shared_only` tools are the server user's own, so callers who see
    skills by their roles do not have them. An audit log has calls of tools that `run` as runs, and of `administrative`
    ones as administration.
    """

    module: str
    names: tuple[str, ...]
    shared_only: bool = False
    run: bool = False
    administrative: frozenset[str] = frozenset()


class ExtraResource(NamedTuple):
    """A resource that is not a file of a skill, and the tool that settings switch it on with.

    `entry` is its entry in the list, `read` returns its text, and `differs` tells whether a change of the library
    changes it.
    """

    uri: str
    entry: Mapping[str, Any]
    tool: str
    read: Callable[[Catalog, Settings], Awaitable[str]]
    differs: Callable[[Change], bool]


class ClientExtension(NamedTuple):
    """What clients receive that take part in an extension of the protocol; for all others nothing changes.

    `name` is the extension's in the capabilities of clients. `includes` tells whether a client takes part, by what it
    declares for the extension, None if nothing. `tool_meta` returns what the entry of a tool has in `_meta` besides,
    nothing for most tools; the results of the others have their structure in `_meta`. `read` returns the contents of a
    resource of the extension, None if it has none of this URI; lists do not have them.
    """

    name: str
    includes: Callable[[Mapping[str, Any] | None, Settings], bool]
    tool_meta: Callable[[str], Mapping[str, Any]]
    read: Callable[[str], Awaitable[dict[str, Any] | None]]


class ToolsOfSkills(NamedTuple):
    """The tools that skills declare: which ones a caller has, their entries in the list, and their handler."""

    served: Callable[[Catalog, Settings, Callable[[str], bool]], dict[str, tuple[Skill, ToolDeclaration]]]
    entries: Callable[[Mapping[str, tuple[Skill, ToolDeclaration]]], list[dict[str, Any]]]
    handler: Callable[[ToolServices], Handler]


class StatusSection(NamedTuple):
    """A part of the status: the object in `status --json`, and the lines that `status` prints of it."""

    object: Callable[[Settings], dict[str, Any]]
    lines: Callable[[Mapping[str, Any]], Iterable[str]]


class Coming(NamedTuple):
    """Something that a server will do by itself, at a time with its time zone."""

    time: datetime
    what: str


class ServerPart:
    """What a capability does for a running server. By default, each method does nothing.

    The `run` of one that `needs_skills` begins when all skills are loaded.
    """

    needs_skills = False

    def around(self, port: int | None) -> AbstractContextManager[object]:
        """Return what is entered before the server answers and left after its end; over HTTP it listens at `port`."""
        del port
        return nullcontext()

    def attach(self, server: SkillServer) -> None:
        """Prepare to serve the clients of `server`."""

    async def run(self) -> None:
        """Work in the background while the server runs, until cancelled."""

    async def announce(self) -> None:
        """Notify clients of changes, and do other work that can wait until a client has its first answers."""

    def drain(self) -> None:
        """End streams that would keep the server running: it answers what it has begun, and stops then."""

    def close(self) -> None:
        """Prepare for the end of the server: requests and background work are cancelled next."""

    def coming(self) -> Sequence[Coming]:
        """Return what the server will do by itself next, for operators; this may read the disk."""
        return ()

    @property
    def running(self) -> int:
        """How many requests are being answered that other servers have received."""
        return 0

    @property
    def is_connected(self) -> bool | None:
        """Whether this part is in contact with other servers; None if it has none."""
        return None


class PromptSource(ServerPart):
    """Adds prompts that are not skills. Each method is called only where `offers_prompts`."""

    @property
    def offers_prompts(self) -> bool:
        """Whether there may be any prompts."""
        raise NotImplementedError

    def may_have(self, name: str) -> bool:
        """Tell whether a prompt may have this name."""
        raise NotImplementedError

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries in `prompts/list`; this may read the disk."""
        raise NotImplementedError

    def get(self, name: str) -> tuple[str, str] | None:
        """Return the description and the text of a prompt, None if there is none of this name; may read the disk."""
        raise NotImplementedError


class Authentication(ServerPart):
    """Finds out who sends a request over HTTP."""

    def routes(self, path: str, profiles: Sequence[str]) -> list[Route]:
        """Return the routes by which clients find out how to log in at the endpoint `path`."""
        raise NotImplementedError

    def layer(self, app: ASGIApp) -> ASGIApp:
        """Return the application for requests whose sender is known; others are refused."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class HttpContext:
    """What routes beside the MCP endpoint are built from; `running` counts the requests that are being answered."""

    server: SkillServer
    host: Host
    security: TransportSecuritySettings
    draining: Draining
    running: Callable[[], int]


class HttpPart(ServerPart):
    """Adds routes beside the MCP endpoint."""

    def routes(self, context: HttpContext) -> list[Route]:
        """Return the routes, which check by themselves who may use them."""
        raise NotImplementedError

    def local_routes(self) -> list[Route]:
        """Return routes for the server's user alone, who reaches them by the admin socket."""
        return []


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a person for the page: what its sender sees of the skills, and who it is.

    `is_operator` tells that the sender sees what belongs to the server's user, such as runs and schedules, and
    `may_change` that it may change something there. `query` has the parameters of the address.
    """

    view: View
    principal: Principal
    address: PublicAddress
    is_operator: bool = False
    may_change: bool = False
    query: Mapping[str, str] = field(default_factory=dict)


class SkillPanel(NamedTuple):
    """A section of the page of each skill; `template` is `NAME/x.html` for `x.html` in `templates` of the capability.

    `show` returns the values for the template, None if there is nothing to show. It runs in a worker thread. What
    is for `operators` is shown to nobody else.
    """

    key: str
    title: str
    template: str
    show: Callable[[Skill, Visit], Mapping[str, Any] | None]
    operators: bool = False


class PageTab(NamedTuple):
    """A page of its own at `/page/KEY`, with a link in the navigation; the rest is as for panels, and None is a 404."""

    key: str
    title: str
    template: str
    show: Callable[[Visit], Mapping[str, Any] | None]
    operators: bool = True


class PageAction(NamedTuple):
    """A change that a form of the page asks for at `/page/do/KEY`; only those who may change something can do so.

    `perform` takes the fields of the form, runs in a worker thread, and returns what to tell the person. A
    `SkillsError` is shown as well.
    """

    key: str
    perform: Callable[[Mapping[str, str], Visit], str]


class PageParts(NamedTuple):
    """What a capability adds to the page. `globals` are functions that its templates call, beside the common ones."""

    panels: tuple[SkillPanel, ...] = ()
    tabs: tuple[PageTab, ...] = ()
    actions: tuple[PageAction, ...] = ()
    globals: Mapping[str, Any] = MappingProxyType({})


class PublicAddress(NamedTuple):
    """Where people reach a server over HTTP: its origin, such as `http://localhost:8000`, and its MCP endpoint."""

    origin: str
    endpoint: str


class SealingKeys(NamedTuple):
    """The name of a group of servers, and the secrets by which they open the states that another of them has sealed."""

    group: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The run of a skill, with the catalog that it began with, and the settings if they are its own."""

    outcome: RunOutcome
    request: RunRequest
    catalog: Catalog
    settings: Settings | None = None


class AfterRuns(NamedTuple):
    """What follows runs: `after_run` is awaited after each of them, and `improvements` returns what it has changed."""

    after_run: AfterRun
    improvements: Improvements


class BackgroundRuns(Protocol):
    """Runs without a client, which a server begins by itself."""

    def jobs(self, follow_up: FollowUp) -> Mapping[str, Job]:
        """Return the jobs of their kinds, which call `follow_up` with each run of a skill that has ended."""

    async def run(self, engine: Engine, improvements: ImprovementsAfter) -> None:
        """Begin runs until cancelled; `improvements` returns the changes of skills that runs led to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A part of the server that can be left out: all fields but the name are optional."""

    name: str
    sections: tuple[Section, ...] = ()
    """Its sections of `skillserve.toml`."""
    commands: Callable[[typer.Typer], None] | None = None
    """Adds its commands to the command line."""
    greet: Callable[[], None] | None = None
    """Prints what a person sees who types the command alone at a terminal; one capability does so."""
    record_command: Callable[[CommandRecord], None] | None = None
    """Records what a command has changed."""
    checks: Callable[[Configuration], Iterator[ConfigFinding]] | None = None
    """Checks its settings for `config check`, and its files."""
    files: Callable[[Settings], Iterable[CheckedFile]] | None = None
    """Names the files that it reads beside `skillserve.toml`."""

    tools: tuple[ToolModule, ...] = ()
    """Its tools, which settings switch on."""
    tools_of_skills: Callable[[], ToolsOfSkills] | None = None
    """Serves the tools that skills declare; one capability does so."""
    script_tool: Callable[[Settings], str | None] | None = None
    """Returns the tool by which clients run scripts of skills, None if they can run none; one capability has it."""
    asks_clients: Callable[[Settings], bool] | None = None
    """Tells whether its tools may ask the user, or report progress, before they return."""
    resources: tuple[ExtraResource, ...] = ()
    extension: ClientExtension | None = None
    """What it adds for the clients that take part in an extension of the protocol."""

    bridged: Callable[[Settings], Container[str]] | None = None
    """Returns the keys of the clients whose own lists have the skills; one capability does so."""
    sources: Callable[[Settings], Iterable[Source]] | None = None
    """Returns skills of its own, after those of the user."""
    before_loading: Callable[[Iterable[Source]], None] | None = None
    """Called before a server reads the skills of these sources."""
    reranker: Callable[[Settings, bool], Reranker | None] | None = None
    """Returns a second ranking of skills that settings switch on. If the second argument is true, the first search
    waits until it can be used; otherwise a part of the server prepares it. One capability does so."""
    review: Callable[[Settings], Review | None] | None = None
    """Returns what judges skills when they are loaded; one capability does so."""
    private_places: Callable[[Settings], Iterable[Path]] | None = None
    """Names files and folders that no workspace of a run or a script may show."""
    status: StatusSection | None = None
    log_start: Callable[[Settings], None] | None = None
    """Logs what an operator needs to know when a server starts, such as tools that cannot be offered."""

    part: Callable[[Host], ServerPart | None] | None = None
    """Returns what it does while a server runs, None if its settings switch it off."""
    http_part: Callable[[Host], ServerPart | None] | None = None
    """Returns what it does beside that while a server runs over HTTP, None if its settings switch it off."""
    hints: Callable[[Settings, PublicAddress], Iterable[str]] | None = None
    """Returns lines for people who open the address in a browser: how to use the server there."""
    start_lines: Callable[[Settings, str], Iterable[tuple[str, str]]] | None = None
    """Returns what to tell the person who starts a server over HTTP at a terminal, by the origin of the server: lines
    with headings of at most 15 characters."""
    page: Callable[[Host], PageParts] | None = None
    """Returns what it adds to the page that people open in a browser."""
    requires_login: Callable[[Settings], bool] | None = None
    """Tells whether clients have to log in over HTTP; one capability does so."""
    login_header: Callable[[Settings], str | None] | None = None
    """Returns the header, with a placeholder, that users give their clients; None if clients log in by themselves."""
    sealing_keys: Callable[[Settings], SealingKeys] | None = None
    """Returns the keys that several servers share; one capability does so."""

    jobs: Callable[[Library, Settings, FollowUp], Mapping[str, Job]] | None = None
    """Returns the jobs that it adds to recorded runs, by kind; they call the function with each run that has ended."""
    background_runs: Callable[[Host], BackgroundRuns | None] | None = None
    """Returns the runs that a server begins by itself, None if there are none; one capability does so."""
    after_runs: Callable[[Settings, Callable[[], Awaitable[object]] | None], AfterRuns | None] | None = None
    """Returns what follows runs; the function is called after a change of skills. One capability does so."""
    describe_change: Callable[[Mapping[str, Any]], list[str]] | None = None
    """Returns the lines that describe a change that it made after a run; one capability does so."""
